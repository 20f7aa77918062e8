//! Calls that do not block.

mod calls;
#[cfg(feature = "tokio")]
mod driver;
mod events;
mod object_calls;
mod pending;

pub use events::Event;
pub use object_calls::Item;
pub use pending::Pending;

use crate::call::Call;
use crate::error::{Error, ErrorKind, Result, check, text};
use crate::lease::Lease;
use crate::seq::Seq;
use crate::store::{Store, StoreInner};
use crate::types::{Handle, Report, micros};
use events::Events;
use kvc_sys as sys;
use pending::{Job, Settle};
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long one of several threads that wait is in the library before it looks whether another took its result.
const SLICE: Duration = Duration::from_millis(20);
const RESULTS: usize = 16;

/// Limits of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueOptions {
    /// Calls in flight; 0: 256.  Over it a call ends at once with [`Busy`](ErrorKind::Busy).
    pub depth: u32,
    /// Room for copies of descriptions, lists, block tables and keys; 0: 1 MiB.  Over it: as above.
    pub description_bytes: u64,
}

/// Calls that do not block: each is started at once and comes back as a [`Pending`], which is awaited, or waited for.  A cheap clone, for
/// any thread; made by [`Store::queue`].
///
/// Memory is given to a call, as `Vec<T>` or another [`Buffer`](crate::Buffer), and comes back with what the call came to.  It is kept
/// until the library is done with it, whatever becomes of the [`Pending`].
///
/// Calls on one sequence run one at a time, in the order they were made; others side by side.  A blocking call on that sequence waits for
/// them.
///
/// Results are taken from the library by whoever awaits with the feature `tokio`, by [`Pending::wait`], and by [`drain`](Self::drain).
/// When the last clone and the last [`Pending`] are dropped, what is in flight is cancelled, and the drop waits until no memory is in use.
///
/// ```
/// use kvc::{QueueOptions, Rows, SeqOptions, Strides};
/// # fn main() -> kvc::Result<()> {
/// # let store = kvc::Store::open("mem:", &kvc::StoreOptions { memory_bytes: 8 << 20, ..Default::default() })?;
/// # let shape = kvc::Shape::new(kvc::DType::F32, [kvc::Layer::full(1, 1, 4)]);
/// # let scope = store.scope(&kvc::ScopeOptions { model: "m", shape: Some(&shape), ..Default::default() })?;
/// let queue = store.queue(&QueueOptions::default())?;
/// let mut seq = scope.seq(&SeqOptions::default())?;
/// let rows = Rows::new(0..1, 0..2);
/// let appended = queue.append(&mut seq, &[5, 6], &rows, (vec![1f32; 8], vec![2f32; 8]));
/// let gathered = queue.gather(&seq, &rows, (vec![0f32; 8], vec![0f32; 8])); // runs behind the append
/// appended.wait().1?;
/// let ((k, v), report) = gathered.wait();
/// assert_eq!((report?.done, k[7], v[7]), (2, 1.0, 2.0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Queue {
    inner: Arc<QueueInner>,
    call: Call,
}

pub(crate) struct QueueInner {
    handle: Handle<sys::kvc_queue>,
    store: Arc<StoreInner>,
    table: Mutex<Table>,
    next_user: AtomicU64,
    /// Some calls may be held back.
    is_holding: AtomicBool,
    /// One of the threads that wait is in the library; the others wait for it.
    is_draining: Mutex<bool>,
    settled: Condvar,
    events: Mutex<Events>,
    #[cfg(feature = "tokio")]
    driver: Mutex<driver::Driver>,
}

#[derive(Default)]
struct Table {
    /// What is in flight, by the number that the library knows it by.
    jobs: HashMap<u64, Arc<dyn Settle>>,
    /// Threads of a forked child that are settling what was in here.
    abandoning: usize,
}

/// As of a store; and every lock is taken whatever became of who held it before.
impl std::panic::RefUnwindSafe for QueueInner {}

impl std::fmt::Debug for QueueInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueueInner").field("handle", &self.handle.0).finish_non_exhaustive()
    }
}

/// What a call gave that went well.
pub(crate) struct Given {
    report: Report,
    seq: Option<Seq>,
    lease: Option<Lease>,
}

/// A lock whose holder panicked guards nothing that is left half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does it to each, of which a panic must not lose the others: what is let go of and woken there is the host's.  The last panic is given.
fn each<T>(of: impl IntoIterator<Item = T>, does: impl Fn(T)) -> std::thread::Result<()> {
    let mut out = Ok(());
    for one in of {
        out = catch_unwind(AssertUnwindSafe(|| does(one))).and(out);
    }
    out
}

impl Queue {
    pub(crate) fn create(store: &Store, options: &QueueOptions) -> Result<Self> {
        let mut raw = sys::kvc_queue_options::init();
        raw.depth = options.depth;
        raw.description_bytes = options.description_bytes;
        let mut out = std::ptr::null_mut();
        // SAFETY: `out` is filled.
        check(|error| unsafe {
            sys::kvc_queue_create(&raw mut out, store.raw(), &raw const raw, error)
        })?;
        let inner = QueueInner {
            handle: Handle(out),
            store: Arc::clone(&store.0),
            table: Mutex::default(),
            next_user: AtomicU64::new(1),
            is_holding: AtomicBool::new(false),
            is_draining: Mutex::new(false),
            settled: Condvar::new(),
            events: Mutex::default(),
            #[cfg(feature = "tokio")]
            driver: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner), call: Call::DEFAULT })
    }

    /// The same queue, whose calls run so.
    #[must_use]
    pub fn with(&self, call: Call) -> Self {
        Self { inner: Arc::clone(&self.inner), call }
    }

    /// A descriptor that is readable while results or events wait.  Poll it; do not read or close it.
    ///
    /// # Errors
    ///
    /// [`Forked`](ErrorKind::Forked): it is the parent's.
    pub fn fd(&self) -> Result<BorrowedFd<'_>> {
        self.inner.fd()
    }

    /// Starts what [`Call::more`] held back.  Draining and waiting do so too.
    ///
    /// # Errors
    ///
    /// [`Forked`](ErrorKind::Forked): it is the parent's.
    pub fn submit(&self) -> Result<()> {
        self.inner.submit()
    }

    /// Takes results, and tells how many: the calls they belong to are done then, and those who await them are woken.  `wait`: for the first,
    /// so long; zero: not at all.  On a store that is [`host_driven`](crate::StoreOptions::host_driven) it does the work itself.
    ///
    /// # Errors
    ///
    /// [`Forked`](ErrorKind::Forked): it is the parent's; all that was in flight there ends here.
    pub fn drain(&self, wait: Duration) -> Result<usize> {
        self.inner.drain(wait)
    }

    /// Calls whose results were not taken yet.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        lock(&self.inner.table).jobs.len()
    }

    /// Starts a call: `prepare` takes addresses in what is lent, which stays where it is from then on, and `call` is the library's.
    fn start<L, T, P>(
        &self,
        lent: L,
        finish: fn(L, Result<Given>) -> T,
        prepare: impl FnOnce(&mut L) -> Result<P>,
        call: impl FnOnce(&P, *const sys::kvc_call, *mut sys::kvc_error) -> i32,
    ) -> Pending<T>
    where
        L: Send + 'static,
        T: Send + 'static,
    {
        let inner = &self.inner;
        let user = inner.next_user.fetch_add(1, Ordering::Relaxed);
        let job = Job::new(lent, finish);
        match job.prepare(prepare) {
            Err(error) => job.settle(Err(error)),
            Ok(prepared) => {
                lock(&inner.table).jobs.insert(user, job.clone());
                let raw = self.call.queued(inner.handle.0, user);
                // Before the call: somebody who waits may start it as soon as it is made.
                inner.is_holding.fetch_or(self.call.more, Ordering::AcqRel);
                if let Err(error) = check(|out| call(&prepared, &raw const raw, out)) {
                    // The library promises no result then.  In a forked child whoever drains may have ended it.
                    let is_ours = lock(&inner.table).jobs.remove(&user).is_some();
                    if is_ours {
                        job.settle(Err(error));
                    }
                }
            }
        }
        Pending::of(Arc::clone(inner), job, user)
    }
}

impl QueueInner {
    fn fd(&self) -> Result<BorrowedFd<'_>> {
        let mut fd = -1;
        // SAFETY: the descriptor is filled, and lent until the queue is released.
        unsafe {
            check(|error| sys::kvc_queue_fd(&raw mut fd, self.handle.0, error))?;
            Ok(BorrowedFd::borrow_raw(fd))
        }
    }

    fn submit(&self) -> Result<()> {
        self.is_holding.store(false, Ordering::Release);
        // SAFETY: the handle is this queue's.
        check(|error| unsafe { sys::kvc_queue_submit(self.handle.0, error) })
    }

    fn cancel(&self, user: u64) -> Result<()> {
        // SAFETY: the handle is this queue's.
        check(|error| unsafe { sys::kvc_queue_cancel(self.handle.0, user, error) })
    }

    fn drain(&self, wait: Duration) -> Result<usize> {
        let mut wait = if wait.is_zero() { 0 } else { micros(Some(wait)) };
        let mut results = [sys::kvc_result::init(); RESULTS];
        let mut total = 0;
        loop {
            let mut count = 0;
            // SAFETY: as many results are there as is said, of the size of the first.
            let drained = check(|error| unsafe {
                let (at, count) = (results.as_mut_ptr(), &raw mut count);
                sys::kvc_queue_drain(at, RESULTS, count, self.handle.0, wait, error)
            });
            if let Err(error) = drained {
                if error.kind() == ErrorKind::Forked {
                    self.abandon();
                }
                return Err(error);
            }
            self.settle(&results[..count]);
            (total, wait) = (total + count, 0);
            if count < RESULTS {
                return Ok(total);
            }
        }
    }

    fn settle(&self, results: &[sys::kvc_result]) {
        if results.is_empty() {
            return;
        }
        let mut table = lock(&self.table);
        let ended: Vec<_> =
            results.iter().map(|raw| (table.jobs.remove(&raw.user), self.given(raw))).collect();
        drop(table);
        let settled = each(ended, |(job, given)| {
            if let Some(job) = job {
                job.settle(given);
            }
        });
        self.tell();
        settled.unwrap_or_else(|payload| resume_unwind(payload));
    }

    /// Wakes the threads that wait for one of them.
    fn tell(&self) {
        drop(lock(&self.is_draining)); // who looked before this settled waits by now
        self.settled.notify_all();
    }

    fn given(&self, raw: &sys::kvc_result) -> Result<Given> {
        let seq = (!raw.seq.is_null()).then(|| Seq::of(raw.seq, &self.store));
        let lease = (!raw.lease.is_null()).then(|| Lease::of(raw.lease, &self.store));
        if raw.status != sys::KVC_OK {
            let message = text(&raw.message);
            return Err(Error::new(raw.status, raw.retry, raw.system_error, message, raw.done));
        }
        Ok(Given { report: Report::of(raw), seq, lease })
    }

    /// In a forked child: the parent's calls run in the parent, on its own copy of what they were lent.
    fn abandon(&self) {
        let mut table = lock(&self.table);
        let jobs = std::mem::take(&mut table.jobs);
        table.abandoning += 1;
        drop(table);
        let settled = each(jobs.into_values(), |job| {
            job.settle(Err(Error::of_kind(ErrorKind::Forked, "the call is the parent process's")));
        });
        lock(&self.table).abandoning -= 1;
        self.tell();
        settled.unwrap_or_else(|payload| resume_unwind(payload));
    }

    /// In a forked child: a thread of the parent, which is not here, was ending the call.
    fn is_lost(&self, user: u64, is_done: impl Fn() -> bool) -> bool {
        let table = lock(&self.table);
        table.abandoning == 0 && !table.jobs.contains_key(&user) && !is_done()
    }

    /// Gets on with what was started, before somebody waits for it.
    fn drive(self: &Arc<Self>) {
        if self.is_holding.load(Ordering::Acquire) {
            let _ = self.submit();
        }
        if self.store.host_driven {
            let _ = self.drain(Duration::ZERO);
        }
        #[cfg(feature = "tokio")]
        driver::attach(self);
    }

    /// Drains until it is done.  Of several threads one is in the library, and settles what the others wait for.
    fn wait_until(&self, user: u64, is_done: impl Fn() -> bool) {
        struct Turn<'a>(&'a QueueInner);

        impl Drop for Turn<'_> {
            fn drop(&mut self) {
                *lock(&self.0.is_draining) = false;
                self.0.settled.notify_all();
            }
        }

        let mut is_draining = lock(&self.is_draining);
        while !is_done() {
            if *is_draining {
                let waited = self.settled.wait_timeout(is_draining, SLICE);
                is_draining = waited.unwrap_or_else(PoisonError::into_inner).0;
                // In a forked child the turn may be of a thread that is not here.
                *is_draining &= self.fd().is_ok();
                continue;
            }
            *is_draining = true;
            drop(is_draining);
            let turn = Turn(self);
            let drained = self.drain(SLICE);
            drop(turn);
            if let Err(error) = drained {
                assert!(error.kind() == ErrorKind::Forked, "kvc_queue_drain: {error}");
                assert!(
                    !self.is_lost(user, &is_done),
                    "the parent was ending the call as it forked"
                );
            }
            is_draining = lock(&self.is_draining);
        }
    }
}

impl Drop for QueueInner {
    fn drop(&mut self) {
        // SAFETY: it is released once, and waits until nothing that was lent is in use.
        let status = unsafe { sys::kvc_queue_release(self.handle.0, std::ptr::null_mut()) };
        #[cfg(feature = "tokio")]
        if status != sys::KVC_ERR_FORKED {
            lock(&self.driver).abort(); // in a forked child it is the parent's, as is its runtime
        }
        if !matches!(status, sys::KVC_OK | sys::KVC_ERR_STALE | sys::KVC_ERR_FORKED) {
            std::mem::forget(std::mem::take(&mut lock(&self.table).jobs)); // it may be in use
        }
    }
}
