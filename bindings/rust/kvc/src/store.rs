//! One cache with its limits.

use crate::call::Call;
use crate::error::{Error, ErrorKind, Result, check, text};
use crate::log::{Level, Log, on_line};
use crate::memory::Buffer;
use crate::queue::{Queue, QueueOptions};
use crate::region::Region;
use crate::scope::{Scope, ScopeOptions};
use crate::types::{Address, Features, Handle, State, micros, millis};
use kvc_sys as sys;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Limits and defaults of a store, fixed when it is opened.  All defaults are a good start: a quarter of the machine's memory.
#[derive(Clone, Debug, Default)]
pub struct StoreOptions {
    /// Memory for what is stored, reserved at once, touched on use; rounded up to 2 MiB; 0: a quarter of the machine's.
    pub memory_bytes: u64,
    /// Sequences at once; 0: 4096.
    pub seq_max: u32,
    /// Queues at once; 0: 64.
    pub queue_max: u32,
    /// Views at once; 0: 4096.
    pub view_max: u32,
    /// Threads of kvc, from the first queue on; 0: one a core, at most 4.
    pub worker_count: u32,
    /// Chunks not yet sealed, over all sequences; 0: a quarter of `memory_bytes`.  One open row takes the room of a whole chunk.
    pub open_bytes_max: u64,
    /// Default of every call; `None`: 30 s.
    pub timeout: Option<Duration>,
    /// Default of sequences and leases; `None`: 10 s.
    pub lease: Option<Duration>,
    /// Where log lines go; `None`: nowhere.
    pub log: Option<Log>,
    /// Lines up to this level; `None`: warnings.
    pub log_level: Option<Level>,
    /// No threads of kvc's own: [`Store::step`] does background work, and calls that wait do it too.
    pub host_driven: bool,
    /// Full: a call waits up to its timeout for room.
    pub wait: bool,
    /// Zero memory when it is released.
    pub zero: bool,
    /// Touch all memory at once.
    pub populate: bool,
    /// Check the sums of pages on every read.
    pub verify_reads: bool,
}

impl StoreOptions {
    fn flags(&self) -> u32 {
        [
            (self.host_driven, sys::KVC_OPEN_HOST_DRIVEN),
            (self.wait, sys::KVC_OPEN_WAIT),
            (self.zero, sys::KVC_OPEN_ZERO),
            (self.populate, sys::KVC_OPEN_POPULATE),
            (self.verify_reads, sys::KVC_OPEN_VERIFY_READS),
        ]
        .into_iter()
        .fold(0, |flags, (set, bit)| if set { flags | bit } else { flags })
    }
}

/// One cache.  A cheap clone, for any thread.
///
/// It closes when the last user of it is gone: every [`Scope`], [`Seq`](crate::Seq), [`View`](crate::View), [`Lease`](crate::Lease),
/// [`Region`] and [`Queue`] is one, so that each of them works for as long as it lives, whatever is dropped before it.
/// [`close`](Self::close) closes it now, if nobody else uses it.
///
/// ```
/// use kvc::{DType, Layer, Rows, ScopeOptions, SeqOptions, Shape, Store, StoreOptions, Strides};
///
/// # fn main() -> kvc::Result<()> {
/// const LAYERS: usize = 4;
/// let store = Store::open("mem:", &StoreOptions { memory_bytes: 64 << 20, ..Default::default() })?;
/// let shape = Shape::new(DType::F32, [Layer::full(LAYERS as u32, 2, 8)]);
/// let scope = store.scope(&ScopeOptions { model: "example", shape: Some(&shape), ..Default::default() })?;
///
/// // what the engine computed: 200 tokens, tokens first
/// let prompt: Vec<i32> = (0..200).collect();
/// let (k, v) = (vec![1f32; LAYERS * 200 * 16], vec![2f32; LAYERS * 200 * 16]);
/// let rows = Rows::new(0..LAYERS as u32, 0..200).strides(Strides { layer: 200 * 16 * 4, ..Default::default() });
/// let mut seq = scope.seq(&SeqOptions::default())?;
/// seq.append(&prompt, &rows, (&k, &v))?;
///
/// // whoever has the same prompt finds its whole chunks
/// let (found, info) = scope.match_prefix(&prompt, &SeqOptions::default())?;
/// assert_eq!(info.tokens, 192);
/// let (mut k, mut v) = (vec![0f32; k.len()], vec![0f32; v.len()]);
/// found.gather(&rows.tokens(0..info.tokens), (&mut k, &mut v))?;
/// assert_eq!(k[0], 1.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Store(pub(crate) Arc<StoreInner>);

#[derive(Debug)]
pub(crate) struct StoreInner {
    pub(crate) handle: Handle<sys::kvc_store>,
    pub(crate) host_driven: bool,
    /// Of a box, which is not moved while the library knows its address; NULL: none.
    log: Address<Log>,
    closed: bool,
}

/// The library knows nothing of panics: one that leaves a call of the host leaves nothing half done here.
impl std::panic::RefUnwindSafe for StoreInner {}

impl StoreInner {
    fn close(&mut self) -> Result<()> {
        self.closed = true;
        // SAFETY: this is the last user, so that no other thread calls.
        let closed = check(|error| unsafe { sys::kvc_close(self.handle.0, error) });
        // If it failed the library may have lines for the log yet.
        if closed.is_ok() {
            self.drop_log();
        }
        closed
    }

    /// Once: when the store was closed, or was not opened.
    fn drop_log(&self) {
        if !self.log.0.is_null() {
            // SAFETY: it was a box, and this is called once.
            drop(unsafe { Box::from_raw(self.log.0) });
        }
    }
}

impl Drop for StoreInner {
    fn drop(&mut self) {
        if !self.closed {
            let _ = self.close();
        }
    }
}

impl Store {
    /// Opens a store; only `mem:`, which lives in this process, is built yet.
    ///
    /// # Errors
    ///
    /// [`NoMemory`](ErrorKind::NoMemory): `memory_bytes` could not be reserved.  [`Unsupported`](ErrorKind::Unsupported): no such kind of
    /// store in this build.
    pub fn open(uri: &str, options: &StoreOptions) -> Result<Self> {
        let uri = terminated("uri", uri.as_bytes())?;
        let mut raw = sys::kvc_store_options::init();
        raw.flags = options.flags();
        raw.memory_bytes = options.memory_bytes;
        raw.seq_max = options.seq_max;
        raw.queue_max = options.queue_max;
        raw.view_max = options.view_max;
        raw.worker_count = options.worker_count;
        raw.open_bytes_max = options.open_bytes_max;
        raw.timeout_us = micros(options.timeout);
        raw.lease_ms = millis(options.lease);
        raw.log_level = options.log_level.map_or(0, |level| level as u32);
        let log =
            options.log.clone().map_or(std::ptr::null_mut(), |log| Box::into_raw(Box::new(log)));
        if !log.is_null() {
            raw.log = Some(on_line);
            raw.log_context = log.cast();
        }
        let mut out = std::ptr::null_mut();
        // SAFETY: the texts are terminated, and the log lives until the store is closed.
        let opened = check(|error| unsafe {
            sys::kvc_open(&raw mut out, uri.as_ptr(), &raw const raw, error)
        });
        // One that was not opened has nothing to close, and lets go of the log as one that is closed.
        let (log, host_driven, closed) = (Address(log), options.host_driven, opened.is_err());
        let inner = StoreInner { handle: Handle(out), host_driven, log, closed };
        if opened.is_err() {
            inner.drop_log();
        }
        opened.map(|()| Self(Arc::new(inner)))
    }

    pub(crate) fn raw(&self) -> *mut sys::kvc_store {
        self.0.handle.0
    }

    /// Closes it now.
    ///
    /// # Errors
    ///
    /// [`Busy`](ErrorKind::Busy): others use it, and it closes when the last of them is gone.  [`Forked`](ErrorKind::Forked): it is the
    /// parent's.
    pub fn close(self) -> Result<()> {
        match Arc::try_unwrap(self.0) {
            Ok(mut inner) => inner.close(),
            Err(inner) => {
                let users = Arc::strong_count(&inner) - 1;
                let why = format!("close: {users} clones and handles use the store yet");
                Err(Error::of_kind(ErrorKind::Busy, why))
            }
        }
    }

    /// Makes a scope, or joins it: the same names, salt and shape give an equal one.  Other limits change them for all.
    ///
    /// # Errors
    ///
    /// [`Shape`](ErrorKind::Shape): as [`Shape::check`](crate::Shape::check).  [`Full`](ErrorKind::Full): too many scopes.
    pub fn scope(&self, options: &ScopeOptions<'_>) -> Result<Scope> {
        Scope::create(self, options)
    }

    /// Makes a queue for calls that do not block.
    ///
    /// # Errors
    ///
    /// [`Full`](ErrorKind::Full): `queue_max`.  [`Io`](ErrorKind::Io): no descriptor is left.  [`NoMemory`](ErrorKind::NoMemory): no thread
    /// could be started.
    pub fn queue(&self, options: &QueueOptions) -> Result<Queue> {
        Queue::create(self, options)
    }

    /// Registers memory once, so that rows and objects inside it move without staging.  On `mem:` it is remembered and nothing moves
    /// differently.
    ///
    /// # Errors
    ///
    /// The memory comes back with the error.  [`Argument`](ErrorKind::Argument): it is empty, or overlaps a region that is held.
    /// [`NoMemory`](ErrorKind::NoMemory): over the limit of locked memory.
    pub fn region<B: Buffer>(&self, buffer: B) -> std::result::Result<Region<B>, (B, Error)> {
        Region::register(self, buffer)
    }

    /// Does background work in the calling thread for about so long, of a store that is [`host_driven`](StoreOptions::host_driven).  True:
    /// some is left.
    ///
    /// # Errors
    ///
    /// [`Misuse`](ErrorKind::Misuse): the store has threads of its own.
    pub fn step(&self, budget: Duration) -> Result<bool> {
        let mut more = 0;
        let budget = u64::try_from(budget.as_micros()).unwrap_or(u64::MAX);
        // SAFETY: `more` is filled.
        check(|error| unsafe { sys::kvc_store_step(&raw mut more, self.raw(), budget, error) })?;
        Ok(more != 0)
    }

    /// What it holds.  Numbers are of one moment each, not of one moment together.
    ///
    /// # Errors
    ///
    /// [`Forked`](ErrorKind::Forked): it is the parent's.
    pub fn info(&self) -> Result<StoreInfo> {
        let mut raw = sys::kvc_store_info::init();
        // SAFETY: the struct is sized.
        check(|error| unsafe { sys::kvc_store_get_info(&raw mut raw, self.raw(), error) })?;
        Ok(StoreInfo {
            state: State::from_bits(raw.state),
            memory_bytes: raw.memory_bytes,
            memory_used: raw.memory_used,
            memory_pinned: raw.memory_pinned,
            seq_count: raw.seq_count,
            lease_count: raw.lease_count,
            view_count: raw.view_count,
            region_count: raw.region_count,
            chunk_count: raw.chunk_count,
            object_count: raw.object_count,
            features: Features::from_bits(raw.features),
        })
    }

    /// Reads and checks everything held against its sums; what is bad is dropped.  Runs beside other calls.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](ErrorKind::Corrupt): something was not right, and is dropped now; [`Error::verify_info`] says what.
    /// [`Timeout`](ErrorKind::Timeout): it says how far it came.
    pub fn verify(&self) -> Result<VerifyInfo> {
        Call::DEFAULT.verify(self)
    }

    /// The counters since it was opened.  They only rise.
    ///
    /// # Errors
    ///
    /// [`Forked`](ErrorKind::Forked): it is the parent's.
    pub fn metrics(&self) -> Result<Metrics> {
        let mut raw = sys::kvc_metrics::init();
        // SAFETY: the struct is sized.
        check(|error| unsafe { sys::kvc_metrics_read(&raw mut raw, self.raw(), error) })?;
        Ok(Metrics::of(&raw))
    }

    /// Every counter and gauge as Prometheus text.
    ///
    /// # Errors
    ///
    /// [`Forked`](ErrorKind::Forked): it is the parent's.
    pub fn metrics_text(&self) -> Result<String> {
        let mut bytes = vec![0u8; 16384];
        loop {
            let mut size = 0;
            let (at, room) = (bytes.as_mut_ptr().cast(), bytes.len());
            // SAFETY: as many bytes are there as is said.
            match check(|error| unsafe {
                sys::kvc_metrics_text(at, room, &raw mut size, self.raw(), error)
            }) {
                Err(error) if error.kind() == ErrorKind::Range => bytes.resize(size + size / 8, 0),
                other => {
                    other?;
                    bytes.truncate(size.saturating_sub(1));
                    return Ok(String::from_utf8_lossy(&bytes).into_owned());
                }
            }
        }
    }

    /// Writes spans of calls to a Perfetto JSON file until [`stop_trace`](Self::stop_trace), or the store closes.
    ///
    /// # Errors
    ///
    /// [`Io`](ErrorKind::Io): the file could not be made, or the one before could not be written ("ended early") and this one has begun.
    pub fn trace(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path_of(path.as_ref())?;
        // SAFETY: the path is terminated.
        check(|error| unsafe { sys::kvc_trace_record(self.raw(), path.as_ptr(), error) })
    }

    /// Ends the recording of spans, and closes its file.
    ///
    /// # Errors
    ///
    /// [`Io`](ErrorKind::Io): some of it could not be written.
    pub fn stop_trace(&self) -> Result<()> {
        // SAFETY: NULL ends it.
        check(|error| unsafe { sys::kvc_trace_record(self.raw(), std::ptr::null(), error) })
    }
}

impl Call {
    /// [`Store::verify`] so.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn verify(&self, store: &Store) -> Result<VerifyInfo> {
        let mut raw = sys::kvc_verify_info::init();
        let call = self.blocking();
        // SAFETY: the structs are sized.
        let done = check(|error| unsafe {
            sys::kvc_store_verify(&raw mut raw, store.raw(), call.pointer(), error)
        });
        let info = VerifyInfo::of(&raw);
        done.map(|()| info.clone()).map_err(|error| error.with_verified(info))
    }
}

/// A text with its terminator.
pub(crate) fn terminated(name: &str, bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|error| {
        Error::argument(format!("{name}: a zero byte at {} ends no text", error.nul_position()))
    })
}

pub(crate) fn path_of(path: &Path) -> Result<CString> {
    terminated("path", path.as_os_str().as_bytes())
}

/// What a [`Store`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreInfo {
    /// What is wrong with it; empty: nothing.
    pub state: State,
    /// Memory for what is stored, as rounded.
    pub memory_bytes: u64,
    /// In use.
    pub memory_used: u64,
    /// Of it, what leases, open rows and views hold.
    pub memory_pinned: u64,
    /// Sequences alive.
    pub seq_count: u64,
    /// Leases of their own alive.
    pub lease_count: u64,
    /// Views alive.
    pub view_count: u64,
    /// Regions alive.
    pub region_count: u64,
    /// Sealed chunks held.
    pub chunk_count: u64,
    /// Objects held.
    pub object_count: u64,
    /// What answers on this machine.
    pub features: Features,
}

/// What [`Store::verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyInfo {
    /// Pages and objects checked.
    pub pages_read: u64,
    /// Of them, those that failed and were dropped.
    pub pages_bad: u64,
    /// Bytes checked.
    pub bytes_read: u64,
    /// One line about the first that failed; empty: none did.
    pub first_bad: String,
}

impl VerifyInfo {
    pub(crate) fn of(raw: &sys::kvc_verify_info) -> Self {
        Self {
            pages_read: raw.pages_read,
            pages_bad: raw.pages_bad,
            bytes_read: raw.bytes_read,
            first_bad: text(&raw.first_bad).to_string_lossy().into_owned(),
        }
    }
}

macro_rules! metrics {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters since a [`Store`] was opened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Metrics {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Metrics {
            fn of(raw: &sys::kvc_metrics) -> Self {
                Self { $($name: raw.$name,)* }
            }
        }
    };
}

metrics! {
    /// Matches that made a sequence.
    match_calls,
    /// Tokens they asked for.
    match_tokens,
    /// Tokens they found.
    hit_tokens,
    /// Bytes copied out by gathers.
    gather_bytes,
    /// Bytes copied in by appends.
    append_bytes,
    /// Calls of attend.
    attend_calls,
    /// Chunks and objects dropped to make room.
    evicted_chunks,
    /// Pages moved to a colder tier or fewer bits.
    demoted_pages,
    /// Pages moved to a warmer tier.
    promoted_pages,
    /// Pages and objects that failed a check and were dropped.
    checksum_failures,
    /// Calls that ended in a timeout.
    timeouts,
    /// Leases that ended by time.
    lapsed_leases,
    /// Bytes read from device memory.
    hit_bytes_device,
    /// From RAM.
    hit_bytes_host,
    /// From disk.
    hit_bytes_nvme,
    /// From other machines.
    hit_bytes_remote,
}
