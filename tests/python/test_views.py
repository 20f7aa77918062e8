"""Views: pages lent in place, read-only, and alive as long as an array that was made of them."""

import gc
import os
import threading

import kvc
import numpy as np
import pytest
from conftest import DIM, HEADS, LAYERS, Model, check

TOKENS = 200


@pytest.fixture
def seq(scope, model):
    return model.store(scope)


def address(array):
    return array.__array_interface__["data"][0]


def test_a_view_shows_the_rows_of_its_page_in_place(seq, model):
    for layer in range(LAYERS):
        for token, begin, count in ((0, 0, 64), (63, 0, 64), (64, 64, 64), (130, 128, 64), (199, 192, 8)):
            with seq.view(layer, token) as view:
                assert (view.layer, view.token_begin, view.token_count) == (layer, begin, count)
                assert (view.head_begin, view.head_count) == (0, HEADS)
                k, v = np.asarray(view.k), np.asarray(view.v)
                assert k.shape == v.shape == (HEADS, count, DIM) and k.dtype == np.float16
                np.testing.assert_array_equal(k, model.k[layer, begin:begin + count].swapaxes(0, 1))
                np.testing.assert_array_equal(v, model.v[layer, begin:begin + count].swapaxes(0, 1))
                assert not k.flags.writeable and not k.flags.owndata
                with seq.view(layer, token) as again:
                    other = np.asarray(again.k)
                    assert address(other) == address(k), "a copy was made"
                    del other
                del k, v


def test_nobody_writes_to_a_page(seq):
    view = seq.view(0, 0)
    array = np.asarray(view.k)
    with pytest.raises(ValueError):
        array[0, 0, 0] = 1
    with pytest.raises(ValueError):
        array.flags.writeable = True
    with pytest.raises((BufferError, TypeError)):
        memoryview(view.k).cast("B")[0] = 1
    with pytest.raises(kvc.ArgumentError, match="read-only"):
        seq.gather(kvc.Rows.of(k=view.k, axes="head token dim", token_count=64))


def test_dlpack_lends_the_same_memory_and_says_that_it_is_read_only(seq, model):
    view = seq.view(1, 70)
    array = np.from_dlpack(view.k)
    np.testing.assert_array_equal(array, model.k[1, 64:128].swapaxes(0, 1))
    assert address(array) == address(np.asarray(view.k)) and not array.flags.writeable
    assert view.k.__dlpack_device__() == (1, 0)
    for wish in ({}, {"max_version": (0, 8)}, {"max_version": (1, 0), "copy": True}, {"max_version": (1, 0), "dl_device": (2, 0)}):
        with pytest.raises(BufferError, match="page: "):
            view.k.__dlpack__(**wish)
    unused = view.k.__dlpack__(max_version=(1, 0))
    with pytest.raises(kvc.Busy):
        view.release()
    del unused, array
    view.release()


@pytest.mark.parametrize("dtype, code, given", [(kvc.F32, "f", np.float32), (kvc.F16, "e", np.float16), (kvc.BF16, "H", np.uint16),
                                               (kvc.F8_E4M3, "B", np.uint8)])
def test_every_dtype_of_a_shape_is_shown_as_it_is_held(store, dtype, code, given):
    shape = kvc.Shape(dtype=dtype, chunk_tokens=16, layers=[kvc.Layer(count=1, kv_heads=3, k_dim=8, v_dim=4)])
    k = np.random.default_rng(1).integers(1, 100, (1, 16, 3, 8)).astype(given)
    v = k[..., :4].copy()
    with store.scope(model=f"dtype {dtype}", shape=shape).sequence(private=True) as seq:
        seq.append(None, kvc.Rows.of(k=k, v=v, dtype=dtype))
        with seq.view(0, 3) as view:
            assert view.k.dtype == dtype and view.k.shape == (3, 16, 8) and view.v.shape == (3, 16, 4)
            with memoryview(view.k) as memory:
                assert memory.format == code and memory.readonly and memory.c_contiguous
            assert np.asarray(view.v).tobytes() == v[0].swapaxes(0, 1).tobytes()


def test_bfloat16_comes_in_place_through_ml_dtypes(store):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    shape = kvc.Shape(dtype=kvc.BF16, chunk_tokens=16, layers=[kvc.Layer(count=1, kv_heads=1, k_dim=8, v_dim=8)])
    k = np.random.default_rng(2).standard_normal((1, 16, 1, 8)).astype(ml_dtypes.bfloat16)
    with store.scope(model="bf16", shape=shape).sequence(private=True) as seq:
        seq.append(None, kvc.Rows.of(k=k.view(np.uint16), v=k.view(np.uint16), dtype=kvc.BF16))
        with seq.view(0, 0) as view:
            np.testing.assert_array_equal(np.asarray(view.k).view(ml_dtypes.bfloat16), k[0].swapaxes(0, 1))


def test_torch_takes_a_page_through_dlpack(seq, model):
    torch = pytest.importorskip("torch")
    with seq.view(0, 0) as view:
        tensor = torch.from_dlpack(np.from_dlpack(view.k))
        np.testing.assert_array_equal(tensor.numpy(), model.k[0, :64].swapaxes(0, 1))
        del tensor


def test_B108_an_array_keeps_its_view_and_its_store(store, seq, model):
    array = np.asarray(seq.view(2, 100).k)  # nobody else holds the view
    gc.collect()
    assert store.info().view_count == 1
    with pytest.raises(kvc.Busy):
        store.close()
    assert store.info().view_count == 1, "the store is open still"
    np.testing.assert_array_equal(array, model.k[2, 64:128].swapaxes(0, 1))
    part = array[0, 3:7]
    del array
    gc.collect()
    np.testing.assert_array_equal(part, model.k[2, 67:71, 0])
    del part
    gc.collect()
    assert store.info().view_count == 0
    store.close()


def test_B108_release_is_busy_while_an_array_lives_and_the_page_lends_nothing_after_it(store, seq):
    view = seq.view(0, 0)
    page, array = view.k, np.asarray(view.v)
    with pytest.raises(kvc.Busy, match="arrays made of it are alive"):
        view.release()
    with pytest.raises(kvc.Busy), view:
        pass
    assert "released" not in repr(view)
    del array
    view.release()
    view.release()
    assert store.info().view_count == 0 and "released" in repr(view)
    for use in (memoryview, np.from_dlpack, lambda p: p.__dlpack__(max_version=(1, 0))):
        with pytest.raises((BufferError, ValueError), match="released"):
            use(page)


def test_what_happens_to_the_sequence_leaves_a_view_as_it_was(store, scope, seq, model):
    with seq.view(1, 199) as view, seq.view(1, 10) as sealed:
        open_rows, whole = np.asarray(view.k), np.asarray(sealed.k)
        before = open_rows.copy()
        other = Model(300, seed=9)
        seq.truncate(195)
        seq.append(other.tokens[195:230], [other.rows(195, 230)])
        seq.release()
        scope.release()
        gc.collect()
        np.testing.assert_array_equal(open_rows, before)
        np.testing.assert_array_equal(whole, model.k[1, :64].swapaxes(0, 1))
        del open_rows, whole


def test_the_rows_of_a_view_are_appended_elsewhere(scope, seq, model):
    with scope.sequence(private=True) as other:
        for begin in (0, 64, 128):
            views = [seq.view(layer, begin) for layer in range(LAYERS)]
            other.append(None, [view.rows() for view in views])
            for view in views:
                view.release()
        k, v = model.poisoned()
        other.gather(kvc.Rows.of(k=k, v=v, token_count=192))
        check(model, k, v, 192)


def test_a_frame_is_a_header_and_its_sections(seq, model):
    with seq.view(0, 5, frame=True) as view:
        header, sections = bytes(memoryview(view.k)), np.asarray(view.v)
        assert header[:8] == b"KVCPAGE1" and len(header) == 512 and view.k.dtype == kvc.U8
        assert sections[:HEADS * 64 * DIM * 2].tobytes() == model.k[0, :64].swapaxes(0, 1).tobytes()
        del sections
    with pytest.raises(kvc.Unsupported):
        seq.view(0, 199, frame=True)


def test_views_that_cannot_be_are_refused(store, seq):
    for layer, token in ((LAYERS, 0), (0, TOKENS)):
        with pytest.raises(kvc.RangeError):
            seq.view(layer, token)
    with pytest.raises(kvc.ArgumentError):
        seq.view(-1, 0)
    assert store.info().view_count == 0
    with kvc.Store("mem:", memory_bytes=64 << 20, view_max=2) as small:
        shape = kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=LAYERS, kv_heads=HEADS, k_dim=DIM, v_dim=DIM)])
        with Model(100).store(small.scope(model="m", shape=shape)) as seq:
            views = [seq.view(0, 0), seq.view(1, 0)]
            with pytest.raises(kvc.Busy):
                seq.view(2, 0)
            for view in views:
                view.release()


def test_threads_read_release_and_make_views_at_once(store, scope, model):
    seq = model.store(scope)
    failures = []

    def work(seed):
        fork = seq.fork()
        rng = np.random.default_rng(seed)
        for _ in range(200):
            layer, token = int(rng.integers(LAYERS)), int(rng.integers(192))
            view = fork.view(layer, token)
            array = np.asarray(view.k)
            begin = token // 64 * 64
            if not np.array_equal(array, model.k[layer, begin:begin + 64].swapaxes(0, 1)):
                failures.append((layer, token))
            del array
            view.release()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [] and store.info().view_count == 0


def test_a_forked_child_is_not_lent_its_parents_pages(seq):
    view = seq.view(0, 0)
    page = view.k
    child = os.fork()
    if child == 0:
        code = 1
        try:
            memoryview(page)
        except BufferError as error:
            code = 0 if "parent" in str(error) else 2
        view.release()
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert bytes(memoryview(page))
