"""The wheel and the sdist, as those have them who install them: in clean environments of every CPython that is found.

  python3 tests/python/wheel_test.py wheel --build build/release --work build/release/wheels [--python INTERPRETER...]
  python3 tests/python/wheel_test.py sdist --work build/release/sdist

`wheel` packs the libkvc of the build tree, looks the wheel over, and runs wheel_host.py by each interpreter that is on PATH, that pyenv has, or that is
named; one that is missing is counted as skipped.  `sdist` makes the sdist, and installs from it alone what it then runs.  Both say "skipped" (77) and
why where PyPI cannot be reached.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parents[1]
PACKAGE = TREE / "bindings" / "python"
HOST = HERE / "wheel_host.py"
SKIPPED = 77
OLDEST = (3, 11)
# What the tests are expected to find.  Others that are found are tested as well.
KNOWN = ["3.11", "3.12", "3.13", "3.14", "3.13t", "3.14t"]
NUMPY = {"3.15": "numpy==2.5.5"}  # the first that has a wheel for it; requirements.txt says which for all others
LICENCES = ("LICENSE", "copyright")
# What a package may need: of the system what every manylinux allows, and libcrypto, which the documents say; and what the package itself brings.
MANYLINUX = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}
ALLOWED = MANYLINUX | {"libcrypto.so.3", "libkvc.so.0"}


class Skip(Exception):
    """What cannot be had here, in one line."""


def attempt(*command, **options):
    """A command's exit status and what it said."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900, **options)
    return done.returncode, done.stdout


def last_line(text):
    """The line of a failed command's words that says most: of CMake, of a compiler, of pip, else the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["it said nothing"]
    for pattern in (r"^CMake Error", r"\b(?:fatal )?error: (?!subprocess-exited)", r"^ERROR:? "):
        for i, line in enumerate(lines):
            if re.search(pattern, line):
                return " ".join(lines[i:i + 2]) if line.startswith("CMake") else line
    return lines[-1]


def run(*command, **options):
    """Runs a command and returns what it said; ends the test if it fails."""
    status, said = attempt(*command, **options)
    if status != 0:
        raise SystemExit(f"{said}\n{' '.join(map(str, command))}: exit status {status}: {last_line(said)}")
    return said


def skip_case(name, reason):
    """A skipped case as googletest prints it, which is what tests/summary.py counts."""
    print(f"{reason}\n[  SKIPPED ] {name} (0 ms)", flush=True)


def make_tools(folder):
    """An environment with what makes and judges packages; made once for each list of them."""
    wanted = (HERE / "requirements_wheel.txt").read_text()
    done = folder / "requirements.done"
    if not done.exists() or done.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        run(sys.executable, "-m", "venv", folder)
        status, said = attempt(folder / "bin/pip", "install", "--quiet", "-r", HERE / "requirements_wheel.txt")
        if status != 0:
            raise Skip(f"what makes wheels cannot be had from PyPI: {last_line(said)}")
        done.write_text(wanted)
    return folder / "bin"


def with_tools(tools):
    return {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}


class Interpreter:
    """A CPython that runs: what it is, and where."""

    def __init__(self, path):
        self.path = path
        ask = "import sys, sysconfig as s; print(sys.implementation.name, *sys.version_info[:3], int(bool(s.get_config_var('Py_GIL_DISABLED'))))"
        status, said = attempt(path, "-c", ask)
        words = said.split()
        self.runs = status == 0 and len(words) == 5 and words[0] == "cpython"
        if self.runs:
            self.version = tuple(map(int, words[1:4]))
            self.free_threaded = words[4] == "1"
            self.name = f"{self.version[0]}.{self.version[1]}{'t' if self.free_threaded else ''}"
            self.full_name = f"{'.'.join(map(str, self.version))}{'t' if self.free_threaded else ''}"


def find_interpreters(named):
    """One path for each version: those named, those on PATH, those of pyenv."""
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")) / "versions"
    candidates = list(named)
    for minor in range(OLDEST[1], 20):
        for name in (f"python3.{minor}", f"python3.{minor}t"):
            candidates += [pathlib.Path(folder) / name for folder in os.get_exec_path()] + sorted(pyenv.glob(f"*/bin/{name}"))
    found = {}
    for path in candidates:
        if os.access(path, os.X_OK):
            interpreter = Interpreter(path)
            if interpreter.runs and interpreter.version >= OLDEST:
                found.setdefault(interpreter.full_name, interpreter)
        elif path in named:
            raise SystemExit(f"--python {path}: it cannot be run")
    return list(found.values())


def clean_environment(interpreter, folder):
    """An environment of that interpreter with nothing in it, not even pip."""
    shutil.rmtree(folder, ignore_errors=True)
    run(interpreter.path, "-m", "venv", "--without-pip", folder)
    return folder / "bin/python"


def build_wheel(tools, python, build, folder):
    """The wheel that `python` makes, with the libkvc of a build tree."""
    shutil.rmtree(folder, ignore_errors=True)
    run(tools / "pip", "--python", python, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, PACKAGE,
        "-C", f"cmake.define.KVC_BUILD_DIR={build}", env=with_tools(tools))
    (wheel,) = folder.glob("*.whl")
    return wheel


def needed(library):
    """The libraries that a shared object names."""
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", library)))


def needed_by_wheel(wheel):
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        return set().union(*(needed(archive.extract(name, folder)) for name in archive.namelist() if ".so" in os.path.basename(name)))


def check_wheel(tools, wheel, tag):
    """Its name, its licences, its metadata, and that a manylinux would take what it needs of the system."""
    if f"-{tag}-" not in wheel.name:
        raise SystemExit(f"{wheel.name} is no wheel for {tag}")
    names = zipfile.ZipFile(wheel).namelist()
    lacking = [wanted for wanted in LICENCES if not any(name.endswith(f".dist-info/licenses/{wanted}") for name in names)]
    lacking += [wanted for wanted in ("kvc/libkvc.so.0", "kvc/py.typed", "kvc/_native.pyi") if wanted not in names]
    if lacking:
        raise SystemExit(f"{wheel.name} lacks {lacking}")
    run(tools / "twine", "check", "--strict", wheel)
    if "abi3" in tag:
        run(tools / "abi3audit", "--strict", "--summary", wheel)
    foreign = needed_by_wheel(wheel) - ALLOWED
    if foreign:
        raise SystemExit(f"{wheel.name} needs {sorted(foreign)}, which not every manylinux allows and which the package does not bring")
    newest = re.search(r'constrains the platform tag to "(\w+)"', " ".join(run(tools / "auditwheel", "show", wheel).split()))
    print(f"{wheel.name}: of the system libcrypto.so.3 and what {newest.group(1) if newest else 'every manylinux'} has", flush=True)


def numpy_for(interpreter):
    pinned = re.search(r"^numpy==\S+", (HERE / "requirements.txt").read_text(), re.MULTILINE).group(0)
    return NUMPY.get(interpreter.name, pinned)


def run_hosts(tools, interpreter, wheel, folder):
    python = clean_environment(interpreter, folder)
    pip = (tools / "pip", "--python", python, "install", "--quiet")
    run(*pip, "--no-deps", "--no-index", wheel)
    ran = ["plain"]
    for part in ("plain", "numpy"):
        if part == "numpy":
            status, said = attempt(*pip, "--only-binary", ":all:", numpy_for(interpreter))
            if status != 0:
                skip_case(f"python_wheel.numpy_on_{interpreter.full_name}", f"{numpy_for(interpreter)} cannot be had for it: {last_line(said)}")
                break
            ran.append(part)
        said = run(python, HOST, part, cwd=folder, env={**os.environ, "PYTHONPATH": "", "LD_LIBRARY_PATH": "", "CUDA_VISIBLE_DEVICES": ""})
        if said != "ok\n":
            raise SystemExit(f"CPython {interpreter.full_name}: {HOST.name} {part} said {said!r}")
    shutil.rmtree(folder)
    return ran


def check_wheels(args):
    interpreters = find_interpreters(args.python)
    for name in KNOWN:
        if not any(i.name == name for i in interpreters):
            skip_case(f"python_wheel.cpython_{name}", f"no python{name} is on PATH, in pyenv or named by --python")
    if not interpreters:
        raise Skip("no CPython of 3.11 or later is found")
    tools = make_tools(args.work / "tools")
    stable = build_wheel(tools, tools / "python", args.build, args.work / "abi3")
    check_wheel(tools, stable, "cp311-abi3")
    for interpreter in interpreters:
        start, wheel = time.monotonic(), stable
        if interpreter.free_threaded:  # the stable ABI is not for it
            own = clean_environment(interpreter, args.work / "own")
            run(tools / "pip", "--python", own, "install", "--quiet", *(line for line in (HERE / "requirements_wheel.txt").read_text().splitlines()
                                                                       if line.startswith("scikit-build-core==")))
            wheel = build_wheel(tools, own, args.build, args.work / interpreter.name)
            check_wheel(tools, wheel, "cp{0}{1}-cp{0}{1}t".format(*interpreter.version))
        ran = run_hosts(tools, interpreter, wheel, args.work / "clean")
        print(f"CPython {interpreter.full_name}: {', '.join(ran)}: ok, {time.monotonic() - start:.0f} s", flush=True)


def check_sdist(args):
    tools = make_tools(args.work / "tools")
    out = args.work / "out"
    shutil.rmtree(out, ignore_errors=True)
    refused, said = attempt(tools / "python", "-m", "build", "--sdist", "--no-isolation", "--outdir", out, PACKAGE, env=with_tools(tools))
    if refused == 0 or "sdist.sh makes one" not in said:
        raise SystemExit(f"{said}\nan sdist without the sources of libkvc is not refused with what to do instead")
    run("bash", PACKAGE / "sdist.sh", out, env={**with_tools(tools), "PYTHON": str(tools / "python")})
    (sdist,) = out.glob("*.tar.gz")
    run(tools / "twine", "check", "--strict", sdist)
    # Unpacked by hand, to the same place at every run, so that a compiler cache knows the files again.
    source = args.work / "source"
    shutil.rmtree(source, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(source, filter="data")
    (unpacked,) = source.iterdir()
    if unpacked.name != sdist.name.removesuffix(".tar.gz"):
        raise SystemExit(f"{sdist.name} holds {unpacked.name}")
    interpreter = Interpreter(sys.executable)
    python = clean_environment(interpreter, args.work / "clean")
    # Not optimised, as that takes most of a build's time and what an sdist holds is all that is asked here.
    status, said = attempt(tools / "pip", "--python", python, "install", "--no-deps", unpacked, "-C", f"build-dir={args.work / 'build'}",
                           "-C", "cmake.build-type=Debug", "-C", "cmake.define.FETCHCONTENT_FULLY_DISCONNECTED=ON")
    if status != 0:
        raise SystemExit(f"{said}\n{sdist.name} cannot be installed: {last_line(said)}")
    said = run(python, HOST, "plain", cwd=args.work / "clean", env={**os.environ, "PYTHONPATH": "", "LD_LIBRARY_PATH": ""})
    if said != "ok\n":
        raise SystemExit(f"installed from {sdist.name}: {HOST.name} said {said!r}")
    for folder in ("build", "clean", "source"):
        shutil.rmtree(args.work / folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=["wheel", "sdist"])
    parser.add_argument("--work", required=True, type=pathlib.Path, help="a folder of a build tree, for all that is made")
    parser.add_argument("--build", type=pathlib.Path, help="wheel: a build tree of this project, whose libkvc is built")
    parser.add_argument("--python", type=pathlib.Path, action="append", default=[], help="wheel: one more interpreter")
    args = parser.parse_args()
    if args.check == "wheel" and not args.build:
        parser.error("wheel needs --build")
    args.work = args.work.resolve()
    args.build = args.build and args.build.resolve()
    args.work.mkdir(parents=True, exist_ok=True)
    try:
        {"wheel": check_wheels, "sdist": check_sdist}[args.check](args)
    except Skip as reason:
        print(f"skipped: {reason}")
        return SKIPPED
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
