"""A sequence: an ordered run of tokens and their rows."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Sequence
from weakref import ref

from . import _native
from .errors import ShapeError
from .handle import Handle
from .info import Result, SeqInfo
from .rows import Rows
from .view import View

if TYPE_CHECKING:
    from .rows import Integers
    from .scope import Scope
    from .store import Store


@dataclass(frozen=True, slots=True)
class Extra:
    """Identity beside token ids: 1..64 bytes that stand behind a range of positions, such as an image's digest."""

    token_begin: int
    token_count: int
    data: bytes

    def _packed(self) -> tuple[int, int, bytes]:
        return (self.token_begin, self.token_count, bytes(self.data))


@dataclass(frozen=True, slots=True)
class Part:
    """What a rank has of a model that is split by layers (PP) or KV heads (TP); counts of 0: all.  Rows name layers and heads of the whole model.

    write_id: 16 bytes that the ranks of one engine share, new ones for each sequence; their slices then make one chunk.
    """

    layer_begin: int = 0
    layer_count: int = 0
    head_begin: int = 0
    head_count: int = 0
    write_id: bytes = b""


class Lease(Handle):
    """A hold on tokens or objects that outlives what it was taken from."""

    __slots__ = ("store",)

    def __init__(self, store: Store, handle: int) -> None:
        super().__init__(handle)
        self.store = store

    def _end(self) -> None:
        _native.kvc_lease_release(self._handle)

    def renew(self, lease_ms: int = 0) -> None:
        """lease_ms from now; 0: the store's.  Gone: it lapsed, and pages went."""
        _native.kvc_lease_renew(self._handle, lease_ms)


class Seq(Handle):
    """Made by Scope.match, Scope.sequence and Seq.fork.

    One call at a time: it has a lock of its own, so threads may share it, but they wait for each other; a fork for each thread does not.
    """

    __slots__ = ("scope", "_lock")

    def __init__(self, scope: Scope, handle: int) -> None:
        super().__init__(handle)
        self.scope = scope
        self._lock = threading.Lock()
        _living.add(ref(self, _living.discard))

    def _end(self) -> None:
        with self._lock:
            _native.kvc_seq_release(self._handle)

    def append(self, tokens: Integers | None, rows: Rows | Sequence[Rows] = (), *, timeout_us: int = 0) -> None:
        """The next token ids, rows, or both; all or nothing.  Ids may run ahead of rows; each run starts where its layers end."""
        packed = self._pack(rows)
        with self._lock:
            _native.kvc_append(self._handle, tokens, packed, timeout_us)

    def gather(self, rows: Rows | Sequence[Rows], *, timeout_us: int = 0) -> Result:
        """Copies rows into the arrays, converted to their dtype and layout.  On an Error, rows below its `done` are right."""
        packed = self._pack(rows)
        with self._lock:
            result = _native.kvc_gather(self._handle, packed, timeout_us)
        return Result(*result[:-1])

    def view(self, layer: int, token: int, *, frame: bool = False) -> View:
        """The page of `layer` that holds position `token`, lent in place.  frame: the stored bytes instead, header and sections."""
        with self._lock:
            handle, rows = _native.kvc_view_acquire(self._handle, layer, token, _native.KVC_VIEW_FRAME if frame else 0)
        return View(self.scope, handle, rows)

    def identify(self, extras: Sequence[Extra]) -> None:
        """Adds identity to tokens whose chunk is not sealed yet."""
        packed = tuple(extra._packed() for extra in extras)
        with self._lock:
            _native.kvc_seq_identify(self._handle, packed)

    def fork(self, tokens: int | None = None) -> Seq:
        """A new sequence with the first `tokens` (None: all); its cost does not depend on the length."""
        with self._lock:
            handle = _native.kvc_seq_fork(self._handle, _native.KVC_ALL if tokens is None else tokens)
        return Seq(self.scope, handle)

    def truncate(self, tokens: int) -> None:
        """Back to `tokens`, in all layers or not at all."""
        with self._lock:
            _native.kvc_seq_truncate(self._handle, tokens)

    def compact(self, positions: Integers) -> None:
        """Keeps only these positions, which rise, renumbered from 0; the sequence becomes private."""
        with self._lock:
            _native.kvc_seq_compact(self._handle, positions)

    def hint(self, *, done: bool = False, continues_in_ms: int = 0, turn: int = 0, priority: int = 0) -> None:
        """What the host knows of reuse (kvc/seq.h, kvc_hint).  done: the conversation is over, its own tail is the first to go."""
        with self._lock:
            _native.kvc_seq_hint(self._handle, (_native.KVC_HINT_DONE if done else 0, continues_in_ms, turn, priority))

    def publish(self, name: bytes | str, *, lease_ms: int = 0, timeout_us: int = 0) -> None:
        """Hands a snapshot, open rows included, to whoever attaches this name in an equal scope; a name given again is replaced."""
        with self._lock:
            _native.kvc_seq_publish(self._handle, _name(name), lease_ms, timeout_us)

    def prefetch(self, rows: Rows | Sequence[Rows], tier: int = _native.KVC_TIER_HOST, *, detach: bool = False, timeout_us: int = 0) -> Result:
        """Brings rows to a tier; their arrays are not looked at.  detach: starts it and returns."""
        packed = self._pack(rows)
        with self._lock:
            result = _native.kvc_seq_prefetch(self._handle, packed, tier, (timeout_us, _native.KVC_CALL_DETACH if detach else 0))
        return Result(*result[:-1])

    def save(self, path: str | bytes | os.PathLike[str], *, timeout_us: int = 0) -> None:
        """As one file, whole or not at all; Scope.restore makes a sequence of it."""
        with self._lock:
            _native.kvc_seq_save(self._handle, os.fsencode(path), timeout_us)

    def info(self) -> SeqInfo:
        with self._lock:
            return SeqInfo(*_native.kvc_seq_get_info(self._handle))

    def lease(self, token_begin: int = 0, token_count: int = _native.KVC_ALL, lease_ms: int = 0, *, timeout_us: int = 0) -> Lease:
        """A hold on these tokens that outlives the sequence."""
        with self._lock:
            handle = _native.kvc_seq_lease(self._handle, token_begin, token_count, lease_ms, timeout_us)
        return Lease(self.scope.store, handle)

    def _pack(self, rows: Rows | Sequence[Rows]) -> list[tuple[Any, ...]]:
        shape = self.scope.shape
        if isinstance(rows, Rows):
            kept = rows._kept
            if kept is not None and kept[0] is shape:
                return [kept[1]]
        runs = (rows,) if isinstance(rows, Rows) else tuple(rows)
        for run in runs:
            if not isinstance(run, Rows):
                raise TypeError(f"rows: a kvc.Rows or a list of them is needed, not {type(run).__name__!r} (Rows.of makes one from arrays)")
            if not (run.k_dim or run.v_dim) or shape is None:
                continue
            layer = shape.layer(run.layer_begin)
            one_row = layer.k_dim + layer.rope_dim if run.v is None else layer.k_dim
            for side, dim, width in (("k", run.k_dim, layer.k_dim), ("v", run.v_dim, layer.v_dim or layer.rope_dim)):
                if dim and dim != width and not (side == "k" and dim == one_row):
                    raise ShapeError(_native.KVC_ERR_SHAPE,
                                     f"{side}: {dim} elements a head; the shape's layer {run.layer_begin} has {width}")
        packed = [run._packed() for run in runs]
        if isinstance(rows, Rows):
            object.__setattr__(rows, "_kept", (shape, packed[0]))
        return packed


def _name(name: bytes | str) -> bytes:
    return name.encode() if isinstance(name, str) else bytes(name)


def reorder(seqs: Sequence[Seq], source: Integers) -> None:
    """Beam search: seqs[i] becomes what seqs[source[i]] was, all of them or none."""
    locked: list[Seq] = []
    try:
        for seq in sorted(set(seqs), key=id):  # in one order, so that two threads cannot wait for each other
            seq._lock.acquire()
            locked.append(seq)
        _native.kvc_seq_reorder(([seq._handle for seq in seqs], source))
    finally:
        for seq in locked:
            seq._lock.release()


_living: set[ref[Seq]] = set()  # not a WeakSet, which threads that add to it may break without a GIL


def _renew_locks() -> None:
    """In a forked child: a lock that another thread held at the fork would never be released, and the call behind it says Forked."""
    _native.calls_after_fork()
    for known in _living.copy():
        if (seq := known()) is not None:
            seq._lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_locks)
