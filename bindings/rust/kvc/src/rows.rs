//! Which rows, and where they lie.

use crate::error::{Error, Result};
use crate::memory::array_of;
use crate::memory::sealed::Span;
use crate::types::DType;
use kvc_sys as sys;
use std::ops::{Bound, Range, RangeBounds};

/// How far elements of one side lie from each other, in bytes; 0: packed, in the order block > token > head > dim.  A run of several
/// layers has to say `layer`, which counts the capacity, not the length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strides {
    /// From a layer to the next.
    pub layer: u64,
    /// From a block to the next.
    pub block: u64,
    /// From a slot to the next in its block.
    pub token: u64,
    /// From a head to the next.
    pub head: u64,
    /// From a dim (with `dim_group`: from a group of dims) to the next.
    pub dim: u64,
    /// Elements of a head that lie together; 0: 1.
    pub dim_group: u32,
}

/// An axis of an array that has rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Layers.
    Layer,
    /// Blocks of a block table.
    Block,
    /// Slots: tokens, of a block or of all.
    Token,
    /// KV heads.
    Head,
    /// Elements of a head.
    Dim,
    /// An axis that a description does not walk: K beside V, a batch.
    Other,
}

impl Strides {
    /// Of an array in row-major order, its axes and their lengths from the outermost in, with elements of so many bytes.
    ///
    /// ```
    /// use kvc::{Axis, Strides};
    /// let strides = Strides::row_major(&[(Axis::Layer, 4), (Axis::Head, 2), (Axis::Token, 512), (Axis::Dim, 64)], 2);
    /// assert_eq!((strides.layer, strides.head, strides.token, strides.dim), (131_072, 65_536, 128, 2));
    /// ```
    #[must_use]
    pub const fn row_major(axes: &[(Axis, usize)], element_bytes: usize) -> Self {
        let mut out = Self { layer: 0, block: 0, token: 0, head: 0, dim: 0, dim_group: 0 };
        let mut stride = element_bytes as u64;
        let mut i = axes.len();
        while i > 0 {
            i -= 1;
            let (axis, length) = axes[i];
            match axis {
                Axis::Layer => out.layer = stride,
                Axis::Block => out.block = stride,
                Axis::Token => out.token = stride,
                Axis::Head => out.head = stride,
                Axis::Dim => out.dim = stride,
                Axis::Other => (),
            }
            stride *= length as u64;
        }
        out
    }
}

/// Where the keys, or the values, of a description lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// Which of the pieces of memory that the call is given; a single piece has every number.
    pub memory: usize,
    /// Where in it the first element may lie: bytes from its start, whatever its elements are.
    pub offset: usize,
    /// How far elements lie from each other.
    pub strides: Strides,
    /// What memory of bytes or of `u16` holds; `None`: the shape's dtype.  Of floats nothing need be said.
    pub dtype: Option<DType>,
}

/// Which rows (layers x heads x tokens), and where in memory they lie.  It has no memory itself: one description serves every call, and
/// append and gather alike.
///
/// The element of layer `l`, slot `s`, head `h` and dim `d` lies, from its side's [`offset`](Side::offset) on, at
/// `l * layer + block(s) * block + in_block(s) * token + h * head + d * dim` of its [`Strides`].  Without a block table `block(s)` is 0 and
/// `in_block(s)` is `s`; with one `block(s)` is `table[s / block_tokens]` and `in_block(s)` is `s % block_tokens`.
///
/// Without further words the keys lie packed in the first piece of memory that a call is given, the values in the second.  A call takes
/// one description or several, as `&rows` or `&[a, b]`.
///
/// | what lies where | |
/// |---|---|
/// | packed, tokens first `[layers, tokens, heads, dim]` | `strides` with `layer` |
/// | transformers `[heads, tokens, dim]` a layer | [`Strides::row_major`] of these axes |
/// | vLLM `[2, blocks, 16, heads, dim]` a layer | [`blocks`](Self::blocks)`(16, table)`, one memory, `v.offset` at its half |
/// | all layers and both sides in one pool | one memory, `v.offset` where the first V lies, the same strides for both |
/// | packed K and V in a row | one memory, `v.offset` behind K, the same strides for both |
/// | latent rows | [`without_v`](Self::without_v), or `v` at the rope part |
///
/// ```
/// use kvc::{Rows, Side, Strides};
/// // f16 [layers 4][K, V][blocks 100][16][heads 2][dim 64], the sequence in the blocks of `table`
/// let (block, side) = (16 * 2 * 64 * 2, 100 * 16 * 2 * 64 * 2);
/// let table = [17, 3, 99];
/// let rows = Rows::new(0..4, 0..40)
///     .blocks(16, &table)
///     .strides(Strides { layer: 2 * side as u64, block, ..Default::default() })
///     .v_offset(side);
/// # let _ = rows;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows<'a> {
    layer_begin: u32,
    layer_count: u32,
    head_begin: u32,
    head_count: u32,
    token_begin: u64,
    token_count: u64,
    token_list: &'a [u64],
    token_unit: u32,
    block_tokens: u32,
    blocks: &'a [i32],
    slot_begin: u64,
    k: Option<Side>,
    v: Option<Side>,
}

impl<'a> Rows<'a> {
    /// As [`new`](Self::new), where the memory holds the whole sequence: every position lies in the slot of its own number.
    #[must_use]
    pub fn in_place(layers: Range<u32>, tokens: impl RangeBounds<u64>) -> Self {
        let rows = Self::new(layers, tokens);
        let slot = rows.token_begin;
        rows.slot_begin(slot)
    }

    /// Rows of these layers (absolute, of the whole model, and of one kind and geometry) and positions, all heads of the sequence's part,
    /// the first of them in slot 0 whatever its position: [`in_place`](Self::in_place) is for memory of a whole sequence.  A range of positions without an end goes, in a gather or prefetch, as far as the rows do.
    #[must_use]
    pub fn new(layers: Range<u32>, tokens: impl RangeBounds<u64>) -> Self {
        let (token_begin, token_count) = begin_and_count(&tokens);
        Self {
            layer_begin: layers.start,
            layer_count: layers.end.saturating_sub(layers.start),
            head_begin: 0,
            head_count: 0,
            token_begin,
            token_count,
            token_list: &[],
            token_unit: 0,
            block_tokens: 0,
            blocks: &[],
            slot_begin: 0,
            k: Some(Side::default()),
            v: Some(Side { memory: 1, ..Side::default() }),
        }
    }

    /// These KV heads (of the whole model, not of the part) instead of all.
    #[must_use]
    pub fn heads(mut self, heads: Range<u32>) -> Self {
        self.head_begin = heads.start;
        self.head_count = heads.end.saturating_sub(heads.start);
        self
    }

    /// Other positions.
    #[must_use]
    pub fn tokens(mut self, tokens: impl RangeBounds<u64>) -> Self {
        (self.token_begin, self.token_count) = begin_and_count(&tokens);
        self
    }

    /// The i-th token asked for uses slot `slot + i`.  With a table of the whole sequence that is its position.
    #[must_use]
    pub fn slot_begin(mut self, slot: u64) -> Self {
        self.slot_begin = slot;
        self
    }

    /// Slot `s` lies in block `table[s / block_tokens]`; 1 makes of the table the slot of each token.  Borrowed until the call was made:
    /// a queued one has its own copy.
    #[must_use]
    pub fn blocks(mut self, block_tokens: u32, table: &'a [i32]) -> Self {
        self.block_tokens = block_tokens;
        self.blocks = table;
        self
    }

    /// Gather and prefetch: these tokens instead of a range; entry `e` stands for positions `[e * unit, (e + 1) * unit)`.
    #[must_use]
    pub fn token_list(mut self, list: &'a [u64], unit: u32) -> Self {
        self.token_list = list;
        self.token_unit = unit;
        self.token_begin = 0;
        self
    }

    /// The strides of both sides.
    #[must_use]
    pub fn strides(mut self, strides: Strides) -> Self {
        for side in [&mut self.k, &mut self.v].into_iter().flatten() {
            side.strides = strides;
        }
        self
    }

    /// What memory of bytes or of `u16` holds, of both sides.
    #[must_use]
    pub fn dtype(mut self, dtype: DType) -> Self {
        for side in [&mut self.k, &mut self.v].into_iter().flatten() {
            side.dtype = Some(dtype);
        }
        self
    }

    /// Where the keys lie; latent: the latent and, without V, the rope part; state: the first part.
    #[must_use]
    pub fn k(mut self, side: Side) -> Self {
        self.k = Some(side);
        self
    }

    /// Where the values lie; latent: the rope part; state: the second part.
    #[must_use]
    pub fn v(mut self, side: Side) -> Self {
        self.v = Some(side);
        self
    }

    /// The keys begin so many bytes into their memory.
    #[must_use]
    pub fn k_offset(mut self, bytes: usize) -> Self {
        self.k.get_or_insert_default().offset = bytes;
        self
    }

    /// The values begin so many bytes into their memory.
    #[must_use]
    pub fn v_offset(mut self, bytes: usize) -> Self {
        self.v.get_or_insert(Side { memory: 1, ..Side::default() }).offset = bytes;
        self
    }

    /// No keys are moved.
    #[must_use]
    pub fn without_k(mut self) -> Self {
        self.k = None;
        self
    }

    /// No values are moved, or there are none.
    #[must_use]
    pub fn without_v(mut self) -> Self {
        self.v = None;
        self
    }

    /// Everything but the arrays.
    fn bare(&self) -> sys::kvc_rows {
        let mut raw = sys::kvc_rows::init();
        raw.layer_begin = self.layer_begin;
        raw.layer_count = self.layer_count;
        raw.head_begin = self.head_begin;
        raw.head_count = self.head_count;
        raw.token_begin = self.token_begin;
        raw.token_count = self.token_count;
        if !self.token_list.is_empty() {
            raw.token_list = self.token_list.as_ptr();
            raw.token_count = self.token_list.len() as u64;
            raw.token_unit = self.token_unit;
        }
        raw.block_tokens = self.block_tokens;
        if !self.blocks.is_empty() {
            raw.blocks = self.blocks.as_ptr();
            raw.block_count = self.blocks.len() as u64;
        }
        raw.slot_begin = self.slot_begin;
        raw
    }

    fn raw(&self, span: &mut impl FnMut(usize) -> Option<Span>) -> Result<sys::kvc_rows> {
        let mut raw = self.bare();
        let (k, v) = (self.k.as_ref(), self.v.as_ref());
        let spans = [k.and_then(|side| span(side.memory)), v.and_then(|side| span(side.memory))];
        if let Some(side) = k {
            raw.k = array_of("k", side, spans[0])?;
        }
        if let Some(side) = v {
            raw.v = array_of("v", side, spans[1])?;
        }
        if let (Some(k_side), Some(v_side), [Some(k_span), Some(v_span)]) = (k, v, spans) {
            // Two pieces were meant and one is there: who forgot the values would store the keys twice.
            let meant_two = k_side.memory != v_side.memory && k_span.piece == v_span.piece;
            if meant_two && k_side.offset == v_side.offset {
                return Err(Error::argument(format!(
                    "v.offset {}: keys and values begin at one place: give (k, v), another offset, or without_v",
                    v_side.offset
                )));
            }
        }
        Ok(raw)
    }

    /// As the layout of objects: arrays are offsets in each value.
    pub(crate) fn raw_layout(&self) -> sys::kvc_rows {
        let mut raw = self.bare();
        for (side, array) in [(&self.k, &mut raw.k), (&self.v, &mut raw.v)] {
            let Some(side) = side else { continue };
            array.data = std::ptr::without_provenance_mut(side.offset);
            array.layer_stride = side.strides.layer;
            array.block_stride = side.strides.block;
            array.token_stride = side.strides.token;
            array.head_stride = side.strides.head;
            array.dim_stride = side.strides.dim;
            array.dim_group = side.strides.dim_group;
            array.dtype = side.dtype.map_or(0, DType::raw);
        }
        raw
    }
}

impl<'a> AsRef<[Rows<'a>]> for Rows<'a> {
    fn as_ref(&self) -> &[Self] {
        std::slice::from_ref(self)
    }
}

/// A range as C takes it: without an end the count is `KVC_ALL`.
pub(crate) fn begin_and_count(range: &impl RangeBounds<u64>) -> (u64, u64) {
    let begin = match range.start_bound() {
        Bound::Included(&begin) => begin,
        Bound::Excluded(&before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let count = match range.end_bound() {
        Bound::Included(&last) => last.saturating_add(1).saturating_sub(begin),
        Bound::Excluded(&end) => end.saturating_sub(begin),
        Bound::Unbounded => sys::KVC_ALL,
    };
    (begin, count)
}

/// Descriptions as C takes them; the usual one needs no allocation.
#[allow(clippy::large_enum_variant, reason = "the large one is the usual one, and on the stack")]
pub(crate) enum RawRows {
    One(sys::kvc_rows),
    Several(Vec<sys::kvc_rows>),
}

impl RawRows {
    pub(crate) fn of(
        rows: &[Rows<'_>],
        mut span: impl FnMut(usize) -> Option<Span>,
    ) -> Result<Self> {
        if let [one] = rows {
            return Ok(Self::One(one.raw(&mut span)?));
        }
        rows.iter().map(|one| one.raw(&mut span)).collect::<Result<_>>().map(Self::Several)
    }

    /// Of a prefetch, which has no arrays.
    pub(crate) fn bare(rows: &[Rows<'_>]) -> Self {
        Self::Several(rows.iter().map(Rows::bare).collect())
    }

    fn as_slice(&self) -> &[sys::kvc_rows] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Several(several) => several,
        }
    }

    pub(crate) fn pointer(&self) -> *const sys::kvc_rows {
        pointer_of(self.as_slice())
    }

    pub(crate) fn count(&self) -> usize {
        self.as_slice().len()
    }
}

/// The address of a slice as C takes it: NULL with nothing in it.
pub(crate) fn pointer_of<T>(slice: &[T]) -> *const T {
    if slice.is_empty() { std::ptr::null() } else { slice.as_ptr() }
}
