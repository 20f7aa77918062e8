"""What the installed package needs of the system and of the processor, from its files alone."""

import importlib.metadata
import pathlib
import platform
import re
import subprocess

import kvc
import pytest
from wheel_test import ALLOWED, needed

PACKAGE = pathlib.Path(kvc.__file__).parent
LIBRARIES = sorted(path for path in PACKAGE.iterdir() if ".so" in path.name)
# Registers and prefixed forms that only AVX and its successors have.
AVX = re.compile(r"%[yz]mm|%xmm(?:1[6-9]|2\d|3[01])|\tv[a-z0-9]+ .*%xmm")


def said_by(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def newest(library, prefix):
    """The newest version that is needed of the symbols whose versions begin so, as numbers."""
    versions = re.findall(rf"Name: {prefix}_(\d+(?:\.\d+)+)", said_by("readelf", "-VW", library))
    return max((tuple(map(int, version.split("."))) for version in versions), default=())


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: path.name)
def test_B121_the_newest_symbols_needed_are_within_the_tag(library):
    assert needed(library) and not needed(library) - ALLOWED
    (tag,) = re.findall(r"^Tag: (\S+)$", importlib.metadata.distribution("kvc").read_text("WHEEL"), re.MULTILINE)
    promised = re.search(r"-manylinux_(\d+)_(\d+)_", tag)
    if promised:
        limit = tuple(map(int, promised.groups()))
    else:  # linux_x86_64 promises the system that built it, which is this one
        assert re.search(r"-linux_\w+$", tag)
        limit = tuple(map(int, platform.libc_ver()[1].split(".")))
    assert newest(library, "GLIBC")[:2] <= limit
    assert not re.search(r"GLIBC_PRIVATE|GLIBC_ABI", said_by("readelf", "-VW", library))


def test_B121_the_library_is_found_beside_the_module():
    (module,) = [path for path in LIBRARIES if path.name.startswith("_native")]
    assert re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", said_by("readelf", "-dW", module)) == ["$ORIGIN"]


def test_B121_instructions_are_chosen_at_run_time():
    if platform.machine() != "x86_64":
        pytest.skip("the instructions are those of x86-64")
    functions, inside = {}, ""
    for line in said_by("objdump", "-d", "-C", "--no-show-raw-insn", PACKAGE / "libkvc.so.0").splitlines():
        if line.endswith(">:"):
            inside = line.split("<", 1)[1][:-2]
        elif AVX.search(line):
            functions[inside] = line.strip()
    # The kernels are entered through a table that asks the processor first.  xxhash's long form is compiled into them.
    assert len(functions) > 10
    assert not {name: line for name, line in functions.items() if "kvc::kernels::" not in name and not name.startswith("XXH3_")}
