"""What every handle shares: released once, in any order, also by the garbage collector."""

from __future__ import annotations

from types import TracebackType
from typing import NoReturn, Self

from . import _native
from .errors import Forked, MisuseError, Stale


class Owned:
    """What is not a value: a copy would end what the original still uses."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} belongs to one process and has one owner: it can be neither copied nor pickled")


class Handle(Owned):
    """An object of the library.  `release` may be called again, after the store's close, and in a forked child: then it does nothing."""

    __slots__ = ("_handle", "_is_open", "__weakref__")

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._is_open = True

    def _end(self) -> None:
        raise NotImplementedError

    def release(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._end()
        except (Stale, Forked):
            pass  # the store went first, or the parent process owns it
        except MisuseError:  # inside a log callable
            self._is_open = True
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.release()

    def __del__(self) -> None:
        try:
            try:
                self.release()
            except MisuseError:  # inside a log callable: when the call that logs is over
                _native.late_add(self.release)
        except Exception:
            pass  # half made, or the interpreter is ending: there is nobody to tell

    def __repr__(self) -> str:
        return f"<kvc.{type(self).__name__} {self._handle:#x}{'' if self._is_open else ', released'}>"
