"""Other threads go on while a call waits; one sequence may be shared; close waits."""

import sys
import threading
import time

import kvc
import numpy as np
import pytest
from conftest import Model, check


@pytest.fixture(scope="module")
def large():
    """A store with a sequence of mebibytes."""
    layers, tokens, heads, dim = 8, 512, 8, 128
    shape = kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=layers, kv_heads=heads, k_dim=dim, v_dim=dim)])
    with kvc.Store("mem:", memory_bytes=128 << 20) as store:
        seq = store.scope(model="large", shape=shape).sequence(private=True)
        k = np.ones((layers, tokens, heads, dim), np.float16)
        seq.append(None, [kvc.Rows.of(k=k, v=k)])
        yield store, seq, [kvc.Rows.of(k=np.zeros(k.shape, np.float32), v=np.zeros(k.shape, np.float32))]


def lets_others_run(call, tries=1000):
    """Whether another thread of Python came around within one of so many calls.  Nobody is interrupted meanwhile: who is inside a call
    lets the others run, or they do not."""
    rounds, stop = 0, False

    def others():
        nonlocal rounds
        while not stop:
            rounds += 1
            time.sleep(0)

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=others)
    sys.setswitchinterval(1000)
    try:
        thread.start()
        for _ in range(tries):
            before = rounds
            call()
            if rounds > before:
                return True
        return False
    finally:
        stop = True
        sys.setswitchinterval(interval)
        thread.join()


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no GIL to hold")
def test_B106_who_holds_the_interpreter_is_not_interrupted_and_only_what_lets_go_of_it_lets_others_run():
    assert not lets_others_run(lambda: sum(range(1000)))
    assert lets_others_run(lambda: time.sleep(0.001))


def test_B106_the_interpreter_runs_while_rows_move(large):
    _, seq, rows = large
    assert lets_others_run(lambda: seq.gather(rows))


def test_B106_the_interpreter_runs_while_a_store_is_verified(large):
    assert lets_others_run(large[0].verify)


def test_B106_the_interpreter_runs_while_objects_and_rows_come_in(large):
    store, seq, _ = large
    scope, value = store.scope(model="objects"), np.ones(4 << 20, np.uint8)
    assert lets_others_run(lambda: scope.put({"key": value}))
    assert lets_others_run(lambda: scope.get("key"))
    k = np.ones((8, 64, 8, 128), np.float16)

    def append():
        with seq.fork() as fork:
            fork.append(None, [kvc.Rows.of(k=k, v=k, token_begin=512)])

    assert lets_others_run(append)


def test_threads_share_a_sequence(scope):
    model = Model(256)
    seq = model.store(scope)
    errors = []

    def read():
        try:
            for _ in range(200):
                k, v = model.poisoned()
                seq.gather([kvc.Rows.of(k=k, v=v)])
                check(model, k, v, 256)
        except BaseException as error:
            errors.append(error)

    def write():
        try:
            more = Model(1, seed=5)
            for i in range(200):
                seq.append(more.tokens, [kvc.Rows.of(k=more.k, v=more.v, token_begin=256)])
                seq.truncate(256)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for work in (read, read, write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_threads_write_one_prefix_and_one_wins_whole(scope):
    models = [Model(128, seed=1) for _ in range(4)]
    for i, model in enumerate(models):
        model.k[:], model.v[:] = i, i
    barrier = threading.Barrier(4)

    def write(model):
        barrier.wait()
        with scope.sequence() as seq:
            for layer in range(3):
                seq.append(model.tokens if layer == 0 else None,
                           [kvc.Rows.of(k=model.k[layer], v=model.v[layer], axes="token head dim", layer_begin=layer)])

    threads = [threading.Thread(target=write, args=[model]) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seq, info = scope.match(models[0].tokens)
    assert info.tokens == 128
    k, v = models[0].poisoned()
    seq.gather([kvc.Rows.of(k=k, v=v)])
    for chunk in (slice(0, 64), slice(64, 128)):
        assert len(np.unique(k[:, chunk])) == 1 and (k[:, chunk] == v[:, chunk]).all()


def test_B110_close_waits_for_the_calls_inside():
    for _ in range(20):
        store = kvc.Store("mem:", memory_bytes=64 << 20)
        scope = store.scope(model="m", shape=kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=3, kv_heads=2, k_dim=8, v_dim=8)]))
        model = Model(512)
        seqs = [model.store(scope) for _ in range(3)]
        scope.put({"k": bytes(1 << 20)})
        ends = []

        def read(seq):
            room = bytearray(1 << 20)
            try:
                while True:
                    k, v = model.poisoned()
                    seq.gather([kvc.Rows.of(k=k, v=v)])
                    scope.get_into([("k", room)])
                    scope.match(model.tokens)
            except kvc.Error as error:
                ends.append(type(error))

        threads = [threading.Thread(target=read, args=[seq]) for seq in seqs]
        for thread in threads:
            thread.start()
        time.sleep(0.005)
        store.close()
        for thread in threads:
            thread.join()
        assert ends == [kvc.Stale] * 3


def test_a_small_put_that_waits_for_room_lets_other_threads_make_it():
    with kvc.Store("mem:", memory_bytes=2 << 20, wait=True) as store:
        scope, leases = store.scope(model="m"), []

        def hold(key, size):
            scope.put({key: bytes(size)}, timeout_us=1000)
            leases.append(scope.exists([key], lease_ms=kvc.FOREVER).lease)

        hold("first", 1_800_000)
        with pytest.raises(kvc.Full):
            for i in range(40):
                hold(f"{i}", 30_000)
        thread = threading.Timer(0.05, leases[0].release)
        thread.start()
        scope.put({"small": bytes(30_000)}, timeout_us=5_000_000)
        thread.join()
        assert scope.get("small") == bytes(30_000)
