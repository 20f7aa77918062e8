//! Why a call failed.

use crate::store::VerifyInfo;
use kvc_sys as sys;
use std::ffi::CStr;
use std::{fmt, io};

/// What calls give.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $status:ident,)*) => {
        /// The status of a failure.  [`ErrorKind::family`] is what a host branches on; the single kind is for what it handles apart.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(#[$doc])* $variant,)*
            /// A status of a later library.
            Other(i32),
        }

        impl ErrorKind {
            pub(crate) fn from_status(status: i32) -> Self {
                match status {
                    $(sys::$status => Self::$variant,)*
                    other => Self::Other(other),
                }
            }

            /// The number in C, as in `kvc/error.h`.
            #[must_use]
            pub fn status(self) -> i32 {
                match self {
                    $(Self::$variant => sys::$status,)*
                    Self::Other(status) => status,
                }
            }
        }
    };
}

kinds! {
    /// Zero, an unknown number, an overflow, overlapping elements.
    Argument = KVC_ERR_ARGUMENT,
    /// A layer, head or position past what there is; a gap in an append; memory that is too short.
    Range = KVC_ERR_RANGE,
    /// Geometry, dtype or layout does not fit the scope's shape.
    Shape = KVC_ERR_SHAPE,
    /// A flag or member that the library does not know yet.
    TooNew = KVC_ERR_TOO_NEW,
    /// A handle of another store, two writers, a call that its object cannot take.
    Misuse = KVC_ERR_MISUSE,
    /// The handle was released, or its store closed.
    Stale = KVC_ERR_STALE,
    /// The handle is of the parent process.
    Forked = KVC_ERR_FORKED,
    /// No such name, key or file.
    NotFound = KVC_ERR_NOT_FOUND,
    /// Rows that are no longer held: evicted after a lapse, outside a window, failed their check.
    Gone = KVC_ERR_GONE,
    /// The name is taken by other content.
    Exists = KVC_ERR_EXISTS,
    /// A file is damaged, and nothing of it was used; or a check found what is damaged.
    Corrupt = KVC_ERR_CORRUPT,
    /// A state layer holds no snapshot at that position.
    NoSnapshot = KVC_ERR_NO_SNAPSHOT,
    /// A limit of the store, or of the scope's quota.
    Full = KVC_ERR_FULL,
    /// The system refused memory.
    NoMemory = KVC_ERR_NO_MEMORY,
    /// It is held, or a queue is full.
    Busy = KVC_ERR_BUSY,
    /// The tier stopped taking writes.
    ReadOnly = KVC_ERR_READ_ONLY,
    /// A node, device or driver is not there now.
    Unavailable = KVC_ERR_UNAVAILABLE,
    /// The call's deadline passed.
    Timeout = KVC_ERR_TIMEOUT,
    /// It was cancelled, or its queue was dropped.
    Cancelled = KVC_ERR_CANCELLED,
    /// A wrong key or tenant.
    Denied = KVC_ERR_DENIED,
    /// This store, build, format or kind of memory cannot.
    Unsupported = KVC_ERR_UNSUPPORTED,
    /// A file, directory or peer of another version.
    Version = KVC_ERR_VERSION,
    /// The system failed: [`Error::os_error`] is the errno, [`std::error::Error::source`] the [`io::Error`].
    Io = KVC_ERR_IO,
    /// A driver failed: [`Error::os_error`] is its code.
    Device = KVC_ERR_DEVICE,
    /// A check inside the library failed: please report the message.
    Internal = KVC_ERR_INTERNAL,
}

/// What a host does about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Family {
    /// A value is wrong: fix the call.
    Argument,
    /// A handle or an order is wrong: fix the host.
    Misuse,
    /// It is not there (any more): recompute, or do without.
    Data,
    /// A limit is reached: release something, wait, or do without.
    Room,
    /// Not now, not from here: later, elsewhere, or recompute.
    Reach,
    /// Never, with this build or store: take another way.
    Ability,
    /// The system or a driver failed.
    System,
    /// A bug of kvc: report it.
    Bug,
}

impl ErrorKind {
    /// What a host does about it.
    #[must_use]
    pub fn family(self) -> Family {
        match self.status() / -10 {
            1 => Family::Argument,
            2 => Family::Misuse,
            3 => Family::Data,
            4 => Family::Room,
            5 => Family::Reach,
            6 => Family::Ability,
            7 => Family::System,
            _ => Family::Bug,
        }
    }

    /// The name of the constant in C, as `KVC_ERR_FULL`.
    #[must_use]
    pub fn name(self) -> &'static str {
        // SAFETY: the text is static and terminated, whatever the number.
        unsafe { CStr::from_ptr(sys::kvc_status_name(self.status())) }.to_str().unwrap_or("")
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for ErrorKind {}

/// What is worth doing after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Retry {
    /// The same call will fail again.
    Never,
    /// The same call may succeed at once.
    Now,
    /// The same call may succeed after a pause, or after something was released.
    Later,
    /// The data is gone: compute it and append it.
    Recompute,
}

impl Retry {
    fn from_raw(raw: u32) -> Self {
        match raw {
            sys::KVC_RETRY_NOW => Self::Now,
            sys::KVC_RETRY_LATER => Self::Later,
            sys::KVC_RETRY_RECOMPUTE => Self::Recompute,
            _ => Self::Never,
        }
    }
}

/// Why a call failed.  One pointer wide, `Send` and `Sync`; its text is one line for people, whose wording may change.
///
/// ```
/// # fn main() -> kvc::Result<()> {
/// let failed = kvc::Store::open("file:/nowhere", &kvc::StoreOptions::default()).unwrap_err();
/// assert_eq!(failed.kind(), kvc::ErrorKind::Unsupported);
/// assert_eq!(failed.kind().family(), kvc::Family::Ability);
/// # Ok(())
/// # }
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    retry: Retry,
    system_error: i32,
    done: u64,
    message: Box<str>,
    source: Option<io::Error>,
    verified: Option<VerifyInfo>,
}

impl Error {
    #[cold]
    pub(crate) fn new(
        status: i32,
        retry: u32,
        system_error: i32,
        message: &CStr,
        done: u64,
    ) -> Self {
        let kind = ErrorKind::from_status(status);
        let source = (system_error != 0 && kind != ErrorKind::Device)
            .then(|| io::Error::from_raw_os_error(system_error));
        Self(Box::new(Inner {
            kind,
            retry: Retry::from_raw(retry),
            system_error,
            done,
            message: message.to_string_lossy().into(),
            source,
            verified: None,
        }))
    }

    #[cold]
    pub(crate) fn from_raw(status: i32, error: &sys::kvc_error, done: u64) -> Self {
        Self::new(status, error.retry, error.system_error, text(&error.message), done)
    }

    /// Of this crate itself, about a value that C cannot see.
    #[cold]
    pub(crate) fn of_kind(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            retry: Retry::Never,
            system_error: 0,
            done: 0,
            message: message.into().into(),
            source: None,
            verified: None,
        }))
    }

    #[cold]
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::of_kind(ErrorKind::Argument, message)
    }

    pub(crate) fn with_verified(mut self, info: VerifyInfo) -> Self {
        self.0.verified = Some(info);
        self
    }

    /// The status.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What is worth doing.
    #[must_use]
    pub fn retry(&self) -> Retry {
        self.0.retry
    }

    /// One line: the value and the rule it broke.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The errno or the driver's code, where there is one.
    #[must_use]
    pub fn os_error(&self) -> Option<i32> {
        (self.0.system_error != 0).then_some(self.0.system_error)
    }

    /// The usable part of a call that moves something: rows below this position, or leading items, are right.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.0.done
    }

    /// What [`Store::verify`](crate::Store::verify) had found when it failed.
    #[must_use]
    pub fn verify_info(&self) -> Option<&VerifyInfo> {
        self.0.verified.as_ref()
    }

    /// Nothing of that name is there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }

    /// The rows are no longer held.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.kind() == ErrorKind::Gone
    }

    /// A limit is reached.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.kind() == ErrorKind::Full
    }

    /// As many calls are in flight as a queue takes, or something is held.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.kind() == ErrorKind::Busy
    }

    /// The deadline passed.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.kind() == ErrorKind::Timeout
    }

    /// It was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.kind() == ErrorKind::Cancelled
    }

    /// A cache that fails is a cache that misses: true where a host computes what it did not get.
    #[must_use]
    pub fn is_miss(&self) -> bool {
        matches!(self.kind().family(), Family::Data | Family::Reach)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Error");
        out.field("kind", &self.kind())
            .field("retry", &self.retry())
            .field("message", &self.message());
        if let Some(code) = self.os_error() {
            out.field("os_error", &code);
        }
        out.field("done", &self.done()).finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|error| error as _)
    }
}

/// An I/O error of the kind that the errno has, or of [`io::ErrorKind::Other`], that has the error inside: [`io::Error::get_ref`] gives it,
/// and its [`os_error`](Error::os_error) the errno, of which [`io::Error::raw_os_error`] says nothing then.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::NotFound => io::ErrorKind::NotFound,
            ErrorKind::Timeout => io::ErrorKind::TimedOut,
            _ => error.0.source.as_ref().map_or(io::ErrorKind::Other, io::Error::kind),
        };
        Self::new(kind, error)
    }
}

/// The text in an array of C, which is terminated.
pub(crate) fn text(chars: &[std::ffi::c_char]) -> &CStr {
    // SAFETY: c_char and u8 are of one size and every bit pattern is one of each.
    let bytes = unsafe { std::slice::from_raw_parts(chars.as_ptr().cast::<u8>(), chars.len()) };
    CStr::from_bytes_until_nul(bytes).unwrap_or_default()
}

/// Runs a call of C.
#[inline]
pub(crate) fn check(of: impl FnOnce(*mut sys::kvc_error) -> i32) -> Result<()> {
    let mut error = sys::kvc_error::init();
    let status = of(&raw mut error);
    if status == sys::KVC_OK { Ok(()) } else { Err(Error::from_raw(status, &error, 0)) }
}

/// Runs a call of C that fills a result.
pub(crate) fn check_result(
    of: impl FnOnce(*mut sys::kvc_result, *mut sys::kvc_error) -> i32,
) -> Result<sys::kvc_result> {
    let mut result = sys::kvc_result::init();
    let mut error = sys::kvc_error::init();
    let status = of(&raw mut result, &raw mut error);
    if status == sys::KVC_OK {
        Ok(result)
    } else {
        Err(Error::from_raw(status, &error, result.done))
    }
}
