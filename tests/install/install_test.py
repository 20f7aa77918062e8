"""An installed kvc, used as its users will: staged, built against by a C and a C++ program, moved, and built against again.

  python3 tests/install/install_test.py stage --build build/release         pkg-config and find_package, shared and static, before and after a move
  python3 tests/install/install_test.py bare --build build/release          the shared library where the -dev packages of its parts are absent
  python3 tests/install/install_test.py subproject --build build/release    inside another project: nothing installed, no tests added

`bare` runs in a mount namespace of its own, where an overlay hides those files from /usr; it needs root and says "skipped" (77) without.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CONSUMER = HERE / "consumer"
SKIPPED = 77
# Below /usr: what the development packages of the parts install.  Their run-time libraries stay.
PRIVATE = ["include/openssl", "include/*/openssl", "include/xxh*", "include/mimalloc*", "lib/*/lib{crypto,ssl,xxhash,mimalloc}*.{so,a,o}",
           "lib/*/pkgconfig/{openssl,libcrypto,libssl,libxxhash,mimalloc}.pc", "lib/*/cmake/mimalloc*"]


def run(*command, fails=False, **options):
    """Runs a command and returns what it said; ends the test if it fails (or, with `fails`, if it does not)."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, **options)
    if (done.returncode != 0) != fails:
        raise SystemExit(f"{'did not fail' if fails else 'failed'}: {' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def expect_ok(program, **environment):
    said = run(program, env={**os.environ, **environment})
    if said != "ok\n":
        raise SystemExit(f"{program} said {said!r}")


def needed(program):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", program))


def stage(build, prefix):
    run("cmake", "--install", build, "--prefix", prefix)
    package = next(prefix.glob("lib*/**/pkgconfig/kvc.pc"))
    for text in list(prefix.glob("**/*.cmake")) + [package]:
        for path in (str(prefix), str(ROOT), str(pathlib.Path(build).resolve())):
            if path in text.read_text():
                raise SystemExit(f"{text.name} names {path}: it cannot be moved")


def through_pkg_config(args, prefix, folder, static):
    package = next(prefix.glob("lib*/**/pkgconfig/kvc.pc"))
    environment = {**os.environ, "PKG_CONFIG_PATH": str(package.parent)}
    flags = run("pkg-config", *(["--static"] if static else []), "--cflags", "--libs", "kvc", env=environment).split()
    for variable in ("kvc_cuda", "kvc_fabric"):
        if not run("pkg-config", f"--variable={variable}", "kvc", env=environment).strip():
            raise SystemExit(f"kvc.pc has no {variable}")
    for compiler, dialect, source in ((args.cc, "-std=c99", "host.c"), (args.cxx, "-std=c++11", "host.cpp"), (args.cxx, "-std=c++17", "wrapped.cpp")):
        program = folder / "program"
        run(compiler, dialect, "-Wall", "-Wextra", "-pedantic", "-Werror", CONSUMER / source, *flags, *(["-static"] if static else []),
            "-o", program)
        if static != ("libkvc.so.0" not in needed(program)):
            raise SystemExit(f"{source}: linked the wrong library: needs {needed(program)}")
        expect_ok(program, LD_LIBRARY_PATH=str(package.parent.parent))


def through_cmake(args, prefix, folder, target, components="", refused=""):
    for language in ("C", "CXX"):
        build = folder / "consumer"
        shutil.rmtree(build, ignore_errors=True)
        run("cmake", "-S", CONSUMER, "-B", build, "-G", "Ninja", f"-DLANGUAGE={language}", f"-DKVC_TARGET={target}",
            f"-DCMAKE_C_COMPILER={args.cc}", f"-DCMAKE_CXX_COMPILER={args.cxx}", f"-DCMAKE_PREFIX_PATH={prefix}",
            f"-DKVC_COMPONENTS={components}", f"-DKVC_REFUSED_TARGET={refused}")
        run("cmake", "--build", build)
        if ("libkvc.so.0" in needed(build / "host")) != (target == "kvc::kvc"):
            raise SystemExit(f"{target} in {language}: linked the wrong library: needs {needed(build / 'host')}")
        expect_ok(build / "host")


def check_stage(args, folder):
    first, second = folder / "here", folder / "moved" / "there"
    stage(args.build, first)
    for prefix in (first, second):
        if prefix is second:
            second.parent.mkdir()
            first.rename(second)
        through_pkg_config(args, prefix, folder, static=False)
        through_pkg_config(args, prefix, folder, static=True)
        through_cmake(args, prefix, folder, "kvc::kvc")
        through_cmake(args, prefix, folder, "kvc::kvc", components="shared", refused="kvc::kvc_static")
        through_cmake(args, prefix, folder, "kvc::kvc_static")
        through_cmake(args, prefix, folder, "kvc::kvc_static", components="static")


def hide_private_files(folder):
    """Lays an overlay over /usr in which the files of PRIVATE are absent.  Only ever called in a mount namespace of our own."""
    upper = folder / "overlay"
    upper.mkdir()
    run("mount", "-t", "tmpfs", "none", upper)  # the upper side of an overlay may not lie on an overlay, which / is in many containers
    (upper / "upper").mkdir()
    (upper / "work").mkdir()
    for pattern in PRIVATE:
        for path in run("bash", "-O", "nullglob", "-c", f"printf '%s\\n' /usr/{pattern}").splitlines():
            if path and os.path.lexists(path):
                whiteout = upper / "upper" / os.path.relpath(path, "/usr")
                whiteout.parent.mkdir(parents=True, exist_ok=True)
                os.mknod(whiteout, 0o020000, os.makedev(0, 0))
    run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/usr,upperdir={upper}/upper,workdir={upper}/work", "/usr")


def check_bare_inside(args, folder):
    """The second half of `bare`, inside the namespace."""
    try:
        hide_private_files(folder)
    except (SystemExit, OSError) as failure:
        print(f"skipped: no overlay can be laid over /usr here: {failure}")
        return SKIPPED
    for header in ("openssl/sha.h", "xxhash.h", "mimalloc.h"):
        run(args.cc, "-x", "c", "-fsyntax-only", "-", input=f"#include <{header}>\n", fails=True)
    run(args.cc, "-x", "c", "-", "-lcrypto", "-o", folder / "none", input="int main(void) { return 0; }\n", fails=True)
    prefix = folder / "here"
    through_pkg_config(args, prefix, folder, static=False)
    through_cmake(args, prefix, folder, "kvc::kvc", refused="kvc::kvc_static")
    refused = run("cmake", "-S", CONSUMER, "-B", folder / "refused", "-G", "Ninja", "-DLANGUAGE=C", "-DKVC_TARGET=kvc::kvc_static",
                  f"-DCMAKE_PREFIX_PATH={prefix}", "-DKVC_COMPONENTS=static", fails=True)
    if "OpenSSL" not in refused:
        raise SystemExit(f"the static component is refused without the reason:\n{refused}")
    return 0


def check_bare(args, folder):
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        print(f"skipped: no mount namespace of our own: {tried.stderr.strip()}")
        return SKIPPED
    stage(args.build, folder / "here")
    command = ["unshare", "--mount", "--propagation", "private", sys.executable, __file__, "bare-inside", "--build", args.build,
               "--folder", str(folder), "--cc", args.cc, "--cxx", args.cxx]
    return subprocess.run(command).returncode


def check_subproject(args, folder):
    (folder / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.24)\nproject(parent LANGUAGES C CXX)\nenable_testing()\nadd_subdirectory({ROOT} kvc)\n"
        "add_executable(host EXCLUDE_FROM_ALL host.c)\ntarget_link_libraries(host PRIVATE kvc::kvc)\n")
    shutil.copy(CONSUMER / "host.c", folder)
    run("cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja", *[f"-D{define}" for define in args.define])
    run("cmake", "--install", folder / "build", "--prefix", folder / "prefix")
    installed = [str(p) for p in folder.glob("prefix/**/*")]
    tests = run("ctest", "--test-dir", folder / "build", "-N")
    if installed or "Total Tests: 0" not in tests:
        raise SystemExit(f"as a subproject it installs {installed} and adds tests:\n{tests}")


def main():
    checks = {"stage": check_stage, "bare": check_bare, "bare-inside": check_bare_inside, "subproject": check_subproject}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=checks)
    parser.add_argument("--build", required=True, help="a build tree of this project, built")
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--define", action="append", default=[], help="subproject: a cache entry NAME=VALUE")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    args = parser.parse_args()
    if args.folder:
        return checks[args.check](args, args.folder)
    with tempfile.TemporaryDirectory() as folder:
        status = checks[args.check](args, pathlib.Path(folder).resolve()) or 0
    if status == 0:
        print("ok")
    return status


if __name__ == "__main__":
    sys.exit(main())
