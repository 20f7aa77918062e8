//! What a get of 4 KiB and a gather of 1 MiB take: the calls of `tests/bench/languages/bench.c`, in the same order.
//!
//!     bench get_4k|gather_1m SECONDS WORKING_SET_MIB    prints the median of batches: nanoseconds a call

use kvc::{
    Aligned, DType, FOREVER, Layer, Result, Rows, Scope, ScopeOptions, Seq, SeqOptions, Shape,
    Store, StoreOptions,
};
use std::time::{Duration, Instant};

const VALUE: usize = 4096;
const HEADS: usize = 8;
const DIM: usize = 128;
const TOKENS: usize = 256;
const SIDE: usize = HEADS * DIM * TOKENS;

struct Random(u64);

impl Random {
    fn below(&mut self, count: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count
    }
}

/// Nanoseconds a call, of batches of so many calls.
fn median(seconds: f64, calls: u32, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut batches = Vec::with_capacity(1 << 20);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < end && batches.len() < batches.capacity() {
        let begin = Instant::now();
        for _ in 0..calls {
            call()?;
        }
        batches.push(begin.elapsed().as_nanos() as f64 / f64::from(calls));
    }
    batches.sort_by(f64::total_cmp);
    Ok(batches[batches.len() / 2])
}

fn gets(scope: &Scope, bytes: u64, seconds: f64) -> Result<f64> {
    let mut value = vec![0u8; VALUE];
    let count = bytes / VALUE as u64;
    for key in 0..count {
        value[0] = key as u8;
        scope.put(&key.to_ne_bytes(), &value)?;
    }
    let mut random = Random(1);
    median(seconds, 1000, || {
        scope.get_into(&random.below(count).to_ne_bytes(), &mut value).map(drop)
    })
}

fn gathers(scope: &Scope, bytes: u64, seconds: f64) -> Result<f64> {
    // As a static array of C lies: both sides in one piece.
    let mut memory = Aligned::zeroed(2 * SIDE);
    let (k, v) = memory.split_at_mut(SIDE);
    let rows = Rows::new(0..1, 0..TOKENS as u64);
    let count = bytes / (SIDE as u64 * 4);
    let mut seqs: Vec<Seq> = Vec::new();
    for i in 0..count {
        k[0] = i as u16;
        let options = SeqOptions { private: true, lease: Some(FOREVER), ..Default::default() };
        let mut seq = scope.seq(&options)?;
        seq.append(&[], &rows, (&*k, &*v))?;
        seqs.push(seq);
    }
    let mut random = Random(1);
    median(seconds, 8, || {
        seqs[random.below(count) as usize].gather(&rows, (&mut *k, &mut *v)).map(drop)
    })
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, seconds, mebibytes] = &arguments[..] else {
        return Err("usage: bench get_4k|gather_1m SECONDS WORKING_SET_MIB".into());
    };
    let (seconds, bytes) = (seconds.parse()?, mebibytes.parse::<u64>()? << 20);
    let memory_bytes = bytes + bytes / 4 + (64 << 20);
    let options = StoreOptions { memory_bytes, seq_max: 1 << 20, ..Default::default() };
    let store = Store::open("mem:", &options)?;
    let shape = Shape::new(DType::F16, [Layer::full(1, HEADS as u32, DIM as u32)]);
    let scope =
        store.scope(&ScopeOptions { model: "bench", shape: Some(&shape), ..Default::default() })?;
    let nanoseconds = match what.as_str() {
        "get_4k" => gets(&scope, bytes, seconds)?,
        "gather_1m" => gathers(&scope, bytes, seconds)?,
        other => return Err(format!("{other}: get_4k or gather_1m").into()),
    };
    println!("{nanoseconds:.1}");
    Ok(())
}
