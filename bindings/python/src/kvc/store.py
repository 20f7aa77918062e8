"""A store: one cache."""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Callable, Self
from weakref import ref

from . import _native
from .errors import Corrupt, Forked, MisuseError, RangeError, Stale
from .handle import Handle, Owned
from .info import Metrics, StoreInfo, VerifyInfo
from .queue import Queue
from .scope import Scope
from .shape import Shape

if TYPE_CHECKING:
    from .rows import Memory

TEXT_GUESS_BYTES = 1 << 16


class Region(Handle):
    """Made by Store.region: memory that stays registered, and alive, until the release."""

    __slots__ = ("store", "_memory")

    def __init__(self, store: Store, handle: int, memory: object) -> None:
        super().__init__(handle)
        self.store = store
        self._memory = memory

    def release(self) -> None:
        """Busy, and nothing is released: queued calls use it."""
        if not self._is_open:
            return
        try:
            _native.kvc_region_release(self._handle)
        except (Stale, Forked):
            pass
        self._is_open = False
        self._memory = None


class Store(Owned):
    """Opens "mem:".  Limits are fixed here; 0 is the library's default (kvc/store.h, kvc_store_options).  Any thread may use it.

    log: called with (level, line) by any thread of the library, level 1 error to 4 debugging; in it every call of kvc raises MisuseError.
    What it raises goes to sys.unraisablehook.  host_driven: no threads of the library; `step`, waiting calls, Queue.drain and awaits do its work.
    wait: a full store makes calls wait up to their timeout.
    """

    __slots__ = ("host_driven", "_handle", "_is_open", "_log", "_queues", "__weakref__")

    def __init__(self, uri: str = "mem:", *, memory_bytes: int = 0, seq_max: int = 0, queue_max: int = 0, view_max: int = 0,
                 worker_count: int = 0, open_bytes_max: int = 0, timeout_us: int = 0, lease_ms: int = 0, verify_reads: bool = False,
                 zero: bool = False, populate: bool = False, host_driven: bool = False, wait: bool = False,
                 log: Callable[[int, str], object] | None = None, log_level: int = 0) -> None:
        flags = (_native.KVC_OPEN_VERIFY_READS * verify_reads | _native.KVC_OPEN_ZERO * zero | _native.KVC_OPEN_POPULATE * populate
                 | _native.KVC_OPEN_HOST_DRIVEN * host_driven | _native.KVC_OPEN_WAIT * wait)
        self._handle, self._is_open = 0, False
        self._queues: set[ref[Queue]] = set()
        self.host_driven = host_driven
        self._log = log  # borrowed by the library
        self._handle = _native.kvc_open(uri, (flags, memory_bytes, seq_max, queue_max, view_max, worker_count, open_bytes_max, timeout_us,
                                              lease_ms, log_level, log))
        self._is_open = True

    def close(self) -> None:
        """Ends everything of the store, after the calls that other threads are inside.  A second close does nothing."""
        if not self._is_open:
            return
        try:
            _native.kvc_close(self._handle)
        except (Stale, Forked):
            pass
        self._is_open = False
        for known in self._queues.copy():
            if (queue := known()) is not None:
                queue._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            try:
                self.close()
            except MisuseError:  # inside a log callable: when the call that logs is over
                _native.late_add(self.close)
        except Exception:
            pass  # half made, or the interpreter is ending: there is nobody to tell

    def __repr__(self) -> str:
        return f"<kvc.Store {self._handle:#x}{'' if self._is_open else ', closed'}>"

    def scope(self, *, model: str, revision: str | None = None, tenant: str | None = None, adapter: str | None = None, salt: bytes = b"",
              shape: Shape | None = None, bytes_max: int = 0, ttl_ms: int = 0) -> Scope:
        """Whose cache, of which shape (None: objects only).  The same names, salt and shape give an equal scope."""
        options = (tenant, model, revision, adapter, bytes(salt), bytes_max, ttl_ms, None if shape is None else shape._packed())
        return Scope(self, _native.kvc_scope_create(self._handle, options), shape)

    def queue(self, *, depth: int = 0, description_bytes: int = 0) -> Queue:
        """For calls that do not block; limits of 0 are the library's defaults (kvc/queue.h)."""
        queue = Queue(self, _native.kvc_queue_create(self._handle, (0, depth, description_bytes)))
        self._queues.add(ref(queue, self._queues.discard))
        return queue

    def step(self, budget_us: int = 0) -> bool:
        """Of a store opened with host_driven=True: does background work for so long; whether some is left."""
        return _native.kvc_store_step(self._handle, budget_us)

    def region(self, memory: Memory) -> Region:
        """Registers writable memory, so that transfers to and from it need no copy between; it stays borrowed until the release."""
        handle, held = _native.kvc_region_register(self._handle, memory, _native.KVC_MEMORY_HOST, 0)
        return Region(self, handle, held)

    def flush(self, *, timeout_us: int = 0) -> None:
        """Makes durable what was sealed before."""
        _native.kvc_store_flush(self._handle, timeout_us)

    def metrics_text(self) -> str:
        """Every counter, as Prometheus reads them."""
        capacity = TEXT_GUESS_BYTES
        while True:
            try:
                return _native.kvc_metrics_text(capacity, self._handle)
            except RangeError:
                capacity *= 2

    def trace(self, path: str | bytes | os.PathLike[str] | None) -> None:
        """Writes spans of calls to a Perfetto JSON file, until called with None."""
        _native.kvc_trace_record(self._handle, None if path is None else os.fsencode(path))

    def info(self) -> StoreInfo:
        return StoreInfo(*_native.kvc_store_get_info(self._handle))

    def metrics(self) -> Metrics:
        return Metrics(*_native.kvc_metrics_read(self._handle))

    def verify(self, *, timeout_us: int = 0) -> VerifyInfo:
        """Reads and checks everything held.  Corrupt, with `info`: what was bad is dropped."""
        try:
            return VerifyInfo(*_native.kvc_store_verify(self._handle, timeout_us))
        except Corrupt as error:
            error.info = VerifyInfo(*error.info)
            raise
