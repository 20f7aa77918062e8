"""A stored page, lent in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _native
from .errors import Busy
from .handle import Handle
from .rows import Array, Rows

if TYPE_CHECKING:
    from .scope import Scope


class View(Handle):
    """Made by Seq.view: the rows of one layer's page where they lie, read-only, unchanged until the release.

    `k` and `v` (None: the layer has no such part) are memory [head][token][dim] for numpy.asarray, memoryview, anything with the buffer
    protocol or DLPack 1.0.  bfloat16 comes as 16-bit integers and float8 as bytes by the buffer protocol, which has no such types.

    Arrays made of them keep the view, and a view keeps its store: `release` and Store.close are Busy while one lives, a `with` block too.
    """

    __slots__ = ("scope", "layer", "head_begin", "head_count", "token_begin", "token_count", "_sides", "_lender")

    def __init__(self, scope: Scope, handle: int, rows: tuple[Any, ...]) -> None:
        self._lender = _native.lender_make()
        super().__init__(handle)
        self.scope = scope
        self.layer, _, self.head_begin, self.head_count, self.token_begin, self.token_count = rows[:6]
        self._sides = rows[-2:]

    def _end(self) -> None:
        _native.kvc_view_release(self._handle)

    def release(self) -> None:
        if self._is_open and not self._lender.end():
            raise Busy(_native.KVC_ERR_BUSY, "view: arrays made of it are alive")
        super().release()

    def _side(self, side: tuple[int, ...]) -> _native.Page | None:
        address, size, _, _, token_stride, head_stride, dim_stride, dtype, _ = side
        if not size:
            return None
        if not token_stride:  # a frame's bytes
            return _native.page_make(self, self._lender, (address, dtype, (size,), (1,)))
        return _native.page_make(self, self._lender, (address, dtype, (self.head_count, self.token_count, token_stride // dim_stride),
                                                      (head_stride, token_stride, dim_stride)))

    @property
    def k(self) -> _native.Page | None:
        return self._side(self._sides[0])

    @property
    def v(self) -> _native.Page | None:
        return self._side(self._sides[1])

    def rows(self, *, layer_begin: int | None = None, token_begin: int | None = None) -> Rows:
        """For an append elsewhere, in this layer and at this position unless said otherwise."""
        sides = []
        for page, (_, _, _, _, token_stride, head_stride, dim_stride, dtype, _) in zip((self.k, self.v), self._sides):
            sides.append(None if page is None else Array(page, token_stride=token_stride, head_stride=head_stride, dim_stride=dim_stride, dtype=dtype))
        k, v = sides
        return Rows(layer_begin=self.layer if layer_begin is None else layer_begin, layer_count=1, head_begin=self.head_begin,
                    head_count=self.head_count, token_begin=self.token_begin if token_begin is None else token_begin,
                    token_count=self.token_count, k=k, v=v)
