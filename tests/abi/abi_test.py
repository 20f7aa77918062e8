"""The ABI, held still.  Each check compares the headers or the library with what is committed beside this file.

  python3 tests/abi/abi_test.py layout            sizeof, offsetof and constants = layout.txt; every sized struct is in host.c
  python3 tests/abi/abi_test.py headers           each header alone and all together, as C99 and C++11, strict, without padding holes
  python3 tests/abi/abi_test.py docs              every function, parameter, member and constant is described; CHANGELOG lists what is not built
  python3 tests/abi/abi_test.py symbols --library build/debug/lib/libkvc.so     what it exports = symbols.txt, and what it needs
  python3 tests/abi/abi_test.py hosts --library build/debug/lib/libkvc.so       host.c, the programs on the manual page and pool.c, linked and run

`--update` with layout or symbols writes the golden file instead: do it for an addition, never to make a change of what was released pass.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import headers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror"]
NEEDED = r"(libcrypto\.so\.3|libstdc\+\+\.so\.6|libgcc_s\.so\.1|libm\.so\.6|libc\.so\.6|libpthread\.so\.0|ld-linux[\w-]*\.so\.\d)"


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f"failed ({done.returncode}): {' '.join(map(str, command))}\n{done.stdout}{done.stderr[:4000]}")
    return done.stdout


def dialects(args):
    return [(args.cc, ["-std=c99", "-x", "c"]), (args.cxx, ["-std=c++11", "-x", "c++"])]


def compare(args, name, lines):
    path = HERE / name
    if args.update:
        path.write_text("\n".join(lines) + "\n")
        return []
    golden = path.read_text().splitlines() if path.exists() else []
    gone = [f"{name}: gone or changed: {line}" for line in golden if line not in set(lines)]
    new = [f"{name}: new or changed: {line}" for line in lines if line not in set(golden)]
    order = [f"{name}: the order changed"] if not gone and not new and golden != lines else []
    return gone + new + order


def layout_program(surface):
    """A C program that prints the layout of every struct and the value of every constant."""
    lines = ["#include <kvc/kvc.h>", "#include <stdio.h>", "int main(void) {"]
    for struct in surface.structs:
        align = f"offsetof(struct {{ char c; {struct.name} x; }}, x)"
        lines.append(f'printf("struct {struct.name} %zu %zu\\n", sizeof({struct.name}), {align});')
        for member in struct.members:
            where = f"offsetof({struct.name}, {member}), sizeof((({struct.name} *)0)->{member})"
            lines.append(f'printf("member {struct.name}.{member} %zu %zu\\n", {where});')
    for constant in surface.constants:
        lines.append(f'printf({constant} < 0 ? "constant {constant} %lld\\n" : "constant {constant} %llu\\n", (long long)({constant}));')
    return "\n".join(lines + ["return 0; }", ""])


def check_layout(args, surface, folder):
    (folder / "layout.c").write_text(layout_program(surface))
    run(args.cc, "-std=c99", "-w", "-I", ROOT / "include", folder / "layout.c", "-o", folder / "layout")
    failures = compare(args, "layout.txt", run(folder / "layout").splitlines())
    host = (HERE / "host.c").read_text()
    for struct in surface.structs:
        if struct.sized and not re.search(r"\bINITS\(%s\)" % struct.name, host):
            failures.append(f"host.c: {struct.name} is sized and not in it")
    return failures


def check_headers(args, surface, folder):
    for header in headers.ORDER + ["kvc"]:
        for compiler, dialect in dialects(args):
            source = folder / "alone.txt"
            source.write_text(f"#include <kvc/{header}.h>\n#include <kvc/{header}.h>\n")
            run(compiler, *dialect, *STRICT, "-Wpadded", "-I", ROOT / "include", "-c", source, "-o", folder / "alone.o")
    present = sorted(p.stem for p in (ROOT / "include/kvc").glob("*.h"))
    return [] if present == sorted(headers.ORDER + ["kvc"]) else [f"include/kvc holds {present}"]


def check_docs(args, surface, folder):
    failures = [f"no comment: {name}" for name in surface.undocumented]
    failures += [f"no comment: {s.name}.{member}" for s in surface.structs for member in s.undocumented]
    for function in surface.functions:
        tags = ["@since"] + [f"@param {p}" for p in function.parameters] + ["@return"]
        failures += [f"{function.name}: no {tag}" for tag in tags if not re.search(re.escape(tag) + r"\s+\S", function.comment)]
    changes = (ROOT / "CHANGELOG.md").read_text()
    marked = {f.name for f in surface.functions if not f.built}
    listed = set()
    for part in re.findall(r"^Declared, not built yet.*?(?=^\w|\Z)", changes, flags=re.M | re.S):
        listed |= set(re.findall(r"`(kvc_\w+)`", part))
    if marked != listed:
        failures.append(f"headers and CHANGELOG differ about what is not built: {sorted(marked ^ listed)}")
    return failures


def check_symbols(args, surface, folder):
    exported, nodes = [], re.findall(r"^(KVC_[\d.]+) \{", (ROOT / "pkgconfig/libkvc.map").read_text(), flags=re.M)
    for line in run(args.nm, "-D", "--defined-only", args.library).splitlines():
        kind, name = line.split()[-2:]
        if not (kind == "A" and name in nodes):
            exported.append(name)
    failures = compare(args, "symbols.txt", sorted(exported))
    names = {name.split("@")[0] for name in exported}
    failures += [f"declared and not exported: {f.name}" for f in surface.functions if f.name not in names]
    failures += [f"exported and not declared: {name}" for name in names - {f.name for f in surface.functions}]
    dynamic = run(args.readelf, "-dW", args.library)
    soname = re.findall(r"\(SONAME\).*\[(.*)\]", dynamic)
    if soname != ["libkvc.so.0"]:
        failures.append(f"SONAME is {soname}, not libkvc.so.0")
    failures += [f"needs {n}" for n in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic) if not re.fullmatch(NEEDED, n)]
    if "NODELETE" not in dynamic:
        failures.append("not marked NODELETE: dlclose would unmap thread-local destructors")
    if "TEXTREL" in dynamic:
        failures.append("has text relocations")
    return failures


def manual_host():
    """The program on the manual page: what is indented by four below A COMPLETE HOST."""
    page = (ROOT / "include/kvc/kvc.h").read_text()
    part = re.search(r"A COMPLETE HOST.*?\n(.*?)\n \*\n \* LAYER BY LAYER", page, flags=re.S)[1]
    return "\n".join(line[len(" *     "):] for line in part.splitlines()) + "\n"


def layered_host():
    """The same program with its append exchanged for the lines below LAYER BY LAYER."""
    page = (ROOT / "include/kvc/kvc.h").read_text()
    part = re.search(r"LAYER BY LAYER.*?\n(.*?)\n \*\n \* HYBRID MODELS", page, flags=re.S)[1]
    lines = "\n".join(line[len(" *     "):] for line in part.splitlines()) + "\n"
    program, exchanged = re.subn(r"^ *if \(kvc_append\(.*\n", lambda _: lines, manual_host(), flags=re.M)
    if exchanged != 1:
        raise SystemExit(f"the program on the manual page appends {exchanged} times, not once")
    return program


def pool_example():
    """The function in the description of kvc_rows, which pool.c includes: what is indented by four below ALL LAYERS IN ONE POOL."""
    text = (ROOT / "include/kvc/types.h").read_text()
    part = re.search(r"ALL LAYERS IN ONE POOL.*?\n \*\n(.*?)\n \*\n", text, flags=re.S)[1]
    return "\n".join(line[len(" *     "):] for line in part.splitlines()) + "\n"


def batch_example():
    """The function at the top of queue.h, which batch.c includes: what is indented by four below A BATCH."""
    text = (ROOT / "include/kvc/queue.h").read_text()
    part = re.search(r"A BATCH .*?\n \*\n(.*?)\n \*\n", text, flags=re.S)[1]
    return "\n".join(line[len(" *     "):] for line in part.splitlines()) + "\n"


def check_hosts(args, surface, folder):
    failures = []
    library = pathlib.Path(args.library).resolve()
    (folder / "manual.c").write_text(manual_host())
    (folder / "layered.c").write_text(layered_host())
    (folder / "pool_rows.h").write_text(pool_example())
    (folder / "batch_call.h").write_text(batch_example())
    served = "0 of 200 tokens were here\n192 of 200 tokens were here\n"
    for source, wanted in ((HERE / "host.c", "ok\n"), (folder / "manual.c", served), (folder / "layered.c", served), (HERE / "pool.c", "ok\n"), (HERE / "batch.c", "ok\n")):
        for compiler, dialect in dialects(args):
            program = folder / "program"
            run(compiler, *dialect, *STRICT, "-I", ROOT / "include", "-I", folder, source, "-x", "none", library, "-o", program)
            said = run(program, env={**os.environ, "LD_LIBRARY_PATH": str(library.parent)}, timeout=60)
            if said != wanted:
                failures.append(f"{source.name} as {dialect[0]} said {said!r}, not {wanted!r}")
    return failures


def main():
    checks = {"layout": check_layout, "headers": check_headers, "docs": check_docs, "symbols": check_symbols, "hosts": check_hosts}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=checks)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--library")
    for tool, default in (("cc", "cc"), ("cxx", "c++"), ("nm", "nm"), ("readelf", "readelf")):
        parser.add_argument(f"--{tool}", default=default)
    args = parser.parse_args()
    if args.check in ("symbols", "hosts") and not args.library:
        parser.error(f"{args.check} needs --library")
    with tempfile.TemporaryDirectory() as folder:
        failures = checks[args.check](args, headers.read(ROOT / "include"), pathlib.Path(folder))
    print("\n".join(failures) or "ok")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
