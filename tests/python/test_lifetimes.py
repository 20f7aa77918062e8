"""Handles end in any order, more than once, by the garbage collector, at exit, and in a child."""

import copy
import gc
import itertools
import os
import pickle
import subprocess
import sys
import threading

import kvc
import numpy as np
import pytest
from conftest import Model, check


def make():
    store = kvc.Store("mem:", memory_bytes=64 << 20)
    scope = store.scope(model="m", shape=kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=3, kv_heads=2, k_dim=8, v_dim=8)]))
    seq = Model(100).store(scope)
    return store, scope, seq, seq.fork(), seq.lease()


ENDS = (kvc.Store.close, kvc.Scope.release, kvc.Seq.release, kvc.Seq.release, kvc.Lease.release)


@pytest.mark.parametrize("order", list(itertools.permutations(range(5))))
def test_handles_end_in_any_order_and_twice(order):
    handles = make()
    for i in order:
        ENDS[i](handles[i])
        ENDS[i](handles[i])
    with pytest.raises(kvc.Stale):
        handles[2].info()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"])
def test_nothing_with_an_owner_is_copied_and_the_attempt_ends_nothing(copied):
    handles = (*make(), handle := kvc.Store("mem:", memory_bytes=2 << 20), handle.queue())
    for owned in handles:
        with pytest.raises(TypeError, match="one owner"):
            copied(owned)
        gc.collect()
    assert handles[2].info().tokens == handles[3].info().tokens > 0


def test_B50_the_garbage_collector_ends_them_in_any_order():
    for order in itertools.permutations(range(5)):
        handles = list(make())
        for i in order:
            handles[i] = None
    for _ in range(20):
        handles = list(make())
        handles.append(handles)  # a cycle: all at once, in an order of the collector's
        del handles
    gc.collect()
    code = gc.get_objects()
    assert not any(isinstance(thing, (kvc.Store, kvc.Seq)) for thing in code)


def test_B50_what_the_garbage_collector_took_is_released_in_the_store():
    store, scope, seq, fork, lease = make()
    view = seq.view(0, 0)
    cycle = [seq, fork, lease]
    cycle.append(cycle)
    assert store.info().seq_count == 2
    del cycle, seq, fork, lease, view
    gc.collect()
    info = store.info()
    assert (info.seq_count, info.lease_count, info.view_count, info.memory_pinned) == (0, 0, 0, 0)


def test_a_sequence_keeps_its_store_open():
    seq = make()[2]
    gc.collect()
    assert seq.info().tokens == 100
    assert "released" not in repr(seq) and "closed" not in repr(seq.scope.store)


def test_use_after_the_end_is_stale_and_says_so():
    store, scope, seq, fork, lease = make()
    seq.release()
    with pytest.raises(kvc.Stale) as caught:
        seq.truncate(1)
    assert caught.value.name == "KVC_ERR_STALE" and caught.value.message
    scope.release()
    with pytest.raises(kvc.Stale):
        scope.sequence()
    store.close()
    for call in (store.info, store.metrics, fork.info, lease.renew, fork.fork, lambda: store.scope(model="x")):
        with pytest.raises(kvc.Stale):
            call()


def test_with_blocks_end_what_they_opened():
    with kvc.Store("mem:", memory_bytes=64 << 20) as store:
        with store.scope(model="m", shape=kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=3, kv_heads=2, k_dim=8, v_dim=8)])) as scope:
            with scope.sequence() as seq, seq.fork() as fork:
                assert store.info().seq_count == 2
            assert store.info().seq_count == 0 and "released" in repr(fork)
        with pytest.raises(ZeroDivisionError), scope.store:
            1 / 0
    assert "closed" in repr(store)


def test_B108_what_was_gathered_stays_valid_after_the_store():
    store, scope, seq, _, _ = make()
    model = Model(100)
    k, v = model.poisoned()
    seq.gather([kvc.Rows.of(k=k, v=v)])
    view = memoryview(k)
    store.close()
    del store, scope, seq
    gc.collect()
    check(model, np.asarray(view), v, 100)


def test_buffers_are_let_go_after_the_call():
    _, scope, seq, _, _ = make()
    rows = bytearray(100 * 2 * 8 * 2)
    seq.gather([kvc.Rows(layer_begin=0, layer_count=1, token_count=100, k=kvc.Array(rows))])
    rows.append(0)  # a bytearray with an export could not grow
    value = bytearray(10)
    scope.put({"k": value})
    scope.get_into([("k", value)])
    with pytest.raises(kvc.NotFound):
        scope.get_into([("absent", value)])
    with pytest.raises(TypeError):
        scope.get_into([("k", value), ("k", None)])
    value.append(0)
    counts = sys.getrefcount(rows), sys.getrefcount(value)
    for _ in range(100):
        with pytest.raises(kvc.Error):
            seq.gather([kvc.Rows(layer_begin=0, layer_count=9, token_count=100, k=kvc.Array(rows))])
        with pytest.raises(kvc.Error):
            scope.put([("k", value), ("k", bytearray(1))])
    assert (sys.getrefcount(rows), sys.getrefcount(value)) == counts


@pytest.mark.parametrize("ending", ["", "import os; os._exit(0)", "sys.exit(0)", "store.close()",
                                    "threading.Thread(target=seq.info).start()",
                                    "del store, scope", "import builtins; builtins.keep = seq"])
def test_B50_the_interpreter_ends_in_peace(ending):
    code = f"""
import sys, threading, kvc
store = kvc.Store("mem:", memory_bytes=64 << 20)
scope = store.scope(model="m", shape=kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=1, kv_heads=1, k_dim=8, v_dim=8)]))
seq = scope.sequence()
cycle = [store, scope, seq]; cycle.append(cycle)
{ending}
"""
    done = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def in_child(work):
    """Runs work() in a forked child; returns what it printed into a pipe."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = work()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0
    return text


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_B100_a_child_is_told_and_may_open_a_store_of_its_own():
    store, scope, seq, fork, lease = make()
    model = Model(100)

    def work():
        said = []
        for call in (store.info, seq.info, lambda: scope.match([1]), lease.renew, lambda: scope.get("k"),
                     lambda: seq.gather([kvc.Rows.of(k=model.k)])):
            try:
                call()
                said.append("nothing")
            except kvc.Forked:
                said.append("forked")
        for end in (lease.release, fork.release, seq.release, scope.release, store.close):
            end()
        own = make()[2]
        said.append(str(own.info().tokens))
        return " ".join(said)

    assert in_child(work) == "forked " * 6 + "100"
    k, v = model.poisoned()
    seq.gather([kvc.Rows.of(k=k, v=v)])
    check(model, k, v, 100)
    assert store.info().seq_count == 2


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_B100_a_child_forked_while_threads_are_inside_does_not_hang():
    store, scope, seq, _, _ = make()
    model, stop = Model(100), threading.Event()
    k, v = model.poisoned()

    def reader():
        while not stop.is_set():
            seq.gather([kvc.Rows.of(k=k, v=v)])

    def work():
        try:
            seq.info()
        except kvc.Forked:
            seq.release()
            store.close()
            return str(make()[2].info().tokens)
        return "not forked"

    thread = threading.Thread(target=reader)
    thread.start()
    try:
        for _ in range(20):
            assert in_child(work) == "100"
    finally:
        stop.set()
        thread.join()


def test_errors_travel_between_processes():
    error = kvc.Gone(-31, "tokens from 64 on were evicted", 3, 0, 64)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.status, copy.message, copy.retry, copy.done) == (kvc.Gone, -31, error.message, 3, 64)
