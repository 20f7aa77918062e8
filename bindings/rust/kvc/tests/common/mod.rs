//! A small model, a store for it, and rows that differ in every element.
#![allow(dead_code, unreachable_pub, reason = "each test program uses some of it")]

use kvc::*;

pub const LAYERS: usize = 3;
pub const HEADS: usize = 2;
pub const DIM: usize = 8;
/// Elements of a token in a layer.
pub const ROW: usize = HEADS * DIM;
pub const POISON: u16 = 0xA5A5;

pub fn store() -> Store {
    store_with(StoreOptions::default())
}

pub fn store_with(options: StoreOptions) -> Store {
    let memory_bytes = if options.memory_bytes == 0 { 16 << 20 } else { options.memory_bytes };
    Store::open("mem:", &StoreOptions { memory_bytes, ..options }).unwrap()
}

pub fn shape(dtype: DType) -> Shape {
    Shape {
        rope: Rope::Pairs,
        ..Shape::new(dtype, [Layer::full(LAYERS as u32, HEADS as u32, DIM as u32)])
    }
}

pub fn scope(store: &Store) -> Scope {
    scope_of(store, &shape(DType::F16))
}

pub fn scope_of(store: &Store, shape: &Shape) -> Scope {
    store.scope(&ScopeOptions { model: "tiny", shape: Some(shape), ..Default::default() }).unwrap()
}

/// Numbers that repeat for the same seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn shuffled(&mut self, count: usize) -> Vec<i32> {
        let mut out: Vec<i32> = (0..count as i32).collect();
        for i in (1..count).rev() {
            out.swap(i, self.below(i + 1));
        }
        out
    }
}

/// Tokens and their rows, [layer][token][head][dim], as bits.
#[derive(Clone)]
pub struct Model {
    pub tokens: Vec<i32>,
    pub k: Vec<u16>,
    pub v: Vec<u16>,
}

impl Model {
    pub fn new(count: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let tokens = (0..count).map(|_| random.next() as i32).collect();
        // Halves of finite numbers: conversions keep what they are.
        let mut side =
            || (0..LAYERS * count * ROW).map(|_| random.next() as u16 & 0xBFFF).collect();
        let (k, v) = (side(), side());
        Self { tokens, k, v }
    }

    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Tokens [begin, end) where they lie.
    pub fn rows(&self, begin: usize, end: usize) -> Rows<'static> {
        rows(self.len(), begin, end)
    }

    pub fn append_to(&self, seq: &mut Seq, begin: usize, end: usize) -> Result<()> {
        seq.append(&self.tokens[begin..end], &self.rows(begin, end), (&self.k, &self.v))
    }

    pub fn store(&self, scope: &Scope) -> Seq {
        let mut seq = scope.seq(&SeqOptions::default()).unwrap();
        self.append_to(&mut seq, 0, self.len()).unwrap();
        seq
    }

    /// The bits of one element.
    pub fn at(&self, layer: usize, token: usize) -> (&[u16], &[u16]) {
        let at = (layer * self.len() + token) * ROW;
        (&self.k[at..at + ROW], &self.v[at..at + ROW])
    }

    /// The sequence has the first tokens of this, and the destination past them stays as it was.
    pub fn check(&self, seq: &Seq, count: usize) {
        let (mut k, mut v) = (vec![POISON; self.k.len()], vec![POISON; self.v.len()]);
        if count > 0 {
            let report = seq.gather(&self.rows(0, count), (&mut k, &mut v)).unwrap();
            assert_eq!(report.done, count as u64);
            assert_eq!(report.bytes as usize, 2 * LAYERS * count * ROW * 2);
        }
        self.check_memory(&k, &v, count);
    }

    pub fn check_memory(&self, k: &[u16], v: &[u16], count: usize) {
        for layer in 0..LAYERS {
            for token in 0..self.len() {
                let at = (layer * self.len() + token) * ROW;
                let (want_k, want_v) = self.at(layer, token);
                for i in 0..ROW {
                    let want =
                        if token < count { (want_k[i], want_v[i]) } else { (POISON, POISON) };
                    assert_eq!(
                        (k[at + i], v[at + i]),
                        want,
                        "layer {layer} token {token} element {i}"
                    );
                }
            }
        }
    }
}

/// Tokens [begin, end) of arrays of u16 that have room for `capacity`, tokens first.
pub fn rows(capacity: usize, begin: usize, end: usize) -> Rows<'static> {
    Rows::new(0..LAYERS as u32, begin as u64..end as u64)
        .slot_begin(begin as u64)
        .strides(Strides { layer: (capacity * ROW * 2) as u64, ..Default::default() })
}

/// A failure of this kind, with a message of one line that has these words.
pub fn refused<T>(result: Result<T>, kind: ErrorKind, words: &[&str]) {
    let Err(error) = result else { panic!("{kind:?} was expected") };
    assert_eq!(error.kind(), kind, "{error}");
    let message = error.to_string();
    assert!(!message.is_empty() && !message.contains('\n') && message.len() < 240, "{message:?}");
    for word in words {
        assert!(message.contains(word), "{message:?} does not say {word:?}");
    }
}

/// Memory of a host whose drop panics.
pub struct PanicsOnDrop(Vec<u16>);

impl PanicsOnDrop {
    pub fn new(count: usize) -> Self {
        Self(vec![POISON; count])
    }
}

// SAFETY: it is a vector.
unsafe impl Buffer for PanicsOnDrop {
    type Element = u16;

    fn as_mut_ptr(&mut self) -> *mut u16 {
        self.0.as_mut_ptr()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic!("a drop of the host");
    }
}
