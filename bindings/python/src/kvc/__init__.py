"""kvc: the key/value cache of transformer attention, outside the inference engine.

    import kvc
    with kvc.Store("mem:", memory_bytes=1 << 30) as store:
        shape = kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=32, kv_heads=8, k_dim=128, v_dim=128)])
        scope = store.scope(model="llama-3-8b", shape=shape)
        seq, info = scope.match(tokens, tokens_max=len(tokens) - 1)       # info.tokens of them are stored
        have, n = info.tokens, len(tokens)
        if have:
            seq.gather([kvc.Rows.of(k=k, v=v, token_count=have)])         # into the engine's arrays [layer][token][head][dim], in place
        # ... the engine computes the rest; its rows stand where their tokens do, so slot_begin is token_begin
        seq.append(tokens[have:], [kvc.Rows.of(k=k, v=v, token_begin=have, slot_begin=have, token_count=n - have)])

Calls, structs and rules are those of the C headers (kvc/kvc.h); arrays of any library are used in place, and none is imported here.
"""

from __future__ import annotations

from . import _native
from .errors import (AbilityError, ArgumentError, Busy, Cancelled, Corrupt, DataError, Denied, DeviceError, Error, Exists, Forked,
                     Full, Gone, InputOutputError, InternalError, MisuseError, NoMemory, NoSnapshot, NotFound, RangeError,
                     ReachError, ReadOnly, RoomError, ShapeError, Stale, SystemFailure, Timeout, TooNew, Unavailable, Unsupported,
                     VersionError)
from .info import Event, MatchInfo, Metrics, Result, ScopeInfo, SeqInfo, StoreInfo, VerifyInfo
from .layout import Layout, Side
from .queue import Call, Queue
from .rows import Array, Rows, SupportsDLPack
from .scope import Found, ObjectEntry, Scope
from .seq import Extra, Lease, Part, Seq, reorder
from .shape import Layer, Shape, ShapeInfo
from .store import Region, Store
from .view import View

F32, F16, BF16, F8_E4M3, U8 = (_native.KVC_F32, _native.KVC_F16, _native.KVC_BF16, _native.KVC_F8_E4M3, _native.KVC_U8)
LAYER_FULL, LAYER_WINDOW, LAYER_LATENT, LAYER_STATE = (_native.KVC_LAYER_FULL, _native.KVC_LAYER_WINDOW, _native.KVC_LAYER_LATENT,
                                                       _native.KVC_LAYER_STATE)
ROPE_UNSTATED, ROPE_HALVES, ROPE_PAIRS, ROPE_NONE = (_native.KVC_ROPE_UNSTATED, _native.KVC_ROPE_HALVES, _native.KVC_ROPE_PAIRS,
                                                     _native.KVC_ROPE_NONE)
STOP_END, STOP_ABSENT, STOP_WINDOW, STOP_STATE, STOP_COST, STOP_UNREACHABLE, STOP_DEADLINE = (
    _native.KVC_STOP_END, _native.KVC_STOP_ABSENT, _native.KVC_STOP_WINDOW, _native.KVC_STOP_STATE, _native.KVC_STOP_COST,
    _native.KVC_STOP_UNREACHABLE, _native.KVC_STOP_DEADLINE)
TIER_DEVICE, TIER_HOST, TIER_NVME, TIER_REMOTE = (_native.KVC_TIER_DEVICE, _native.KVC_TIER_HOST, _native.KVC_TIER_NVME,
                                                  _native.KVC_TIER_REMOTE)
RETRY_NEVER, RETRY_NOW, RETRY_LATER, RETRY_RECOMPUTE = (_native.KVC_RETRY_NEVER, _native.KVC_RETRY_NOW, _native.KVC_RETRY_LATER,
                                                        _native.KVC_RETRY_RECOMPUTE)
FEATURE_CUDA, FEATURE_FABRIC, FEATURE_URING, FEATURE_ETCD = (_native.KVC_FEATURE_CUDA, _native.KVC_FEATURE_FABRIC,
                                                             _native.KVC_FEATURE_URING, _native.KVC_FEATURE_ETCD)
EVENT_STORED, EVENT_REMOVED, EVENT_MOVED, EVENT_CLEARED, EVENT_LOST = (
    _native.KVC_EVENT_STORED, _native.KVC_EVENT_REMOVED, _native.KVC_EVENT_MOVED, _native.KVC_EVENT_CLEARED, _native.KVC_EVENT_LOST)
ALL: int = _native.KVC_ALL
FOREVER: int = _native.KVC_FOREVER


def version() -> tuple[int, int, int]:
    """Of the library that is loaded."""
    number = _native.kvc_version()
    return number >> 16, number >> 8 & 0xFF, number & 0xFF


__version__ = ".".join(map(str, version()))


def features() -> int:
    """FEATURE_* bits of the library that is loaded."""
    return _native.kvc_features()


def status_name(status: int) -> str:
    """-40 -> "KVC_ERR_FULL"."""
    return _native.kvc_status_name(status)


__all__ = [
    "ALL", "AbilityError", "ArgumentError", "Array", "BF16", "Busy", "Call", "Cancelled", "Corrupt", "DataError", "Denied",
    "DeviceError", "EVENT_CLEARED", "EVENT_LOST", "EVENT_MOVED", "EVENT_REMOVED", "EVENT_STORED", "Error", "Event", "Exists", "Extra",
    "F16", "F32", "F8_E4M3", "FEATURE_CUDA", "FEATURE_ETCD", "FEATURE_FABRIC", "FEATURE_URING", "FOREVER", "Forked", "Found", "Full",
    "Gone", "InputOutputError", "InternalError", "LAYER_FULL", "LAYER_LATENT", "LAYER_STATE", "LAYER_WINDOW", "Layer", "Layout",
    "Lease", "MatchInfo", "Metrics", "MisuseError", "NoMemory", "NoSnapshot", "NotFound", "ObjectEntry", "Part", "Queue",
    "RETRY_LATER", "RETRY_NEVER", "RETRY_NOW", "RETRY_RECOMPUTE", "ROPE_HALVES", "ROPE_NONE", "ROPE_PAIRS", "ROPE_UNSTATED", "RangeError",
    "ReachError", "ReadOnly", "Region", "Result", "RoomError", "Rows", "STOP_ABSENT", "STOP_COST", "STOP_DEADLINE", "STOP_END",
    "STOP_STATE", "STOP_UNREACHABLE", "STOP_WINDOW", "Scope", "ScopeInfo", "Seq", "SeqInfo", "Shape", "ShapeError", "ShapeInfo",
    "Side", "Stale", "Store", "StoreInfo", "SupportsDLPack", "SystemFailure", "TIER_DEVICE", "TIER_HOST", "TIER_NVME", "TIER_REMOTE",
    "Timeout", "TooNew", "U8", "Unavailable", "Unsupported", "VerifyInfo", "VersionError", "View", "__version__", "features", "reorder",
    "status_name", "version",
]
