//! Sequences: an ordered run of tokens with their rows.

use crate::call::Call;
use crate::error::{Error, Result, check};
use crate::lease::Lease;
use crate::memory::{Source, Target};
use crate::rows::{Rows, pointer_of};
use crate::store::StoreInner;
use crate::types::{Handle, Report, Stop, Tier, millis, nanos};
use crate::view::View;
use kvc_sys as sys;
use std::ops::{Range, RangeBounds};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Identity beside the token ids: the digest of an image behind its placeholders, an embedding's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extra<'a> {
    /// First position it stands behind.
    pub token_begin: u64,
    /// Positions; not 0; two extras may not overlap.
    pub token_count: u64,
    /// 1 to 64 bytes.
    pub data: &'a [u8],
}

/// How a sequence is made.
#[derive(Clone, Debug, Default)]
pub struct SeqOptions<'a> {
    /// Never matched by others; token ids are optional: before their rows, or never.
    pub private: bool,
    /// Match: estimate the costs, but do not shorten.
    pub no_cut: bool,
    /// `None`: the store's; [`FOREVER`](crate::FOREVER): until it is dropped.
    pub lease: Option<Duration>,
    /// The layers that this handle writes and reads (pipeline parallel); empty: all.
    pub layers: Range<u32>,
    /// Its KV heads, in every layer that has several (tensor parallel); empty: all.
    pub heads: Range<u32>,
    /// Match: what recomputing a token costs here; `None`: unknown, no cut.
    pub prefill_per_token: Option<Duration>,
    /// Match: look no further; `None`: all.  A host that needs logits of the last token says one less than there are.
    pub tokens_max: Option<u64>,
    /// Of token 0, if it is not 0: part of the identity.
    pub first_position: u64,
    /// Rising; those past the match stay with the sequence.
    pub extras: &'a [Extra<'a>],
    /// Parts: the ranks of one engine give one random value a sequence, so that their slices make one chunk; zeros: drawn.
    pub write_id: [u8; 16],
    /// Match: start promoting the hit to this tier.
    pub tier: Option<Tier>,
}

/// Options as C takes them, with what they point to.
pub(crate) struct RawSeqOptions {
    raw: sys::kvc_seq_options,
    _extras: Vec<sys::kvc_extra>,
}

impl RawSeqOptions {
    pub(crate) fn pointer(&self) -> *const sys::kvc_seq_options {
        &raw const self.raw
    }
}

impl SeqOptions<'_> {
    pub(crate) fn raw(&self, flags: u32) -> RawSeqOptions {
        let extras = raw_extras(self.extras);
        let mut raw = sys::kvc_seq_options::init();
        let set = |set, bit| if set { bit } else { 0 };
        raw.flags =
            flags | set(self.private, sys::KVC_SEQ_PRIVATE) | set(self.no_cut, sys::KVC_SEQ_NO_CUT);
        raw.lease_ms = millis(self.lease);
        raw.layer_begin = self.layers.start;
        raw.layer_count = self.layers.end.saturating_sub(self.layers.start);
        raw.head_begin = self.heads.start;
        raw.head_count = self.heads.end.saturating_sub(self.heads.start);
        raw.prefill_ns_per_token = nanos(self.prefill_per_token);
        // 0 would be all; of one token there is no whole chunk.
        raw.tokens_max = self.tokens_max.map_or(0, |tokens| tokens.max(1));
        raw.first_position = self.first_position;
        raw.extras = pointer_of(&extras);
        raw.extra_count = extras.len() as u64;
        raw.write_id = self.write_id;
        raw.tier = self.tier.map_or(0, Tier::raw);
        RawSeqOptions { raw, _extras: extras }
    }
}

fn raw_extras(extras: &[Extra<'_>]) -> Vec<sys::kvc_extra> {
    let raw = |extra: &Extra<'_>| sys::kvc_extra {
        token_begin: extra.token_begin,
        token_count: extra.token_count,
        data: extra.data.as_ptr().cast(),
        data_size: extra.data.len() as u64,
    };
    extras.iter().map(raw).collect()
}

/// What a match found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MatchInfo {
    /// Length of the sequence: all groups of layers agree on it.
    pub tokens: u64,
    /// Why it ends there; `None`: for a reason of a later library.
    pub stop: Option<Stop>,
    /// What full and latent layers alone could serve.
    pub tokens_attention: u64,
    /// Leading part already in RAM or device memory here.
    pub tokens_hot: u64,
    /// To fetch for the rest, from disk.
    pub bytes_nvme: u64,
    /// To fetch for the rest, from other machines.
    pub bytes_remote: u64,
    /// Estimate: fetching them.
    pub fetch: Duration,
    /// Estimate: recomputing them; needs [`SeqOptions::prefill_per_token`].
    pub prefill: Duration,
}

impl MatchInfo {
    pub(crate) fn of(raw: &sys::kvc_match_info) -> Self {
        Self {
            tokens: raw.tokens,
            stop: Stop::from_raw(raw.stop),
            tokens_attention: raw.tokens_attention,
            tokens_hot: raw.tokens_hot,
            bytes_nvme: raw.bytes_nvme,
            bytes_remote: raw.bytes_remote,
            fetch: Duration::from_micros(raw.fetch_us),
            prefill: Duration::from_micros(raw.prefill_us),
        }
    }
}

/// What the host knows of reuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// The conversation is over: its chunks are the first to go.
    pub done: bool,
    /// Until the next turn; `None`: unknown.
    pub continues_in: Option<Duration>,
    /// Number of the turn, from 1; 0: unknown.
    pub turn: u32,
    /// More is kept longer; 0: normal.
    pub priority: u32,
}

/// An ordered run of tokens: shared sealed chunks in front, private open rows behind.
///
/// Calls that only read take `&self` and may run beside each other, on any threads; those that change it take `&mut self`.  Forks are
/// sequences of their own.  It holds what it needs of its store, and pins its chunks for its lease after the last call that used it.
///
/// ```compile_fail
/// # fn f(seq: kvc::Seq) {
/// let shared = &seq;
/// shared.append_ids(&[1]).unwrap(); // takes `&mut self`
/// # }
/// ```
#[derive(Debug)]
pub struct Seq {
    handle: Handle<sys::kvc_seq>,
    store: Arc<StoreInner>,
}

impl Drop for Seq {
    fn drop(&mut self) {
        // SAFETY: it is released once.
        unsafe { sys::kvc_seq_release(self.handle.0, std::ptr::null_mut()) };
    }
}

impl Seq {
    /// Takes over what a call gave.
    pub(crate) fn of(handle: *mut sys::kvc_seq, store: &Arc<StoreInner>) -> Self {
        Self { handle: Handle(handle), store: Arc::clone(store) }
    }

    pub(crate) fn raw(&self) -> *mut sys::kvc_seq {
        self.handle.0
    }

    pub(crate) fn store(&self) -> &Arc<StoreInner> {
        &self.store
    }

    /// Appends ids and rows; all or nothing, and copied before it returns.
    ///
    /// `tokens` are the next ids after those already given; they may run ahead of rows, rows never ahead of ids.  Who appends layer by layer
    /// gives ids with the first layer only.  Each description starts where its layers' rows end.
    ///
    /// # Errors
    ///
    /// [`Range`](crate::ErrorKind::Range): layer, head or position; a gap, an overlap, rows ahead of ids.  [`Shape`](crate::ErrorKind::Shape):
    /// dtype or geometry.  [`Gone`](crate::ErrorKind::Gone): some of what it goes on from is no longer held: truncate to what is left.
    /// [`Full`](crate::ErrorKind::Full): no room.
    pub fn append<'r, R>(&mut self, tokens: &[i32], rows: &R, memory: impl Source) -> Result<()>
    where
        R: AsRef<[Rows<'r>]> + ?Sized,
    {
        Call::DEFAULT.append(self, tokens, rows, memory)
    }

    /// Appends ids without rows.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub fn append_ids(&mut self, tokens: &[i32]) -> Result<()> {
        Call::DEFAULT.append(self, tokens, &[], &[0u8; 0])
    }

    /// Adds identity to tokens whose chunk is not sealed.  The first call after a truncate replaces what begins at or after that position.
    ///
    /// # Errors
    ///
    /// [`Range`](crate::ErrorKind::Range): a chunk it touches is sealed, or it overlaps one that the sequence has.
    pub fn identify(&mut self, extras: &[Extra<'_>]) -> Result<()> {
        let raw = raw_extras(extras);
        // SAFETY: the extras live until the end of this function.
        check(|error| unsafe {
            sys::kvc_seq_identify(self.raw(), pointer_of(&raw), raw.len(), error)
        })
    }

    /// Copies rows out, converted to the dtype and layout of the memory; writes nothing else.
    ///
    /// # Errors
    ///
    /// The rows below position [`Error::done`] are right in every description.  [`Gone`](crate::ErrorKind::Gone): some are no longer held.
    /// [`NoSnapshot`](crate::ErrorKind::NoSnapshot): a state layer has none there.  [`Range`](crate::ErrorKind::Range): past what the layer has.
    pub fn gather<'r, R>(&self, rows: &R, memory: impl Target) -> Result<Report>
    where
        R: AsRef<[Rows<'r>]> + ?Sized,
    {
        Call::DEFAULT.gather(self, rows, memory)
    }

    /// Brings rows to a tier.  On `mem:` it says how far rows are held, and counts as a use.
    ///
    /// # Errors
    ///
    /// As [`gather`](Self::gather); [`Unsupported`](crate::ErrorKind::Unsupported): a tier that the store has not.
    pub fn prefetch<'r, R>(&self, rows: &R, tier: Tier) -> Result<Report>
    where
        R: AsRef<[Rows<'r>]> + ?Sized,
    {
        Call::DEFAULT.prefetch(self, rows, tier)
    }

    /// A new sequence with the first tokens of this one; `None`: all, open rows and ids given ahead too.  Copy on write.
    ///
    /// # Errors
    ///
    /// [`Range`](crate::ErrorKind::Range): more than it has.  [`NoSnapshot`](crate::ErrorKind::NoSnapshot): a state layer has none there.
    /// [`Gone`](crate::ErrorKind::Gone): evicted after a lapse.  [`Full`](crate::ErrorKind::Full): `seq_max` or memory.
    pub fn fork(&self, tokens: Option<u64>) -> Result<Self> {
        let mut out = std::ptr::null_mut();
        // SAFETY: `out` is filled.
        check(|error| unsafe {
            sys::kvc_seq_fork(&raw mut out, self.raw(), tokens.unwrap_or(sys::KVC_ALL), error)
        })?;
        Ok(Self::of(out, &self.store))
    }

    /// Back to so many tokens, in all layers or not at all; 0 is always possible.  Cut too are ids given ahead of rows.
    ///
    /// # Errors
    ///
    /// [`Range`](crate::ErrorKind::Range): longer than it is.  [`Gone`](crate::ErrorKind::Gone): rows that a window needs, or chunks, went.
    /// [`NoSnapshot`](crate::ErrorKind::NoSnapshot): [`SeqInfo::tokens_end`] says where it can.
    pub fn truncate(&mut self, tokens: u64) -> Result<()> {
        // SAFETY: `&mut self`: alone on this handle.
        check(|error| unsafe { sys::kvc_seq_truncate(self.raw(), tokens, error) })
    }

    /// Keeps only the listed positions (rising), renumbered from 0.  The sequence becomes private.  All or nothing.
    ///
    /// # Errors
    ///
    /// [`Range`](crate::ErrorKind::Range): past the length, not rising.  [`Gone`](crate::ErrorKind::Gone): some are no longer held.
    /// [`Full`](crate::ErrorKind::Full): no room for the copies.  [`Unsupported`](crate::ErrorKind::Unsupported): it has state layers.
    pub fn compact(&mut self, positions: &[u64]) -> Result<()> {
        // SAFETY: `&mut self`: alone on this handle.
        check(|error| unsafe {
            sys::kvc_seq_compact(self.raw(), pointer_of(positions), positions.len(), error)
        })
    }

    /// Tells the store what the host knows of reuse: who is evicted first when this was dropped or lapsed.
    ///
    /// # Errors
    ///
    /// Those of a wrong call.
    pub fn hint(&mut self, hint: &Hint) -> Result<()> {
        let mut raw = sys::kvc_hint::init();
        raw.flags = if hint.done { sys::KVC_HINT_DONE } else { 0 };
        raw.continues_in_ms = millis(hint.continues_in);
        raw.turn = hint.turn;
        raw.priority = hint.priority;
        // SAFETY: `&mut self`: alone on this handle.
        check(|error| unsafe { sys::kvc_seq_hint(self.raw(), &raw const raw, error) })
    }

    /// A lease of its own on these positions: it outlives the sequence.  `..` pins for who goes on from the end.
    ///
    /// # Errors
    ///
    /// [`Range`](crate::ErrorKind::Range): past the sequence.  [`Gone`](crate::ErrorKind::Gone): some of it is no longer held.
    /// [`Full`](crate::ErrorKind::Full): 1048576 leases are held.
    pub fn lease(&self, tokens: impl RangeBounds<u64>, time: Option<Duration>) -> Result<Lease> {
        Call::DEFAULT.lease(self, tokens, time)
    }

    /// Lends the page of one layer that holds `token`, in place; of a state layer the snapshot behind it.
    ///
    /// # Errors
    ///
    /// [`Range`](crate::ErrorKind::Range): past what the layer has.  [`Gone`](crate::ErrorKind::Gone): no longer held.
    /// [`NoSnapshot`](crate::ErrorKind::NoSnapshot): of a state layer.  [`Unsupported`](crate::ErrorKind::Unsupported): not mappable, or in several
    /// slices.  [`Busy`](crate::ErrorKind::Busy): `view_max`.
    pub fn view(&self, layer: u32, token: u64) -> Result<View> {
        View::acquire(self, layer, token, 0)
    }

    /// The same page as it is stored: the 512 bytes of its header as the view's keys, its sections as the values.
    ///
    /// # Errors
    ///
    /// As [`view`](Self::view); [`Unsupported`](crate::ErrorKind::Unsupported): it is not sealed.
    pub fn view_frame(&self, layer: u32, token: u64) -> Result<View> {
        View::acquire(self, layer, token, sys::KVC_VIEW_FRAME)
    }

    /// Hands the sequence, open rows included, to whoever knows scope and name (1 to 64 bytes): a snapshot, held so long.
    ///
    /// # Errors
    ///
    /// [`Gone`](crate::ErrorKind::Gone): some of it is no longer held.  [`Full`](crate::ErrorKind::Full): no room, or as many names as `seq_max`.
    pub fn publish(&mut self, name: impl AsRef<[u8]>, time: Option<Duration>) -> Result<()> {
        Call::DEFAULT.publish(self, name, time)
    }

    /// Saves it as one file, which appears whole or not at all.  Only its owner can read that.
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io): the file.  [`Gone`](crate::ErrorKind::Gone): some of it is no longer held, or failed its check.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        Call::DEFAULT.save(self, path)
    }

    /// What it is and where it lies.  Does not renew its lease.
    ///
    /// # Errors
    ///
    /// [`Forked`](crate::ErrorKind::Forked): it is the parent's.
    pub fn info(&self) -> Result<SeqInfo> {
        let mut raw = sys::kvc_seq_info::init();
        // SAFETY: the struct is sized.
        check(|error| unsafe { sys::kvc_seq_get_info(&raw mut raw, self.raw(), error) })?;
        Ok(SeqInfo::of(&raw))
    }
}

/// Beam search: the i-th sequence becomes what `source[i]` was; all or nothing.  An index may stand there several times.
///
/// # Errors
///
/// [`Argument`](crate::ErrorKind::Argument): as many sources as sequences are needed.  [`Range`](crate::ErrorKind::Range): an index.
/// [`Shape`](crate::ErrorKind::Shape): unequal scopes or parts.  [`Misuse`](crate::ErrorKind::Misuse): of two stores.
pub fn reorder<'s>(seqs: impl IntoIterator<Item = &'s mut Seq>, source: &[u32]) -> Result<()> {
    let seqs: Vec<_> = seqs.into_iter().map(|seq| seq.raw()).collect();
    if seqs.len() != source.len() {
        let (count, sources) = (seqs.len(), source.len());
        return Err(Error::argument(format!("source: {sources} for {count} sequences")));
    }
    // SAFETY: each is borrowed alone, and both arrays are as long.
    check(|error| unsafe {
        sys::kvc_seq_reorder(pointer_of(&seqs), pointer_of(source), seqs.len(), error)
    })
}

/// What a [`Seq`] is and where it lies.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SeqInfo {
    /// Copies of the least replicated chunk.
    pub copies: u32,
    /// Length: complete tokens.
    pub tokens: u64,
    /// Ids known; private: maybe fewer than tokens.
    pub tokens_given: u64,
    /// Leading part in sealed chunks.
    pub tokens_sealed: u64,
    /// Largest position before the end to which every layer can be truncated.
    pub tokens_end: u64,
    /// To where all layers can go on; less than `tokens` only after a lapse: truncate to it.
    pub tokens_held: u64,
    /// Leading part that goes by its name, which others find.
    pub tokens_shareable: u64,
    /// Held in device memory.
    pub bytes_device: u64,
    /// Held in RAM.
    pub bytes_host: u64,
    /// Held on disk.
    pub bytes_nvme: u64,
    /// Held on other machines.
    pub bytes_remote: u64,
    /// Until it lapses; zero: lapsed; [`FOREVER`](crate::FOREVER): when it is dropped.
    pub lease_left: Duration,
    /// Bits a stored number takes, all overhead counted.
    pub bits_effective: f64,
    /// Relative attention-output error the allocator expects; 0 for exact.
    pub error_estimate: f64,
    /// By bits, exact at 16: units of page x KV head x {K, V} held so.
    pub width_pages: [u64; 17],
}

impl SeqInfo {
    fn of(raw: &sys::kvc_seq_info) -> Self {
        let left = raw.lease_left_ms;
        Self {
            copies: raw.copies,
            tokens: raw.tokens,
            tokens_given: raw.tokens_given,
            tokens_sealed: raw.tokens_sealed,
            tokens_end: raw.tokens_end,
            tokens_held: raw.tokens_held,
            tokens_shareable: raw.tokens_shareable,
            bytes_device: raw.bytes_device,
            bytes_host: raw.bytes_host,
            bytes_nvme: raw.bytes_nvme,
            bytes_remote: raw.bytes_remote,
            lease_left: if left == sys::KVC_FOREVER {
                Duration::MAX
            } else {
                Duration::from_millis(left)
            },
            bits_effective: raw.bits_effective,
            error_estimate: raw.error_estimate,
            width_pages: raw.width_pages,
        }
    }
}
