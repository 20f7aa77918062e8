"""The Debian packages as their users have them: built from the tarball, installed into a clean Debian, built against, purged.

  python3 tests/packages/packages_test.py --work build/packages             builds them there first
  python3 tests/packages/packages_test.py --work build/packages --debs DIR  takes those in DIR, which package.sh made

The clean Debian is made once by debootstrap and kept as an archive in the work folder, with the packages that ours depend on in its apt cache, so
that later runs need no network.  Nothing is mounted.  Needs root, lintian and debootstrap; says "skipped" (77) and why without.
"""

import argparse
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parents[1]
PACKAGE = TREE / "pkgconfig" / "package.sh"
CONSUMER = TREE / "tests" / "install" / "consumer"
NAMES = ["libkvc0", "libkvc-dev", "kvc-tools"]
SKIPPED = 77
MIRROR = "http://deb.debian.org/debian"
IN_ROOT = ["gcc", "g++", "libc6-dev", "pkg-config"]  # what a user has before he installs kvc
# Below these apt, dpkg and ld.so keep books of their own.
BOOKS = ("var/lib/dpkg/", "var/lib/apt/", "var/cache/", "var/log/", "etc/ld.so.cache", "tmp/")


class Skip(Exception):
    """What cannot be had here, in one line."""


def why(lines):
    """The line of a failed command's words that says most: its first error, else its last line."""
    return next((line for line in lines if re.search(r"^E: |\berror\b|No such file", line)), lines[-1] if lines else "it said nothing")


def run(*command, **options):
    """Runs a command and returns what it said; ends the test if it fails."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900, **options)
    if done.returncode != 0:
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        raise SystemExit(f"{done.stdout}\n{' '.join(map(str, command))}: exit status {done.returncode}: {why(lines)}")
    return done.stdout


def inside(root, *command):
    """A command in the clean Debian, with nothing of this environment."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8", "HOME": "/root"}
    return run("chroot", root, *command, env=environment, cwd="/")


def check_tools(debs):
    if os.geteuid() != 0:
        raise Skip("not root: a clean Debian cannot be made or entered")
    commands = {"lintian": "lintian", "debootstrap": "debootstrap", "chroot": "coreutils"}
    if not debs:
        commands |= {"dpkg-buildpackage": "dpkg-dev", "dh": "debhelper"}
    missing = [package for command, package in commands.items() if not shutil.which(command)]
    if missing:
        raise Skip(f"not installed: {' '.join(missing)}")
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)', pathlib.Path("/etc/os-release").read_text(), re.MULTILINE))
    if release.get("ID") != "debian" or not release.get("VERSION_CODENAME"):
        raise Skip(f"this is {release.get('ID', 'no Debian')}, and packages are tested in the release of Debian that built them")
    return release["VERSION_CODENAME"], run("dpkg", "--print-architecture").strip()


def build_debs(folder):
    """Builds all, and the tarball a second time: both must be one file, bit for bit."""
    run("bash", PACKAGE, folder)
    again = folder / "again"
    run("bash", PACKAGE, "--source", again)
    (first,), (second,) = folder.glob("kvc-*.tar.xz"), again.glob("kvc-*.tar.xz")
    if first.name != second.name or first.read_bytes() != second.read_bytes():
        raise SystemExit(f"{first.name} is not reproducible: a second one has other bytes")
    return folder


def find_debs(folder):
    debs = {}
    for name in NAMES:
        found = list(folder.glob(f"{name}_*.deb"))
        if len(found) != 1:
            raise SystemExit(f"{folder} holds {len(found)} packages {name}_*.deb, not one")
        debs[name] = found[0]
    return debs


def check_version(debs, folder):
    version = re.search(r"^project\(kvc VERSION ([\d.]+)", (TREE / "CMakeLists.txt").read_text(), re.MULTILINE).group(1)
    for name, deb in debs.items():
        packaged = run("dpkg-deb", "-f", deb, "Version").strip()
        if packaged.split("-")[0] != version:
            raise SystemExit(f"{name} is of version {packaged}, CMakeLists.txt says {version}")
    if folder and not (folder / f"kvc-{version}.tar.xz").exists():
        raise SystemExit(f"{folder} holds no kvc-{version}.tar.xz, and CMakeLists.txt says {version}")


def check_lintian(folder, debs):
    # Cleaner than "clean": a note or a pedantic remark is printed and fails nothing.
    print(run("lintian", "-i", "--pedantic", "--allow-root", "--fail-on", "error,warning", *(list(folder.glob("*.changes")) or debs.values())), end="")


def check_contents(debs):
    """Each file in the package that it belongs to: what a program needs at run time is in libkvc0 and nothing else is."""
    files = {}
    for name, deb in debs.items():
        listed = [re.split(r"\s+", line, maxsplit=5) for line in run("dpkg-deb", "-c", deb).splitlines()]
        files[name] = {cells[5].split(" -> ")[0][2:] for cells in listed if not cells[0].startswith("d")}
    libraries = {os.path.basename(f) for f in files["libkvc0"] if not f.startswith("usr/share/doc/")}
    if {re.sub(r"[\d.]+$", "", f) for f in libraries} != {"libkvc.so"} or "libkvc.so.0" not in libraries:
        raise SystemExit(f"libkvc0 holds {sorted(libraries)}, not the shared library alone")
    headers = {f"usr/include/kvc/{p.name}" for pattern in ("*.h", "*.hpp") for p in (TREE / "include" / "kvc").glob(pattern)}
    if headers - files["libkvc-dev"]:
        raise SystemExit(f"libkvc-dev lacks {sorted(headers - files['libkvc-dev'])}")
    for name, wanted in (("libkvc-dev", ("libkvc.so", "libkvc.a", "kvc.pc", "kvcConfig.cmake", "kvcConfigVersion.cmake")), ("kvc-tools", ("kvc", "kvc.1.gz"))):
        lacking = set(wanted) - {os.path.basename(f) for f in files[name]}
        if lacking:
            raise SystemExit(f"{name} lacks {sorted(lacking)}")
    twice = [f for f in files["libkvc0"] if f in files["libkvc-dev"] | files["kvc-tools"]]
    if twice:
        raise SystemExit(f"in two packages: {twice}")


def make_archive(work, suite, architecture, debs):
    """The clean Debian as an archive, made at the first run; what our packages depend on is in its apt cache."""
    what = hashlib.sha256(repr((MIRROR, IN_ROOT)).encode()).hexdigest()[:8]
    archive = work / f"{suite}-{architecture}-{what}.tar.gz"
    if archive.exists():
        return archive
    root = work / "debootstrap"
    shutil.rmtree(root, ignore_errors=True)
    done = subprocess.run(["debootstrap", "--variant=minbase", f"--include={','.join(IN_ROOT)}", suite, root, MIRROR], capture_output=True, text=True)
    if done.returncode != 0:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        shutil.rmtree(root, ignore_errors=True)
        raise Skip(f"debootstrap {suite}: {lines[-1] if lines else 'failed and said nothing'}")
    inside(root, "apt-get", "clean")
    apt_install(root, debs, "--download-only")
    run("tar", "-C", root, "-cf", f"{archive}.part.tar", ".")
    run("gzip", "-1", "--suffix", ".gz", f"{archive}.part.tar")
    os.replace(f"{archive}.part.tar.gz", archive)
    shutil.rmtree(root)
    return archive


def entries(root):
    """Every path of the clean Debian that is no book of apt's or dpkg's, with its kind; of files their size and time."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, root)
            if f"{relative}/".startswith(BOOKS) or relative.startswith(BOOKS):
                continue
            status = os.lstat(path)
            found[relative] = (status.st_mode, status.st_size if name in files else 0, status.st_mtime_ns if name in files else 0)
    return found


def packages_of(root):
    return set(inside(root, "dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n").splitlines())


def apt_install(root, debs, *options):
    """apt-get install of our packages from files that are gone again afterwards."""
    for deb in debs.values():
        shutil.copy(deb, root / "tmp")
    files = [f"/tmp/{deb.name}" for deb in debs.values()]
    said = inside(root, "apt-get", "install", "--yes", "--no-install-recommends", "-o", "Dpkg::Use-Pty=0", *options, *files)
    for file in files:
        (root / file[1:]).unlink()
    return said


def install(root, debs):
    said = apt_install(root, debs)
    installed = packages_of(root)
    for name in NAMES:
        if f"{name} installed" not in installed:
            raise SystemExit(f"{said}\n{name} is not installed after apt-get install")


def check_program(root):
    """The kvc program runs, and its manual has every command and option that its help has."""
    if not re.fullmatch(r"kvc \d+\.\d+\.\d+\n", inside(root, "kvc", "--version")):
        raise SystemExit("kvc --version gives no version")
    if "kernels" not in inside(root, "kvc", "info"):
        raise SystemExit("kvc info names no kernels")
    if "all right" not in inside(root, "kvc", "selfcheck"):
        raise SystemExit("kvc selfcheck does not say that all is right")
    words = set(re.findall(r"^  kvc (?:(\S+))|^ +(--\w+)", inside(root, "kvc", "--help"), re.MULTILINE))
    manual = (TREE / "pkgconfig" / "debian" / "kvc.1").read_text().replace("\\-", "-")
    lacking = sorted(word for pair in words for word in pair if word and word not in manual)
    if lacking:
        raise SystemExit(f"pkgconfig/debian/kvc.1 does not name {lacking}, kvc --help does")


def check_hosts(root):
    """C and C++ hosts, compiled by what pkg-config says and run with what the loader finds."""
    sources = {"host.c": ("gcc", "-std=c99", CONSUMER), "host.cpp": ("g++", "-std=c++11", CONSUMER), "wrapped.cpp": ("g++", "-std=c++17", CONSUMER),
               "abi.c": ("gcc", "-std=c99", TREE / "tests" / "abi" / "host.c")}
    flags = inside(root, "pkg-config", "--cflags", "--libs", "kvc").split()
    for name, (compiler, dialect, source) in sources.items():
        shutil.copy(source / name if source.is_dir() else source, root / "tmp" / name)
        inside(root, compiler, dialect, "-Wall", "-Wextra", "-pedantic", "-Werror", f"/tmp/{name}", *flags, "-o", "/tmp/program")
        if "libkvc.so.0" not in inside(root, "readelf", "-dW", "/tmp/program"):
            raise SystemExit(f"{name} is not linked to libkvc.so.0")
        said = inside(root, "/tmp/program")
        if said != "ok\n":
            raise SystemExit(f"{name} said {said!r}")


def check_cmake(root, work):
    """The CMake package in libkvc-dev, used from outside the clean Debian: that one has no CMake."""
    for target in ("kvc::kvc", "kvc::kvc_static"):
        build = work / "consumer"
        shutil.rmtree(build, ignore_errors=True)
        run("cmake", "-S", CONSUMER, "-B", build, "-G", "Ninja", "-DLANGUAGE=CXX", f"-DKVC_TARGET={target}", "-DKVC_COMPONENTS=",
            f"-DCMAKE_PREFIX_PATH={root / 'usr'}")
        found = re.search(r"kvc_DIR:PATH=(.*)", (build / "CMakeCache.txt").read_text()).group(1)
        if not found.startswith(str(root)):
            raise SystemExit(f"find_package(kvc) took {found}, not the package of libkvc-dev")
        run("cmake", "--build", build)
        said = run(build / "host")
        if said != "ok\n":
            raise SystemExit(f"a host of {target} said {said!r}")
        shutil.rmtree(build)


def purge(root, before_files, before_packages):
    inside(root, "apt-get", "purge", "--yes", *NAMES)
    inside(root, "apt-get", "autoremove", "--purge", "--yes")
    after_files, after_packages = entries(root), packages_of(root)
    if after_packages != before_packages:
        raise SystemExit(f"after the purge dpkg has other packages: {sorted(after_packages ^ before_packages)}")
    changed = sorted(path for path in before_files.keys() | after_files.keys() if before_files.get(path) != after_files.get(path))
    left = changed + [path.name for path in (root / "var/lib/dpkg/info").glob("*kvc*")]
    if left:
        raise SystemExit(f"left or changed by the purge: {left[:20]}")


def check(args):
    suite, architecture = check_tools(args.debs)
    start = time.monotonic()

    def done(what):
        print(f"{time.monotonic() - start:5.0f} s  {what}", flush=True)

    folder = args.debs or build_debs(args.work / "debs")
    debs = find_debs(folder)
    check_version(debs, folder)
    check_contents(debs)
    done("built, each file in its package, the tarball the same twice")
    check_lintian(folder, debs)
    done("lintian has no errors and no warnings")
    archive = make_archive(args.work, suite, architecture, debs)
    root = args.work / "root"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    run("tar", "-C", root, "-xzf", archive)
    done(f"a clean {suite}")
    try:
        files, packages = entries(root), packages_of(root)
        install(root, debs)
        done("installed")
        check_program(root)
        check_hosts(root)
        check_cmake(root, args.work)
        done("kvc runs, hosts by pkg-config and by CMake too")
        purge(root, files, packages)
        done("purged, and nothing is left")
    finally:
        shutil.rmtree(root, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", required=True, type=pathlib.Path, help="a folder of a build tree, for all that is made")
    parser.add_argument("--debs", type=pathlib.Path, help="a folder of built packages")
    args = parser.parse_args()
    args.work = args.work.resolve()
    args.work.mkdir(parents=True, exist_ok=True)
    try:
        check(args)
    except Skip as reason:
        print(f"skipped: {reason}")
        return SKIPPED
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
