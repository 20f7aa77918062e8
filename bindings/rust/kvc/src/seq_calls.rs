//! The calls on sequences, run as a [`Call`] says.

use crate::call::Call;
use crate::error::{Result, check, check_result};
use crate::lease::Lease;
use crate::memory::{Source, Target};
use crate::rows::{RawRows, Rows, begin_and_count, pointer_of};
use crate::seq::Seq;
use crate::store::path_of;
use crate::types::{Report, Tier, millis};
use kvc_sys as sys;
use std::ops::RangeBounds;
use std::path::Path;
use std::time::Duration;

impl Call {
    /// [`Seq::append`] so.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn append<'r, R>(
        &self,
        seq: &mut Seq,
        tokens: &[i32],
        rows: &R,
        memory: impl Source,
    ) -> Result<()>
    where
        R: AsRef<[Rows<'r>]> + ?Sized,
    {
        let raw = RawRows::of(rows.as_ref(), |index| memory.read(index))?;
        let call = self.blocking();
        // SAFETY: `memory` borrows what the rows point to until the end of this function, and the handle is borrowed alone.
        check(|error| unsafe {
            let (ids, rows, call) = (pointer_of(tokens), raw.pointer(), call.pointer());
            sys::kvc_append(seq.raw(), ids, tokens.len(), rows, raw.count(), call, error)
        })
    }

    /// [`Seq::gather`] so.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn gather<'r, R>(&self, seq: &Seq, rows: &R, mut memory: impl Target) -> Result<Report>
    where
        R: AsRef<[Rows<'r>]> + ?Sized,
    {
        let raw = RawRows::of(rows.as_ref(), |index| memory.write(index))?;
        let call = self.blocking();
        // SAFETY: `memory` borrows what the rows point to, alone, until the end of this function.
        check_result(|result, error| unsafe {
            let (rows, call) = (raw.pointer(), call.pointer());
            sys::kvc_gather(result, seq.raw(), rows, raw.count(), call, error)
        })
        .map(|result| Report::of(&result))
    }

    /// [`Seq::prefetch`] so.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn prefetch<'r, R>(&self, seq: &Seq, rows: &R, tier: Tier) -> Result<Report>
    where
        R: AsRef<[Rows<'r>]> + ?Sized,
    {
        let (raw, call) = (RawRows::bare(rows.as_ref()), self.blocking());
        // SAFETY: the rows have no arrays, and are copied.
        check_result(|result, error| unsafe {
            let (rows, call) = (raw.pointer(), call.pointer());
            sys::kvc_seq_prefetch(result, seq.raw(), rows, raw.count(), tier.raw(), call, error)
        })
        .map(|result| Report::of(&result))
    }

    /// [`Seq::lease`] so.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn lease(
        &self,
        seq: &Seq,
        tokens: impl RangeBounds<u64>,
        time: Option<Duration>,
    ) -> Result<Lease> {
        let (begin, count) = begin_and_count(&tokens);
        let (time, call) = (millis(time), self.blocking());
        let mut out = std::ptr::null_mut();
        // SAFETY: `out` is filled.
        check(|error| unsafe {
            sys::kvc_seq_lease(&raw mut out, seq.raw(), begin, count, time, call.pointer(), error)
        })?;
        Ok(Lease::of(out, seq.store()))
    }

    /// [`Seq::publish`] so.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn publish(
        &self,
        seq: &mut Seq,
        name: impl AsRef<[u8]>,
        time: Option<Duration>,
    ) -> Result<()> {
        let (name, time, call) = (name.as_ref(), millis(time), self.blocking());
        // SAFETY: the name is there, and the handle is borrowed alone.
        check(|error| unsafe {
            let at = name.as_ptr().cast();
            sys::kvc_seq_publish(seq.raw(), at, name.len(), time, call.pointer(), error)
        })
    }

    /// [`Seq::save`] so.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn save(&self, seq: &Seq, path: impl AsRef<Path>) -> Result<()> {
        let (path, call) = (path_of(path.as_ref())?, self.blocking());
        // SAFETY: the path is terminated.
        check(|error| unsafe { sys::kvc_seq_save(seq.raw(), path.as_ptr(), call.pointer(), error) })
    }
}
