"""multiprocessing, by fork and by spawn: a child makes stores, queues and views of its own, beside those of its parent."""

import asyncio
import multiprocessing
import os
import signal
import threading

import kvc
import numpy as np
import pytest
from conftest import DIM, HEADS, LAYERS, Model, check

SHAPE = kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=LAYERS, kv_heads=HEADS, k_dim=DIM, v_dim=DIM)])


def serve(seed):
    """A whole host: what it found, what its scope is called, and the sum of what it read in place."""
    model = Model(150, seed=seed)
    with kvc.Store("mem:", memory_bytes=16 << 20) as store:
        scope = store.scope(model="child", shape=SHAPE)
        model.store(scope).release()

        async def main():
            with store.queue() as queue:
                seq, info = await queue.match(scope, model.tokens)
                k, v = model.poisoned()
                await queue.gather(seq, kvc.Rows.of(k=k, v=v, token_count=info.tokens))
                check(model, k, v, info.tokens)
                return seq, info.tokens

        seq, tokens = asyncio.run(main())
        with seq.view(1, 70) as view:
            total = float(np.asarray(view.k).astype(np.float64).sum())
        scope.put({"key": bytes([seed]) * 1000})
        assert scope.get("key") == bytes([seed]) * 1000
        return tokens, scope.info().fingerprint, total


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_B100_children_of_a_pool_are_hosts_of_their_own(method):
    here = [serve(seed) for seed in range(2)]
    assert [found for found, _, _ in here] == [128] * 2
    with kvc.Store("mem:", memory_bytes=16 << 20) as store, store.queue() as queue:  # its threads are none of a forked child's
        seq = Model(100).store(store.scope(model="parent", shape=SHAPE))
        queue.append(seq, [1])
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(serve, range(2)) == here
        assert queue.drain(timeout_us=20_000_000) and seq.info().tokens_given == 101


def inherited(things, connection):
    """In a forked child: what becomes of everything the parent had."""
    store, scope, seq, queue, view = things
    answers = []
    for use in (store.info, scope.info, seq.info, queue.drain, lambda: queue.append(seq, [1]), lambda: seq.view(0, 0), lambda: seq.gather([])):
        try:
            use()
            answers.append("no error")
        except kvc.Error as error:
            answers.append(type(error).__name__)
    for thing in (view, queue, seq, scope):
        thing.release()
    store.close()
    connection.send((answers, serve(1)))


def test_B100_what_a_forked_child_inherits_is_its_parent_s_and_ends_without_harm():
    with kvc.Store("mem:", memory_bytes=16 << 20) as store, store.queue() as queue:
        scope = store.scope(model="parent", shape=SHAPE)
        model = Model(100)
        seq = model.store(scope)
        with seq.view(0, 0) as view:
            ours, theirs = multiprocessing.Pipe()
            child = multiprocessing.get_context("fork").Process(target=inherited, args=((store, scope, seq, queue, view), theirs))
            child.start()
            assert ours.poll(60), "the child hangs"
            answers, served = ours.recv()
            child.join(60)
            assert child.exitcode == 0 and answers == ["Forked"] * 7 and served == serve(1)
            np.testing.assert_array_equal(np.asarray(view.k), model.k[0, :64].swapaxes(0, 1))
        k, v = model.poisoned()
        call = queue.gather(seq, kvc.Rows.of(k=k, v=v))
        assert queue.drain(timeout_us=20_000_000) == [call]
        check(model, k, v, 100)


def test_a_fork_amid_calls_of_other_threads_hangs_nobody():
    with kvc.Store("mem:", memory_bytes=16 << 20) as store, store.queue() as queue:
        scope = store.scope(model="parent", shape=SHAPE)
        seq = Model(100).store(scope)
        stop = threading.Event()

        def busy(fork):
            k, v = Model(100).poisoned()
            while not stop.is_set():
                fork.gather(kvc.Rows.of(k=k, v=v))
                queue.gather(fork, kvc.Rows.of(k=k, v=v))
                queue.drain(timeout_us=1000)

        forks = [seq.fork() for _ in range(3)]
        threads = [threading.Thread(target=busy, args=(fork,)) for fork in forks]
        for thread in threads:
            thread.start()
        try:
            for _ in range(3):
                child = os.fork()
                if child == 0:
                    signal.alarm(60)  # a child that hangs fails
                    forked = 0
                    for use in (seq.info, *(fork.info for fork in forks), queue.drain):
                        try:
                            use()
                        except kvc.Forked:
                            forked += 1
                    os._exit(0 if forked == 5 and serve(2)[0] == 128 else 1)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        finally:
            stop.set()
            for thread in threads:
                thread.join()
