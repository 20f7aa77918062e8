//! kvc: a store for the key/value cache of transformer attention.
//!
//! kvc keeps the K and V rows of attention outside the inference engine.  A host appends rows as it computes them and gathers them back
//! later, whole or in part, in any layout; prefixes that several requests share are found by their token ids and kept once.
//!
//! | | |
//! |---|---|
//! | [`Store`] | one cache with fixed limits: [`Store::open`] |
//! | [`Shape`] | the geometry of a model's cache: runs of [`Layer`]s, KV heads, widths, dtype |
//! | [`Scope`] | whose cache: tenant, model, revision, adapter, salt and shape |
//! | [`Seq`] | a run of tokens with their rows: match, append, gather, fork, truncate |
//! | [`Rows`] | which layers x heads x tokens, and where their elements lie in memory |
//! | [`View`] | a stored page, lent in place |
//! | [`Lease`] | what keeps chunks or objects from eviction |
//! | [`Queue`] | calls that do not block: they take memory and give it back |
//! | objects | opaque keys with values, write-once: [`Scope::put`], [`Scope::get`] and their kin |
//!
//! [`Store`] has a whole host as its example.
//!
//! # Memory
//!
//! Calls that block borrow memory: [`Seq::append`] reads slices, [`Seq::gather`] writes them, and what would be used after it is freed does not
//! compile.  Calls in a [`Queue`] take owned memory and give it back.  kvc allocates nothing that is the host's to free.
//!
//! # Handles
//!
//! [`Store`], [`Scope`] and [`Queue`] are cheap clones.  All handles are owned, `'static`, `Send` and `Sync`; what a thread must be alone for
//! takes `&mut self`, which is only in [`Seq`].  Each holds what it needs: a store closes when the last user of it is gone.  Nothing can be
//! released twice or used after its release.
//!
//! # Failures
//!
//! A call that fails has changed nothing stored; in batches each item is by itself.  Reads put right bytes or are a miss.  Any call may
//! fail with a kind of the families [`Argument`](Family::Argument) and [`Misuse`](Family::Misuse), and with
//! [`NoMemory`](ErrorKind::NoMemory); those are not listed with each.
//!
//! # fork(2)
//!
//! In the child every inherited handle gives [`Forked`](ErrorKind::Forked); dropping it is harmless, opening a new store works.
//!
//! # Features
//!
//! - `half` (default): `half::f16` and `half::bf16` as elements.
//! - `tokio`: [`Pending`] can be awaited in a tokio runtime.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod aligned;
mod call;
mod error;
mod lease;
mod log;
mod memory;
mod object;
mod object_calls;
mod queue;
mod region;
mod rows;
mod scope;
mod seq;
mod seq_calls;
mod shape;
mod store;
mod types;
mod view;

pub use aligned::Aligned;
pub use call::Call;
pub use error::{Error, ErrorKind, Family, Result, Retry};
pub use lease::Lease;
pub use log::{Level, Log};
pub use memory::{
    Buffer, Element, Many, Memory, RawMemory, Source, Target, bytes_of, bytes_of_mut,
};
pub use object::{ExistsOptions, Found, Get, ObjectEntry, Outcome, Put, PutOptions};
pub use object_calls::Objects;
pub use queue::{Event, Item, Pending, Queue, QueueOptions};
pub use region::Region;
pub use rows::{Axis, Rows, Side, Strides};
pub use scope::{Scope, ScopeInfo, ScopeOptions};
pub use seq::{Extra, Hint, MatchInfo, Seq, SeqInfo, SeqOptions, reorder};
pub use shape::{Layer, Shape, ShapeInfo};
pub use store::{Metrics, Store, StoreInfo, StoreOptions, VerifyInfo};
pub use types::{DType, EventKind, FOREVER, Features, LayerKind, Report, Rope, State, Stop, Tier};
pub use view::View;

/// The crate of 16-bit floats, in the version that elements are of.
#[cfg(feature = "half")]
pub use half;

/// The version of the library that is loaded: major, minor, patch.
#[must_use]
pub fn version() -> (u32, u32, u32) {
    let version = kvc_sys::kvc_version();
    (version >> 16, version >> 8 & 0xFF, version & 0xFF)
}

/// What the library that is loaded can do.  What answers on this machine is in [`StoreInfo::features`].
#[must_use]
pub fn features() -> Features {
    Features::from_bits(kvc_sys::kvc_features())
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
