//! The task of a tokio runtime that takes results as they come.

use super::{QueueInner, lock};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;

/// What tokio has in place of the deprecated function is of 1.54, and asks for a promise that an [`OwnedFd`] keeps.
#[allow(deprecated)]
fn register(fd: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, Interest::READABLE)
}

/// Sets the task into the runtime that this is called in, unless there is one.
pub(super) fn attach(queue: &Arc<QueueInner>) {
    let mut driver = lock(&queue.driver);
    if driver.as_ref().is_some_and(|task| !task.is_finished()) {
        return;
    }
    let Ok(runtime) = Handle::try_current() else { return };
    // The runtime's own: it may be closed there after the queue is gone.
    let Ok(fd) = queue.fd().map(|fd| fd.try_clone_to_owned()) else { return };
    let Ok(Ok(fd)) = fd.map(register) else { return };
    *driver = Some(runtime.spawn(drive(fd, Arc::downgrade(queue))).abort_handle());
}

async fn drive(fd: AsyncFd<OwnedFd>, queue: Weak<QueueInner>) {
    while let Ok(mut ready) = fd.readable().await {
        // Before the look: what comes after it makes the descriptor ready again.
        ready.clear_ready();
        let Some(queue) = queue.upgrade() else { return };
        // The descriptor stays readable while events wait, and tells nothing new then.
        queue.take_events();
        if queue.drain(Duration::ZERO).is_err() {
            return;
        }
    }
}
