//! The task of a tokio runtime that takes results as they come.

use super::{QueueInner, lock};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Handle, Id};
use tokio::task::AbortHandle;

#[derive(Default)]
pub(super) struct Driver {
    task: Option<AbortHandle>,
    /// The runtime that was last found to be without I/O: tokio tells it by a panic, which is to be seen once.
    without_io: Option<Id>,
}

impl Driver {
    pub(super) fn abort(&self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// What tokio has in place of the deprecated function is of 1.54, and asks for a promise that an [`OwnedFd`] keeps.
#[allow(deprecated)]
fn register(fd: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, Interest::READABLE)
}

/// Sets the task into the runtime that this is called in, unless there is one, or the runtime is without I/O.
pub(super) fn attach(queue: &Arc<QueueInner>) {
    let mut driver = lock(&queue.driver);
    if driver.task.as_ref().is_some_and(|task| !task.is_finished()) {
        return;
    }
    let Ok(runtime) = Handle::try_current() else { return };
    if driver.without_io == Some(runtime.id()) {
        return;
    }
    // The runtime's own: it may be closed there after the queue is gone.
    let Ok(fd) = queue.fd().map(|fd| fd.try_clone_to_owned()) else { return };
    let Ok(fd) = fd else { return };
    match catch_unwind(|| register(fd)) {
        Ok(Ok(fd)) => {
            driver.task = Some(runtime.spawn(drive(fd, Arc::downgrade(queue))).abort_handle());
        }
        Ok(Err(_)) => {}
        Err(_) => driver.without_io = Some(runtime.id()),
    }
}

async fn drive(fd: AsyncFd<OwnedFd>, queue: Weak<QueueInner>) {
    while let Ok(mut ready) = fd.readable().await {
        // Before the look: what comes after it makes the descriptor ready again.
        ready.clear_ready();
        let Some(queue) = queue.upgrade() else { return };
        // The descriptor stays readable while events wait, and tells nothing new then.
        queue.take_events();
        // A panic is of something of the host's, which has been told of it, and others wait for the results behind.
        loop {
            match catch_unwind(AssertUnwindSafe(|| queue.drain(Duration::ZERO))) {
                Ok(Ok(_)) => break,
                Ok(Err(_)) => return,
                Err(_) => {}
            }
        }
    }
}
