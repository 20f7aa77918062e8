//! The calls on stores, scopes and sequences that a queue takes.

use super::{Given, Pending, Queue};
use crate::error::{Error, ErrorKind, Result};
use crate::lease::Lease;
use crate::memory::Memory;
use crate::rows::{RawRows, Rows, begin_and_count, pointer_of};
use crate::scope::Scope;
use crate::seq::{MatchInfo, Seq, SeqOptions};
use crate::store::{Store, VerifyInfo, path_of};
use crate::types::{Report, Tier, millis};
use kvc_sys as sys;
use std::ops::RangeBounds;
use std::path::Path;
use std::ptr::null_mut;
use std::time::Duration;

/// What a call takes that goes well without giving what it promised: nothing in the library does.
fn missing() -> Error {
    Error::of_kind(ErrorKind::Internal, "the result has no handle")
}

fn report_of((): (), given: Result<Given>) -> Result<Report> {
    given.map(|given| given.report)
}

fn seq_of((): (), given: Result<Given>) -> Result<Seq> {
    given?.seq.ok_or_else(missing)
}

/// Of what is only copied while the call is made.
fn nothing((): &mut ()) -> Result<()> {
    Ok(())
}

struct Match {
    tokens: Vec<i32>,
    info: sys::kvc_match_info,
}

impl Queue {
    /// [`Seq::append`], which runs behind all that was called on the sequence before.
    pub fn append<'r, R, M>(
        &self,
        seq: &mut Seq,
        tokens: &[i32],
        rows: &R,
        memory: M,
    ) -> Pending<(M, Result<()>)>
    where
        R: AsRef<[Rows<'r>]> + ?Sized,
        M: Memory,
    {
        let seq = seq.raw();
        self.start(
            (tokens.to_vec(), memory),
            |(_, memory), given| (memory, given.map(|_| ())),
            |(tokens, memory)| {
                let raw = RawRows::of(rows.as_ref(), |index| memory.owned(index))?;
                Ok((pointer_of(tokens), tokens.len(), raw))
            },
            // SAFETY: what the rows point to, and the ids, stay with the job until its result; the rows are copied.
            |(ids, count, raw), call, error| unsafe {
                sys::kvc_append(seq, *ids, *count, raw.pointer(), raw.count(), call, error)
            },
        )
    }

    /// [`Seq::gather`].
    pub fn gather<'r, R, M>(&self, seq: &Seq, rows: &R, memory: M) -> Pending<(M, Result<Report>)>
    where
        R: AsRef<[Rows<'r>]> + ?Sized,
        M: Memory,
    {
        self.start(
            memory,
            |memory, given| (memory, given.map(|given| given.report)),
            |memory| RawRows::of(rows.as_ref(), |index| memory.owned(index)),
            // SAFETY: what the rows point to stays with the job until its result; the rows are copied.
            |raw, call, error| unsafe {
                sys::kvc_gather(null_mut(), seq.raw(), raw.pointer(), raw.count(), call, error)
            },
        )
    }

    /// [`Seq::prefetch`].
    pub fn prefetch<'r, R>(&self, seq: &Seq, rows: &R, tier: Tier) -> Pending<Result<Report>>
    where
        R: AsRef<[Rows<'r>]> + ?Sized,
    {
        let (raw, tier) = (RawRows::bare(rows.as_ref()), tier.raw());
        // SAFETY: the rows have no arrays, and are copied.
        self.start((), report_of, nothing, |(), call, error| unsafe {
            let (rows, count) = (raw.pointer(), raw.count());
            sys::kvc_seq_prefetch(null_mut(), seq.raw(), rows, count, tier, call, error)
        })
    }

    /// [`Scope::match_prefix`].
    pub fn match_prefix(
        &self,
        scope: &Scope,
        tokens: &[i32],
        options: &SeqOptions<'_>,
    ) -> Pending<Result<(Seq, MatchInfo)>> {
        let options = options.raw(0);
        self.start(
            Match { tokens: tokens.to_vec(), info: sys::kvc_match_info::init() },
            |lent, given| Ok((given?.seq.ok_or_else(missing)?, MatchInfo::of(&lent.info))),
            |lent| Ok((&raw mut lent.info, pointer_of(&lent.tokens), lent.tokens.len())),
            // SAFETY: ids and info stay with the job until its result; the options are copied.
            |&(info, ids, count), call, error| unsafe {
                let options = options.pointer();
                sys::kvc_match(null_mut(), info, scope.raw(), ids, count, options, call, error)
            },
        )
    }

    /// [`Scope::attach`].
    pub fn attach(
        &self,
        scope: &Scope,
        name: impl AsRef<[u8]>,
        options: &SeqOptions<'_>,
    ) -> Pending<Result<Seq>> {
        let (options, name) = (options.raw(0), name.as_ref());
        // SAFETY: name and options are copied.
        self.start((), seq_of, nothing, |(), call, error| unsafe {
            let (at, options) = (name.as_ptr().cast(), options.pointer());
            sys::kvc_seq_attach(null_mut(), scope.raw(), at, name.len(), options, call, error)
        })
    }

    /// [`Scope::restore`].
    pub fn restore(
        &self,
        scope: &Scope,
        path: impl AsRef<Path>,
        options: &SeqOptions<'_>,
    ) -> Pending<Result<Seq>> {
        let (options, path) = (options.raw(0), path_of(path.as_ref()));
        self.start(
            (),
            seq_of,
            |()| path,
            // SAFETY: path and options are copied.
            |path, call, error| unsafe {
                let (at, options) = (path.as_ptr(), options.pointer());
                sys::kvc_seq_restore(null_mut(), scope.raw(), at, options, call, error)
            },
        )
    }

    /// [`Seq::lease`].
    pub fn lease(
        &self,
        seq: &Seq,
        tokens: impl RangeBounds<u64>,
        time: Option<Duration>,
    ) -> Pending<Result<Lease>> {
        let ((begin, count), time) = (begin_and_count(&tokens), millis(time));
        let lease_of = |(), given: Result<Given>| given?.lease.ok_or_else(missing);
        // SAFETY: nothing is lent.
        self.start((), lease_of, nothing, |(), call, error| unsafe {
            sys::kvc_seq_lease(null_mut(), seq.raw(), begin, count, time, call, error)
        })
    }

    /// [`Seq::publish`].
    pub fn publish(
        &self,
        seq: &mut Seq,
        name: impl AsRef<[u8]>,
        time: Option<Duration>,
    ) -> Pending<Result<()>> {
        let (name, time, seq) = (name.as_ref(), millis(time), seq.raw());
        // SAFETY: the name is copied.
        self.start(
            (),
            |(), given| given.map(|_| ()),
            nothing,
            |(), call, error| unsafe {
                sys::kvc_seq_publish(seq, name.as_ptr().cast(), name.len(), time, call, error)
            },
        )
    }

    /// [`Seq::save`].
    pub fn save(&self, seq: &Seq, path: impl AsRef<Path>) -> Pending<Result<()>> {
        let path = path_of(path.as_ref());
        self.start(
            (),
            |(), given| given.map(|_| ()),
            |()| path,
            // SAFETY: the path is copied.
            |path, call, error| unsafe { sys::kvc_seq_save(seq.raw(), path.as_ptr(), call, error) },
        )
    }

    /// [`Scope::clear`].
    pub fn clear(&self, scope: &Scope) -> Pending<Result<Report>> {
        // SAFETY: nothing is lent.
        self.start((), report_of, nothing, |(), call, error| unsafe {
            sys::kvc_scope_clear(null_mut(), scope.raw(), call, error)
        })
    }

    /// [`Store::verify`].
    pub fn verify(&self, store: &Store) -> Pending<Result<VerifyInfo>> {
        self.start(
            sys::kvc_verify_info::init(),
            |raw, given| match given {
                Ok(_) => Ok(VerifyInfo::of(&raw)),
                Err(error) => Err(error.with_verified(VerifyInfo::of(&raw))),
            },
            |info| Ok(&raw mut *info),
            // SAFETY: the info stays with the job until its result.
            |&info, call, error| unsafe { sys::kvc_store_verify(info, store.raw(), call, error) },
        )
    }
}
