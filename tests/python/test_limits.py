"""Quotas and times to live of scopes and objects."""

import time

import kvc
import numpy as np
import pytest
from conftest import DIM, HEADS, LAYERS, Model


def shape():
    return kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=LAYERS, kv_heads=HEADS, k_dim=DIM, v_dim=DIM)])


def until_it_lapses(look):
    """Whatever the clock does meanwhile: not how long it takes, that it comes."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            look()
        except kvc.NotFound:
            return
        time.sleep(0.01)
    raise AssertionError("it is found still")


def test_a_scope_stays_below_its_quota_at_the_cost_of_its_own_alone(store):
    other = store.scope(model="other")
    other.put({"kept": bytes(50_000)})
    scope = store.scope(model="limited", bytes_max=100_000)
    assert scope.info().bytes_max == 100_000
    for i in range(50):
        scope.put({f"key {i}": bytes([i]) * 10_000})
        assert scope.info().bytes_host <= 100_000
    assert scope.get("key 49") == bytes([49]) * 10_000
    with pytest.raises(kvc.NotFound):
        scope.get("key 0")
    with pytest.raises(kvc.Full) as caught:
        scope.put({"large": bytes(100_001)})
    assert caught.value.retry == kvc.RETRY_NEVER
    assert other.get("kept") == bytes(50_000)


def test_sequences_of_a_limited_scope_are_full_when_all_is_held(store):
    chunk = shape().check().chunk_bytes
    scope = store.scope(model="limited", shape=shape(), bytes_max=3 * (chunk + 8192))
    models = [Model(64, seed=i) for i in range(8)]
    seqs = []
    with pytest.raises(kvc.Full):
        for model in models:
            seqs.append(model.store(scope))
    assert 1 <= len(seqs) < 8
    for seq in seqs:
        seq.release()
    models[-1].store(scope)
    assert scope.match(models[-1].tokens)[1].tokens == 64


def test_what_is_not_used_for_its_time_to_live_is_found_by_nobody(store):
    scope = store.scope(model="short", shape=shape(), ttl_ms=50)
    model = Model(128)
    model.store(scope).release()
    scope.put({"key": b"value"})

    def matched():
        if scope.match(model.tokens, peek=True)[1].tokens == 0:
            raise kvc.NotFound(0, "")

    until_it_lapses(lambda: (time.sleep(0.1), scope.get("key")))
    until_it_lapses(lambda: (time.sleep(0.1), matched()))
    long = store.scope(model="long")
    long.put({"mine": b"value"}, ttl_ms=50)
    long.put({"theirs": b"value"})
    until_it_lapses(lambda: (time.sleep(0.1), long.get("mine")))
    assert long.get("theirs") == b"value"


def test_a_typed_object_lives_as_long_as_it_is_told(store):
    scope = store.scope(model="typed", shape=shape())
    value = np.ones((2, LAYERS, 16, HEADS, DIM), np.float16)
    scope.put({"a": value}, layout=kvc.Layout.of(value, k=value[0], v=value[1]), ttl_ms=50)
    until_it_lapses(lambda: (time.sleep(0.1), scope.get("a")))
