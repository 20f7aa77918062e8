"""A scope: the namespace of prefixes and objects."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Literal, Mapping, Sequence, Union, overload

from . import _native
from .errors import Gone, NotFound, RangeError
from .handle import Handle
from .info import MatchInfo, Result, ScopeInfo
from .seq import Extra, Lease, Part, Seq, _name

if TYPE_CHECKING:
    from .layout import Layout
    from .rows import Integers, Memory
    from .shape import Shape
    from .store import Store

    Key = Union[bytes, str]
    Value = Union[Memory, Sequence[Memory]]
    Item = Union[tuple[Key, Value], tuple[Key, Memory, int, int]]

LIST_PAGE = 256
GET_GUESS_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Found:
    """What exists: the bytes of each value, None where absent; how many leading ones are there; the lease that holds them."""

    sizes: list[int | None]
    done: int
    lease: Lease | None


@dataclass(frozen=True, slots=True)
class ObjectEntry:
    key: bytes
    value_bytes: int
    tier: int


class Scope(Handle):
    """Made by Store.scope.  Any thread may use it; its sequences outlive it."""

    __slots__ = ("store", "shape")

    def __init__(self, store: Store, handle: int, shape: Shape | None) -> None:
        super().__init__(handle)
        self.store = store
        self.shape = shape

    def _end(self) -> None:
        _native.kvc_scope_release(self._handle)

    def info(self) -> ScopeInfo:
        return ScopeInfo(*_native.kvc_scope_get_info(self._handle))

    def clear(self, *, timeout_us: int = 0) -> Result:
        """Nobody finds anything of the scope any more; what nobody holds is dropped: `done` things, `bytes` bytes."""
        return Result(*_native.kvc_scope_clear(self._handle, timeout_us)[:-1])

    # ---- sequences

    def sequence(self, *, private: bool = False, lease_ms: int = 0, extras: Sequence[Extra] = (), first_position: int = 0,
                 part: Part | None = None) -> Seq:
        """An empty sequence.  A private one is never matched by others and needs no token ids.  part: of a rank, which has some layers or heads."""
        options = _options(private, lease_ms, first_position=first_position, extras=extras, part=part)
        return Seq(self, _native.kvc_seq_create(self._handle, options))

    @overload
    def match(self, tokens: Integers, *, tokens_max: int = 0, lease_ms: int = 0, extras: Sequence[Extra] = (), first_position: int = 0,
              private: bool = False, prefill_ns_per_token: int = 0, no_cut: bool = False, timeout_us: int = 0,
              part: Part | None = None, peek: Literal[False] = False) -> tuple[Seq, MatchInfo]: ...

    @overload
    def match(self, tokens: Integers, *, tokens_max: int = 0, lease_ms: int = 0, extras: Sequence[Extra] = (), first_position: int = 0,
              private: bool = False, prefill_ns_per_token: int = 0, no_cut: bool = False, timeout_us: int = 0,
              part: Part | None = None, peek: Literal[True]) -> tuple[None, MatchInfo]: ...

    def match(self, tokens: Integers, *, tokens_max: int = 0, lease_ms: int = 0, extras: Sequence[Extra] = (), first_position: int = 0,
              private: bool = False, prefill_ns_per_token: int = 0, no_cut: bool = False, timeout_us: int = 0,
              part: Part | None = None, peek: bool = False) -> tuple[Seq | None, MatchInfo]:
        """The longest stored prefix of `tokens` (list or array of integers; int32 is used in place) as a leased sequence, of length 0 if nothing is stored.

        tokens_max: look no further; a host that needs the logits of the last token says len(tokens) - 1.
        peek: only the info, no sequence.
        part: what a rank has of the model; a chunk is found when all of that is stored.
        """
        flags = (_native.KVC_SEQ_PRIVATE * private | _native.KVC_SEQ_NO_CUT * no_cut | _native.KVC_SEQ_PEEK * peek)
        options = (flags, lease_ms, *_range(part), prefill_ns_per_token, tokens_max, first_position, part.write_id if part else b"",
                   tuple(extra._packed() for extra in extras))
        handle, info = _native.kvc_match(self._handle, tokens, options, timeout_us)
        return (Seq(self, handle) if handle else None), MatchInfo(*info)

    def attach(self, name: bytes | str, *, private: bool = False, lease_ms: int = 0, timeout_us: int = 0) -> Seq:
        """A fork of a sequence that was published under this name in an equal scope, leased."""
        return Seq(self, _native.kvc_seq_attach(self._handle, _name(name), _options(private, lease_ms), timeout_us))

    def withdraw(self, name: bytes | str) -> None:
        """Frees what a name holds; either side may."""
        _native.kvc_seq_withdraw(self._handle, _name(name))

    def restore(self, path: str | bytes | os.PathLike[str], *, private: bool = False, lease_ms: int = 0, part: Part | None = None,
                timeout_us: int = 0) -> Seq:
        """A sequence from a file that Seq.save wrote in an equal scope; chunks that are held already are not read.  part: that of the saved one."""
        return Seq(self, _native.kvc_seq_restore(self._handle, os.fsencode(path), _options(private, lease_ms, part=part), timeout_us))

    # ---- objects

    @overload
    def put(self, items: Mapping[bytes, Value], *, group: bool = False, layout: Layout | None = None, ttl_ms: int = 0,
            timeout_us: int = 0) -> None: ...

    @overload
    def put(self, items: Mapping[str, Value], *, group: bool = False, layout: Layout | None = None, ttl_ms: int = 0,
            timeout_us: int = 0) -> None: ...

    @overload
    def put(self, items: Iterable[Item], *, group: bool = False, layout: Layout | None = None, ttl_ms: int = 0,
            timeout_us: int = 0) -> None: ...

    def put(self, items: Mapping[Any, Value] | Iterable[Item], *, group: bool = False, layout: Layout | None = None, ttl_ms: int = 0,
            timeout_us: int = 0) -> None:
        """Stores values, write-once: equal bytes again are fine, others are Exists.

        An item is (key, memory), (key, [pieces]), or (key, memory, offset, bytes): part of an arena, without a slice to be made of it.

        group: all items become visible together or none.
        layout: every value is rows of the scope's layers that lie so; they are held as pages, and come back byte for byte.
        """
        if not isinstance(items, list):
            items = _put_items(items)
        _native.kvc_object_put(self._handle, items, _put_options(group, ttl_ms, layout) if group or ttl_ms or layout else None, timeout_us)

    def get_into(self, items: Sequence[Item], *, leading: bool = False, timeout_us: int = 0) -> list[int]:
        """Lands each key's value in the caller's memory, and returns the bytes of each.  Items as in put.

        NotFound if one is absent, with `done` the leading items that are right; with leading=True a shorter list instead.
        """
        try:
            return _native.kvc_object_get(self._handle, items, LEADING if leading else None, timeout_us)
        except (NotFound, Gone) as error:
            if not leading:
                raise
            return [size for _, size, _ in error.items[:error.done]]

    def get(self, key: Key, *, timeout_us: int = 0) -> bytes:
        """A value, as bytes of its own.  get_into copies once less."""
        room = bytearray(GET_GUESS_BYTES)
        while True:
            try:
                size = _native.kvc_object_get(self._handle, ((key, room),), None, timeout_us)[0]
                return bytes(memoryview(room)[:size])
            except RangeError as error:
                size = error.items[0][1] if error.items else 0
                if size <= len(room):
                    raise
                room = bytearray(size)

    def exists(self, keys: Sequence[Key], *, lease_ms: int | None = None, leading: bool = False, timeout_us: int = 0) -> Found:
        """Which keys hold a value.  lease_ms (0: the store's) holds what is found; leading: stop at the first that is absent."""
        result, sizes = _native.kvc_object_exists(self._handle, keys, _exists_options(leading, lease_ms), timeout_us)
        lease = Lease(self.store, result[-1]) if result[-1] else None
        return Found(sizes, result[0], lease)

    def delete(self, keys: Sequence[Key], *, timeout_us: int = 0) -> None:
        """Deletes values; leased ones go when their lease ends.  NotFound if one is absent: the others are deleted."""
        _native.kvc_object_delete(self._handle, keys, timeout_us)

    def entries(self, *, after: bytes = b"") -> Iterator[ObjectEntry]:
        """The objects in key order, each a key that was held at the time of its page."""
        while True:
            page = _native.kvc_object_list(LIST_PAGE, self._handle, after, 0)
            for entry in page:
                yield ObjectEntry(*entry)
            if len(page) < LIST_PAGE:
                return
            after = page[-1][0]

    def keys(self, *, after: bytes = b"") -> Iterator[bytes]:
        return (entry.key for entry in self.entries(after=after))


def _put_items(items: Mapping[Any, Value] | Iterable[Item]) -> list[Any]:
    return list(items.items() if isinstance(items, Mapping) else items)


def _put_options(group: bool, ttl_ms: int, layout: Layout | None) -> tuple[Any, ...]:
    return (_native.KVC_OBJECT_GROUP if group else 0, ttl_ms, 0, None if layout is None else layout._packed())


def _exists_options(leading: bool, lease_ms: int | None) -> tuple[int, int, int]:
    return ((_native.KVC_OBJECT_LEADING if leading else 0) | (0 if lease_ms is None else _native.KVC_OBJECT_LEASE), 0, lease_ms or 0)


def _range(part: Part | None) -> tuple[int, int, int, int]:
    return (part.layer_begin, part.layer_count, part.head_begin, part.head_count) if part else (0, 0, 0, 0)


def _options(private: bool, lease_ms: int, *, first_position: int = 0, extras: Sequence[Extra] = (), part: Part | None = None) -> tuple[Any, ...]:
    return (_native.KVC_SEQ_PRIVATE if private else 0, lease_ms, *_range(part), 0, 0, first_position, part.write_id if part else b"",
            tuple(extra._packed() for extra in extras))


LEADING = (_native.KVC_OBJECT_LEADING, 0, 0)
