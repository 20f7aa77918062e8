"""How K and V lie in the value of an object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _native
from .rows import Rows, Strides, _refused, _seen

if TYPE_CHECKING:
    from .rows import Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Side(Strides):
    """Where the elements of K, or of V, lie in a value: `offset` and strides in bytes, 0 is the packed one (kvc/types.h, kvc_array)."""

    offset: int = 0

    def _packed(self) -> tuple[int, ...]:
        return (self.offset, *self._strides())


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Rows of layers x heads x tokens as they make up a value, for Scope.put (kvc/object.h, kvc_object_options): each byte of the value belongs to
    one element, whose dtype is the shape's.  A count of heads of 0: all.  v is None where the layers have no such part."""

    layer_begin: int = 0
    layer_count: int
    head_begin: int = 0
    head_count: int = 0
    token_count: int
    k: Side
    v: Side | None = None

    @classmethod
    def of(cls, value: Memory, *, k: Memory, v: Memory | None = None, axes: str = "layer token head dim", v_axes: str | None = None,
           layer_begin: int = 0, head_begin: int = 0, dtype: int = 0) -> Layout:
        """From an array that holds a value, and from its parts: k and v are slices of `value`, whose axes are named as in Rows.of.

            block = np.empty((2, layers, 16, heads, dim), np.float16)
            layout = kvc.Layout.of(block, k=block[0], v=block[1])
        """
        rows = Rows.of(k=k, v=v, axes=axes, v_axes=v_axes, layer_begin=layer_begin, head_begin=head_begin, dtype=dtype)
        begin = _native.array_layout(_seen(value)[0], "value")[-1]

        def side(name: str, part: Memory | None) -> Side | None:
            array = getattr(rows, name)
            if array is None or part is None:
                return None
            offset = _native.array_layout(_seen(part)[0], name)[-1] - begin
            if offset < 0:
                raise _refused(f"{name}: it begins before the value")
            return Side(offset=offset, layer_stride=array.layer_stride, token_stride=array.token_stride, head_stride=array.head_stride,
                        dim_stride=array.dim_stride, dim_group=array.dim_group, dtype=array.dtype)

        k_side = side("k", k)
        assert k_side is not None
        return cls(layer_begin=rows.layer_begin, layer_count=rows.layer_count, head_begin=rows.head_begin, head_count=rows.head_count,
                   token_count=rows.token_count, k=k_side, v=side("v", v))

    def _packed(self) -> tuple[Any, ...]:
        return (self.layer_begin, self.layer_count, self.head_begin, self.head_count, 0, self.token_count, 0, 0, 0, self.k._packed(),
                None if self.v is None else self.v._packed())
