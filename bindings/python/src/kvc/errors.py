"""The exceptions: one class a family of statuses, and one of its own for each status that a host may handle apart."""

from __future__ import annotations

from typing import Any, Sequence

from . import _native


class Error(Exception):
    """A call failed and changed nothing stored (a batch of objects: item by item).

    status        the number, KVC_ERR_*; `name` is its constant
    message       one line: the value and the rule it broke
    retry         RETRY_NEVER, RETRY_NOW, RETRY_LATER, RETRY_RECOMPUTE
    system_error  0, errno, or a driver's code
    done          the usable part: rows below this position, leading items of a batch
    items         of a batch of objects: (status, bytes of the value, tier) of every item
    """

    def __init__(self, status: int, message: str, retry: int = 0, system_error: int = 0, done: int = 0,
                 items: Sequence[tuple[int, int, int]] = ()) -> None:
        super().__init__(status, message, retry, system_error, done, items)
        self.status = status
        self.message = message
        self.retry = retry
        self.system_error = system_error
        self.done = done
        self.items = items

    @property
    def name(self) -> str:
        return _native.kvc_status_name(self.status)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}: {self.message!r})"

    def __str__(self) -> str:
        return f"{self.message} ({self.name})"


class ArgumentError(Error, ValueError):
    """A value is wrong: fix the call."""


class RangeError(ArgumentError):
    """Layer, head or position past what there is; a gap or overlap in an append; a destination shorter than its value."""


class ShapeError(ArgumentError):
    """Geometry, dtype or layout does not fit the scope's shape."""


class TooNew(ArgumentError):
    """A struct or flag that the loaded library is too old for."""


class MisuseError(Error):
    """A handle or an order is wrong: fix the host."""


class Stale(MisuseError):
    """A released handle, or one of a closed store."""


class Forked(MisuseError):
    """A handle of the parent process."""


class DataError(Error):
    """It is not there (any more): recompute, or do without."""


class NotFound(DataError):
    """No such key, name or file."""


class Gone(DataError):
    """Rows no longer held; `done` says how many leading ones are."""


class Exists(DataError):
    """The name is taken by other content."""


class Corrupt(DataError):
    """Something stored is damaged; nothing of it was used."""

    info: Any = None
    """After Store.verify: the VerifyInfo."""


class NoSnapshot(DataError):
    """A state layer holds no snapshot at that position."""


class RoomError(Error):
    """A limit is reached: release something, wait, or do without."""


class Full(RoomError):
    """A limit that was fixed when the store was opened."""


class NoMemory(RoomError, MemoryError):
    """The system refused memory."""


class Busy(RoomError):
    """Held by someone."""


class ReadOnly(RoomError):
    """The tier stopped taking writes."""


class ReachError(Error):
    """Not now, not from here: later, elsewhere, or recompute."""


class Unavailable(ReachError):
    """A node, device or driver is not there now."""


class Timeout(ReachError, TimeoutError):
    """The call's deadline passed."""


class Cancelled(ReachError):
    """The call was stopped."""


class Denied(ReachError):
    """Wrong key or tenant."""


class AbilityError(Error):
    """Never, with this build or store: take another way."""


class Unsupported(AbilityError):
    """This backend, build, format or kind of memory cannot."""


class VersionError(AbilityError):
    """A file, directory or peer of another version."""


class SystemFailure(Error):
    """The system or a driver failed: `system_error` says how."""


class InputOutputError(SystemFailure):
    """A file or socket failed; `system_error` is the errno."""


class DeviceError(SystemFailure):
    """A device failed; `system_error` is the driver's code."""


class InternalError(Error):
    """A bug of kvc: please report the message."""


FAMILIES: dict[int, type[Error]] = {
    1: ArgumentError, 2: MisuseError, 3: DataError, 4: RoomError, 5: ReachError, 6: AbilityError, 7: SystemFailure, 9: InternalError,
}
STATUSES: dict[int, type[Error]] = {
    _native.KVC_ERR_RANGE: RangeError, _native.KVC_ERR_SHAPE: ShapeError, _native.KVC_ERR_TOO_NEW: TooNew,
    _native.KVC_ERR_STALE: Stale, _native.KVC_ERR_FORKED: Forked,
    _native.KVC_ERR_NOT_FOUND: NotFound, _native.KVC_ERR_GONE: Gone, _native.KVC_ERR_EXISTS: Exists, _native.KVC_ERR_CORRUPT: Corrupt,
    _native.KVC_ERR_NO_SNAPSHOT: NoSnapshot,
    _native.KVC_ERR_FULL: Full, _native.KVC_ERR_NO_MEMORY: NoMemory, _native.KVC_ERR_BUSY: Busy, _native.KVC_ERR_READ_ONLY: ReadOnly,
    _native.KVC_ERR_UNAVAILABLE: Unavailable, _native.KVC_ERR_TIMEOUT: Timeout, _native.KVC_ERR_CANCELLED: Cancelled,
    _native.KVC_ERR_DENIED: Denied,
    _native.KVC_ERR_UNSUPPORTED: Unsupported, _native.KVC_ERR_VERSION: VersionError,
    _native.KVC_ERR_IO: InputOutputError, _native.KVC_ERR_DEVICE: DeviceError,
}


def _error_of(status: int, message: str, retry: int, system_error: int, outputs: Any) -> Error:
    """Called by the extension: the exception of a failed call and of what that call still returned."""
    kind = STATUSES.get(status) or FAMILIES.get(-status // 10) or Error
    items: Sequence[tuple[int, int, int]] = ()
    if isinstance(outputs, tuple) and outputs and isinstance(outputs[0], tuple):
        outputs, items = outputs  # a batch of objects: (result, items)
    done = outputs[0] if isinstance(outputs, tuple) else 0
    error = kind(status, message, retry, system_error, done, items)
    if isinstance(error, Corrupt):
        error.info = outputs
    return error


_native.set_error_factory(_error_of)
