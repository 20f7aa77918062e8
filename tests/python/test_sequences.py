"""Match, append, fork, truncate, identity, leases and what the infos say."""

import array
import subprocess
import sys
import threading
import time

import kvc
import numpy as np
import pytest
from conftest import DIM, HEADS, LAYERS, Model, check


def test_a_stored_prefix_is_matched_by_whole_chunks(scope, model):
    model.store(scope).release()
    seq, info = scope.match(model.tokens)
    assert (info.tokens, info.stop) == (192, kvc.STOP_END)
    k, v = model.poisoned()
    assert seq.gather([kvc.Rows.of(k=k[:, :192], v=v[:, :192])]).done == 192
    check(model, k, v, 192)
    seq.append(model.tokens[192:], [model.rows(192)])
    seq.gather([kvc.Rows.of(k=k, v=v)])
    check(model, k, v, 200)


def test_tokens_max_and_other_tokens_shorten_a_match(scope, model):
    model.store(scope).release()
    assert scope.match(model.tokens, tokens_max=191)[1].tokens == 128
    other = model.tokens.copy()
    other[70] += 1
    seq, info = scope.match(other)
    assert (info.tokens, info.stop) == (64, kvc.STOP_ABSENT)
    assert seq.info().tokens == 64
    assert scope.match([])[1].tokens == 0


def test_a_peek_makes_no_sequence(store, scope, model):
    model.store(scope).release()
    nothing, info = scope.match(model.tokens, peek=True)
    assert nothing is None and info.tokens == 192
    assert store.info().seq_count == 0


class DLPack:
    def __init__(self, tokens):
        self.tokens = tokens

    def __dlpack__(self, **options):
        return self.tokens.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tokens.__dlpack_device__()


@pytest.mark.parametrize("form", [lambda t: t, lambda t: t.tolist(), lambda t: tuple(t.tolist()), list, memoryview, DLPack,
                                  lambda t: t.astype(np.int64), lambda t: DLPack(t.astype(np.uint16)), lambda t: np.repeat(t, 2)[::2],
                                  lambda t: array.array("i", t.tolist()), lambda t: iter(t.tolist())])
def test_tokens_of_every_kind_are_the_same_tokens(scope, model, form):
    model.store(scope).release()
    assert scope.match(form(model.tokens))[1].tokens == 192


@pytest.mark.parametrize("tokens, message", [
    ([1, 2**31], r"tokens\[1\]: 2147483648 is not in"), ([-2**31 - 1], r"tokens\[0\]: -2147483649 is not in"),
    ([10**30], r"tokens\[0\]: 1000000000"), (np.array([1, -2**31 - 1]), r"tokens\[1\]: -2147483649 is not in"),
    (np.array([1.0], np.float32), "tokens: elements of 4 bytes, code 'f'; integers are needed"),
    (np.zeros((2, 2), np.int32), "tokens: 2 dimensions; one is needed"), (b"1234", "tokens: raw bytes")])
def test_wrong_tokens_are_refused_by_name(scope, tokens, message):
    with pytest.raises(kvc.ArgumentError, match=message):
        scope.match(tokens)


@pytest.mark.parametrize("tokens", ["text", [1.5], 7, [None]])
def test_what_is_no_list_of_integers_is_a_type_error(scope, tokens):
    with pytest.raises(TypeError):
        scope.match(tokens)


def test_forks_share_and_differ(scope, model):
    parent = model.store(scope)
    child, short = parent.fork(), parent.fork(100)
    assert (child.info().tokens, short.info().tokens) == (200, 100)
    other = Model(20, seed=9)
    for seq in (parent, child):
        seq.append(other.tokens, [kvc.Rows.of(k=other.k, v=other.v, token_begin=200)])
    parent.truncate(5)
    parent.release()
    k, v = model.poisoned()
    child.gather([kvc.Rows.of(k=k, v=v)])
    check(model, k, v, 200)
    tail = np.zeros_like(other.k)
    child.gather([kvc.Rows.of(k=tail, token_begin=200)])
    np.testing.assert_array_equal(tail, other.k)
    with pytest.raises(kvc.RangeError):
        short.fork(101)
    with pytest.raises(kvc.RangeError):
        short.truncate(101)


@pytest.mark.parametrize("to", [100, 70])
def test_truncate_cuts_the_ids_given_ahead_of_rows(scope, model, to):
    seq = scope.sequence()
    seq.append(model.tokens, model.rows(0, 100))
    assert seq.fork().info().tokens_given == 200 and seq.fork(100).info().tokens_given == 100
    seq.truncate(to)
    assert (seq.info().tokens, seq.info().tokens_given) == (to, to)


def test_one_open_token_takes_the_room_of_a_whole_chunk():
    shape = kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=LAYERS, kv_heads=HEADS, k_dim=DIM, v_dim=DIM)])
    chunk_bytes, model = shape.check().chunk_bytes, Model(1)
    for count, open_bytes_max in ((5, 5 * (chunk_bytes + 512 * LAYERS + 6144)), (4, 5 * chunk_bytes)):
        with kvc.Store("mem:", memory_bytes=1, open_bytes_max=open_bytes_max) as store:
            assert store.info().memory_bytes == 2 << 20
            scope = store.scope(model="m", shape=shape)
            seqs = [scope.sequence() for _ in range(5)]
            for seq in seqs[:count]:
                seq.append(model.tokens, model.rows())
            if count < 5:
                with pytest.raises(kvc.Full, match="open_bytes_max"):
                    for seq in seqs[count:]:
                        seq.append(model.tokens, model.rows())


def test_a_gap_changes_nothing(scope, model):
    seq = scope.sequence()
    seq.append(model.tokens, [model.rows(0, 100)])
    for begin in (99, 101):
        with pytest.raises(kvc.RangeError):
            seq.append(None, [model.rows(begin, 110)])
    with pytest.raises(kvc.RangeError):
        seq.append([], [kvc.Rows.of(k=np.zeros((LAYERS, 150, HEADS, DIM), np.float16), v=np.zeros((LAYERS, 150, HEADS, DIM), np.float16),
                                    token_begin=100)])
    info = seq.info()
    assert (info.tokens, info.tokens_given) == (100, 200)
    seq.append(None, [model.rows(100)])
    assert seq.info().tokens == 200


def test_a_private_sequence_is_never_matched(scope, model):
    seq = scope.sequence(private=True)
    seq.append(model.tokens, [model.rows()])
    assert scope.match(model.tokens)[1].tokens == 0
    assert seq.info().tokens == 200


def test_extra_identity_divides_equal_tokens(scope, model):
    cat, dog = kvc.Extra(10, 20, b"cat"), kvc.Extra(10, 20, b"dog")
    seq, _ = scope.match(model.tokens, extras=[cat])
    seq.append(model.tokens, [model.rows()])
    assert scope.match(model.tokens, extras=[cat])[1].tokens == 192
    assert scope.match(model.tokens, extras=[dog])[1].tokens == 0
    assert scope.match(model.tokens)[1].tokens == 0
    late = scope.sequence()
    late.append(model.tokens[:40], [model.rows(0, 40)])
    late.identify([kvc.Extra(5, 1, b"x")])
    late.append(model.tokens[40:], [model.rows(40)])
    assert scope.match(model.tokens, extras=[kvc.Extra(5, 1, b"x")])[1].tokens == 192


def test_first_position_is_part_of_the_identity(scope, model):
    seq = scope.sequence(first_position=1000)
    seq.append(model.tokens, [model.rows()])
    assert scope.match(model.tokens)[1].tokens == 0
    assert scope.match(model.tokens, first_position=1000)[1].tokens == 192


def test_scopes_with_other_names_share_nothing(store, shape, model):
    base = dict(model="m", revision="r", tenant="t", adapter="a", salt=b"s", shape=shape)
    model.store(store.scope(**base))
    assert store.scope(**base).match(model.tokens)[1].tokens == 192
    for name, value in (("model", "M"), ("revision", ""), ("tenant", "u"), ("adapter", None), ("salt", b"")):
        assert store.scope(**base | {name: value}).match(model.tokens)[1].tokens == 0, name


def test_names_are_equal_in_every_process(scope, shape):
    code = ("import kvc; s = kvc.Store('mem:', memory_bytes=64 << 20); shape = kvc.Shape(dtype=kvc.F16, rope=kvc.ROPE_PAIRS, "
            f"layers=[kvc.Layer(count={LAYERS}, kv_heads={HEADS}, k_dim={DIM}, v_dim={DIM})]); "
            "print(shape.check().fingerprint.hex(), s.scope(model='tiny', revision='1', shape=shape).info().fingerprint.hex())")
    for seed in ("0", "1"):
        out = subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True).stdout
        assert out.split() == [shape.check().fingerprint.hex(), scope.info().fingerprint.hex()]


def test_B124_a_shape_serves_two_stores_and_is_not_changed(shape):
    wide = kvc.Shape(dtype=kvc.F32, layers=[kvc.Layer(count=1, kv_heads=1, k_dim=4, v_dim=4)])
    before = repr(shape), repr(wide)
    with kvc.Store("mem:", memory_bytes=64 << 20) as one, kvc.Store("mem:", memory_bytes=64 << 20) as two:
        first, second = one.scope(model="m", shape=shape), two.scope(model="m", shape=wide)
        assert first.info().fingerprint != second.info().fingerprint
        seq = second.sequence(private=True)
        seq.append(None, [kvc.Rows.of(k=np.ones((1, 3, 1, 4), np.float32), v=np.ones((1, 3, 1, 4), np.float32))])
        models = [Model(64, seed=seed) for seed in range(2)]
        lengths = [0, 0]

        def use(store, i):
            for j in range(20):
                with store.scope(model=f"{i} {j}", shape=shape) as scope, models[i].store(scope):
                    lengths[i] += scope.match(models[i].tokens)[1].tokens

        threads = [threading.Thread(target=use, args=of) for of in ((one, 0), (two, 1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert lengths == [20 * 64] * 2
    assert (repr(shape), repr(wide)) == before


def test_shapes_say_what_follows_from_them(shape):
    info = shape.check()
    assert info.layer_count == LAYERS
    assert info.token_bytes == LAYERS * HEADS * 2 * DIM * 2
    assert info.chunk_bytes == 64 * info.token_bytes
    with pytest.raises(kvc.ShapeError):
        kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=0, kv_heads=HEADS, k_dim=DIM, v_dim=DIM)]).check()
    with pytest.raises(kvc.ShapeError):
        kvc.Shape(dtype=99, layers=[kvc.Layer(count=1, kv_heads=HEADS, k_dim=DIM, v_dim=DIM)]).check()
    for wrong in (6, [6], kvc.Layer(count=1, kv_heads=HEADS, k_dim=DIM, v_dim=DIM)):
        with pytest.raises(TypeError, match="layers: a list of kvc.Layer is needed, not "):
            kvc.Shape(dtype=kvc.F16, layers=wrong)


def test_a_lease_outlives_its_sequence(scope, model):
    seq = model.store(scope)
    lease = seq.lease(0, 192, 60_000)
    seq.release()
    assert scope.store.info().lease_count == 1
    lease.renew(60_000)
    with lease:
        assert scope.match(model.tokens)[1].tokens == 192
    assert scope.store.info().lease_count == 0
    with pytest.raises(kvc.Stale):
        lease.renew()


def test_a_lapsed_sequence_says_how_much_is_left():
    shape = kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=1, kv_heads=8, k_dim=128, v_dim=128)])
    with kvc.Store("mem:", memory_bytes=16 << 20) as store:
        scope = store.scope(model="m", shape=shape)
        first = Model(640, layers=1, heads=8, dim=128)
        seq = scope.sequence(lease_ms=1)
        seq.append(first.tokens, [first.rows()])
        time.sleep(0.05)
        for seed in range(2, 20):  # of other tokens, more than the store holds
            other = Model(640, seed=seed, layers=1, heads=8, dim=128)
            with scope.sequence(lease_ms=1) as writer:
                writer.append(other.tokens, [other.rows()])
            time.sleep(0.005)
        k, v = first.poisoned()
        with pytest.raises(kvc.Gone) as caught:
            seq.gather([kvc.Rows.of(k=k, v=v)])
        assert caught.value.done < 640
        assert caught.value.retry == kvc.RETRY_RECOMPUTE
        check(first, k, v, caught.value.done)
        assert store.metrics().evicted_chunks > 0


def test_infos_and_metrics_count(store, scope, model):
    seq = model.store(scope)
    k, v = model.poisoned()
    seq.gather([kvc.Rows.of(k=k, v=v)])
    scope.match(model.tokens)
    metrics, info = store.metrics(), store.info()
    assert metrics.append_bytes == metrics.gather_bytes == k.nbytes + v.nbytes
    assert (metrics.match_calls, metrics.match_tokens, metrics.hit_tokens) == (1, 200, 192)
    assert info.chunk_count == 3 and info.memory_bytes == 64 << 20 and 0 < info.memory_used <= info.memory_bytes
    assert scope.info().chunk_count == 3
    seq_info = seq.info()
    assert (seq_info.tokens, seq_info.tokens_sealed, len(seq_info.width_pages)) == (200, 192, 17)


def test_verify_reads_everything(store, scope, model):
    model.store(scope)
    info = store.verify()
    assert info.pages_bad == 0 and info.pages_read >= 3 * LAYERS and info.first_bad == ""
