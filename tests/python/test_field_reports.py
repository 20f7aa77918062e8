"""Scenarios of tests/field_reports.md that only a host in Python can show; each test is named after its row."""

import gc
import pathlib
import random
import re
import subprocess
import sys

import kvc
import numpy as np
import pytest
from conftest import Model, check

PACKAGE = pathlib.Path(kvc.__file__).parent


def test_B50_buffers_of_every_size_go_in_any_order_under_pressure():
    order = random.Random(50)
    with kvc.Store("mem:", memory_bytes=4 << 20) as store:
        scope = store.scope(model="m", shape=kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=3, kv_heads=2, k_dim=8, v_dim=8)]))
        model, kept = Model(64), []
        for i in range(300):
            value = bytearray(order.choice([0, 1, 4096, 100_000]))
            scope.put({f"{i}": value})
            k, v = model.poisoned()
            seq = model.store(scope) if i % 3 else scope.match(model.tokens)[0]
            if seq.info().tokens == 64:
                seq.gather([kvc.Rows.of(k=k, v=v)])
                check(model, k, v, 64)
            kept.append([value, seq, seq.lease() if seq.info().tokens else None, memoryview(k)])
            kept[-1].append(kept[-1])  # a cycle: only the collector ends it
            if len(kept) > 20:
                del kept[order.randrange(len(kept))]
            if i % 50 == 0:
                gc.collect()
        del kept, seq
        gc.collect()
        info = store.info()
        assert (info.seq_count, info.lease_count, info.memory_pinned) == (0, 0, 0)
        assert store.metrics().evicted_chunks > 0


def test_B117_nothing_of_cuda_is_needed():
    libraries = [path for path in PACKAGE.iterdir() if ".so" in path.name]
    assert len(libraries) >= 2
    for library in libraries:
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", subprocess.run(["readelf", "-dW", library], capture_output=True, text=True, check=True).stdout)
        assert needed and not [name for name in needed if re.search("cuda|cudart|nvidia|cublas", name, re.I)]


def test_B122_a_wrong_setting_is_refused_by_name_and_none_comes_from_the_environment(monkeypatch):
    for wrong in ({"memory_byte": 64 << 20}, {"memory_bytes": "64M"}, {"memory_bytes": 6.4e7}, {"memory_bytes": None}):
        with pytest.raises(TypeError, match=next(iter(wrong))):
            kvc.Store("mem:", **wrong)
    with pytest.raises((ValueError, OverflowError, kvc.Error), match="memory_bytes"):
        kvc.Store("mem:", memory_bytes=-1)
    code = "import kvc; print(kvc.Store('mem:', seq_max=3).info().memory_bytes)"
    plain = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for name in ("KVC_MEMORY_BYTES", "KVC_CONFIG", "KVC_SEQ_MAX", "MIMALLOC_LIMIT_OS_ALLOC"):
        monkeypatch.setenv(name, "1048576")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == plain


def test_B136_nothing_in_the_package_executes_what_it_reads():
    sources = list(PACKAGE.glob("*.py"))
    assert len(sources) > 5
    for path in sources:
        assert re.findall(r"\b(?:pickle|marshal|shelve|eval|exec|compile|torch\.load|yaml|__import__|importlib|subprocess|os\.system)\b", path.read_text()) == [], path.name


def test_B128_thousands_of_failures_print_nothing():
    code = """
import kvc
store = kvc.Store("mem:", memory_bytes=1 << 20)
scope = store.scope(model="m")
for i in range(2000):
    for call in (lambda: scope.get("absent"), lambda: scope.put({"k" * 65: b"v"}), lambda: kvc.Store("nothing:")):
        try:
            call()
        except kvc.Error:
            pass
"""
    done = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_B108_an_array_that_was_filled_is_the_host_s_own(model):
    store = kvc.Store("mem:", memory_bytes=4 << 20)
    scope = store.scope(model="m", shape=kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=3, kv_heads=2, k_dim=8, v_dim=8)]))
    seq = model.store(scope)
    k, v = model.poisoned()
    seq.gather([kvc.Rows.of(k=k, v=v)])
    seq.release()
    for i in range(100):
        scope.put({f"{i}": np.full(100_000, i, np.uint8)})
    assert scope.match(model.tokens)[1].tokens == 0, "nothing was evicted"
    check(model, k, v, 200)
    store.close()
    check(model, k, v, 200)
