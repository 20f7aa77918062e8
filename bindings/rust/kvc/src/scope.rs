//! Whose cache, of which shape.

use crate::call::Call;
use crate::error::{Result, check, check_result};
use crate::rows::pointer_of;
use crate::seq::{MatchInfo, Seq, SeqOptions};
use crate::shape::Shape;
use crate::store::{Store, StoreInner, path_of, terminated};
use crate::types::{Handle, Report, millis};
use kvc_sys as sys;
use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Whose cache: every name is part of every key, byte for byte.  Scopes that differ in one byte share nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScopeOptions<'a> {
    /// Who may read it.
    pub tenant: &'a str,
    /// Required: a name that all hosts of the model agree on.
    pub model: &'a str,
    /// Weights and whatever else changes K and V (RoPE base and scaling, overrides).
    pub revision: &'a str,
    /// LoRA or the like.
    pub adapter: &'a str,
    /// Bytes that keep others from probing what is cached.
    pub salt: &'a [u8],
    /// The geometry; `None`: objects only.
    pub shape: Option<&'a Shape>,
    /// Quota of RAM; 0: none.  A scope at its quota evicts what it used least recently.
    pub bytes_max: u64,
    /// Unused for so long: no call finds it any more; `None`: never.
    pub ttl: Option<Duration>,
}

/// Whose cache, of which shape: the namespace of prefixes and objects.  A cheap clone, for any thread.
///
/// The scope's sequences live on when it is dropped, and what it stored stays.
#[derive(Clone, Debug)]
pub struct Scope(Arc<ScopeInner>);

#[derive(Debug)]
struct ScopeInner {
    handle: Handle<sys::kvc_scope>,
    store: Arc<StoreInner>,
}

impl Drop for ScopeInner {
    fn drop(&mut self) {
        // SAFETY: it is released once.
        unsafe { sys::kvc_scope_release(self.handle.0, std::ptr::null_mut()) };
    }
}

impl Scope {
    pub(crate) fn create(store: &Store, options: &ScopeOptions<'_>) -> Result<Self> {
        let text = |name, text: &str| -> Result<Option<CString>> {
            if text.is_empty() { Ok(None) } else { terminated(name, text.as_bytes()).map(Some) }
        };
        let tenant = text("tenant", options.tenant)?;
        let model = text("model", options.model)?;
        let revision = text("revision", options.revision)?;
        let adapter = text("adapter", options.adapter)?;
        let shape = options.shape.map(Shape::raw);
        let pointer =
            |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
        let mut raw = sys::kvc_scope_options::init();
        raw.tenant = pointer(&tenant);
        raw.model = pointer(&model);
        raw.revision = pointer(&revision);
        raw.adapter = pointer(&adapter);
        raw.salt = pointer_of(options.salt).cast();
        raw.salt_size = options.salt.len() as u64;
        raw.shape = shape.as_ref().map_or(std::ptr::null(), |shape| &raw const shape.shape);
        raw.bytes_max = options.bytes_max;
        raw.ttl_ms = millis(options.ttl);
        let mut out = std::ptr::null_mut();
        // SAFETY: what the options point to lives until the end of this function.
        check(|error| unsafe {
            sys::kvc_scope_create(&raw mut out, store.raw(), &raw const raw, error)
        })?;
        Ok(Self(Arc::new(ScopeInner { handle: Handle(out), store: Arc::clone(&store.0) })))
    }

    pub(crate) fn raw(&self) -> *mut sys::kvc_scope {
        self.0.handle.0
    }

    pub(crate) fn store(&self) -> &Arc<StoreInner> {
        &self.0.store
    }

    /// Makes an empty sequence.
    ///
    /// # Errors
    ///
    /// [`Full`](crate::ErrorKind::Full): `seq_max`.  [`Range`](crate::ErrorKind::Range): a part that the shape has not.
    pub fn seq(&self, options: &SeqOptions<'_>) -> Result<Seq> {
        let options = options.raw(0);
        let mut out = std::ptr::null_mut();
        // SAFETY: what the options point to lives until the end of this function.
        check(|error| unsafe {
            sys::kvc_seq_create(&raw mut out, self.raw(), options.pointer(), error)
        })?;
        Ok(Seq::of(out, self.store()))
    }

    /// The longest stored prefix of the tokens, as a new sequence that already holds its lease, of length 0 if nothing was found.
    /// Absent nodes, bad pages and the deadline shorten it; [`MatchInfo::stop`] says why it ends.
    ///
    /// # Errors
    ///
    /// [`Full`](crate::ErrorKind::Full): `seq_max`.
    pub fn match_prefix(
        &self,
        tokens: &[i32],
        options: &SeqOptions<'_>,
    ) -> Result<(Seq, MatchInfo)> {
        Call::DEFAULT.match_prefix(self, tokens, options)
    }

    /// What [`match_prefix`](Self::match_prefix) would find: no sequence, no lease, no use counted.
    ///
    /// # Errors
    ///
    /// Those of a wrong call.
    pub fn peek(&self, tokens: &[i32], options: &SeqOptions<'_>) -> Result<MatchInfo> {
        Call::DEFAULT.peek(self, tokens, options)
    }

    /// A fork of a published sequence, leased.  Of the options `lease`, `private` and `write_id` count.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound): no such name, or it lapsed.  [`Shape`](crate::ErrorKind::Shape): of another part.
    /// [`Full`](crate::ErrorKind::Full): `seq_max`.
    pub fn attach(&self, name: impl AsRef<[u8]>, options: &SeqOptions<'_>) -> Result<Seq> {
        Call::DEFAULT.attach(self, name, options)
    }

    /// Frees what a published name holds at once.  Sequences that were attached stay.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound): no such name, or it lapsed.
    pub fn withdraw(&self, name: impl AsRef<[u8]>) -> Result<()> {
        let name = name.as_ref();
        // SAFETY: the name is there.
        check(|error| unsafe {
            sys::kvc_seq_withdraw(self.raw(), name.as_ptr().cast(), name.len(), error)
        })
    }

    /// Makes a sequence from a file that [`Seq::save`] wrote, as it was.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound): no such file.  [`Corrupt`](crate::ErrorKind::Corrupt): it is damaged, nothing was used.
    /// [`Version`](crate::ErrorKind::Version): of another one.  [`Shape`](crate::ErrorKind::Shape): of another scope, shape or part.
    /// [`Full`](crate::ErrorKind::Full): no room.  [`Io`](crate::ErrorKind::Io): the file.
    pub fn restore(&self, path: impl AsRef<Path>, options: &SeqOptions<'_>) -> Result<Seq> {
        Call::DEFAULT.restore(self, path, options)
    }

    /// Drops all chunks and objects of the scope: nobody finds any of them from then on.  What sequences and leases hold goes with the last
    /// of them.
    ///
    /// # Errors
    ///
    /// Those of a wrong call.
    pub fn clear(&self) -> Result<Report> {
        Call::DEFAULT.clear(self)
    }

    /// What it holds and what became of it.
    ///
    /// # Errors
    ///
    /// [`Forked`](crate::ErrorKind::Forked): it is the parent's.
    pub fn info(&self) -> Result<ScopeInfo> {
        let mut raw = sys::kvc_scope_info::init();
        // SAFETY: the struct is sized.
        check(|error| unsafe { sys::kvc_scope_get_info(&raw mut raw, self.raw(), error) })?;
        Ok(ScopeInfo {
            bytes_device: raw.bytes_device,
            bytes_host: raw.bytes_host,
            bytes_nvme: raw.bytes_nvme,
            bytes_remote: raw.bytes_remote,
            bytes_max: raw.bytes_max,
            chunk_count: raw.chunk_count,
            object_count: raw.object_count,
            seq_count: raw.seq_count,
            hit_tokens: raw.hit_tokens,
            miss_tokens: raw.miss_tokens,
            tokens_written: raw.tokens_written,
            tokens_read: raw.tokens_read,
            byte_seconds_device: raw.byte_seconds_device,
            byte_seconds_host: raw.byte_seconds_host,
            byte_seconds_nvme: raw.byte_seconds_nvme,
            byte_seconds_remote: raw.byte_seconds_remote,
            fingerprint: raw.fingerprint,
        })
    }
}

impl Call {
    /// [`Scope::match_prefix`] so.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn match_prefix(
        &self,
        scope: &Scope,
        tokens: &[i32],
        options: &SeqOptions<'_>,
    ) -> Result<(Seq, MatchInfo)> {
        let (options, call) = (options.raw(0), self.blocking());
        let mut out = std::ptr::null_mut();
        let mut info = sys::kvc_match_info::init();
        let at = pointer_of(tokens);
        // SAFETY: everything that is borrowed lives until the end of this function.
        check(|error| unsafe {
            let (info, options, call) = (&raw mut info, options.pointer(), call.pointer());
            sys::kvc_match(&raw mut out, info, scope.raw(), at, tokens.len(), options, call, error)
        })?;
        Ok((Seq::of(out, scope.store()), MatchInfo::of(&info)))
    }

    /// [`Scope::peek`] so.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn peek(
        &self,
        scope: &Scope,
        tokens: &[i32],
        options: &SeqOptions<'_>,
    ) -> Result<MatchInfo> {
        let (options, call) = (options.raw(sys::KVC_SEQ_PEEK), self.blocking());
        let mut info = sys::kvc_match_info::init();
        let (none, at) = (std::ptr::null_mut(), pointer_of(tokens));
        // SAFETY: everything that is borrowed lives until the end of this function.
        check(|error| unsafe {
            let (info, options, call) = (&raw mut info, options.pointer(), call.pointer());
            sys::kvc_match(none, info, scope.raw(), at, tokens.len(), options, call, error)
        })?;
        Ok(MatchInfo::of(&info))
    }

    /// [`Scope::attach`] so.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn attach(
        &self,
        scope: &Scope,
        name: impl AsRef<[u8]>,
        options: &SeqOptions<'_>,
    ) -> Result<Seq> {
        let (options, call, name) = (options.raw(0), self.blocking(), name.as_ref());
        let mut out = std::ptr::null_mut();
        // SAFETY: everything that is borrowed lives until the end of this function.
        check(|error| unsafe {
            let (at, options, call) = (name.as_ptr().cast(), options.pointer(), call.pointer());
            sys::kvc_seq_attach(&raw mut out, scope.raw(), at, name.len(), options, call, error)
        })?;
        Ok(Seq::of(out, scope.store()))
    }

    /// [`Scope::restore`] so.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn restore(
        &self,
        scope: &Scope,
        path: impl AsRef<Path>,
        options: &SeqOptions<'_>,
    ) -> Result<Seq> {
        let (options, call, path) = (options.raw(0), self.blocking(), path_of(path.as_ref())?);
        let mut out = std::ptr::null_mut();
        // SAFETY: everything that is borrowed lives until the end of this function.
        check(|error| unsafe {
            let (at, options, call) = (path.as_ptr(), options.pointer(), call.pointer());
            sys::kvc_seq_restore(&raw mut out, scope.raw(), at, options, call, error)
        })?;
        Ok(Seq::of(out, scope.store()))
    }

    /// [`Scope::clear`] so.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn clear(&self, scope: &Scope) -> Result<Report> {
        let call = self.blocking();
        // SAFETY: the structs are sized.
        check_result(|result, error| unsafe {
            sys::kvc_scope_clear(result, scope.raw(), call.pointer(), error)
        })
        .map(|result| Report::of(&result))
    }
}

/// What a [`Scope`] holds and what became of it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScopeInfo {
    /// Held in device memory.
    pub bytes_device: u64,
    /// Held in RAM.
    pub bytes_host: u64,
    /// Held on disk.
    pub bytes_nvme: u64,
    /// Held on other machines.
    pub bytes_remote: u64,
    /// The quota; 0: none.
    pub bytes_max: u64,
    /// Sealed chunks held.
    pub chunk_count: u64,
    /// Objects held.
    pub object_count: u64,
    /// Sequences alive.
    pub seq_count: u64,
    /// Tokens that matches found.
    pub hit_tokens: u64,
    /// Tokens that matches asked for and did not find.
    pub miss_tokens: u64,
    /// Tokens appended.
    pub tokens_written: u64,
    /// Tokens gathered.
    pub tokens_read: u64,
    /// Bytes held x seconds, in device memory.
    pub byte_seconds_device: f64,
    /// In RAM.
    pub byte_seconds_host: f64,
    /// On disk.
    pub byte_seconds_nvme: f64,
    /// On other machines.
    pub byte_seconds_remote: f64,
    /// Scope and shape together: equal in every process, language and machine.
    pub fingerprint: [u8; 32],
}
