//! Opaque keys with values, write-once.

use crate::error::{ErrorKind, Result};
use crate::lease::Lease;
use crate::rows::Rows;
use crate::types::{Tier, millis};
use kvc_sys as sys;
use std::marker::PhantomData;
use std::time::Duration;

/// How to put.
#[derive(Clone, Copy, Debug, Default)]
pub struct PutOptions<'a> {
    /// All items become visible together, or none.
    pub group: bool,
    /// Unused for so long: dropped; `None`: the scope's; [`FOREVER`](crate::FOREVER): never.
    pub ttl: Option<Duration>,
    /// Values are rows of the scope's layers that lie so: the offsets of its sides are offsets in each value, and every byte of a value
    /// belongs to one element.  `None`: plain bytes.
    pub layout: Option<&'a Rows<'a>>,
}

/// Options as C takes them, with what they point to.
pub(crate) struct RawPutOptions {
    pub(crate) raw: sys::kvc_object_options,
    layout: Option<Box<sys::kvc_rows>>,
}

impl PutOptions<'_> {
    pub(crate) fn raw(&self) -> RawPutOptions {
        let layout = self.layout.map(|rows| Box::new(rows.raw_layout()));
        let mut raw = sys::kvc_object_options::init();
        raw.flags = if self.group { sys::KVC_OBJECT_GROUP } else { 0 };
        raw.ttl_ms = millis(self.ttl);
        RawPutOptions { raw, layout }
    }
}

impl RawPutOptions {
    pub(crate) fn pointer(&mut self) -> *const sys::kvc_object_options {
        self.raw.layout =
            self.layout.as_ref().map_or(std::ptr::null(), |layout| &raw const **layout);
        &raw const self.raw
    }
}

/// How to look objects up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExistsOptions {
    /// Stop at the first that is not there.
    pub leading: bool,
    /// Hold what is found.
    pub hold: bool,
    /// For how long; `None`: the store's.
    pub lease: Option<Duration>,
}

impl ExistsOptions {
    pub(crate) fn raw(self) -> sys::kvc_object_options {
        let mut raw = sys::kvc_object_options::init();
        raw.flags |= if self.leading { sys::KVC_OBJECT_LEADING } else { 0 };
        raw.flags |= if self.hold { sys::KVC_OBJECT_LEASE } else { 0 };
        raw.lease_ms = millis(self.lease);
        raw
    }
}

pub(crate) fn leading_options(leading: bool) -> sys::kvc_object_options {
    ExistsOptions { leading, ..ExistsOptions::default() }.raw()
}

/// The status of an item that no call came to.
const UNTOUCHED: sys::kvc_status = i32::MIN;

/// What became of one item of a batch.  Of one that was in no call yet: [`Misuse`](ErrorKind::Misuse).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    status: i32,
    size: u64,
    tier: u32,
}

impl Default for Outcome {
    fn default() -> Self {
        Self { status: sys::KVC_ERR_MISUSE, size: 0, tier: 0 }
    }
}

impl Outcome {
    /// One that the call did not come to has the call's status.
    pub(crate) fn of(raw: &sys::kvc_object, call: &Result<impl Sized>) -> Self {
        let status = match call {
            Err(error) if raw.status == UNTOUCHED => error.kind().status(),
            _ => raw.status,
        };
        Self { status, size: raw.value_size, tier: raw.tier }
    }

    /// Bytes stored (get, exists).
    ///
    /// # Errors
    ///
    /// Why the item failed.
    pub fn size(&self) -> Result<u64, ErrorKind> {
        if self.is_ok() { Ok(self.size) } else { Err(ErrorKind::from_status(self.status)) }
    }

    /// It went well.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.status == sys::KVC_OK
    }

    /// Why it failed; `None`: it went well.
    #[must_use]
    pub fn error(&self) -> Option<ErrorKind> {
        self.size().err()
    }

    /// Bytes stored, also of a get whose memory was too short.
    #[must_use]
    pub fn value_size(&self) -> u64 {
        self.size
    }

    /// The nearest copy (get, exists).
    #[must_use]
    pub fn tier(&self) -> Option<Tier> {
        Tier::from_raw(self.tier)
    }
}

/// An item as every kind of batch has it.
#[derive(Debug)]
pub(crate) struct Single {
    key: *const u8,
    key_size: usize,
    part: sys::kvc_bytes,
    parts: Vec<sys::kvc_bytes>,
    pub(crate) outcome: Outcome,
}

impl Single {
    fn new(key: &[u8], data: *mut u8, bytes: usize) -> Self {
        let part = sys::kvc_bytes { data: data.cast(), bytes: bytes as u64 };
        let outcome = Outcome::default();
        Self { key: key.as_ptr(), key_size: key.len(), part, parts: Vec::new(), outcome }
    }

    fn with_parts(key: &[u8], parts: impl Iterator<Item = (*mut u8, usize)>) -> Self {
        let mut out = Self::new(key, std::ptr::null_mut(), 0);
        out.parts = parts
            .map(|(data, bytes)| sys::kvc_bytes { data: data.cast(), bytes: bytes as u64 })
            .collect();
        out
    }

    pub(crate) fn raw(&self) -> sys::kvc_object {
        let mut raw = sys::kvc_object::zeroed();
        let parts =
            if self.parts.is_empty() { std::slice::from_ref(&self.part) } else { &self.parts };
        raw.key = self.key.cast();
        raw.key_size = self.key_size as u64;
        raw.parts = parts.as_ptr();
        raw.part_count = parts.len() as u64;
        raw.status = UNTOUCHED;
        raw
    }
}

macro_rules! items {
    ($($(#[$doc:meta])* $name:ident of $lent:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<'a>(pub(crate) Single, PhantomData<(&'a [u8], $lent)>);

        // SAFETY: it is what it borrows, which may be used by another thread as well.
        unsafe impl Send for $name<'_> {}
        // SAFETY: as above; a shared one gives nothing away but its outcome.
        unsafe impl Sync for $name<'_> {}

        impl $name<'_> {
            /// What became of it in the last call.
            #[must_use]
            pub fn outcome(&self) -> Outcome {
                self.0.outcome
            }
        }
    )*};
}

items! {
    /// A value to be put: [`Scope::put_batch`](crate::Scope::put_batch).
    Put of &'a [u8];
    /// Memory to get a value into: [`Scope::get_batch`](crate::Scope::get_batch).  What is longer than the value is left alone behind it.
    Get of &'a mut [u8];
}

impl<'a> Put<'a> {
    /// A value in one piece under a key of 1 to 64 bytes.
    #[must_use]
    pub fn new(key: &'a (impl AsRef<[u8]> + ?Sized), value: &'a [u8]) -> Self {
        Self(Single::new(key.as_ref(), value.as_ptr().cast_mut(), value.len()), PhantomData)
    }

    /// A value in several pieces.
    #[must_use]
    pub fn parts(key: &'a (impl AsRef<[u8]> + ?Sized), parts: &[&'a [u8]]) -> Self {
        let parts = parts.iter().map(|part| (part.as_ptr().cast_mut(), part.len()));
        Self(Single::with_parts(key.as_ref(), parts), PhantomData)
    }
}

impl<'a> Get<'a> {
    /// Memory in one piece, for the value of a key of 1 to 64 bytes.
    #[must_use]
    pub fn new(key: &'a (impl AsRef<[u8]> + ?Sized), value: &'a mut [u8]) -> Self {
        Self(Single::new(key.as_ref(), value.as_mut_ptr(), value.len()), PhantomData)
    }

    /// Memory in several pieces.
    #[must_use]
    pub fn parts(
        key: &'a (impl AsRef<[u8]> + ?Sized),
        parts: impl IntoIterator<Item = &'a mut [u8]>,
    ) -> Self {
        let parts = parts.into_iter().map(|part| (part.as_mut_ptr(), part.len()));
        Self(Single::with_parts(key.as_ref(), parts), PhantomData)
    }
}

/// What [`Scope::exists`](crate::Scope::exists) found.
#[derive(Debug)]
pub struct Found {
    /// Of each key.
    pub outcomes: Vec<Outcome>,
    /// The hold on all that was found, if one was asked for and something was.
    pub lease: Option<Lease>,
}

impl Found {
    /// How many of the first keys are there.
    #[must_use]
    pub fn leading(&self) -> usize {
        self.outcomes.iter().take_while(|outcome| outcome.is_ok()).count()
    }
}

/// One line of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectEntry {
    /// The key.
    pub key: Vec<u8>,
    /// Bytes stored.
    pub value_size: u64,
    /// The nearest copy.
    pub tier: Option<Tier>,
}

impl ObjectEntry {
    pub(crate) fn of(raw: &sys::kvc_object_entry) -> Self {
        let key = &raw.key[..(raw.key_size as usize).min(raw.key.len())];
        Self { key: key.to_vec(), value_size: raw.value_size, tier: Tier::from_raw(raw.tier) }
    }
}

/// A key alone, as C takes it.
pub(crate) fn key_only(key: &[u8]) -> sys::kvc_object {
    let mut raw = sys::kvc_object::zeroed();
    raw.key = key.as_ptr().cast();
    raw.key_size = key.len() as u64;
    raw.status = UNTOUCHED;
    raw
}
