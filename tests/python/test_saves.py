"""Sequences saved to files and restored, here and in other processes."""

import asyncio
import os
import pathlib
import subprocess
import sys

import kvc
import numpy as np
import pytest
from conftest import DIM, HEADS, LAYERS, Model, check


def read(seq, model):
    k, v = model.poisoned()
    seq.gather(kvc.Rows.of(k=k, v=v, token_count=seq.info().tokens))
    return k, v


@pytest.mark.parametrize("kind", [str, pathlib.Path, os.fsencode])
def test_a_file_makes_the_same_sequence_in_another_store(scope, model, shape, tmp_path, kind):
    seq = model.store(scope)
    path = kind(str(tmp_path / "päge 1.kvc"))
    seq.save(path)
    seq.save(path)  # replaced
    with kvc.Store("mem:", memory_bytes=64 << 20) as other:
        same = other.scope(model="tiny", revision="1", shape=shape)
        with same.restore(path) as again:
            assert again.info().tokens == 200 == again.info().tokens_given
            check(model, *read(again, model), 200)
            more = Model(10, seed=5)
            again.append(more.tokens, [kvc.Rows.of(k=more.k, v=more.v, token_begin=200)])
        assert same.match(model.tokens)[1].tokens == 192, "what was restored is found by its prompt"
        with pytest.raises(kvc.Error) as caught:
            other.scope(model="another", shape=shape).restore(path)
        assert caught.value.message


def test_what_is_appended_to_a_sequence_that_was_restored_private_is_found_by_nobody(scope, model, shape, tmp_path):
    model.store(scope).save(tmp_path / "saved")
    with kvc.Store("mem:", memory_bytes=64 << 20) as other:
        same = other.scope(model="tiny", revision="1", shape=shape)
        more = Model(56, seed=5)
        for private, found in ((True, 192), (False, 256)):
            with same.restore(tmp_path / "saved", private=private) as again:
                again.append(more.tokens, [kvc.Rows.of(k=more.k, v=more.v, token_begin=200)])
            assert same.match(np.concatenate((model.tokens, more.tokens)), peek=True)[1].tokens == found


def test_another_process_restores_what_this_one_saved(scope, model, tmp_path):
    model.store(scope).save(tmp_path / "saved")
    code = """
import sys, kvc, numpy as np
shape = kvc.Shape(dtype=kvc.F16, rope=kvc.ROPE_PAIRS, layers=[kvc.Layer(count=%d, kv_heads=%d, k_dim=%d, v_dim=%d)])
with kvc.Store("mem:", memory_bytes=64 << 20) as store:
    with store.scope(model="tiny", revision="1", shape=shape).restore(sys.argv[1]) as seq:
        k = np.zeros((%d, 200, %d, %d), np.float16)
        v = np.zeros_like(k)
        seq.gather(kvc.Rows.of(k=k, v=v))
        sys.stdout.buffer.write(k.tobytes() + v.tobytes())
""" % (LAYERS, HEADS, DIM, DIM, LAYERS, HEADS, DIM)
    out = subprocess.run([sys.executable, "-c", code, tmp_path / "saved"], stdout=subprocess.PIPE, check=True).stdout
    assert out == model.k.tobytes() + model.v.tobytes()


def test_files_that_are_not_there_or_damaged_are_refused_and_nothing_of_them_is_used(store, scope, model, tmp_path):
    path = tmp_path / "saved"
    seq = model.store(scope)
    seq.save(path)
    for name in (tmp_path / "none", tmp_path):
        with pytest.raises(kvc.Error) as caught:
            scope.restore(name)
        assert isinstance(caught.value, (kvc.NotFound, kvc.InputOutputError, kvc.Corrupt, kvc.ArgumentError))
    with pytest.raises(kvc.InputOutputError) as caught:
        seq.save(tmp_path / "no folder" / "file")
    assert caught.value.system_error
    with pytest.raises(kvc.ArgumentError, match="NUL"):
        seq.save("a\0b")
    with pytest.raises(TypeError):
        seq.save(3)
    seq.release()
    scope.clear()  # what is held already is not read
    data = path.read_bytes()
    for at in (0, 40, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
        with pytest.raises((kvc.Corrupt, kvc.VersionError)):
            scope.restore(path)
    path.write_bytes(data[:-1])
    with pytest.raises(kvc.Corrupt):
        scope.restore(path)
    assert store.info().seq_count == 0
    path.write_bytes(data)
    check(model, *read(scope.restore(path), model), 200)


def test_queues_save_and_restore(store, scope, model, tmp_path):
    seq = model.store(scope)

    async def main():
        with store.queue() as queue:
            try:
                await queue.save(seq, tmp_path / "saved")
            except kvc.Unsupported as error:
                pytest.skip(str(error))
            again = await queue.restore(scope, str(tmp_path / "saved"))
            k, v = model.poisoned()
            await queue.gather(again, kvc.Rows.of(k=k, v=v))
            check(model, k, v, 200)
            with pytest.raises(kvc.NotFound):
                await queue.restore(scope, tmp_path / "none")

    asyncio.run(main())
    assert np.fromfile(tmp_path / "saved", "S8", 1)[0] == b"KVCSAVE1"
