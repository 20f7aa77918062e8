//! How a call runs.

use crate::types::micros;
use kvc_sys as sys;
use std::time::Duration;

/// How to run a call: `Call { timeout: Some(..), ..Call::default() }.gather(&seq, ..)`.  Methods of [`Seq`](crate::Seq) and
/// [`Scope`](crate::Scope) of the same names use the default one; [`Queue::with`](crate::Queue::with) takes one for calls that do not
/// block.
///
/// ```
/// use kvc::Call;
/// use std::time::Duration;
/// # fn main() -> kvc::Result<()> {
/// # let store = kvc::Store::open("mem:", &kvc::StoreOptions { memory_bytes: 8 << 20, ..Default::default() })?;
/// # let shape = kvc::Shape::new(kvc::DType::F32, [kvc::Layer::full(1, 1, 4)]);
/// # let scope = store.scope(&kvc::ScopeOptions { model: "m", shape: Some(&shape), ..Default::default() })?;
/// let soon = Call { timeout: Some(Duration::from_millis(5)), ..Call::default() };
/// let (seq, found) = soon.match_prefix(&scope, &[1, 2, 3], &kvc::SeqOptions::default())?;
/// assert_eq!(found.tokens, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// From now; `None`: the store's; [`FOREVER`](crate::FOREVER): no deadline.
    pub timeout: Option<Duration>,
    /// Do not ask other machines: what is remote is absent.
    pub local: bool,
    /// Do not touch disk either.
    pub hot: bool,
    /// Queued calls: may be held back until [`Queue::submit`](crate::Queue::submit), to start many as one batch.  Waiting for one of them
    /// starts them too.
    pub more: bool,
    /// Prefetch, without a queue: wait for nothing; nobody hears of what does not arrive.
    pub detach: bool,
    /// The trace id of spans; 0: none.
    pub trace: u128,
}

impl Call {
    /// All defaults: what the methods of the handles use.
    pub const DEFAULT: Self =
        Self { timeout: None, local: false, hot: false, more: false, detach: false, trace: 0 };

    fn raw(&self) -> sys::kvc_call {
        let mut raw = sys::kvc_call::init();
        for (set, bit) in [(self.local, sys::KVC_CALL_LOCAL), (self.hot, sys::KVC_CALL_HOT)] {
            raw.flags |= if set { bit } else { 0 };
        }
        raw.timeout_us = micros(self.timeout);
        raw.trace_high = (self.trace >> 64) as u64;
        raw.trace_low = self.trace as u64;
        raw
    }

    /// For a call that blocks.
    pub(crate) fn blocking(&self) -> RawCall {
        if *self == Self::DEFAULT {
            return RawCall(None);
        }
        let mut raw = self.raw();
        raw.flags |= if self.detach { sys::KVC_CALL_DETACH } else { 0 };
        RawCall(Some(raw))
    }

    /// For a call in a queue.
    pub(crate) fn queued(&self, queue: *mut sys::kvc_queue, user: u64) -> sys::kvc_call {
        let mut raw = self.raw();
        raw.flags |= if self.more { sys::KVC_CALL_MORE } else { 0 };
        raw.queue = queue;
        raw.user = user;
        raw
    }
}

/// NULL with all defaults, which costs the library least.
pub(crate) struct RawCall(Option<sys::kvc_call>);

impl RawCall {
    pub(crate) fn pointer(&self) -> *const sys::kvc_call {
        self.0.as_ref().map_or(std::ptr::null(), std::ptr::from_ref)
    }
}
