//! Questions about a long document, in Rust: what document.c does, whose first comment says it, and the same output.
//!
//!     cargo build --release --manifest-path examples/Cargo.toml --bin document
//!     document DUMP

use dump::{Dump, NoDump};
use half::f16;
use kvc::{
    Axis, DType, Layer, Rope, Rows, Scope, ScopeOptions, Seq, SeqOptions, Shape, Side, Store,
    StoreOptions, Strides,
};
use std::error::Error;
use std::process::ExitCode;

type Failure = Box<dyn Error>;

const STEP: usize = 512;
const QUESTION: usize = 16;
const PASSAGE: usize = 64;
/// It is explained in document.c.
const BOUND: f64 = 0.01;

struct Document {
    dump: Dump,
    query_heads: usize,
    positions: usize,
    /// Of the document, without the questions.
    tokens: usize,
    q: Vec<f32>,
    attn_out: Vec<f32>,
}

/// A question, and what is computed for it.
struct Question {
    number: usize,
    /// Its own tokens.
    begin: usize,
    end: usize,
    /// Of a layer: [head][dim][token], [head][token][dim].
    k: Vec<f32>,
    v: Vec<f32>,
    /// Of a query: [token].
    weights: Vec<f32>,
    /// Of the passages.
    mass: Vec<f64>,
    worst: f64,
}

impl Document {
    fn read(path: &str) -> Result<Self, NoDump> {
        let dump = Dump::read(path, 2 * PASSAGE)?;
        let of = |name| dump.tensor(name, 2).ok_or(NoDump);
        let (q, attn_out) = (of("q")?, of("attn_out")?);
        let [layers, query_heads, positions, dim] = q.shape[..] else { return Err(NoDump) };
        let fits = layers == dump.layers
            && query_heads % dump.heads == 0
            && dim == dump.dim
            && q.shape == attn_out.shape;
        if !fits || positions % QUESTION != 0 || positions + 2 * PASSAGE > dump.tokens {
            return Err(NoDump);
        }
        let halves = |tensor| {
            let half = |bits: &[u8]| f16::from_le_bytes([bits[0], bits[1]]).to_f32();
            dump.data(tensor).chunks_exact(2).map(half).collect()
        };
        let (q, attn_out, tokens) = (halves(&q), halves(&attn_out), dump.tokens - positions);
        Ok(Self { dump, query_heads, positions, tokens, q, attn_out })
    }

    /// Appends tokens [begin, end) as they lie in the dump.
    fn append(&self, seq: &mut Seq, begin: usize, end: usize) -> kvc::Result<()> {
        let d = &self.dump;
        let axes = [
            (Axis::Layer, d.layers),
            (Axis::Head, d.heads),
            (Axis::Token, d.tokens),
            (Axis::Dim, d.dim),
        ];
        let rows = Rows::new(0..d.layers as u32, begin as u64..end as u64)
            .slot_begin(begin as u64)
            .strides(Strides::row_major(&axes, 2));
        seq.append(&d.ids[begin..end], &rows, (d.k(), d.v()))
    }

    /// All rows of a layer.
    fn gather(&self, seq: &Seq, of: &mut Question, layer: usize) -> kvc::Result<()> {
        let (heads, dim) = (self.dump.heads, self.dump.dim);
        let side = |memory, axes: &[(Axis, usize)]| Side {
            memory,
            strides: Strides::row_major(axes, 4),
            ..Default::default()
        };
        let rows = Rows::new(layer as u32..layer as u32 + 1, 0..of.end as u64)
            .k(side(0, &[(Axis::Head, heads), (Axis::Dim, dim), (Axis::Token, of.end)]))
            .v(side(1, &[(Axis::Head, heads), (Axis::Token, of.end), (Axis::Dim, dim)]));
        seq.gather(&rows, (&mut of.k, &mut of.v)).map(drop)
    }

    /// Attention of one query over the tokens seen: the weights, and how far the output is from the model's.
    fn attend(&self, of: &mut Question, at: usize, head: usize, seen: usize) -> f64 {
        let dim = self.dump.dim;
        let (q, model) = (&self.q[at..at + dim], &self.attn_out[at..at + dim]);
        let (k, v) = (&of.k[head * dim * of.end..], &of.v[head * of.end * dim..]);
        let scale = 1.0 / (dim as f32).sqrt();
        of.weights.fill(0.0);
        let weights = &mut of.weights[..seen];
        for (&q, k) in q.iter().zip(k.chunks_exact(of.end)) {
            let query = q * scale;
            weights.iter_mut().zip(k).for_each(|(w, k)| *w += query * k);
        }
        let top = weights.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        weights.iter_mut().for_each(|w| *w = (*w - top).exp());
        let sum: f32 = weights.iter().sum();
        weights.iter_mut().for_each(|w| *w /= sum);
        let mut outs = vec![0f32; dim];
        for (&w, v) in weights.iter().zip(v.chunks_exact(dim)) {
            outs.iter_mut().zip(v).for_each(|(out, v)| *out += w * v);
        }
        let square = |x: f32| f64::from(x) * f64::from(x);
        let off: f64 = outs.iter().zip(model).map(|(out, expected)| square(out - expected)).sum();
        let all: f64 = model.iter().map(|&expected| square(expected)).sum();
        (off / all).sqrt()
    }

    /// All queries of a question in one layer.
    fn look(&self, of: &mut Question, layer: usize) -> Result<(), Failure> {
        let dim = self.dump.dim;
        for head in 0..self.query_heads {
            for token in of.begin..of.end {
                let at = ((layer * self.query_heads + head) * self.positions + token - self.tokens)
                    * dim;
                let off =
                    self.attend(of, at, head / (self.query_heads / self.dump.heads), token + 1);
                if off.is_nan() || off > BOUND {
                    let number = of.number;
                    return Err(format!("question {number}: layer {layer}, head {head}, token {token} is off by {off:.3}, the bound is {BOUND:.2}").into());
                }
                of.worst = of.worst.max(off);
                for (mass, weights) in of.mass.iter_mut().zip(of.weights.chunks_exact(PASSAGE)) {
                    weights.iter().for_each(|&w| *mass += f64::from(w));
                }
            }
        }
        Ok(())
    }

    fn ask(&self, scope: &Scope, number: usize) -> Result<(), Failure> {
        let d = &self.dump;
        let end = self.tokens + number * QUESTION;
        let side = || vec![0f32; d.heads * d.dim * end];
        let (weights, mass) = (vec![0f32; end], vec![0f64; self.tokens / PASSAGE]);
        let mut of = Question {
            number,
            begin: end - QUESTION,
            end,
            k: side(),
            v: side(),
            weights,
            mass,
            worst: 0.0,
        };
        // The model needs the last token's logits to answer: leave one to compute.
        let options = SeqOptions { tokens_max: Some(end as u64 - 1), ..Default::default() };
        let (mut seq, info) = scope.match_prefix(&d.ids[..end], &options)?;
        let found = info.tokens as usize;
        self.append(&mut seq, found, end)?; // computed now
        for layer in 0..d.layers {
            self.gather(&seq, &mut of, layer)?;
            self.look(&mut of, layer)?;
        }
        let best =
            (1..of.mass.len()).fold(1, |best, i| if of.mass[i] > of.mass[best] { i } else { best });
        let percent = 100.0 * of.mass[best] / (d.layers * self.query_heads * QUESTION) as f64;
        let (computed, worst) = (end - found, of.worst);
        println!(
            "question {number}: {end} tokens, {found} found, {computed} computed; off by {worst:.3}; looks at passage {best}, {percent:.1} %"
        );
        Ok(())
    }

    /// Appends the document, in prefill steps.  What is sealed stays.
    fn store(&self, scope: &Scope) -> kvc::Result<()> {
        let mut seq = scope.seq(&SeqOptions::default())?;
        let steps: Vec<usize> = (0..self.tokens).step_by(STEP).collect();
        for &begin in &steps {
            self.append(&mut seq, begin, self.tokens.min(begin + STEP))?;
        }
        println!("document: {} tokens in {} steps", self.tokens, steps.len());
        Ok(())
    }
}

fn run(path: &str) -> Result<(), Failure> {
    let document = Document::read(path).map_err(|none| format!("{path}: {none}"))?;
    let d = &document.dump;
    let layer = Layer::full(d.layers as u32, d.heads as u32, d.dim as u32);
    let shape = Shape { rope: Rope::Halves, ..Shape::new(DType::F16, [layer]) };
    let store = Store::open("mem:", &StoreOptions::default())?;
    let scope = store.scope(&ScopeOptions {
        model: "document",
        shape: Some(&shape),
        ..Default::default()
    })?;
    document.store(&scope)?;
    (1..=document.positions / QUESTION).try_for_each(|number| document.ask(&scope, number))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path] = &arguments[..] else {
        eprintln!("usage: document DUMP");
        return ExitCode::from(2);
    };
    if let Err(why) = run(path) {
        eprintln!("document: {why}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
