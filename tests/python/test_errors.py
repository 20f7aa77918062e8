"""Every status has its exception, and a wrong argument is named with its rule."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import kvc
import numpy as np
import pytest
from kvc import _native
from kvc.errors import FAMILIES, STATUSES, _error_of

STATUS_NAMES = sorted(name for name in dir(_native) if name.startswith("KVC_ERR_"))


@pytest.mark.parametrize("name", STATUS_NAMES)
def test_every_status_is_an_exception_of_its_family(name):
    status = getattr(_native, name)
    error = _error_of(status, "the value and the rule", 2, 5, None)
    assert isinstance(error, FAMILIES[-status // 10]) and isinstance(error, kvc.Error)
    assert (error.status, error.message, error.retry, error.system_error, error.name) == (status, "the value and the rule", 2, 5, name)
    assert str(error) == f"the value and the rule ({name})"
    assert repr(error) == f"{type(error).__name__}({name}: 'the value and the rule')"
    heads = (kvc.ArgumentError, kvc.MisuseError, kvc.InternalError)
    assert type(error) is STATUSES.get(status, type(error)) and (status in STATUSES) != (type(error) in heads)


def test_a_status_of_a_later_library_is_an_error_of_its_family():
    assert type(_error_of(-49, "m", 0, 0, None)) is kvc.RoomError
    assert type(_error_of(-85, "m", 0, 0, None)) is kvc.Error


def test_python_s_own_kinds_catch_what_they_should():
    assert issubclass(kvc.ArgumentError, ValueError)
    assert issubclass(kvc.NoMemory, MemoryError)
    assert issubclass(kvc.Timeout, TimeoutError)


@pytest.mark.parametrize("options, message", [
    (dict(memory_bytes=-1), "memory_bytes: -1 is not in"), (dict(memory_bytes=2**64), "memory_bytes: 18446744073709551616 is not in"),
    (dict(seq_max=2**32), "seq_max: 4294967296 is not in 0..4294967295"), (dict(lease_ms=-5), "lease_ms: -5 is not in")])
def test_numbers_out_of_range_are_named(options, message):
    with pytest.raises(kvc.ArgumentError, match=re.escape(message)):
        kvc.Store("mem:", **options)


@pytest.mark.parametrize("options", [dict(memory_bytes="1"), dict(memory_bytes=1.5), dict(seq_max=None)])
def test_values_of_the_wrong_type_are_type_errors(options):
    with pytest.raises(TypeError, match=next(iter(options))):
        kvc.Store("mem:", **options)


def test_other_stores_are_unsupported_or_refused():
    for uri in ("file:/tmp/never", "kvc://host:1"):
        with pytest.raises(kvc.Unsupported):
            kvc.Store(uri)
    for uri in ("", "mem", "nonsense:", "mem:\0"):
        with pytest.raises(kvc.ArgumentError):
            kvc.Store(uri)
    with pytest.raises(TypeError):
        kvc.Store(7)


@pytest.mark.parametrize("options, kind", [
    (dict(model=""), kvc.ArgumentError), (dict(model="a\0b"), kvc.ArgumentError), (dict(model=b"m"), TypeError), (dict(model=5), TypeError),
    (dict(model="m", shape=kvc.Shape(dtype=kvc.F16, layers=[])), kvc.ShapeError),
    (dict(model="m", shape=kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=1, kv_heads=1, k_dim=8, v_dim=8, kind=kvc.LAYER_WINDOW)])),
     kvc.ShapeError)])
def test_wrong_scopes_are_refused(store, options, kind):
    with pytest.raises(kind):
        store.scope(**options)


@pytest.mark.parametrize("handle", [0, 1, 2**63, 0x7FFFFFFFFFFF, -1 % 2**64])
def test_no_handle_crashes_the_process(handle):
    for name, arguments in (("kvc_store_get_info", ()), ("kvc_metrics_read", ()), ("kvc_scope_get_info", ()), ("kvc_seq_get_info", ()),
                            ("kvc_match", ([1], None, 0)), ("kvc_append", ([1], [], 0)), ("kvc_gather", ([], 0)), ("kvc_seq_fork", (1,)),
                            ("kvc_seq_truncate", (0,)), ("kvc_seq_identify", ((),)), ("kvc_seq_lease", (0, 1, 1, 0)),
                            ("kvc_seq_create", (None,)),
                            ("kvc_lease_renew", (1,)), ("kvc_object_put", ([], None, 0)), ("kvc_object_get", ([], None, 0)),
                            ("kvc_object_exists", ([], None, 0)), ("kvc_object_delete", ([], 0)), ("kvc_store_verify", (0,))):
        with pytest.raises(kvc.MisuseError):
            getattr(_native, name)(handle, *arguments)
    for name in ("kvc_close", "kvc_scope_release", "kvc_seq_release", "kvc_lease_release"):
        if handle:
            with pytest.raises(kvc.MisuseError):
                getattr(_native, name)(handle)
        else:
            getattr(_native, name)(handle)


def test_more_memory_than_there_is_is_an_error_and_the_host_lives():
    with pytest.raises(kvc.Error):
        kvc.Store("mem:", memory_bytes=1 << 60)
    code = """
import resource, kvc
limit = (600 << 20) + int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    kvc.Store("mem:", memory_bytes=1 << 32)
except kvc.NoMemory as error:
    print("refused:", error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("refused: "), done.stderr


def test_a_full_store_says_full_and_changes_nothing():
    shape = kvc.Shape(dtype=kvc.F16, layers=[kvc.Layer(count=1, kv_heads=8, k_dim=128, v_dim=128)])
    with kvc.Store("mem:", memory_bytes=16 << 20) as store:
        seq = store.scope(model="m", shape=shape).sequence(lease_ms=kvc.FOREVER)
        block, done = np.ones((1, 64, 8, 128), np.float16), 0
        with pytest.raises(kvc.Full) as caught:
            while done < 1 << 20:
                seq.append(np.full(64, done, np.int32), [kvc.Rows.of(k=block, v=block, token_begin=done)])
                done += 64
        assert done > 0 and seq.info().tokens == done
        assert caught.value.retry == kvc.RETRY_LATER and caught.value.message


def test_B119_a_missing_library_is_named_by_the_loader(tmp_path):
    package = pathlib.Path(kvc.__file__).parent
    shutil.copytree(package, tmp_path / "kvc")
    (tmp_path / "kvc/libkvc.so.0").unlink()
    done = subprocess.run([sys.executable, "-c", "import kvc"], capture_output=True, text=True, cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(tmp_path), "LD_LIBRARY_PATH": ""})
    assert done.returncode != 0
    assert "ImportError: libkvc.so.0: cannot open shared object file" in done.stderr
