"""The package covers every call that is built, and says of itself what is true."""

import dataclasses
import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import sysconfig

import kvc
import pytest
from kvc import _native

ROOT = pathlib.Path(__file__).resolve().parents[2]
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def built_calls():
    text = (ROOT / "CHANGELOG.md").read_text()
    section = text[text.index("Built:"):text.index("Declared, not built yet")]
    return sorted(set(re.findall(r"`(kvc_\w+)`", section)))


def declared_calls():
    headers = "".join(path.read_text() for path in (ROOT / "include/kvc").glob("*.h"))
    return sorted(set(re.findall(r"^KVC_API [^;(]*?\b(kvc_\w+)\(", headers, re.M)))


def test_every_built_call_is_in_the_raw_layer_and_nothing_undeclared_is():
    assert built_calls(), "the changelog lists none"
    wrapped = {name for name in dir(_native) if re.fullmatch(r"kvc_\w+", name)}
    assert set(built_calls()) <= wrapped <= set(declared_calls())


def test_what_the_library_has_not_built_says_so(store, scope, tmp_path):
    seq = scope.sequence()
    rows = kvc.Rows(layer_begin=0, layer_count=1, token_count=1)
    uses = {
        "kvc_store_flush": store.flush, "kvc_metrics_text": store.metrics_text, "kvc_trace_record": lambda: store.trace(tmp_path / "trace"),
        "kvc_region_register": lambda: store.region(bytearray(5000)), "kvc_seq_hint": seq.hint, "kvc_seq_prefetch": lambda: seq.prefetch(rows),
        "kvc_seq_publish": lambda: seq.publish("name"), "kvc_seq_attach": lambda: scope.attach("name"),
        "kvc_seq_withdraw": lambda: scope.withdraw("name")}
    for name, use in uses.items():
        if name not in built_calls():
            with pytest.raises(kvc.Unsupported, match=name):
                use()


def test_every_call_of_the_raw_layer_is_used_by_the_typed_layer():
    package = pathlib.Path(kvc.__file__).parent
    text = "".join(path.read_text() for path in package.glob("*.py"))
    assert [name for name in built_calls() if f"_native.{name}(" not in text] == []


def test_every_constant_of_the_headers_is_in_the_raw_layer():
    headers = "".join((ROOT / "include/kvc" / name).read_text() for name in ("error.h", "types.h", "store.h", "seq.h", "object.h", "view.h", "queue.h", "observe.h"))
    names = set(re.findall(r"^\s+(KVC_[A-Z0-9_]+) = -?\d+", headers, re.M))
    assert len(names) > 60
    assert [name for name in sorted(names) if not hasattr(_native, name)] == []


@pytest.mark.parametrize("kind, struct, less", [
    (kvc.StoreInfo, "kvc_store_info", 0), (kvc.VerifyInfo, "kvc_verify_info", 0), (kvc.ShapeInfo, "kvc_shape_info", 0),
    (kvc.ScopeInfo, "kvc_scope_info", 0), (kvc.SeqInfo, "kvc_seq_info", 0), (kvc.MatchInfo, "kvc_match_info", 0),
    (kvc.Result, "kvc_result", 1), (kvc.Metrics, "kvc_metrics", 0), (kvc.Event, "kvc_event", 0)])
def test_dataclasses_have_the_members_of_the_structs_in_their_order(kind, struct, less):
    members = _native.record_members()[struct]
    fields = [field.name for field in dataclasses.fields(kind)]
    assert fields[:len(members) - less] == list(members[:len(members) - less])
    assert fields[len(members) - less:] == (["tokens"] if kind is kvc.Event else [])


def test_infos_and_descriptions_are_frozen():
    for kind in (kvc.StoreInfo, kvc.VerifyInfo, kvc.ScopeInfo, kvc.SeqInfo, kvc.MatchInfo, kvc.Metrics, kvc.ShapeInfo, kvc.Shape,
                 kvc.Layer, kvc.Array, kvc.Rows, kvc.Extra, kvc.Found, kvc.ObjectEntry, kvc.Layout, kvc.Side, kvc.Event):
        assert kind.__dataclass_params__.frozen, kind
    assert not kvc.Result.__dataclass_params__.frozen  # every gather makes one, and a frozen one takes a microsecond more


def test_packed_descriptions_have_the_order_of_the_structs():
    members = _native.record_members()
    layer = kvc.Layer(**{name: 100 + i for i, name in enumerate(members["kvc_layer"])})
    assert layer._packed() == tuple(range(100, 100 + len(members["kvc_layer"])))
    array = kvc.Array(b"", 7, **{name: 100 + i for i, name in enumerate(members["kvc_array"])})
    assert array._packed() == (b"", 7, *range(100, 100 + len(members["kvc_array"])))
    side = kvc.Side(offset=7, **{name: 100 + i for i, name in enumerate(members["kvc_array"])})
    assert side._packed() == (7, *range(100, 100 + len(members["kvc_array"])))
    rows = kvc.Rows(**{name: 100 + i for i, name in enumerate(members["kvc_rows"])})
    assert rows._packed() == (*range(100, 100 + len(members["kvc_rows"])), None, None, None, None, None, None)
    shape = kvc.Shape(**{name: 100 + i for i, name in enumerate(members["kvc_shape"])}, layers=[])
    assert shape._packed() == (*range(100, 100 + len(members["kvc_shape"])), ())


def test_version_is_the_package_s():
    assert ".".join(map(str, kvc.version())) == importlib.metadata.version("kvc")
    assert kvc.features() >= 0


def test_all_names_what_there_is():
    assert sorted(kvc.__all__) == sorted(set(kvc.__all__))
    assert [name for name in kvc.__all__ if not hasattr(kvc, name)] == []


def test_the_package_is_typed_and_built_for_the_stable_abi_or_for_one_free_threaded_version():
    package = pathlib.Path(kvc.__file__).parent
    assert (package / "py.typed").exists()
    wheel = next(text for path in importlib.metadata.files("kvc") if path.name == "WHEEL" and (text := path.read_text()))
    version = f"cp3{sys.version_info.minor}"
    suffix, tag = (sysconfig.get_config_var("EXT_SUFFIX"), f"{version}-{version}t") if FREE_THREADED else (".abi3.so", "cp311-abi3")
    assert pathlib.Path(_native.__file__).name == f"_native{suffix}"
    assert f"Tag: {tag}-" in wheel


@pytest.mark.skipif(not FREE_THREADED, reason="this interpreter always has a GIL")
def test_the_import_leaves_the_gil_off():
    code = "import sys, kvc; sys.exit(sys._is_gil_enabled())"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    assert subprocess.run([sys.executable, "-W", "error", "-c", code], env=environment).returncode == 0


def test_no_array_library_is_imported():
    code = "import sys, kvc; sys.exit(any(name in sys.modules for name in ('numpy', 'torch', 'ctypes')))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
