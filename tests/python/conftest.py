"""A small model, a store for it, and rows that differ in every element."""

import kvc
import numpy as np
import pytest

LAYERS, HEADS, DIM = 3, 2, 8


@pytest.fixture
def store():
    with kvc.Store("mem:", memory_bytes=64 << 20) as store:
        yield store


@pytest.fixture
def shape():
    return kvc.Shape(dtype=kvc.F16, rope=kvc.ROPE_PAIRS, layers=[kvc.Layer(count=LAYERS, kv_heads=HEADS, k_dim=DIM, v_dim=DIM)])


@pytest.fixture
def scope(store, shape):
    return store.scope(model="tiny", revision="1", shape=shape)


class Model:
    """Tokens and their rows, [layer, token, head, dim], the same for the same seed."""

    def __init__(self, token_count, seed=1, layers=LAYERS, heads=HEADS, dim=DIM):
        rng = np.random.default_rng(seed)
        self.tokens = rng.integers(0, 50_000, token_count, dtype=np.int32)
        self.k = rng.standard_normal((layers, token_count, heads, dim)).astype(np.float16)
        self.v = rng.standard_normal((layers, token_count, heads, dim)).astype(np.float16)

    def rows(self, begin=0, end=None):
        return kvc.Rows.of(k=self.k[:, begin:end], v=self.v[:, begin:end], token_begin=begin)

    def store(self, scope):
        seq = scope.sequence()
        seq.append(self.tokens, [self.rows()])
        return seq

    def poisoned(self):
        """Destinations of the same shape that hold nothing of the rows."""
        return np.full_like(self.k, 777), np.full_like(self.v, 777)


@pytest.fixture
def model():
    return Model(200)


def check(model, k, v, count):
    np.testing.assert_array_equal(k[:, :count], model.k[:, :count])
    np.testing.assert_array_equal(v[:, :count], model.v[:, :count])
