//! Where log lines go.

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::{fmt, mem};

/// How loud a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Checks that failed, traces that could not be written.
    Error = 1,
    /// Refusals for want of memory, leases that lapsed, events that were dropped.
    Warning = 2,
    /// A store opened and closed.
    Info = 3,
    /// Everything else.
    Debug = 4,
}

/// Takes the log lines of a store: [`StoreOptions::log`](crate::StoreOptions::log).
///
/// It is called on any thread, also on one that is inside a call: it must not use kvc, and should not block.  A panic in it goes no
/// further, and loses its line.
///
/// ```
/// use kvc::{Level, Log, Store, StoreOptions};
/// # fn main() -> kvc::Result<()> {
/// let log = Log::new(|level, line| eprintln!("kvc {level:?}: {line}"));
/// let options = StoreOptions { log: Some(log), log_level: Some(Level::Info), ..Default::default() };
/// # let options = StoreOptions { memory_bytes: 4 << 20, ..options };
/// let store = Store::open("mem:", &options)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Log(Arc<Sink>);

type Sink = dyn Fn(Level, &str) + Send + Sync;

impl Log {
    /// Of a closure, which lives until the store is closed.
    pub fn new(log: impl Fn(Level, &str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(log))
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

/// # Safety
///
/// `line` is a terminated text, and `context` a [`Log`] that lives as long as the store does.
pub(crate) unsafe extern "C" fn on_line(level: u32, line: *const c_char, context: *mut c_void) {
    let level = match level {
        0 | 1 => Level::Error,
        2 => Level::Warning,
        3 => Level::Info,
        _ => Level::Debug,
    };
    let caught = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: this function's own rule.
        let (log, line) = unsafe { (&*context.cast::<Log>(), CStr::from_ptr(line)) };
        (log.0)(level, &line.to_string_lossy());
    }));
    if let Err(payload) = caught {
        mem::forget(payload); // its drop may panic again
    }
}
