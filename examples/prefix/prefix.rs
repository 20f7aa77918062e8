//! The prefix cache of a serving engine, in Rust: what prefix.c does, whose first comment says it, and the same output.
//!
//!     cargo build --release --manifest-path examples/Cargo.toml --bin prefix
//!     prefix DUMP

use dump::Dump;
use kvc::{
    DType, Layer, Rope, Rows, Scope, ScopeOptions, Seq, SeqOptions, Shape, Store, StoreOptions,
    Strides,
};
use std::error::Error;
use std::process::ExitCode;

type Failure = Box<dyn Error>;

const TEXTS: usize = 3;
const TOKENS: usize = 512;
const BLOCKS: usize = 64;
const BLOCK_TOKENS: usize = 16;
const TABLE: usize = TOKENS / BLOCK_TOKENS;
const ANSWER: usize = 48;
const POISON: u8 = 0xA5;
const PARTS_AT: [usize; TEXTS] = [TOKENS, 200, 416];

struct Request {
    what: &'static str,
    tenant: usize,
    text: usize,
    tokens: usize,
    /// The text of a second answer.
    second: Option<usize>,
}

const fn request(
    what: &'static str,
    tenant: usize,
    text: usize,
    tokens: usize,
    second: Option<usize>,
) -> Request {
    Request { what, tenant, text, tokens, second }
}

const REQUESTS: [Request; 9] = [
    request("A, first turn", 0, 0, 300, None),
    request("B, same system prompt", 0, 1, 280, None),
    request("A, two answers", 0, 0, 416, Some(2)),
    request("A, goes on from one", 0, 0, 500, None),
    request("A, from the other", 0, 2, 512, None),
    request("the same again", 0, 2, 512, None),
    request("B, second turn", 0, 1, 400, None),
    request("another tenant", 1, 0, 300, None),
    request("the same again", 1, 0, 300, None),
];

/// A head of a token in a layer: of K with side 0, of V with side 1.
#[derive(Clone, Copy)]
struct Head {
    layer: usize,
    side: usize,
    token: usize,
    head: usize,
}

struct Engine {
    dump: Dump,
    /// Bytes of a head.
    row: usize,
    ids: [Vec<i32>; TEXTS],
    /// [layers][K, V][blocks][16][heads][dim]
    pool: Vec<u8>,
}

impl Engine {
    fn new(dump: Dump) -> Self {
        let row = dump.dim * 2;
        let ids = std::array::from_fn(|text| {
            let parted =
                |(t, &id): (usize, &i32)| if t < PARTS_AT[text] { id } else { id + text as i32 };
            dump.ids[..TOKENS].iter().enumerate().map(parted).collect()
        });
        let pool = vec![0; dump.layers * 2 * BLOCKS * BLOCK_TOKENS * dump.heads * row];
        Self { dump, row, ids, pool }
    }

    /// What the engine computes.
    fn computed(&self, text: usize, of: Head) -> &[u8] {
        let d = &self.dump;
        let token = if of.token < PARTS_AT[text] {
            of.token
        } else {
            (of.token + text * d.tokens / 4) % d.tokens
        };
        let at = ((of.layer * d.heads + of.head) * d.tokens + token) * self.row;
        &[d.k(), d.v()][of.side][at..at + self.row]
    }

    /// Where its pool has that.
    fn pooled(&self, table: &[i32], of: Head) -> std::ops::Range<usize> {
        let block = (of.layer * 2 + of.side) * BLOCKS + table[of.token / BLOCK_TOKENS] as usize;
        let at = ((block * BLOCK_TOKENS + of.token % BLOCK_TOKENS) * self.dump.heads + of.head)
            * self.row;
        at..at + self.row
    }

    /// The heads of tokens, in the order in which a difference is looked for.
    fn heads(&self, begin: usize, end: usize) -> impl Iterator<Item = Head> + use<> {
        let (layers, heads) = (self.dump.layers, self.dump.heads);
        (0..layers * 2).flat_map(move |i| {
            let of_token = move |token| {
                (0..heads).map(move |head| Head { layer: i / 2, side: i % 2, token, head })
            };
            (begin..end).flat_map(of_token)
        })
    }

    fn compute(&mut self, table: &[i32], text: usize, begin: usize, end: usize) {
        for of in self.heads(begin, end) {
            let row = self.computed(text, of).to_vec();
            let at = self.pooled(table, of);
            self.pool[at].copy_from_slice(&row);
        }
    }

    fn check(&self, table: &[i32], request: &Request, end: usize) -> Result<(), Failure> {
        let is_wrong =
            |of: &Head| self.pool[self.pooled(table, *of)] != *self.computed(request.text, *of);
        match self.heads(0, end).find(is_wrong) {
            None => Ok(()),
            Some(Head { layer, side, token, .. }) => {
                let (what, side) = (request.what, ["k", "v"][side]);
                Err(format!(
                    "{what}: {side} of token {token}, layer {layer} is not what was computed"
                )
                .into())
            }
        }
    }

    /// Tokens [begin, end) in the pool.
    fn rows<'a>(&self, table: &'a [i32], begin: usize, end: usize) -> Rows<'a> {
        let block = BLOCK_TOKENS * self.dump.heads * self.row;
        let side = BLOCKS * block;
        Rows::new(0..self.dump.layers as u32, begin as u64..end as u64)
            .slot_begin(begin as u64) // the table is of the whole sequence
            .blocks(BLOCK_TOKENS as u32, table)
            .strides(Strides { layer: 2 * side as u64, block: block as u64, ..Default::default() })
            .v_offset(side)
    }

    fn append(
        &mut self,
        seq: &mut Seq,
        table: &[i32],
        text: usize,
        begin: usize,
        end: usize,
    ) -> kvc::Result<()> {
        self.compute(table, text, begin, end);
        seq.append(&self.ids[text][begin..end], &self.rows(table, begin, end), &self.pool)
    }

    /// Two answers to one prompt.  In the pool they share the blocks of the prompt, which are full, and have blocks of their own behind.
    fn answer_twice(
        &mut self,
        seq: &mut Seq,
        request: &Request,
        table: &[i32],
        free: &[i32],
        second: usize,
    ) -> kvc::Result<()> {
        let full = request.tokens / BLOCK_TOKENS;
        let table_of_second = [&table[..full], &free[full..]].concat();
        let mut fork = seq.fork(None)?;
        for t in request.tokens..request.tokens + ANSWER {
            self.append(seq, table, request.text, t, t + 1)?;
            self.append(&mut fork, &table_of_second, second, t, t + 1)?;
        }
        Ok(())
    }

    /// How many tokens were found.
    fn serve(&mut self, scope: &Scope, number: usize) -> Result<usize, Failure> {
        let request = &REQUESTS[number];
        let tokens = request.tokens;
        let blocks: Vec<_> =
            (0..BLOCKS).map(|i| ((37 * i + 11 * number) % BLOCKS) as i32).collect();
        let (table, free) = blocks.split_at(TABLE); // all of the pool, shuffled
        self.pool.fill(POISON);
        // The engine needs the logits of the last token: leave one to compute.
        let options = SeqOptions { tokens_max: Some(tokens as u64 - 1), ..Default::default() };
        let (mut seq, info) = scope.match_prefix(&self.ids[request.text][..tokens], &options)?;
        let found = info.tokens as usize;
        if found > 0 {
            seq.gather(&self.rows(table, 0, found), &mut self.pool)?;
        }
        self.check(table, request, found)?;
        self.append(&mut seq, table, request.text, found, tokens)?;
        if let Some(second) = request.second {
            self.answer_twice(&mut seq, request, table, free, second)?;
        }
        println!(
            "{:<21}  {tokens:3} tokens, {found:3} found, {:3} computed",
            request.what,
            tokens - found
        );
        Ok(found)
    }
}

fn run(path: &str) -> Result<(), Failure> {
    let dump = Dump::read(path, TOKENS).map_err(|none| format!("{path}: {none}"))?;
    let layer = Layer::full(dump.layers as u32, dump.heads as u32, dump.dim as u32);
    let shape = Shape { rope: Rope::Halves, ..Shape::new(DType::F16, [layer]) };
    let store = Store::open("mem:", &StoreOptions::default())?;
    let of_tenant = |tenant| {
        store.scope(&ScopeOptions {
            model: "prefix",
            tenant,
            shape: Some(&shape),
            ..Default::default()
        })
    };
    let scopes = [of_tenant("one")?, of_tenant("two")?];
    let mut engine = Engine::new(dump);
    let (mut found, mut tokens) = (0, 0);
    for (number, request) in REQUESTS.iter().enumerate() {
        found += engine.serve(&scopes[request.tenant], number)?;
        tokens += request.tokens;
    }
    println!("{found} of {tokens} tokens were found, {} %", 100 * found / tokens);
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path] = &arguments[..] else {
        eprintln!("usage: prefix DUMP");
        return ExitCode::from(2);
    };
    if let Err(why) = run(path) {
        eprintln!("prefix: {why}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
