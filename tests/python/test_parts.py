"""Ranks that split a model: each writes its part, and readers may split it otherwise."""

import os

import kvc
import numpy as np
import pytest
from conftest import HEADS, LAYERS, check


def heads(rank, write_id=b""):
    return kvc.Part(head_begin=rank, head_count=1, write_id=write_id)


def test_ranks_that_split_heads_make_chunks_for_all(scope, model):
    write_id = os.urandom(16)
    ranks = []
    for rank in range(HEADS):
        assert scope.match(model.tokens, peek=True)[1].tokens == 0
        seq = scope.sequence(part=heads(rank, write_id))
        rows = kvc.Rows.of(k=model.k[:, :, rank:rank + 1], v=model.v[:, :, rank:rank + 1], head_begin=rank)
        seq.append(model.tokens, [rows])
        ranks.append(seq)
    seq, info = scope.match(model.tokens)
    assert info.tokens == 192
    k, v = model.poisoned()
    seq.gather([kvc.Rows.of(k=k[:, :192], v=v[:, :192])])
    check(model, k, v, 192)
    stage, info = scope.match(model.tokens, part=kvc.Part(layer_begin=1, layer_count=LAYERS - 1))
    assert info.tokens == 192
    k, v = model.poisoned()
    stage.gather([kvc.Rows.of(k=k[1:, :192], v=v[1:, :192], layer_begin=1)])
    np.testing.assert_array_equal(k[1:, :192], model.k[1:, :192])
    assert (k[0] == 777).all() and (v[0] == 777).all()


def test_rows_outside_of_a_part_are_refused_by_number(scope, model):
    seq = scope.sequence(part=kvc.Part(layer_begin=0, layer_count=1))
    with pytest.raises(kvc.RangeError, match="layer 1 is not in this sequence's part, layers 0..0"):
        seq.append(model.tokens, [model.rows()])
    assert seq.info().tokens_given == 0
    with pytest.raises(kvc.RangeError, match="the shape has 3"):
        scope.sequence(part=kvc.Part(layer_begin=2, layer_count=2))


def test_write_ids_have_16_bytes(scope):
    with pytest.raises((kvc.ArgumentError, ValueError, TypeError)):
        scope.sequence(part=heads(0, b"short"))


def test_each_rank_saves_its_part_and_they_are_one_chunk_again(scope, model, tmp_path):
    write_id = os.urandom(16)
    for rank in range(HEADS):
        with scope.sequence(part=heads(rank, write_id)) as seq:
            seq.append(model.tokens, [kvc.Rows.of(k=model.k[:, :, rank:rank + 1], v=model.v[:, :, rank:rank + 1], head_begin=rank)])
            seq.save(tmp_path / str(rank))
    scope.clear()
    assert scope.match(model.tokens, peek=True)[1].tokens == 0
    with pytest.raises(kvc.ShapeError, match="the file holds layers .*the options name all layers and heads"):
        scope.restore(tmp_path / "0")
    ranks = [scope.restore(tmp_path / str(rank), part=heads(rank, write_id)) for rank in range(HEADS)]
    assert all(rank.info().tokens == len(model.tokens) for rank in ranks)
    seq, info = scope.match(model.tokens)
    assert info.tokens == 192
    k, v = model.poisoned()
    seq.gather([kvc.Rows.of(k=k[:, :192], v=v[:, :192])])
    check(model, k, v, 192)
