//! A stored page, lent in place.

use crate::error::{Error, Result, check};
use crate::memory::Element;
use crate::rows::{Rows, Side, Strides};
use crate::seq::Seq;
use crate::store::StoreInner;
use crate::types::{Address, DType, Handle};
use kvc_sys as sys;
use std::ops::Range;
use std::sync::Arc;

/// A page of one layer, in place: [`Seq::view`].  Its bytes stay as they are for as long as it lives, whatever becomes of sequence, scope
/// and store; after `fork(2)` they are the parent's alone.  Any thread.
///
/// ```compile_fail
/// # fn f(view: kvc::View) {
/// let keys = view.k();
/// drop(view);
/// println!("{}", keys[0]); // its memory went with the view
/// # }
/// ```
#[derive(Debug)]
pub struct View {
    handle: Handle<sys::kvc_view>,
    k: Lent,
    v: Lent,
    layer: u32,
    heads: Range<u32>,
    tokens: Range<u64>,
    _store: Arc<StoreInner>,
}

/// One side of a page.
#[derive(Debug)]
struct Lent {
    data: Address<u8>,
    bytes: usize,
    dtype: Option<DType>,
    strides: Strides,
}

impl Lent {
    fn of(raw: &sys::kvc_array) -> Self {
        Self {
            data: Address(raw.data.cast()),
            bytes: if raw.data.is_null() { 0 } else { raw.bytes as usize },
            dtype: DType::from_raw(raw.dtype),
            strides: Strides {
                layer: raw.layer_stride,
                block: raw.block_stride,
                token: raw.token_stride,
                head: raw.head_stride,
                dim: raw.dim_stride,
                dim_group: raw.dim_group,
            },
        }
    }

    fn bytes(&self) -> &[u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: the library lends so many bytes until the view is released, and writes none of them.
        unsafe { std::slice::from_raw_parts(self.data.0, self.bytes) }
    }

    fn typed<T: Element>(&self, name: &str) -> Result<&[T]> {
        let fits = match (T::DTYPE, self.dtype) {
            (Some(ours), Some(theirs)) => ours == theirs,
            (None, Some(theirs)) => T::NUMBER_BYTES == 1 || T::NUMBER_BYTES == theirs.bytes(),
            (_, None) => T::NUMBER_BYTES == 1,
        };
        if !fits {
            let theirs = self.dtype.map_or("bytes".to_owned(), |dtype| format!("{dtype:?}"));
            let ours = std::any::type_name::<T>();
            return Err(Error::argument(format!("{name}: the page is of {theirs}, not of {ours}")));
        }
        // SAFETY: every bit pattern is an element.
        match unsafe { self.bytes().align_to::<T>() } {
            ([], elements, []) => Ok(elements),
            _ => {
                let (bytes, size) = (self.bytes, size_of::<T>());
                let why = format!("{name}: {bytes} bytes are not aligned elements of {size} bytes");
                Err(Error::argument(why))
            }
        }
    }
}

impl View {
    pub(crate) fn acquire(seq: &Seq, layer: u32, token: u64, flags: u32) -> Result<Self> {
        let mut out = std::ptr::null_mut();
        let mut raw = sys::kvc_rows::init();
        // SAFETY: both outputs are filled.
        check(|error| unsafe {
            sys::kvc_view_acquire(&raw mut out, &raw mut raw, seq.raw(), layer, token, flags, error)
        })?;
        Ok(Self {
            handle: Handle(out),
            k: Lent::of(&raw.k),
            v: Lent::of(&raw.v),
            layer: raw.layer_begin,
            heads: raw.head_begin..raw.head_begin + raw.head_count,
            tokens: raw.token_begin..raw.token_begin + raw.token_count,
            _store: Arc::clone(seq.store()),
        })
    }

    /// The bytes of the keys.
    #[must_use]
    pub fn k(&self) -> &[u8] {
        self.k.bytes()
    }

    /// The bytes of the values; empty if the layer has none.
    #[must_use]
    pub fn v(&self) -> &[u8] {
        self.v.bytes()
    }

    /// The keys as numbers.
    ///
    /// # Errors
    ///
    /// [`Argument`](crate::ErrorKind::Argument): the page is of another dtype, or not aligned for this one.
    pub fn k_as<T: Element>(&self) -> Result<&[T]> {
        self.k.typed("k")
    }

    /// The values as numbers.
    ///
    /// # Errors
    ///
    /// As [`k_as`](Self::k_as).
    pub fn v_as<T: Element>(&self) -> Result<&[T]> {
        self.v.typed("v")
    }

    /// How far keys lie from each other, in bytes.
    #[must_use]
    pub fn k_strides(&self) -> Strides {
        self.k.strides
    }

    /// How far values lie from each other, in bytes.
    #[must_use]
    pub fn v_strides(&self) -> Strides {
        self.v.strides
    }

    /// What the keys are; `None`: of a later library.
    #[must_use]
    pub fn dtype(&self) -> Option<DType> {
        self.k.dtype
    }

    /// Which layer it is of.
    #[must_use]
    pub fn layer(&self) -> u32 {
        self.layer
    }

    /// Which KV heads are in it.
    #[must_use]
    pub fn heads(&self) -> Range<u32> {
        self.heads.clone()
    }

    /// Which positions are in it.
    #[must_use]
    pub fn tokens(&self) -> Range<u64> {
        self.tokens.clone()
    }

    /// The description of `(view.k(), view.v())`: what another sequence takes the page by.
    #[must_use]
    pub fn rows(&self) -> Rows<'static> {
        let side = |lent: &Lent, memory| Side {
            memory,
            offset: 0,
            strides: lent.strides,
            dtype: lent.dtype,
        };
        let rows = Rows::new(self.layer..self.layer + 1, self.tokens.clone())
            .heads(self.heads.clone())
            .k(side(&self.k, 0))
            .v(side(&self.v, 1));
        if self.v.bytes == 0 { rows.without_v() } else { rows }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: it is released once, and slices of it borrow the view.
        unsafe { sys::kvc_view_release(self.handle.0, std::ptr::null_mut()) };
    }
}
