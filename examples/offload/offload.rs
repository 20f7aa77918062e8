//! Offload and resume, in Rust: what offload.c does, and the same files.
//!
//!     cargo build --release --manifest-path examples/Cargo.toml --bin offload
//!     offload save FILE DUMP
//!     offload resume FILE DUMP

use dump::Dump;
use kvc::{
    Axis, DType, Layer, Rope, Rows, Scope, ScopeOptions, SeqOptions, Shape, Store, StoreOptions,
    Strides,
};
use std::error::Error;
use std::process::ExitCode;

type Failure = Box<dyn Error>;

const SAVED_TOKENS: usize = 300;

/// Tokens [begin, end) where the engine keeps them.
fn rows(dump: &Dump, begin: usize, end: usize) -> Rows<'static> {
    let axes = [
        (Axis::Layer, dump.layers),
        (Axis::Head, dump.heads),
        (Axis::Token, dump.tokens),
        (Axis::Dim, dump.dim),
    ];
    Rows::new(0..dump.layers as u32, begin as u64..end as u64)
        .slot_begin(begin as u64)
        .strides(Strides::row_major(&axes, 2))
}

/// The first tokens of one side in an array that has tokens first are these.
fn same(dump: &Dump, side: &[u8], got: &[u8]) -> bool {
    let row = dump.dim * 2;
    let mut rows = got.chunks_exact(row);
    (0..dump.layers).all(|l| {
        (0..SAVED_TOKENS).all(|t| {
            (0..dump.heads).all(|h| {
                let at = ((l * dump.heads + h) * dump.tokens + t) * row;
                rows.next() == Some(&side[at..at + row])
            })
        })
    })
}

fn save(scope: &Scope, dump: &Dump, path: &str) -> Result<bool, Failure> {
    let mut seq = scope.seq(&SeqOptions::default())?;
    seq.append(&dump.ids[..SAVED_TOKENS], &rows(dump, 0, SAVED_TOKENS), (dump.k(), dump.v()))?;
    seq.save(path)?;
    println!("{SAVED_TOKENS} tokens put aside");
    Ok(true)
}

fn resume(scope: &Scope, dump: &Dump, path: &str) -> Result<bool, Failure> {
    let mut seq = scope.restore(path, &SeqOptions::default())?;
    let side = dump.layers * SAVED_TOKENS * dump.heads * dump.dim * 2;
    let (mut k, mut v) = (vec![0u8; side], vec![0u8; side]);
    let packed =
        Rows::new(0..dump.layers as u32, 0..SAVED_TOKENS as u64) // tokens first
            .strides(Strides { layer: (side / dump.layers) as u64, ..Strides::default() });
    seq.gather(&packed, (&mut k, &mut v))?;
    let equal = same(dump, dump.k(), &k) && same(dump, dump.v(), &v);
    let rest = rows(dump, SAVED_TOKENS, dump.tokens); // computed now
    seq.append(&dump.ids[SAVED_TOKENS..], &rest, (dump.k(), dump.v()))?;
    let found = scope.peek(&dump.ids, &SeqOptions::default())?.tokens;
    let how = if equal { "bit for bit" } else { "CHANGED" };
    println!(
        "{SAVED_TOKENS} of {} tokens came back, {how}; the next request finds {found}",
        dump.tokens
    );
    Ok(equal)
}

fn run(what: &str, file: &str, dump: &str) -> Result<bool, Failure> {
    let dump = Dump::read(dump, SAVED_TOKENS + 1).map_err(|none| format!("{dump}: {none}"))?;
    let layer = Layer::full(dump.layers as u32, dump.heads as u32, dump.dim as u32);
    let shape = Shape { rope: Rope::Halves, ..Shape::new(DType::F16, [layer]) };
    let store = Store::open("mem:", &StoreOptions::default())?;
    let scope = store.scope(&ScopeOptions {
        model: "offload",
        shape: Some(&shape),
        ..Default::default()
    })?;
    if what == "save" { save(&scope, &dump, file) } else { resume(&scope, &dump, file) }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, file, dump] = &arguments[..] else { return usage() };
    if what != "save" && what != "resume" {
        return usage();
    }
    match run(what, file, dump) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("offload: {why}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: offload save|resume FILE DUMP");
    ExitCode::from(2)
}
