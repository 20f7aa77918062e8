"""Calls that do not block: a queue, which asyncio can await and any program can drain."""

from __future__ import annotations

import itertools
import os
import select
import threading
import time
from collections import deque
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Generator, Generic, Iterable, Iterator, Mapping, Sequence, TypeVar
from weakref import ref

from . import _native
from .errors import Busy, Cancelled, Corrupt, Error, Forked, NotFound, Stale, _error_of
from .handle import Handle
from .info import Event, MatchInfo, Result, VerifyInfo
from .rows import Rows
from .scope import Found, _exists_options, _options, _put_items, _put_options, _range
from .seq import Extra, Lease, Part, Seq, _name

if TYPE_CHECKING:
    import asyncio

    from .layout import Layout
    from .rows import Integers
    from .scope import Item, Key, Scope, Value
    from .store import Store

T = TypeVar("T")
DRAIN_COUNT = 256
EVENTS_MAX = 1 << 16
EVENT_ALL = (_native.KVC_EVENT_STORED | _native.KVC_EVENT_REMOVED | _native.KVC_EVENT_MOVED | _native.KVC_EVENT_CLEARED
             | _native.KVC_EVENT_LOST)
WAIT_SLICE_S = 0.1  # a queue that another thread releases meanwhile is noticed so soon
STEP_SLICE_S = 0.001  # between looks for work on a host-driven store


class Call(Generic[T]):
    """A call in a queue: `await` it, or take its `result` when Queue.drain has returned it.

    What it was given stays borrowed until then, also when it was cancelled or came too late: an await that is cancelled asks the call to stop,
    and ends when nothing touches the arrays any more.
    """

    __slots__ = ("queue", "user", "_hold", "_finish", "_is_done", "_value", "_error", "_waiters", "__weakref__")

    def __init__(self, queue: Queue, user: int, finish: Callable[[tuple[Any, ...], Any], T]) -> None:
        self.queue = queue
        self.user = user
        self._hold: Any = None
        self._finish: Callable[[tuple[Any, ...], Any], T] | None = finish
        self._is_done = False
        self._value: T | None = None
        self._error: Error | None = None
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None], int]] = []

    def done(self) -> bool:
        """Its result was drained: nothing of what it was given is in use."""
        return self._is_done

    def result(self) -> T:
        """What the call came to, or raises why it failed.  Busy: not drained yet."""
        if not self._is_done:
            raise Busy(_native.KVC_ERR_BUSY, "call: its result was not drained yet")
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def cancel(self) -> bool:
        """Asks it to stop; it is done when its result is drained, Cancelled if it had not begun.  False: nothing was in flight any more."""
        try:
            _native.kvc_queue_cancel(self.queue._handle, self.user)
        except (NotFound, Stale, Forked):
            return False
        return True

    def _settle(self, result: tuple[Any, ...] | None) -> None:
        """The result as drained; None: the queue is no more."""
        finish, self._finish = self._finish, None
        outputs: Any = None if result is None else _native.queued_outputs(self._hold, result[2], result[0])
        if result is None:
            self._error = Cancelled(_native.KVC_ERR_CANCELLED, "the queue was released")
        elif result[0] != _native.KVC_OK:
            self._error = _error_of(result[0], result[5], result[3], result[4], (result[8:], outputs) if isinstance(outputs, list) else result[8:])
            if isinstance(self._error, Corrupt):
                self._error.info = VerifyInfo(*outputs) if result[2] == _native.KVC_OP_VERIFY else None
        elif finish is not None:
            self._value = finish(result, outputs)
        self._hold = None
        with self.queue._lock:
            self._is_done = True
            waiters, self._waiters = self._waiters, []
        for loop, waiter, thread in waiters:
            if thread == threading.get_ident():
                _wake(waiter)
                continue
            try:
                loop.call_soon_threadsafe(_wake, waiter)
            except RuntimeError:
                pass  # the loop was closed, and nobody waits

    def _waiter(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None] | None:
        with self.queue._lock:
            if self._is_done:
                return None
            waiter = loop.create_future()
            self._waiters.append((loop, waiter, threading.get_ident()))
            return waiter

    async def _wait(self) -> T:
        import asyncio
        cancelled: asyncio.CancelledError | None = None
        if not self._is_done:
            self.queue._ready()  # starts what was held back, and may be all that it takes
        if not self._is_done:
            loop = asyncio.get_running_loop()
            self.queue._attach(loop)
            try:
                while (waiter := self._waiter(loop)) is not None:
                    try:
                        await waiter
                    except asyncio.CancelledError as error:
                        cancelled = error
                        self.cancel()
            finally:
                self.queue._detach(loop)
        if cancelled is not None:
            raise cancelled
        return self.result()

    def __await__(self) -> Generator[Any, None, T]:
        return self._wait().__await__()

    def __repr__(self) -> str:
        state = "in flight" if not self._is_done else "done" if self._error is None else repr(self._error)
        return f"<kvc.Call {self.user} {state}>"


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


# What calls come to, of a result as drained and of what queued_outputs gives.


def _result(result: tuple[Any, ...], outputs: Any) -> Result:
    return Result(*result[8:])


def _seq(scope: Scope, result: tuple[Any, ...], outputs: Any) -> Seq:
    return Seq(scope, result[6])


def _match(scope: Scope, result: tuple[Any, ...], outputs: Any) -> tuple[Seq, MatchInfo]:
    return Seq(scope, result[6]), MatchInfo(*outputs)


def _lease(store: Store, result: tuple[Any, ...], outputs: Any) -> Lease:
    return Lease(store, result[7])


def _found(store: Store, result: tuple[Any, ...], outputs: Any) -> Found:
    return Found(outputs, result[8], Lease(store, result[7]) if result[7] else None)


def _sizes(result: tuple[Any, ...], outputs: list[int]) -> list[int]:
    return outputs


def _verified(result: tuple[Any, ...], outputs: Any) -> VerifyInfo:
    return VerifyInfo(*outputs)


class _Watch:
    """Of a loop where somebody waits: how many do, and the next step of a host-driven store."""

    __slots__ = ("waits", "step")

    def __init__(self) -> None:
        self.waits = 0
        self.step: asyncio.TimerHandle | None = None


class Queue(Handle):
    """Made by Store.queue.  Its calls return at once, as a Call; any thread may make them and drain.

    With asyncio nothing else is needed: an await watches the queue's descriptor in the running loop, and drains.  Without, poll `fileno()` or
    give `drain` a timeout.  Busy: `depth` calls are in flight.
    """

    __slots__ = ("store", "_fd", "_watched", "_lock", "_users", "_calls", "_loops", "_events", "_is_watching")

    def __init__(self, store: Store, handle: int) -> None:
        self._watched = -1
        self._lock = threading.Lock()
        self._users = itertools.count(1)
        self._calls: dict[int, Call[Any]] = {}
        self._loops: dict[asyncio.AbstractEventLoop, _Watch] = {}
        self._events: deque[Event] = deque()
        self._is_watching = False
        super().__init__(handle)
        self.store = store
        self._fd = _native.kvc_queue_fd(handle)
        try:
            self._watched = os.dup(self._fd)  # stays as long as this object, whatever other threads release and close
        finally:
            _native.kvc_queue_fd(handle)  # Stale: another thread closed the store, and what was copied may be anything
        _living.add(ref(self, _living.discard))

    def _end(self) -> None:
        try:
            _native.kvc_queue_release(self._handle)
        except Stale:
            return  # whoever ended it drops them: Store.close, or another thread's release
        except Forked:
            pass
        self._drop()

    def _drop(self) -> None:
        """Lets go of what calls were lent, once nothing runs in the queue: it was released, its store was closed, or this is a forked child."""
        with self._lock:
            calls, self._calls = self._calls, {}
        for call in calls.values():
            call._settle(None)

    def __del__(self) -> None:
        super().__del__()
        try:
            os.close(self._watched)
        except Exception:
            pass  # as above
        self._watched = -1

    def fileno(self) -> int:
        """An eventfd that is readable while results wait.  Poll it; do not read or close it."""
        return self._fd

    # ---- calls

    def _start(self, native: Callable[..., Any], owner: Seq | Scope | Store, arguments: tuple[Any, ...],
               finish: Callable[[tuple[Any, ...], Any], T], more: bool, timeout_us: int) -> Call[T]:
        turn: ContextManager[object] = owner._lock if isinstance(owner, Seq) else nullcontext()
        with turn, self._lock:
            user = next(self._users)
            call = Call(self, user, finish)
            call._hold = native(owner._handle, *arguments, (self._handle, user, _native.KVC_CALL_MORE if more else 0, timeout_us))
            self._calls[user] = call
        return call

    def append(self, seq: Seq, tokens: Integers | None, rows: Rows | Sequence[Rows] = (), *, more: bool = False,
               timeout_us: int = 0) -> Call[Result]:
        """Seq.append.  more: it may wait for `submit`, so that many start as one batch."""
        return self._start(_native.queued_append, seq, (tokens, seq._pack(rows)), _result, more, timeout_us)

    def gather(self, seq: Seq, rows: Rows | Sequence[Rows], *, more: bool = False, timeout_us: int = 0) -> Call[Result]:
        """Seq.gather."""
        return self._start(_native.queued_gather, seq, (seq._pack(rows),), _result, more, timeout_us)

    def match(self, scope: Scope, tokens: Integers, *, tokens_max: int = 0, lease_ms: int = 0, extras: Sequence[Extra] = (),
              first_position: int = 0, private: bool = False, prefill_ns_per_token: int = 0, no_cut: bool = False,
              part: Part | None = None, more: bool = False, timeout_us: int = 0) -> Call[tuple[Seq, MatchInfo]]:
        """Scope.match."""
        flags = _native.KVC_SEQ_PRIVATE * private | _native.KVC_SEQ_NO_CUT * no_cut
        options = (flags, lease_ms, *_range(part), prefill_ns_per_token, tokens_max, first_position, part.write_id if part else b"",
                   tuple(extra._packed() for extra in extras))
        return self._start(_native.queued_match, scope, (tokens, options), partial(_match, scope), more, timeout_us)

    def lease(self, seq: Seq, token_begin: int = 0, token_count: int = _native.KVC_ALL, lease_ms: int = 0, *, more: bool = False,
              timeout_us: int = 0) -> Call[Lease]:
        """Seq.lease."""
        arguments = (token_begin, token_count, lease_ms)
        return self._start(_native.queued_seq_lease, seq, arguments, partial(_lease, self.store), more, timeout_us)

    def save(self, seq: Seq, path: str | bytes | os.PathLike[str], *, more: bool = False, timeout_us: int = 0) -> Call[Result]:
        """Seq.save."""
        return self._start(_native.queued_save, seq, (os.fsencode(path),), _result, more, timeout_us)

    def restore(self, scope: Scope, path: str | bytes | os.PathLike[str], *, private: bool = False, lease_ms: int = 0, part: Part | None = None,
                more: bool = False, timeout_us: int = 0) -> Call[Seq]:
        """Scope.restore."""
        arguments = (os.fsencode(path), _options(private, lease_ms, part=part))
        return self._start(_native.queued_restore, scope, arguments, partial(_seq, scope), more, timeout_us)

    def publish(self, seq: Seq, name: bytes | str, *, lease_ms: int = 0, more: bool = False, timeout_us: int = 0) -> Call[Result]:
        """Seq.publish."""
        return self._start(_native.queued_publish, seq, (_name(name), lease_ms), _result, more, timeout_us)

    def attach(self, scope: Scope, name: bytes | str, *, private: bool = False, lease_ms: int = 0, more: bool = False,
               timeout_us: int = 0) -> Call[Seq]:
        """Scope.attach."""
        arguments = (_name(name), _options(private, lease_ms))
        return self._start(_native.queued_attach, scope, arguments, partial(_seq, scope), more, timeout_us)

    # ---- objects, and the store

    def put(self, scope: Scope, items: Mapping[Any, Value] | Iterable[Item], *, group: bool = False, layout: Layout | None = None,
            ttl_ms: int = 0, more: bool = False, timeout_us: int = 0) -> Call[Result]:
        """Scope.put."""
        arguments = (items if isinstance(items, list) else _put_items(items), _put_options(group, ttl_ms, layout))
        return self._start(_native.queued_put, scope, arguments, _result, more, timeout_us)

    def get_into(self, scope: Scope, items: Sequence[Item], *, more: bool = False, timeout_us: int = 0) -> Call[list[int]]:
        """Scope.get_into, all of the items."""
        return self._start(_native.queued_get, scope, (items, None), _sizes, more, timeout_us)

    def exists(self, scope: Scope, keys: Sequence[Key], *, lease_ms: int | None = None, leading: bool = False, more: bool = False,
               timeout_us: int = 0) -> Call[Found]:
        """Scope.exists."""
        arguments = (keys, _exists_options(leading, lease_ms))
        return self._start(_native.queued_exists, scope, arguments, partial(_found, self.store), more, timeout_us)

    def delete(self, scope: Scope, keys: Sequence[Key], *, more: bool = False, timeout_us: int = 0) -> Call[Result]:
        """Scope.delete."""
        return self._start(_native.queued_delete, scope, (keys,), _result, more, timeout_us)

    def clear(self, scope: Scope, *, more: bool = False, timeout_us: int = 0) -> Call[Result]:
        """Scope.clear."""
        return self._start(_native.queued_clear, scope, (), _result, more, timeout_us)

    def verify(self, *, more: bool = False, timeout_us: int = 0) -> Call[VerifyInfo]:
        """Store.verify."""
        return self._start(_native.queued_verify, self.store, (), _verified, more, timeout_us)

    def submit(self) -> None:
        """Starts what was made with more=True.  `drain` and an await do so too."""
        _native.kvc_queue_submit(self._handle)

    # ---- events

    def watch(self, scope: Scope | None = None, mask: int = EVENT_ALL) -> None:
        """Sends events of a scope (None: of all) here; a mask of 0 ends it.  `events` and awaits take them."""
        _native.kvc_event_watch(self._handle, 0 if scope is None else scope._handle, mask)
        self._is_watching = True

    def events(self) -> Iterator[Event]:
        """The events that wait, in order; ends when there are no more.  A reader that is too slow is told: EVENT_LOST."""
        while True:
            if not self._events:
                self._take_events()
            try:
                yield self._events.popleft()
            except IndexError:
                return

    def _take_events(self) -> None:
        with self._lock:  # the ids of an event are lent until the next drain
            while page := _native.kvc_event_drain(DRAIN_COUNT, self._handle):
                self._events.extend(Event(*event) for event in page)
                if len(self._events) > EVENTS_MAX:  # nobody reads them
                    lost = self._events[-1].sequence_number
                    self._events.clear()
                    self._events.append(Event(_native.KVC_EVENT_LOST, 0, 0, lost, 0, 0, bytes(32), bytes(32), bytes(32), None))
                if len(page) < DRAIN_COUNT:
                    return

    # ---- results

    def drain(self, *, timeout_us: int = 0) -> list[Call[Any]]:
        """The calls that ended, in that order; waits up to timeout_us for the first."""
        end = None if timeout_us == _native.KVC_FOREVER else time.monotonic() + timeout_us / 1e6
        while True:
            calls = self._take()
            left = WAIT_SLICE_S if end is None else end - time.monotonic()
            if calls or left <= 0:
                return calls
            poll = select.poll()
            poll.register(self._watched, select.POLLIN)
            poll.poll(1000 * min(left, STEP_SLICE_S if self.store.host_driven else WAIT_SLICE_S))

    def _take(self) -> list[Call[Any]]:
        taken: list[Call[Any]] = []
        try:
            results = _native.kvc_queue_drain(DRAIN_COUNT, self._handle, 0)
        except Forked:
            self._drop()
            raise
        for result in results:
            with self._lock:
                call = self._calls.pop(result[1], None)
            if call is None:
                _give_back(result)  # a release came between, and told the call so
                continue
            call._settle(result)
            taken.append(call)
        if self._is_watching:
            self._take_events()  # the descriptor stays readable while they wait
        return taken

    def _ready(self) -> None:
        """The descriptor is readable in a loop."""
        try:
            self._take()
        except (Stale, Forked):
            pass  # those who wait have been told

    def _attach(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            watch = self._loops.get(loop)
            if watch is None and self._is_open:
                watch = self._loops[loop] = _Watch()
                loop.add_reader(self._watched, self._ready)
            if watch is not None:
                watch.waits += 1
        if watch is not None and self.store.host_driven and watch.step is None:
            watch.step = loop.call_later(STEP_SLICE_S, self._step, loop, watch)

    def _detach(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            watch = self._loops.get(loop)
            if watch is None:
                return
            watch.waits -= 1
            if watch.waits:
                return
            del self._loops[loop]
        if watch.step is not None:
            watch.step.cancel()
        try:
            loop.remove_reader(self._watched)
        except RuntimeError:
            pass  # the loop was closed

    def _step(self, loop: asyncio.AbstractEventLoop, watch: _Watch) -> None:
        """Does the work of a host-driven store, again and again while somebody waits in the loop."""
        watch.step = None
        self._ready()
        if self._calls:
            watch.step = loop.call_later(STEP_SLICE_S, self._step, loop, watch)


def _give_back(result: tuple[Any, ...]) -> None:
    """Releases what a result gave that nobody asks for any more."""
    try:
        if result[6]:
            _native.kvc_seq_release(result[6])
        if result[7]:
            _native.kvc_lease_release(result[7])
    except (Stale, Forked):
        pass  # the store was closed


_living: set[ref[Queue]] = set()


def _renew_locks() -> None:
    """In a forked child, as of sequences."""
    for known in _living.copy():
        if (queue := known()) is not None:
            queue._lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_locks)
