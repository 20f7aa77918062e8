"""What calls report: frozen, in the order of the structs of the headers, where each member is documented."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoreInfo:
    state: int
    memory_bytes: int
    memory_used: int
    memory_pinned: int
    nvme_bytes: int
    nvme_used: int
    device_bytes: int
    device_used: int
    seq_count: int
    lease_count: int
    view_count: int
    region_count: int
    chunk_count: int
    object_count: int
    features: int


@dataclass(frozen=True, slots=True)
class VerifyInfo:
    pages_read: int
    pages_bad: int
    bytes_read: int
    first_bad: str


@dataclass(frozen=True, slots=True)
class ScopeInfo:
    bytes_device: int
    bytes_host: int
    bytes_nvme: int
    bytes_remote: int
    bytes_max: int
    chunk_count: int
    object_count: int
    seq_count: int
    hit_tokens: int
    miss_tokens: int
    tokens_written: int
    tokens_read: int
    byte_seconds_device: float
    byte_seconds_host: float
    byte_seconds_nvme: float
    byte_seconds_remote: float
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class SeqInfo:
    copies: int
    tokens: int
    tokens_given: int
    tokens_sealed: int
    tokens_end: int
    tokens_held: int
    tokens_shareable: int
    bytes_device: int
    bytes_host: int
    bytes_nvme: int
    bytes_remote: int
    lease_left_ms: int
    bits_effective: float
    error_estimate: float
    width_pages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MatchInfo:
    stop: int
    tokens: int
    tokens_attention: int
    tokens_hot: int
    bytes_nvme: int
    bytes_remote: int
    fetch_us: int
    prefill_us: int


@dataclass(slots=True, unsafe_hash=True)  # not frozen: a frozen one takes a microsecond to make, and each gather makes one
class Result:
    done: int
    bytes: int
    bytes_device: int
    bytes_host: int
    bytes_nvme: int
    bytes_remote: int
    elapsed_us: int


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to a chunk: EVENT_*.  `tokens` are its ids, of a STORED one."""

    kind: int
    tier_from: int
    tier_to: int
    sequence_number: int
    token_begin: int
    token_count: int
    scope: bytes
    chunk: bytes
    parent: bytes
    tokens: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Metrics:
    match_calls: int
    match_tokens: int
    hit_tokens: int
    gather_bytes: int
    append_bytes: int
    attend_calls: int
    evicted_chunks: int
    demoted_pages: int
    promoted_pages: int
    checksum_failures: int
    timeouts: int
    lapsed_leases: int
    hit_bytes_device: int
    hit_bytes_host: int
    hit_bytes_nvme: int
    hit_bytes_remote: int
