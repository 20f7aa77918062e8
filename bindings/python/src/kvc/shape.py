"""The geometry of a model's cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Sequence

from . import _native
from .errors import RangeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A run of `count` equal layers; a uniform model is one run.  Full attention, unless made by `sliding`, `latent` or `state`."""

    count: int
    kv_heads: int
    k_dim: int
    v_dim: int
    kind: int = _native.KVC_LAYER_FULL
    rope_dim: int = 0
    window: int = 0
    k_dtype: int = 0
    v_dtype: int = 0

    @classmethod
    def sliding(cls, *, count: int, kv_heads: int, k_dim: int, v_dim: int, window: int, k_dtype: int = 0, v_dtype: int = 0) -> Layer:
        """A token sees the last `window` tokens, itself included."""
        return cls(count=count, kv_heads=kv_heads, k_dim=k_dim, v_dim=v_dim, kind=_native.KVC_LAYER_WINDOW, window=window, k_dtype=k_dtype,
                   v_dtype=v_dtype)

    @classmethod
    def latent(cls, *, count: int, latent_dim: int, rope_dim: int = 0, dtype: int = 0, rope_dtype: int = 0) -> Layer:
        """One row a token, [latent | rope]: in one array as k, or the rope part in another one as v."""
        return cls(count=count, kv_heads=1, k_dim=latent_dim, v_dim=0, kind=_native.KVC_LAYER_LATENT, rope_dim=rope_dim, k_dtype=dtype,
                   v_dtype=rope_dtype)

    @classmethod
    def state(cls, *, count: int, first_bytes: int, second_bytes: int = 0, kv_heads: int = 1) -> Layer:
        """A recurrent state, kept as snapshots: bytes a head, in one part or two."""
        return cls(count=count, kv_heads=kv_heads, k_dim=first_bytes, v_dim=second_bytes, kind=_native.KVC_LAYER_STATE)

    def _packed(self) -> tuple[int, ...]:
        return (self.count, self.kind, self.kv_heads, self.k_dim, self.v_dim, self.rope_dim, self.window, self.k_dtype, self.v_dtype)


@dataclass(frozen=True, slots=True)
class ShapeInfo:
    """What follows from a shape."""

    layer_count: int
    token_bytes: int
    chunk_bytes: int
    state_bytes: int
    fingerprint: bytes


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Shape:
    """Two hosts share rows only if every member here is equal.  Never changed by kvc: one Shape may serve many stores."""

    dtype: int
    rope: int
    layers: tuple[Layer, ...]
    chunk_tokens: int

    def __init__(self, *, dtype: int, layers: Sequence[Layer], rope: int = _native.KVC_ROPE_UNSTATED, chunk_tokens: int = 0) -> None:
        runs = tuple(layers) if isinstance(layers, Iterable) else None
        if runs is None or not all(isinstance(run, Layer) for run in runs):
            raise TypeError(f"layers: a list of kvc.Layer is needed, not {layers!r:.100}")
        for name, value in (("dtype", dtype), ("rope", rope), ("layers", runs), ("chunk_tokens", chunk_tokens)):
            object.__setattr__(self, name, value)

    def check(self) -> ShapeInfo:
        """Validates the shape; needs no store."""
        return ShapeInfo(*_native.kvc_shape_check(self._packed()))

    def layer(self, index: int) -> Layer:
        """The run that holds a layer of the model."""
        end = 0
        for run in self.layers:
            end += run.count
            if index < end:
                return run
        raise RangeError(_native.KVC_ERR_RANGE, f"layer {index}: the shape has {end} layers")

    def _packed(self) -> tuple[int, int, int, tuple[tuple[int, ...], ...]]:
        return (self.dtype, self.chunk_tokens, self.rope, tuple(layer._packed() for layer in self.layers))
