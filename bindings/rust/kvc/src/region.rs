//! Registered memory of the host.

use crate::error::{Error, Result, check};
use crate::memory::Buffer;
use crate::memory::sealed::Span;
use crate::store::{Store, StoreInner};
use crate::types::{Address, Handle};
use kvc_sys as sys;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Memory that is registered with a store: [`Store::region`].  It is read and written as a slice, and is itself a [`Buffer`] for queued
/// calls.  Dropping it ends the registration and drops the memory; [`into_inner`](Self::into_inner) gives it back.
#[derive(Debug)]
pub struct Region<B: Buffer> {
    handle: Handle<sys::kvc_region>,
    /// In a place of its own, so that it is not moved while its memory is registered.
    buffer: Address<B>,
    data: Address<B::Element>,
    count: usize,
    store: Arc<StoreInner>,
}

// SAFETY: `&self` gives elements, which are shared freely, and never the buffer.
unsafe impl<B: Buffer> Sync for Region<B> {}

impl<B: Buffer> Region<B> {
    pub(crate) fn register(store: &Store, buffer: B) -> std::result::Result<Self, (B, Error)> {
        let buffer = Box::into_raw(Box::new(buffer));
        // SAFETY: it was a box just now.
        let (data, count) = unsafe { ((*buffer).as_mut_ptr(), (*buffer).len()) };
        let span = Span::of(data, count);
        let (mut out, memory) = (std::ptr::null_mut(), sys::KVC_MEMORY_HOST);
        // SAFETY: the buffer keeps its memory where it is for as long as the region has it.
        let done = check(|error| unsafe {
            let at = span.data.cast();
            sys::kvc_region_register(&raw mut out, store.raw(), at, span.bytes, memory, 0, error)
        });
        match done {
            Ok(()) => Ok(Self {
                handle: Handle(out),
                buffer: Address(buffer),
                data: Address(data),
                count,
                store: Arc::clone(&store.0),
            }),
            // SAFETY: it is a box yet, and nothing is registered.
            Err(error) => Err((*unsafe { Box::from_raw(buffer) }, error)),
        }
    }

    /// Whoever calls it lets go of the region after it.
    fn release(&self) -> Result<()> {
        // SAFETY: the handle is the library's own.
        check(|error| unsafe { sys::kvc_region_release(self.handle.0, error) })
    }

    /// Ends the registration and gives the memory back.
    ///
    /// # Errors
    ///
    /// [`Busy`](crate::ErrorKind::Busy): queued calls use it, and the region comes back with the error.  On `mem:` that never is.
    pub fn into_inner(self) -> std::result::Result<B, (Self, Error)> {
        if let Err(error) = self.release() {
            if error.is_busy() {
                return Err((self, error));
            }
        }
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so that each part is taken or dropped once, here.
        unsafe {
            std::ptr::drop_in_place(&raw mut this.store);
            Ok(*Box::from_raw(this.buffer.0))
        }
    }
}

impl<B: Buffer> Drop for Region<B> {
    fn drop(&mut self) {
        let is_busy = self.release().is_err_and(|error| error.is_busy());
        if !is_busy {
            // SAFETY: the registration has ended.  Of a busy one the memory is in use, and stays.
            drop(unsafe { Box::from_raw(self.buffer.0) });
        }
    }
}

impl<B: Buffer> Deref for Region<B> {
    type Target = [B::Element];

    fn deref(&self) -> &[B::Element] {
        // SAFETY: the buffer promises as many elements there, and nobody writes them without `&mut self`.
        unsafe { std::slice::from_raw_parts(self.data.0, self.count) }
    }
}

impl<B: Buffer> DerefMut for Region<B> {
    fn deref_mut(&mut self) -> &mut [B::Element] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.data.0, self.count) }
    }
}

// SAFETY: the memory is the buffer's, which keeps it where it is.
unsafe impl<B: Buffer> Buffer for Region<B> {
    type Element = B::Element;

    fn as_mut_ptr(&mut self) -> *mut B::Element {
        self.data.0
    }

    fn len(&self) -> usize {
        self.count
    }
}
