//! The small types that several modules share.

use kvc_sys as sys;
use std::time::Duration;

/// A time without end, where a duration is asked for: no deadline, a lease until release.
pub const FOREVER: Duration = Duration::MAX;

/// A time as C takes it: 0 is the default, and what is shorter than the unit counts as one.
fn units(time: Option<Duration>, nanos_per_unit: u128) -> u64 {
    match time {
        None => 0,
        Some(FOREVER) => sys::KVC_FOREVER,
        Some(time) => {
            let units = time.as_nanos().div_ceil(nanos_per_unit).max(1);
            u64::try_from(units).unwrap_or(u64::MAX).min(sys::KVC_FOREVER - 1)
        }
    }
}

pub(crate) fn micros(time: Option<Duration>) -> u64 {
    units(time, 1_000)
}

pub(crate) fn millis(time: Option<Duration>) -> u64 {
    units(time, 1_000_000)
}

pub(crate) fn nanos(time: Option<Duration>) -> u64 {
    units(time, 1)
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident { $($(#[$said:meta])* $variant:ident = $raw:ident,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$said])* $variant,)*
        }

        impl $name {
            /// The number in C.
            #[must_use]
            pub const fn raw(self) -> u32 {
                match self {
                    $(Self::$variant => sys::$raw,)*
                }
            }

            /// Of the number in C; `None`: it is none, or of a later library.
            #[must_use]
            pub const fn from_raw(raw: u32) -> Option<Self> {
                match raw {
                    $(sys::$raw => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    )*};
}

numbers! {
    /// Element types.
    DType {
        /// IEEE 754 binary32, 4 bytes.
        F32 = KVC_F32,
        /// IEEE 754 binary16, 2 bytes.
        F16 = KVC_F16,
        /// The upper half of a binary32, 2 bytes.
        BF16 = KVC_BF16,
        /// 8-bit float, 4 exponent bits, finite; 1 byte.
        F8E4M3 = KVC_F8_E4M3,
        /// Raw bytes, never converted.
        U8 = KVC_U8,
    }

    /// Where the store's copy is.
    Tier {
        /// Memory of a device of this machine.
        Device = KVC_TIER_DEVICE,
        /// RAM of this machine.
        Host = KVC_TIER_HOST,
        /// A directory of this machine.
        Nvme = KVC_TIER_NVME,
        /// Another machine.
        Remote = KVC_TIER_REMOTE,
    }

    /// Kinds of layers.
    LayerKind {
        /// Every token sees all before it; any grouping of heads.
        Full = KVC_LAYER_FULL,
        /// A token sees the last `window` tokens.
        Window = KVC_LAYER_WINDOW,
        /// One shared latent a token, and a rope part (MLA).
        Latent = KVC_LAYER_LATENT,
        /// A recurrent state, kept as snapshots at positions.
        State = KVC_LAYER_STATE,
    }

    /// Which channels of a key a rotary embedding turned together.  kvc never rotates: this is identity only.
    Rope {
        /// The host does not say: equal to nothing but itself.
        Unstated = KVC_ROPE_UNSTATED,
        /// Channel d with d + dim/2 (transformers, vLLM).
        Halves = KVC_ROPE_HALVES,
        /// Channel 2d with 2d + 1 (llama.cpp's permuted weights).
        Pairs = KVC_ROPE_PAIRS,
        /// Keys carry no rotation.
        None = KVC_ROPE_NONE,
    }

    /// Why a match ends where it does.
    Stop {
        /// Every whole chunk of the tokens was found.
        End = KVC_STOP_END,
        /// The next chunk is not held.
        Absent = KVC_STOP_ABSENT,
        /// Rows of a window layer are missing behind a later end.
        Window = KVC_STOP_WINDOW,
        /// There is no snapshot at a later end.
        State = KVC_STOP_STATE,
        /// Recomputing is faster.
        Cost = KVC_STOP_COST,
        /// The next chunk is on a node that does not answer.
        Unreachable = KVC_STOP_UNREACHABLE,
        /// The deadline passed.
        Deadline = KVC_STOP_DEADLINE,
    }
}

impl DType {
    /// Bytes of an element.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::F8E4M3 | Self::U8 => 1,
        }
    }
}

macro_rules! bits {
    ($($(#[$doc:meta])* $name:ident: $raw:ty { $($(#[$said:meta])* $bit:ident = $value:ident,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name($raw);

        impl $name {
            $($(#[$said])* pub const $bit: Self = Self(sys::$value);)*

            /// No bit.
            pub const NONE: Self = Self(0);

            /// The bits as in C, also those that this crate does not know.
            #[must_use]
            pub const fn bits(self) -> $raw {
                self.0
            }

            /// Of the bits in C.
            #[must_use]
            pub const fn from_bits(bits: $raw) -> Self {
                Self(bits)
            }

            /// Every bit of the other is set here.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// No bit is set.
            #[must_use]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }
    )*};
}

bits! {
    /// Abilities that a build, or a machine, may lack.
    Features: u64 {
        /// Device memory.
        CUDA = KVC_FEATURE_CUDA,
        /// `kvc:` stores, over libfabric.
        FABRIC = KVC_FEATURE_FABRIC,
        /// `file:` stores through io_uring.
        URING = KVC_FEATURE_URING,
        /// Clusters whose map is in etcd.
        ETCD = KVC_FEATURE_ETCD,
    }

    /// What is wrong with a store that still works.
    State: u32 {
        /// `kvc:` no node answers.
        DETACHED = KVC_STATE_DETACHED,
        /// The disk is full or failing: nothing more is written to it.
        NVME_READ_ONLY = KVC_STATE_NVME_READ_ONLY,
        /// A device stopped answering: its tier is empty.
        DEVICE_LOST = KVC_STATE_DEVICE_LOST,
    }

    /// What may happen to a chunk.
    EventKind: u32 {
        /// It became visible.
        STORED = KVC_EVENT_STORED,
        /// It is gone from the tier it was in.
        REMOVED = KVC_EVENT_REMOVED,
        /// It went from one tier to another.
        MOVED = KVC_EVENT_MOVED,
        /// Its scope was cleared: everything of it is gone.
        CLEARED = KVC_EVENT_CLEARED,
        /// Some events were dropped: forget what is known, and begin anew.
        LOST = KVC_EVENT_LOST,
    }
}

impl EventKind {
    /// Every kind.
    pub const ALL: Self = Self(
        sys::KVC_EVENT_STORED
            | sys::KVC_EVENT_REMOVED
            | sys::KVC_EVENT_MOVED
            | sys::KVC_EVENT_CLEARED
            | sys::KVC_EVENT_LOST,
    );
}

/// What came of a call that moves something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Rows: the position below which every run is right (lists: leading entries).  Objects: leading items that are right.
    pub done: u64,
    /// Bytes moved to or from the caller's memory.
    pub bytes: u64,
    /// Of them, those that lay in device memory.
    pub bytes_device: u64,
    /// In RAM here.
    pub bytes_host: u64,
    /// On disk here.
    pub bytes_nvme: u64,
    /// On other machines.
    pub bytes_remote: u64,
    /// From the start of the call.
    pub elapsed: Duration,
}

impl Report {
    pub(crate) fn of(raw: &sys::kvc_result) -> Self {
        Self {
            done: raw.done,
            bytes: raw.bytes,
            bytes_device: raw.bytes_device,
            bytes_host: raw.bytes_host,
            bytes_nvme: raw.bytes_nvme,
            bytes_remote: raw.bytes_remote,
            elapsed: Duration::from_micros(raw.elapsed_us),
        }
    }
}

/// A handle of C: a token that carries a generation, not an address.
#[derive(Debug)]
pub(crate) struct Handle<T>(pub(crate) *mut T);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

// SAFETY: a handle is a number to this side, and every call takes it on any thread; which calls may run beside each other is said by
// `&self` and `&mut self` of the types that hold one.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

/// Where something is that is used as a `T` by whoever may use the type that holds the address.
#[derive(Debug)]
pub(crate) struct Address<T>(pub(crate) *mut T);

// SAFETY: it is sent with what it is the address of, or with a promise that this stays, as a `T` itself would be.
unsafe impl<T: Send> Send for Address<T> {}
// SAFETY: `&self` of a type that holds one gives `&T` at most, as a shared `T` itself would.
unsafe impl<T: Sync> Sync for Address<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_and_never_become_the_default() {
        assert_eq!((micros(None), millis(None), nanos(None)), (0, 0, 0));
        assert_eq!((micros(Some(FOREVER)), millis(Some(FOREVER))), (u64::MAX, u64::MAX));
        assert_eq!(micros(Some(Duration::ZERO)), 1);
        assert_eq!(millis(Some(Duration::from_micros(1001))), 2);
        assert_eq!(nanos(Some(Duration::from_micros(3))), 3000);
        assert_eq!(nanos(Some(Duration::from_secs(u64::MAX))), u64::MAX - 1);
    }

    #[test]
    fn numbers_of_a_later_library_are_none_of_ours() {
        assert_eq!((Stop::from_raw(6), Stop::from_raw(7)), (Some(Stop::Deadline), None));
        assert_eq!(
            (DType::from_raw(0), DType::from_raw(DType::BF16.raw())),
            (None, Some(DType::BF16))
        );
        let kinds = EventKind::STORED | EventKind::LOST;
        assert!(EventKind::ALL.contains(kinds) && !kinds.contains(EventKind::MOVED));
        assert_eq!(kinds.bits(), 17);
    }
}
