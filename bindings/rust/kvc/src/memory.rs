//! The memory that rows lie in: slices for calls that block, owned buffers for those that do not.

use crate::aligned::Aligned;
use crate::error::{Error, Result};
use crate::rows::Side;
use crate::types::DType;
use kvc_sys as sys;
use std::ffi::c_void;
use std::marker::PhantomData;

/// Numbers that rows can lie in: `u8`, `u16`, `f32`, with the feature `half` its `f16` and `bf16`, and arrays of those.
///
/// `u8` and `u16` are bits of the dtype that the [`Side`] states, else of the shape's.  Floats say themselves what they are.
///
/// # Safety
///
/// Sealed.  Every bit pattern is one, and none has padding.
pub unsafe trait Element: Copy + Send + Sync + 'static + sealed::Sealed {
    /// What it is; `None`: bits, of what the description says.
    const DTYPE: Option<DType>;
    /// Bytes of a number: memory of these is of a dtype that has as many, or of bytes.
    const NUMBER_BYTES: usize;
}

macro_rules! elements {
    ($($(#[$attribute:meta])* $name:ty: $dtype:expr,)*) => {$(
        $(#[$attribute])*
        impl sealed::Sealed for $name {}

        $(#[$attribute])*
        // SAFETY: a number whose every bit pattern is one.
        unsafe impl Element for $name {
            const DTYPE: Option<DType> = $dtype;
            const NUMBER_BYTES: usize = size_of::<$name>();
        }
    )*};
}

elements! {
    u8: None,
    u16: None,
    f32: Some(DType::F32),
    #[cfg(feature = "half")]
    half::f16: Some(DType::F16),
    #[cfg(feature = "half")]
    half::bf16: Some(DType::BF16),
}

impl<T: Element, const N: usize> sealed::Sealed for [T; N] {}

// SAFETY: an array is its elements, one behind the other.
unsafe impl<T: Element, const N: usize> Element for [T; N] {
    const DTYPE: Option<DType> = T::DTYPE;
    const NUMBER_BYTES: usize = T::NUMBER_BYTES;
}

/// The bytes of numbers: objects are bytes.
#[must_use]
pub fn bytes_of<T: Element>(elements: &[T]) -> &[u8] {
    // SAFETY: an element has no padding, and u8 needs no alignment.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// The bytes of numbers, to be written.
#[must_use]
pub fn bytes_of_mut<T: Element>(elements: &mut [T]) -> &mut [u8] {
    // SAFETY: as above, and every bit pattern is an element.
    unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), size_of_val(elements)) }
}

pub(crate) mod sealed {
    use super::{DType, Element};

    pub trait Sealed {}

    /// Where memory lies and what it is of.
    #[derive(Clone, Copy, Debug)]
    pub struct Span {
        pub(crate) data: *mut u8,
        pub(crate) bytes: usize,
        pub(crate) dtype: Option<DType>,
        pub(crate) number_bytes: usize,
        /// Which of the pieces that were given.
        pub(crate) piece: usize,
    }

    impl Span {
        pub(crate) fn of<T: Element>(data: *mut T, count: usize) -> Self {
            Self {
                data: data.cast(),
                bytes: count * size_of::<T>(),
                dtype: T::DTYPE,
                number_bytes: T::NUMBER_BYTES,
                piece: 0,
            }
        }

        pub(crate) fn of_piece(self, piece: usize) -> Self {
            Self { piece, ..self }
        }
    }

    /// One piece of memory that is read.
    pub trait Readable {
        fn span(&self) -> Span;
    }

    /// One piece of memory that is written.
    pub trait Writable {
        fn span_mut(&mut self) -> Span;
    }

    /// The pieces that a call reads, by number; a single piece has every number.
    pub trait Reads {
        fn read(&self, index: usize) -> Option<Span>;
    }

    /// The pieces that a call writes.
    pub trait Writes {
        fn write(&mut self, index: usize) -> Option<Span>;
    }
}

use sealed::{Readable, Reads, Span, Writable, Writes};

/// What a call reads rows from: one piece of memory (`&[T]`, `&Vec<T>`, `&[T; N]`) that has both sides, two of them, `(keys, values)`, or
/// [`Many`], of whose pieces each [`Side`] names one.
pub trait Source: Reads {}

/// What a call writes rows to: one piece of memory (`&mut [T]`, `&mut Vec<T>`, `&mut [T; N]`) that has both sides, two of them,
/// `(keys, values)`, or [`Many`], of whose pieces each [`Side`] names one.
pub trait Target: Writes {}

impl<M: Reads> Source for M {}
impl<M: Writes> Target for M {}

/// Pieces of memory that descriptions name by their numbers: [`Side::memory`].
///
/// `Many(&[..])` is read, `Many(&mut [..])` written, `Many(vec![..])` given to queued calls.
#[derive(Clone, Copy, Debug)]
pub struct Many<M>(pub M);

macro_rules! slices {
    ($([$($const:tt)*] $name:ty,)*) => {$(
        impl<T: Element, $($const)*> Readable for &$name {
            fn span(&self) -> Span {
                Span::of(self.as_ptr().cast_mut(), self.len())
            }
        }

        impl<T: Element, $($const)*> Writable for &mut $name {
            fn span_mut(&mut self) -> Span {
                Span::of(self.as_mut_ptr(), self.len())
            }
        }
    )*};
}

slices! {
    [] [T],
    [] Vec<T>,
    [] Box<[T]>,
    [] Aligned<T>,
    [const N: usize] [T; N],
}

impl<M: Readable> Reads for M {
    fn read(&self, _: usize) -> Option<Span> {
        Some(self.span())
    }
}

impl<M: Writable> Writes for M {
    fn write(&mut self, _: usize) -> Option<Span> {
        Some(self.span_mut())
    }
}

impl<K: Readable, V: Readable> Reads for (K, V) {
    fn read(&self, index: usize) -> Option<Span> {
        match index {
            0 => Some(self.0.span()),
            1 => Some(self.1.span().of_piece(1)),
            _ => None,
        }
    }
}

impl<K: Writable, V: Writable> Writes for (K, V) {
    fn write(&mut self, index: usize) -> Option<Span> {
        match index {
            0 => Some(self.0.span_mut()),
            1 => Some(self.1.span_mut().of_piece(1)),
            _ => None,
        }
    }
}

impl<M: Readable> Reads for Many<&[M]> {
    fn read(&self, index: usize) -> Option<Span> {
        self.0.get(index).map(|piece| piece.span().of_piece(index))
    }
}

impl<M: Readable, const N: usize> Reads for Many<&[M; N]> {
    fn read(&self, index: usize) -> Option<Span> {
        self.0.get(index).map(|piece| piece.span().of_piece(index))
    }
}

impl<M: Writable> Writes for Many<&mut [M]> {
    fn write(&mut self, index: usize) -> Option<Span> {
        self.0.get_mut(index).map(|piece| piece.span_mut().of_piece(index))
    }
}

impl<M: Writable, const N: usize> Writes for Many<&mut [M; N]> {
    fn write(&mut self, index: usize) -> Option<Span> {
        self.0.get_mut(index).map(|piece| piece.span_mut().of_piece(index))
    }
}

/// Owned memory, which a queued call takes and gives back: `Vec<T>`, `Box<[T]>`, [`Aligned`], or a type of the host's own, as a slot of its pool.
///
/// # Safety
///
/// While nothing but this trait's functions is called on a value, the memory they tell of stays valid where it is, also when the value is
/// moved, and its `len` elements are initialised.  Nobody else reads or writes those of them that a call names, until the call gave the
/// value back; a call that reads may share them with readers.
pub unsafe trait Buffer: Send + 'static {
    /// What it holds.
    type Element: Element;

    /// The first element, to be read and written.
    fn as_mut_ptr(&mut self) -> *mut Self::Element;

    /// How many there are.
    fn len(&self) -> usize;

    /// There is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

// SAFETY: a vector's elements lie in its allocation, which moves with nothing but calls that change the vector.
unsafe impl<T: Element> Buffer for Vec<T> {
    type Element = T;

    fn as_mut_ptr(&mut self) -> *mut T {
        self.as_mut_ptr()
    }

    fn len(&self) -> usize {
        self.len()
    }
}

// SAFETY: a box's elements lie in its allocation.
unsafe impl<T: Element> Buffer for Box<[T]> {
    type Element = T;

    fn as_mut_ptr(&mut self) -> *mut T {
        (**self).as_mut_ptr()
    }

    fn len(&self) -> usize {
        (**self).len()
    }
}

/// Memory at an address, for what no slice can say: a pool that several calls write at once, each other blocks of it.
///
/// It is a [`Source`], a [`Target`] and a [`Buffer`].
#[derive(Debug)]
pub struct RawMemory<T> {
    data: *mut T,
    count: usize,
    of: PhantomData<T>,
}

impl<T: Element> RawMemory<T> {
    /// Of `count` elements at `data`.
    ///
    /// # Safety
    ///
    /// For as long as the value is used, the memory stays valid and initialised.  While a call that was given it runs, nobody writes the
    /// elements which that call reads, and nobody reads or writes those which it writes.
    #[must_use]
    pub const unsafe fn new(data: *mut T, count: usize) -> Self {
        Self { data, count, of: PhantomData }
    }
}

// SAFETY: the address says nothing of a thread, and who made it answers for the memory.
unsafe impl<T: Element> Send for RawMemory<T> {}

// SAFETY: who made it promised this.
unsafe impl<T: Element> Buffer for RawMemory<T> {
    type Element = T;

    fn as_mut_ptr(&mut self) -> *mut T {
        self.data
    }

    fn len(&self) -> usize {
        self.count
    }
}

impl<T: Element> Readable for RawMemory<T> {
    fn span(&self) -> Span {
        Span::of(self.data, self.count)
    }
}

impl<T: Element> Writable for RawMemory<T> {
    fn span_mut(&mut self) -> Span {
        Span::of(self.data, self.count)
    }
}

/// What a queued call is given: one [`Buffer`] that has both sides, two of them, `(keys, values)`, or [`Many`] in a `Vec`.
pub trait Memory: Send + 'static {
    #[doc(hidden)]
    fn owned(&mut self, index: usize) -> Option<Span>;
}

pub(crate) fn span_of<B: Buffer>(buffer: &mut B) -> Span {
    let count = buffer.len();
    Span::of(buffer.as_mut_ptr(), count)
}

impl<B: Buffer> Memory for B {
    fn owned(&mut self, _: usize) -> Option<Span> {
        Some(span_of(self))
    }
}

impl<K: Buffer, V: Buffer> Memory for (K, V) {
    fn owned(&mut self, index: usize) -> Option<Span> {
        match index {
            0 => Some(span_of(&mut self.0)),
            1 => Some(span_of(&mut self.1).of_piece(1)),
            _ => None,
        }
    }
}

impl<B: Buffer> Memory for Many<Vec<B>> {
    fn owned(&mut self, index: usize) -> Option<Span> {
        self.0.get_mut(index).map(|piece| span_of(piece).of_piece(index))
    }
}

/// One side as C takes it, in the memory that it names.
pub(crate) fn array_of(name: &str, side: &Side, span: Option<Span>) -> Result<sys::kvc_array> {
    let Some(span) = span else {
        return Err(Error::argument(format!(
            "{name}.memory {}: there is no such memory",
            side.memory
        )));
    };
    if side.offset > span.bytes {
        let (offset, bytes) = (side.offset, span.bytes);
        return Err(Error::argument(format!(
            "{name}.offset {offset}: the memory has {bytes} bytes"
        )));
    }
    let dtype = match (side.dtype, span.dtype) {
        (Some(stated), Some(typed)) if stated != typed => {
            return Err(Error::argument(format!(
                "{name}.dtype {stated:?}: the memory is of {typed:?}"
            )));
        }
        (Some(stated), None) if span.number_bytes > 1 && span.number_bytes != stated.bytes() => {
            let bytes = 8 * span.number_bytes;
            return Err(Error::argument(format!(
                "{name}.dtype {stated:?}: the memory is of {bytes} bits"
            )));
        }
        (stated, typed) => stated.or(typed),
    };
    let strides = &side.strides;
    Ok(sys::kvc_array {
        // SAFETY: not past the end, as was checked.
        data: unsafe { span.data.add(side.offset) }.cast::<c_void>(),
        bytes: (span.bytes - side.offset) as u64,
        layer_stride: strides.layer,
        block_stride: strides.block,
        token_stride: strides.token,
        head_stride: strides.head,
        dim_stride: strides.dim,
        dtype: dtype.map_or(0, DType::raw),
        dim_group: strides.dim_group,
    })
}
