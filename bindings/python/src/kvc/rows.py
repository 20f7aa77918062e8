"""Which rows, and where they lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Sequence, Union

from . import _native
from .errors import ArgumentError

if TYPE_CHECKING:
    from typing_extensions import Buffer


class SupportsDLPack(Protocol):
    """An array of any library: its memory is used in place when it is the host's."""

    def __dlpack__(self) -> Any: ...


if TYPE_CHECKING:
    Memory = Union[Buffer, SupportsDLPack]
    Integers = Union[Sequence[int], Buffer, SupportsDLPack]

ELEMENT_BYTES = {_native.KVC_F32: 4, _native.KVC_F16: 2, _native.KVC_BF16: 2, _native.KVC_F8_E4M3: 1, _native.KVC_U8: 1}
DTYPE_NAMES = {_native.KVC_F32: "F32", _native.KVC_F16: "F16", _native.KVC_BF16: "BF16", _native.KVC_F8_E4M3: "F8_E4M3", _native.KVC_U8: "U8"}
VIEWED = {"bfloat16": ("uint16", _native.KVC_BF16), "float8_e4m3fn": ("uint8", _native.KVC_F8_E4M3)}
AXES = ("layer", "block", "token", "head", "group", "dim")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Strides:
    """Strides in bytes, of which 0 is the packed one (kvc/types.h, kvc_array)."""

    layer_stride: int = 0
    block_stride: int = 0
    token_stride: int = 0
    head_stride: int = 0
    dim_stride: int = 0
    dtype: int = 0
    dim_group: int = 0

    def _strides(self) -> tuple[int, ...]:
        return (self.layer_stride, self.block_stride, self.token_stride, self.head_stride, self.dim_stride, self.dtype, self.dim_group)


@dataclass(frozen=True, slots=True, eq=False)
class Array(Strides):
    """Where the elements of K, or of V, lie in the caller's memory; strides in bytes, 0 is the packed one (kvc/types.h, kvc_array).

    `memory` is anything with the buffer protocol or `__dlpack__`, used in place; `offset` counts bytes from its first element.  Memory that
    knows its element type (float32, float16, bfloat16, float8_e4m3fn) fixes dtype; for bytes 0 is the shape's dtype; 16-bit integers need
    it said.  Other types are refused: convert them first, x.astype('float32').

    All layers in one pool, [layer][K, V][block][16][head][dim]: the strides go from one K to the next, and V begins `side` bytes into it.

        block = 16 * heads * dim * 2                                    # bytes, float16
        side = block_count * block
        strides = dict(layer_stride=2 * side, block_stride=block)
        rows = kvc.Rows(layer_begin=0, layer_count=layers, token_count=40, block_tokens=16, blocks=[7, 2, 9],
                        k=kvc.Array(pool, **strides), v=kvc.Array(pool, offset=side, **strides))
    """

    memory: Memory
    offset: int = 0

    def _packed(self) -> tuple[Any, ...]:
        return (self.memory, self.offset, *self._strides())


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Rows:
    """Layers x heads x tokens, and their arrays (kvc/types.h, kvc_rows).  A count of heads of 0: all; k or v of None: not moved.

    `blocks` and token_list are lists or arrays of integers; int32 and uint64 are used in place, others are converted.
    k_dim and v_dim, if not 0, say how many elements of a head the arrays hold; they must be the shape's.
    """

    layer_begin: int
    layer_count: int
    token_begin: int = 0
    token_count: int = 0
    slot_begin: int = 0
    head_begin: int = 0
    head_count: int = 0
    block_tokens: int = 0
    blocks: Integers | None = None
    token_list: Integers | None = None
    token_unit: int = 0
    k: Array | None = None
    v: Array | None = None
    k_scale: Memory | None = None
    v_scale: Memory | None = None
    k_dim: int = 0
    v_dim: int = 0
    # The shape that it was held against last, and what is given to C: a Rows that is kept is looked at once.
    _kept: tuple[Any, tuple[Any, ...]] | None = field(default=None, init=False, repr=False)

    @classmethod
    def of(cls, *, k: Memory | None = None, v: Memory | None = None, axes: str = "layer token head dim", v_axes: str | None = None,
           layer_begin: int = 0, head_begin: int = 0, token_begin: int = 0, token_count: int | None = None,
           slot_begin: int | None = None, blocks: Integers | None = None, token_list: Integers | None = None, token_unit: int = 0,
           dtype: int = 0, k_scale: Memory | None = None, v_scale: Memory | None = None) -> Rows:
        """Rows from arrays whose axes are named: strides, dtype and counts come from them, contiguous or not.

        The names are layer, block, token, head, group, dim, in the arrays' order; an axis that is missing has length 1.  With "block" the
        tokens of a block are the token axis, and `blocks` is the table.  "group" splits the elements of a head (vLLM's K cache).

        The first token moved stands in slot slot_begin.  Not given, it is token_begin with `blocks`, whose table is of the whole sequence, and
        0 without: for plain arrays that hold the whole sequence give both the same value.
        """
        if slot_begin is None:
            slot_begin = 0 if blocks is None else token_begin
        k_array, k_lengths = _describe("k", k, axes, dtype)
        v_array, v_lengths = _describe("v", v, v_axes or axes, dtype)
        lengths = k_lengths or v_lengths
        if not lengths:
            raise _refused("k, v: at least one array is needed")
        for axis in ("layer", "block", "token", "head"):
            if v_lengths and v_lengths[axis] != lengths[axis] and axis != "block":
                raise _refused(f"v: the {axis} axis has length {v_lengths[axis]}, k's has {lengths[axis]}")
        return cls(layer_begin=layer_begin, layer_count=lengths["layer"], head_begin=head_begin, head_count=lengths["head"],
                   token_begin=token_begin, token_count=_token_count(lengths, token_count, slot_begin, blocks, token_list),
                   slot_begin=slot_begin, block_tokens=0 if blocks is None else lengths["token"], blocks=blocks, token_list=token_list,
                   token_unit=token_unit, k=k_array, v=v_array, k_scale=k_scale, v_scale=v_scale,
                   k_dim=k_lengths["group"] * k_lengths["dim"] if k_lengths else 0,
                   v_dim=v_lengths["group"] * v_lengths["dim"] if v_lengths else 0)

    @classmethod
    def snapshot(cls, *, token_begin: int, token_count: int, k: Memory, v: Memory | None = None, axes: str = "layer head dim",
                 layer_begin: int = 0, head_begin: int = 0) -> Rows:
        """The state that layers have behind tokens [token_begin, token_begin + token_count): one row of bytes a head, whatever the arrays hold.

        The axes are layer, head and dim, in the arrays' order; the elements of dim lie together.  v is the second part.
        """
        k_array, lengths, k_bytes = _describe_bytes("k", k, axes)
        v_array, v_bytes = None, 0
        if v is not None:
            v_array, v_lengths, v_bytes = _describe_bytes("v", v, axes)
            if v_lengths != lengths:
                raise _refused(f"v: {v_lengths} layers and heads, k has {lengths}")
        return cls(layer_begin=layer_begin, layer_count=lengths[0], head_begin=head_begin, head_count=lengths[1], token_begin=token_begin,
                   token_count=token_count, k=k_array, v=v_array, k_dim=k_bytes, v_dim=v_bytes)

    def _packed(self) -> tuple[Any, ...]:
        k, v = self.k, self.v
        return (self.layer_begin, self.layer_count, self.head_begin, self.head_count, self.token_begin, self.token_count, self.token_unit,
                self.block_tokens, self.slot_begin, self.token_list, self.blocks, None if k is None else k._packed(),
                None if v is None else v._packed(), self.k_scale, self.v_scale)


def _refused(message: str) -> ArgumentError:
    return ArgumentError(_native.KVC_ERR_ARGUMENT, message)


def _seen(memory: Any, dtype: int = 0) -> tuple[Any, int]:
    """Arrays of ml_dtypes, whose numbers the buffer protocol does not know, as integers of the same width and the dtype that they are."""
    name = getattr(getattr(memory, "dtype", None), "name", None)
    if name not in VIEWED or not hasattr(memory, "view") or hasattr(memory, "is_contiguous"):  # torch says it by DLPack
        return memory, dtype
    integers, found = VIEWED[name]
    if dtype not in (0, found):
        raise _refused(f"dtype {DTYPE_NAMES.get(dtype, dtype)} is declared, the memory holds {name}")
    return memory.view(integers), found


def _axis_names(name: str, axes: str, dim_count: int) -> list[str]:
    names = axes.split()
    for axis in names:
        if axis not in AXES:
            raise _refused(f"axes: {axis!r} is none of {', '.join(AXES)}")
    if len(set(names)) != len(names):
        raise _refused(f"axes: {axes!r} names an axis twice")
    if "dim" not in names or "token" not in names:
        raise _refused(f"axes: {axes!r} lacks token or dim")
    if len(names) != dim_count:
        raise _refused(f"{name}: {dim_count} dimensions; axes {axes!r} name {len(names)}")
    return names


def _describe(name: str, memory: Memory | None, axes: str, dtype: int) -> tuple[Array | None, dict[str, int]]:
    """The Array of a memory with named axes, and the length of every axis."""
    if memory is None:
        return None, {}
    memory, dtype = _seen(memory, dtype)
    shape, strides_bytes, element, found, code, _ = _native.array_layout(memory, name)
    names = _axis_names(name, axes, len(shape))
    lengths = dict.fromkeys(AXES, 1) | dict(zip(names, shape))
    strides = dict.fromkeys(AXES, 0)
    if 0 in shape:
        raise _refused(f"{name}: the {names[shape.index(0)]} axis has length 0")
    for axis, length, stride in zip(names, shape, strides_bytes):
        if length > 1 and stride == 0:
            raise _refused(f"{name}: the {axis} axis is broadcast (stride 0)")
        strides[axis] = stride if length > 1 else 0
    dtype = dtype or found
    elements = f"{name}: elements of {element} bytes, code {code!r},"
    if not found and element > 2:
        raise _refused(f"{elements} are not taken: float32, float16, bfloat16 and float8_e4m3fn are; x.astype('float32') makes them")
    if dtype and element != ELEMENT_BYTES.get(dtype):
        raise _refused(f"{elements} do not fit dtype {DTYPE_NAMES.get(dtype, dtype)}")
    if not dtype:
        raise _refused(f"{elements} say no number format; give dtype=")
    dim_group, dim_stride = 0, strides["dim"]
    if "group" in names:
        if lengths["dim"] > 1 and strides["dim"] != element:
            raise _refused(f"{name}: the dims of a group must lie together; their stride is {strides['dim']}")
        dim_group, dim_stride = lengths["dim"], strides["group"]
    return Array(memory, layer_stride=strides["layer"], block_stride=strides["block"], token_stride=strides["token"],
                 head_stride=strides["head"], dim_stride=dim_stride, dim_group=dim_group, dtype=dtype), lengths


def _describe_bytes(name: str, memory: Memory, axes: str) -> tuple[Array, tuple[int, int], int]:
    """The Array of a state, how many layers and heads, and the bytes of one."""
    memory, _ = _seen(memory)
    shape, strides, element, *_ = _native.array_layout(memory, name)
    names = axes.split()
    if len(names) != len(shape) or len(set(names)) != len(names) or not {"dim"} <= set(names) <= {"layer", "head", "dim"}:
        raise _refused(f"axes: {axes!r} for {len(shape)} dimensions; layer, head and dim are the axes of a state")
    lengths, steps = dict(zip(names, shape)), dict(zip(names, strides))
    if lengths["dim"] > 1 and steps["dim"] != element:
        raise _refused(f"{name}: the elements of a head must lie together; their stride is {steps['dim']}")
    layers, heads = lengths.get("layer", 1), lengths.get("head", 1)
    return Array(memory, layer_stride=steps["layer"] if layers > 1 else 0, head_stride=steps["head"] if heads > 1 else 0,
                 dtype=_native.KVC_U8), (layers, heads), lengths["dim"] * element


def _token_count(lengths: dict[str, int], token_count: int | None, slot_begin: int, blocks: Integers | None,
                 token_list: Integers | None) -> int:
    if blocks is None and lengths["block"] != 1:
        raise _refused("blocks: the arrays have a block axis; its table is needed")
    if token_list is not None:
        return 0  # the list says it
    if blocks is not None:
        if token_count is None:
            raise _refused("token_count: needed with a block table")
        return token_count
    slots = lengths["token"] - slot_begin
    if token_count is None:
        token_count = slots
    if token_count > slots or slot_begin < 0:
        raise _refused(f"token_count: {token_count} tokens from slot {slot_begin} do not fit the token axis of length {lengths['token']}")
    return token_count
