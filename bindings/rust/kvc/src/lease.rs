//! A hold on tokens or objects that outlives what it was taken of.

use crate::error::{Result, check};
use crate::store::StoreInner;
use crate::types::{Handle, millis};
use kvc_sys as sys;
use std::sync::Arc;
use std::time::Duration;

/// A hold on tokens or objects that outlives their sequence.  Any thread.  Dropping it ends it; what it held may be evicted then.
#[derive(Debug)]
pub struct Lease {
    handle: Handle<sys::kvc_lease>,
    _store: Arc<StoreInner>,
}

impl Lease {
    /// Takes over what a call gave.
    pub(crate) fn of(handle: *mut sys::kvc_lease, store: &Arc<StoreInner>) -> Self {
        Self { handle: Handle(handle), _store: Arc::clone(store) }
    }

    /// Sets when it ends: from now; `None`: after the store's time; [`FOREVER`](crate::FOREVER): never.
    ///
    /// # Errors
    ///
    /// [`Gone`](crate::ErrorKind::Gone): it lapsed and pages went.
    pub fn renew(&self, time: Option<Duration>) -> Result<()> {
        // SAFETY: the library takes it on any thread, at any time.
        check(|error| unsafe { sys::kvc_lease_renew(self.handle.0, millis(time), error) })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // SAFETY: it is released once.
        unsafe { sys::kvc_lease_release(self.handle.0, std::ptr::null_mut()) };
    }
}
