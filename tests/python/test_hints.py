"""What the host knows of what comes: hints, prefetch, registered memory."""

import gc

import kvc
import numpy as np
import pytest
from conftest import LAYERS, Model, check


@pytest.fixture
def hinted(scope):
    try:
        scope.sequence().hint()
    except kvc.Unsupported as error:
        pytest.skip(str(error))


def test_what_a_host_says_of_reuse_decides_who_goes_first(hinted, store, scope):
    models = [Model(128, seed=i) for i in range(3)]
    over, kept, plain = [model.store(scope) for model in models]
    over.hint(done=True)
    kept.hint(priority=1 << 20, continues_in_ms=60_000, turn=3)
    for seq in (over, kept, plain):
        seq.release()
    scope.sequence().release()
    filler = store.scope(model="filler")
    found = {model: 128 for model in models}
    for i in range(2000):
        filler.put({f"{i}": bytes(100_000)})
        if all(scope.match(model.tokens, peek=True)[1].tokens == 128 for model in models):
            continue
        found = {model: scope.match(model.tokens, peek=True)[1].tokens for model in models}
        break
    assert found[models[0]] < 128 and found[models[1]] == 128, "the conversation that is over goes first"


def test_what_has_priority_outlives_what_was_used_later(hinted, store, scope):
    first, later = Model(128, seed=1), Model(128, seed=2)
    kept, plain = first.store(scope), later.store(scope)
    kept.hint(priority=1 << 20)
    kept.release()
    plain.release()
    filler = store.scope(model="filler")
    for i in range(2000):
        filler.put({f"{i}": bytes(100_000)})
        if scope.match(later.tokens, peek=True)[1].tokens < 128:
            break
    assert scope.match(later.tokens, peek=True)[1].tokens < 128, "nothing was evicted"
    assert scope.match(first.tokens, peek=True)[1].tokens == 128


def test_hints_are_checked(hinted, scope, model):
    seq = model.store(scope)
    for bad in (dict(turn=-1), dict(priority=2**32), dict(continues_in_ms=2**64)):
        with pytest.raises(kvc.ArgumentError):
            seq.hint(**bad)
    with pytest.raises(TypeError):
        seq.hint(turn="a")
    seq.hint(turn=np.int32(2))


def test_a_prefetch_says_how_far_rows_are_held(scope, model):
    seq = model.store(scope)
    rows = kvc.Rows(layer_begin=0, layer_count=LAYERS, token_count=200)
    try:
        assert seq.prefetch(rows).done == 200
    except kvc.Unsupported as error:
        pytest.skip(str(error))
    seq.prefetch([rows], kvc.TIER_HOST, detach=True)
    assert seq.prefetch(kvc.Rows(layer_begin=1, layer_count=1, token_list=[3, 5])).done == 2
    with pytest.raises(kvc.RangeError):
        seq.prefetch(kvc.Rows(layer_begin=0, layer_count=1, token_count=201))
    with pytest.raises(kvc.Unsupported):
        seq.prefetch(rows, kvc.TIER_NVME)


def test_registered_memory_is_borrowed_until_its_release(store, scope, model):
    seq = model.store(scope)
    room = bytearray(1 << 20)
    try:
        region = store.region(room)
    except kvc.Unsupported as error:
        pytest.skip(str(error))
    assert store.info().region_count == 1
    with pytest.raises(BufferError):
        room.append(0)
    with pytest.raises(kvc.ArgumentError):
        store.region(memoryview(room)[100:200])
    with pytest.raises(kvc.Busy):
        store.close()
    k = np.frombuffer(room, np.float16, model.k.size).reshape(model.k.shape)
    v = np.full_like(k, 777)
    seq.gather(kvc.Rows.of(k=k, v=v))
    check(model, k, v, 200)
    del k
    region.release()
    region.release()
    room.append(0)
    other = store.region(np.zeros(5000))  # the region alone keeps the array
    gc.collect()
    assert store.info().region_count == 1 and "released" not in repr(other)
    del other
    gc.collect()
    assert store.info().region_count == 0
    for bad, kind in ((b"read only", kvc.ArgumentError), (5, TypeError), (bytearray(), kvc.ArgumentError)):
        with pytest.raises(kind):
            store.region(bad)
