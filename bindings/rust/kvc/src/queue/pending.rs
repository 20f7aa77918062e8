//! One call in a queue, until its result was taken.

use super::{Given, QueueInner, lock};
use crate::error::Result;
use std::cell::UnsafeCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// The side of a call that its result comes to.
pub(crate) trait Settle: Send + Sync {
    /// Once, when the library is done with what was lent.
    fn settle(&self, given: Result<Given>);
}

/// The side of a call that somebody waits at.
pub(crate) trait Await<T>: Send + Sync {
    /// What it came to, once; else the waker is kept, if there is one.
    fn take(&self, waker: Option<&Waker>) -> Option<T>;
    fn is_done(&self) -> bool;
}

enum State<T> {
    Waiting(Option<Waker>),
    Done(Option<T>),
}

/// What was lent stays in here, at one address, from before the call until its result.
pub(crate) struct Job<L, T> {
    lent: UnsafeCell<Option<L>>,
    finish: fn(L, Result<Given>) -> T,
    state: Mutex<State<T>>,
}

// SAFETY: `lent` is touched by `prepare`, before anybody else knows the job, and by `settle`, which runs once and after that: whoever
// calls it found the job in the queue's table and took it out, or never put it there.  Everything else is behind the lock.
unsafe impl<L: Send, T: Send> Sync for Job<L, T> {}

impl<L, T> Job<L, T> {
    pub(super) fn new(lent: L, finish: fn(L, Result<Given>) -> T) -> Arc<Self> {
        let state = Mutex::new(State::Waiting(None));
        Arc::new(Self { lent: UnsafeCell::new(Some(lent)), finish, state })
    }

    pub(super) fn prepare<P>(&self, prepare: impl FnOnce(&mut L) -> Result<P>) -> Result<P> {
        // SAFETY: nobody else knows the job yet.
        prepare(unsafe { (*self.lent.get()).as_mut() }.expect("a new job has what it was lent"))
    }
}

impl<L: Send, T: Send> Settle for Job<L, T> {
    fn settle(&self, given: Result<Given>) {
        // SAFETY: it is called once, when the library is done with it.
        let lent = unsafe { (*self.lent.get()).take() }.expect("a call has one result");
        let value = (self.finish)(lent, given);
        let before = std::mem::replace(&mut *lock(&self.state), State::Done(Some(value)));
        if let State::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl<L: Send, T: Send> Await<T> for Job<L, T> {
    fn take(&self, waker: Option<&Waker>) -> Option<T> {
        match &mut *lock(&self.state) {
            State::Done(value) => Some(value.take().expect("a call is awaited once")),
            State::Waiting(kept) => {
                if let Some(waker) = waker {
                    match kept {
                        Some(kept) => kept.clone_from(waker),
                        None => *kept = Some(waker.clone()),
                    }
                }
                None
            }
        }
    }

    fn is_done(&self) -> bool {
        matches!(*lock(&self.state), State::Done(_))
    }
}

/// A call in a [`Queue`](crate::Queue).  It is a future of any executor; with the feature `tokio`, and awaited in a runtime with I/O, it needs
/// nothing else.  Without that somebody has to [`drain`](crate::Queue::drain), or [`wait`](Self::wait).
/// (Tokio tells of a runtime without I/O by a panic.  It goes no further, in a program whose panics unwind; its message is seen once.)
///
/// The first await in a runtime sets a task there that takes results, for as long as queue and runtime live: as with all of tokio's I/O,
/// that runtime has to run for awaits elsewhere to go on.
///
/// Dropping it asks the call to stop, as [`cancel`](Self::cancel) does: what has begun runs to its end.  [`detach`](Self::detach) lets it
/// run on.  What the call was given is kept until the library is done with it in either case.
#[must_use = "a call that is dropped is asked to stop: await it, wait for it, or detach it"]
pub struct Pending<T> {
    queue: Arc<QueueInner>,
    job: Arc<dyn Await<T>>,
    user: u64,
    is_let_go: bool,
}

impl<T> std::fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").field("user", &self.user).finish_non_exhaustive()
    }
}

impl<T> Pending<T> {
    pub(super) fn of(queue: Arc<QueueInner>, job: Arc<dyn Await<T>>, user: u64) -> Self {
        Self { queue, job, user, is_let_go: false }
    }

    /// Its result was taken: an await of it does not wait.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.job.is_done()
    }

    /// Asks it to stop; it is done when its result was taken, [`Cancelled`](crate::ErrorKind::Cancelled) if it had not begun.  False: it had
    /// ended already.
    pub fn cancel(&self) -> bool {
        self.queue.cancel(self.user).is_ok()
    }

    /// Lets it run on, with nobody to hear what it comes to.
    pub fn detach(mut self) {
        self.is_let_go = true;
    }

    /// Blocks until it is done, and gives what it came to.
    ///
    /// # Panics
    ///
    /// After it was awaited to its end.  In a forked child, if a thread of the parent was just taking its result.
    #[must_use]
    pub fn wait(mut self) -> T {
        loop {
            if let Some(value) = self.job.take(None) {
                self.is_let_go = true;
                return value;
            }
            self.queue.wait_until(self.user, || self.job.is_done());
        }
    }
}

impl<T> Future for Pending<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        let mut taken = this.job.take(Some(context.waker()));
        if taken.is_none() {
            this.queue.drive();
            taken = this.job.take(None);
        }
        if let Some(value) = taken {
            this.is_let_go = true;
            return Poll::Ready(value);
        }
        if this.queue.store.host_driven {
            context.waker().wake_by_ref(); // it waits for other work, which nobody else may do
        }
        Poll::Pending
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if !self.is_let_go && !self.is_done() {
            self.cancel();
        }
    }
}
