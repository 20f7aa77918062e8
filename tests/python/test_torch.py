"""Tensors of torch as rows, token ids, block tables, values and pages: in place, whatever their strides; skipped where torch is not installed."""

import asyncio
import pathlib
import re

import kvc
import pytest
from conftest import DIM, HEADS, LAYERS

torch = pytest.importorskip("torch")

TOKENS = 200
DTYPES = [(torch.float16, kvc.F16), (torch.bfloat16, kvc.BF16), (torch.float32, kvc.F32), (torch.float8_e4m3fn, kvc.F8_E4M3)]
SHAPE = (LAYERS, TOKENS, HEADS, DIM)


def scope_of(store, dtype):
    return store.scope(model="torch", shape=kvc.Shape(dtype=dtype, layers=[kvc.Layer(count=LAYERS, kv_heads=HEADS, k_dim=DIM, v_dim=DIM)]))


def rows_of(dtype, seed=1, shape=SHAPE):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=draw).to(dtype), torch.randn(shape, generator=draw).to(dtype)


def poisoned(dtype, shape=SHAPE):
    return torch.full(shape, 77.0).to(dtype), torch.full(shape, 77.0).to(dtype)


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


@pytest.mark.parametrize(("dtype", "kept"), DTYPES)
def test_rows_come_back_bit_for_bit_in_their_own_dtype(store, dtype, kept):
    scope = scope_of(store, kept)
    (k, v), (k_out, v_out) = rows_of(dtype), poisoned(dtype)
    seq, tokens = scope.sequence(), torch.arange(TOKENS)
    seq.append(tokens, kvc.Rows.of(k=k, v=v))
    seq.gather(kvc.Rows.of(k=k_out, v=v_out))
    assert torch.equal(bits(k_out), bits(k)) and torch.equal(bits(v_out), bits(v))
    for ids in (tokens, tokens.to(torch.int32), torch.stack([tokens, tokens])[0], torch.arange(0, 2 * TOKENS)[::2] // 2, list(tokens)):
        assert scope.match(ids)[1].tokens == 192


@pytest.mark.parametrize(("dtype", "kept"), [pair for pair in DTYPES if pair[0] != torch.float8_e4m3fn])
@pytest.mark.parametrize("wanted", [torch.float16, torch.bfloat16, torch.float32])
def test_rows_are_converted_as_torch_converts_them(store, dtype, kept, wanted):
    (k, v), (k_out, v_out) = rows_of(dtype), poisoned(wanted)
    seq = scope_of(store, kept).sequence(private=True)
    seq.append(None, kvc.Rows.of(k=k, v=v))
    seq.gather(kvc.Rows.of(k=k_out, v=v_out))
    assert torch.equal(k_out, k.to(wanted)) and torch.equal(v_out, v.to(wanted))


def test_tensors_that_are_not_contiguous_are_used_in_place(store):
    wide = torch.randn(LAYERS, HEADS, 2 * TOKENS, DIM).half()
    k, v = wide[:, :, ::2].permute(0, 2, 1, 3), wide[:, :, 1::2].permute(0, 2, 1, 3)
    seq = scope_of(store, kvc.F16).sequence(private=True)
    seq.append(None, kvc.Rows.of(k=k, v=v))
    k_out = torch.full((LAYERS, HEADS, DIM, TOKENS), 77.0).half().permute(0, 3, 1, 2)
    around = torch.full((LAYERS, HEADS, TOKENS + 2, DIM), 77.0).half()
    seq.gather(kvc.Rows.of(k=k_out, v=around[:, :, 1:-1].permute(0, 2, 1, 3)))
    assert torch.equal(k_out, k) and torch.equal(around[:, :, 1:-1].permute(0, 2, 1, 3), v)
    assert (around[:, :, 0] == 77).all() and (around[:, :, -1] == 77).all()


def test_what_torch_does_not_lend_is_refused_with_its_reason(store):
    scope, good = scope_of(store, kvc.F16), torch.zeros(SHAPE).half()
    for bad, reason in ((good.clone().requires_grad_(), r"detach\(\)"), (good.double(), "elements of 8 bytes, code 'd'"), (good[:, :, :1].expand(SHAPE), "broadcast"),
                        (torch.zeros(SHAPE, device="meta").half(), "meta"), (torch.zeros(SHAPE).to_sparse(), "strided"),
                        (torch.zeros(SHAPE, dtype=torch.complex64).conj(), "conj"), (good.to(torch.float8_e5m2), "number format")):
        for call in (lambda rows: scope.sequence(private=True).append(None, rows), lambda rows: scope.sequence(private=True).gather(rows)):
            with pytest.raises(kvc.ArgumentError, match=reason):
                call(kvc.Rows.of(k=bad, v=good.clone()))
    leaf, (k, v) = good.clone().requires_grad_(), rows_of(torch.float16)
    seq = scope.sequence(private=True)
    seq.append(None, kvc.Rows.of(k=torch.nn.Parameter(k, requires_grad=False), v=v))
    seq.gather(kvc.Rows.of(k=leaf.detach(), v=good))
    assert torch.equal(leaf, k) and torch.equal(good, v)


def test_a_pool_of_blocks_and_its_table_are_tensors(store):
    (k, v), pool = rows_of(torch.bfloat16), torch.full((LAYERS, 2, 32, 16, HEADS, DIM), 77.0).bfloat16()
    table = torch.randperm(32, generator=torch.Generator().manual_seed(3))[:13]
    seq = scope_of(store, kvc.BF16).sequence(private=True)
    seq.append(None, kvc.Rows.of(k=k, v=v))
    for blocks in (table, table.int()):
        pool.fill_(77)
        seq.gather(kvc.Rows.of(k=pool[:, 0], v=pool[:, 1], axes="layer block token head dim", blocks=blocks, token_count=TOKENS))
        for side, whole in ((pool[:, 0], k), (pool[:, 1], v)):
            assert torch.equal(side[:, table].flatten(1, 2)[:, :TOKENS], whole)
            assert (side[:, table].flatten(1, 2)[:, TOKENS:] == 77).all()


def test_values_and_registered_memory_are_tensors(store):
    scope = scope_of(store, kvc.BF16)
    for dtype, _ in DTYPES:
        value, room = rows_of(dtype)[0], poisoned(dtype)[0]
        scope.put({str(dtype): value})
        assert scope.get_into([(str(dtype), room)]) == [value.nbytes] and torch.equal(bits(room), bits(value))
    both = torch.stack(rows_of(torch.bfloat16))
    scope.put({"block": both}, layout=kvc.Layout.of(both, k=both[0], v=both[1]))
    room = torch.full_like(both, 77)
    scope.get_into([("block", room)])
    assert torch.equal(room, both)
    with store.region(torch.zeros(1 << 16)):
        assert store.info().region_count == 1


@pytest.mark.parametrize(("dtype", "kept"), DTYPES)
def test_a_page_is_a_tensor_that_keeps_its_view(store, dtype, kept):
    k, v = rows_of(dtype)
    seq = scope_of(store, kept).sequence(private=True)
    seq.append(None, kvc.Rows.of(k=k, v=v))
    view = seq.view(1, 70)
    tensor = torch.from_dlpack(view.k)
    assert tensor.dtype == dtype and torch.equal(bits(tensor), bits(k[1, 64:128].transpose(0, 1)))
    with pytest.raises(kvc.Busy):
        view.release()
    del tensor
    view.release()


def test_tensors_stay_borrowed_while_a_queued_call_runs(store):
    scope, (k, v), (k_out, v_out) = scope_of(store, kvc.F16), rows_of(torch.float16), poisoned(torch.float16)

    async def main():
        seq = scope.sequence(private=True)
        await queue.append(seq, None, kvc.Rows.of(k=k.clone(), v=v.clone()))
        await queue.gather(seq, kvc.Rows.of(k=k_out, v=v_out))

    with store.queue() as queue:
        asyncio.run(main())
    assert torch.equal(k_out, k) and torch.equal(v_out, v)


def test_the_program_of_the_readme_prints_what_it_says(capsys):
    text = (pathlib.Path(__file__).resolve().parents[2] / "bindings/python/README.md").read_text()
    program, = re.findall(r"^```py\n(.*?)^```$", text, re.M | re.S)
    exec(compile(program, "README.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"^ *print\(.*\)  # (.*)$", program, re.M) == ["192 True"]
