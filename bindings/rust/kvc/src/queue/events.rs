//! What happens to chunks, as it happens.

use super::{Queue, QueueInner, lock};
use crate::error::{Result, check};
use crate::scope::Scope;
use crate::types::{EventKind, Tier};
use kvc_sys as sys;
use std::collections::VecDeque;

/// Events that nobody has taken; more are dropped, and said to be lost.
const EVENTS_MAX: usize = 1 << 16;
const BATCH: usize = 64;

/// Something happened to a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// Where the chunk was.
    pub tier_from: Option<Tier>,
    /// Where it is.
    pub tier_to: Option<Tier>,
    /// Rises by one in a queue; a gap means loss.
    pub sequence_number: u64,
    /// Stored: first position of the chunk.
    pub token_begin: u64,
    /// Stored: its ids.
    pub tokens: Vec<i32>,
    /// Fingerprint of its scope.
    pub scope: [u8; 32],
    /// Its name.
    pub chunk: [u8; 32],
    /// Stored: the name of the chunk before it; of the first: the scope's fingerprint.
    pub parent: [u8; 32],
}

impl Event {
    /// # Safety
    ///
    /// The event's tokens are lent yet.
    unsafe fn of(raw: &sys::kvc_event) -> Self {
        let tokens = if raw.tokens.is_null() {
            Vec::new()
        } else {
            // SAFETY: this function's own rule.
            unsafe { std::slice::from_raw_parts(raw.tokens, raw.token_count as usize) }.to_vec()
        };
        Self {
            kind: EventKind::from_bits(raw.kind),
            tier_from: Tier::from_raw(raw.tier_from),
            tier_to: Tier::from_raw(raw.tier_to),
            sequence_number: raw.sequence_number,
            token_begin: raw.token_begin,
            tokens,
            scope: raw.scope,
            chunk: raw.chunk,
            parent: raw.parent,
        }
    }

    fn lost(sequence_number: u64) -> Self {
        Self {
            kind: EventKind::LOST,
            tier_from: None,
            tier_to: None,
            sequence_number,
            token_begin: 0,
            tokens: Vec::new(),
            scope: [0; 32],
            chunk: [0; 32],
            parent: [0; 32],
        }
    }
}

/// Those taken from the library that nobody has asked for yet.
#[derive(Default)]
pub(super) struct Events {
    is_watching: bool,
    waiting: VecDeque<Event>,
    #[cfg(feature = "tokio")]
    wakers: Vec<std::task::Waker>,
}

impl Events {
    fn push(&mut self, event: Event) {
        if self.waiting.len() >= EVENTS_MAX {
            self.waiting.clear();
            self.waiting.push_back(Event::lost(event.sequence_number));
            return;
        }
        self.waiting.push_back(event);
    }

    fn fill(&mut self, queue: &QueueInner) -> Result<()> {
        let mut batch = [sys::kvc_event::init(); BATCH];
        loop {
            let mut count = 0;
            // SAFETY: as many events are there as is said, of the size of the first.
            check(|error| unsafe {
                sys::kvc_event_drain(
                    batch.as_mut_ptr(),
                    BATCH,
                    &raw mut count,
                    queue.handle.0,
                    error,
                )
            })?;
            for raw in &batch[..count] {
                // SAFETY: the tokens are lent until the next drain, which takes the lock that this is under.
                self.push(unsafe { Event::of(raw) });
            }
            if count < BATCH {
                return Ok(());
            }
        }
    }
}

impl QueueInner {
    /// Off the library, so that its descriptor tells of results again.
    #[cfg(feature = "tokio")]
    pub(super) fn take_events(&self) {
        let mut events = lock(&self.events);
        if !events.is_watching || events.fill(self).is_err() || events.waiting.is_empty() {
            return;
        }
        let wakers = std::mem::take(&mut events.wakers);
        drop(events);
        let _ = super::each(wakers, std::task::Waker::wake); // a panic is of one who waits
    }
}

impl Queue {
    /// Sends events of a scope here, from now on and in the order in which things happened; `None`: of all that were not named one by one.
    /// The kinds replace those before; [`EventKind::NONE`] ends it.  Whoever takes a chunk for held from its `STORED` until its `REMOVED`, or
    /// that of one it descends from, or a `CLEARED` of its scope, knows what a match finds.
    ///
    /// # Errors
    ///
    /// [`Full`](crate::ErrorKind::Full): too many scopes one by one.
    pub fn watch(&self, scope: Option<&Scope>, kinds: EventKind) -> Result<()> {
        let scope = scope.map_or(std::ptr::null_mut(), Scope::raw);
        lock(&self.inner.events).is_watching = true;
        // SAFETY: the handles are alive.
        check(|error| unsafe {
            sys::kvc_event_watch(self.inner.handle.0, scope, kinds.bits(), error)
        })
    }

    /// Takes events.  Does not wait.
    ///
    /// # Errors
    ///
    /// [`Forked`](crate::ErrorKind::Forked): it is the parent's.
    pub fn events(&self) -> Result<Vec<Event>> {
        let mut events = lock(&self.inner.events);
        events.fill(&self.inner)?;
        Ok(events.waiting.drain(..).collect())
    }

    /// Waits for events and takes them.
    ///
    /// # Errors
    ///
    /// As [`events`](Self::events).
    #[cfg(feature = "tokio")]
    pub async fn next_events(&self) -> Result<Vec<Event>> {
        use std::task::Poll;
        std::future::poll_fn(|context| {
            self.inner.drive();
            let mut events = lock(&self.inner.events);
            if let Err(error) = events.fill(&self.inner) {
                return Poll::Ready(Err(error));
            }
            if !events.waiting.is_empty() {
                return Poll::Ready(Ok(events.waiting.drain(..).collect()));
            }
            if !events.wakers.iter().any(|kept| kept.will_wake(context.waker())) {
                events.wakers.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }
}
