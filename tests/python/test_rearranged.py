"""Sequences that are reordered, as beam search does, and compacted: positions of a model in numpy are the oracle."""

import threading

import kvc
import numpy as np
import pytest
from conftest import Model, check


def read(seq):
    count = seq.info().tokens
    model = Model(max(count, 1))
    k, v = model.poisoned()
    if count:
        seq.gather(kvc.Rows.of(k=k, v=v, token_count=count))
    return k[:, :count], v[:, :count]


def test_each_sequence_becomes_what_its_source_was(scope):
    models = [Model(60 + 30 * i, seed=i) for i in range(5)]
    rng = np.random.default_rng(4)
    seqs = [model.store(scope) for model in models]
    for _ in range(20):
        source = rng.integers(0, 5, 5)
        kvc.reorder(seqs, source if rng.integers(2) else source.tolist())
        models = [models[i] for i in source]
        for seq, model in zip(seqs, models):
            k, v = read(seq)
            np.testing.assert_array_equal(k, model.k)
            np.testing.assert_array_equal(v, model.v)
    own = Model(10, seed=77)
    seqs[0].append(own.tokens, [kvc.Rows.of(k=own.k, v=own.v, token_begin=seqs[0].info().tokens)])
    for seq, model in zip(seqs[1:], models[1:]):
        check(model, *read(seq), len(model.tokens))


def test_a_reorder_that_cannot_be_changes_nothing(store, scope, model):
    seqs = [model.store(scope), scope.sequence()]
    other = store.scope(model="other", shape=scope.shape).sequence()
    for kind, bad, source in ((kvc.RangeError, seqs, [0, 2]), (kvc.ArgumentError, seqs, [0]), (kvc.ShapeError, [*seqs, other], [0, 1, 0]),
                              (kvc.ArgumentError, seqs, [0, 2**40])):
        with pytest.raises(kind):
            kvc.reorder(bad, source)
    with pytest.raises(kvc.Error):
        kvc.reorder([seqs[0], seqs[0]], [0, 1])
    with pytest.raises(kvc.RangeError):
        kvc.reorder(seqs, [0, -1])
    assert [seq.info().tokens for seq in seqs] == [200, 0]
    seqs[1].release()
    with pytest.raises(kvc.Stale):
        kvc.reorder(seqs, [0, 0])


def test_threads_reorder_sequences_that_they_share(scope):
    seqs = [Model(70, seed=i).store(scope) for i in range(3)]
    failures = []

    def work(seed):
        rng = np.random.default_rng(seed)
        try:
            for _ in range(100):
                kvc.reorder([seqs[i] for i in rng.permutation(3)], [0, 1, 2])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("kind", [list, np.array, lambda p: np.array(p, np.uint64), tuple])
def test_only_the_listed_positions_are_kept(scope, model, kind):
    rng = np.random.default_rng(6)
    for count in (0, 1, 64, 130, 199, 200):
        seq = model.store(scope)
        kept = np.sort(rng.choice(200, count, replace=False))
        seq.compact(kind(kept.tolist()) if count else [])
        assert seq.info().tokens == count
        k, v = read(seq)
        np.testing.assert_array_equal(k, model.k[:, kept])
        np.testing.assert_array_equal(v, model.v[:, kept])
        tail = Model(30, seed=8)
        seq.append(None, [kvc.Rows.of(k=tail.k, v=tail.v, token_begin=count)])
        k, v = read(seq)
        np.testing.assert_array_equal(k, np.concatenate([model.k[:, kept], tail.k], axis=1))
    assert scope.match(model.tokens)[1].tokens == 192, "others find what was shared as before"


def test_positions_that_do_not_rise_or_are_not_there_change_nothing(scope, model):
    seq = model.store(scope)
    for bad in ([1, 0], [3, 3], [200]):
        with pytest.raises(kvc.RangeError):
            seq.compact(bad)
    with pytest.raises(kvc.ArgumentError):
        seq.compact([-1])
    with pytest.raises(TypeError):
        seq.compact(["a"])
    check(model, *read(seq), 200)
