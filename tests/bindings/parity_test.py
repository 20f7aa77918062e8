"""Every public function is built or said to be not yet; every one that is built is found in each language; the scan itself finds what is missing."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bindings" / "generate"))
import parity  # noqa: E402 - a program of the tree, not a package


def exported():
    """By the golden list of symbols, which the ABI test compares with the library."""
    return set(re.findall(r"^(kvc_\w+)@", (ROOT / "tests/abi/symbols.txt").read_text(), re.M))


def not_built():
    changes = (ROOT / "CHANGELOG.md").read_text()
    begin = changes.index("Declared, not built yet")
    return set(re.findall(r"`(kvc_\w+)`", changes[begin:changes.index("Of the calls that are built", begin)]))


def main():
    failures = []
    built, later = set(parity.built()), not_built()
    for name in sorted(exported() - built - later):
        failures.append(f"{name}: exported, and neither built nor later in CHANGELOG.md")
    for name in sorted((built | later) - exported()):
        failures.append(f"{name}: in CHANGELOG.md, and not exported")
    for language, uses in parity.scan().items():
        failures += [f"{name}: nothing in {language} that users see calls it" for name, users in uses.items() if not users]
    for language, scan in (("C++", parity.cpp), ("Python", parity.python), ("Go", parity.go), ("Rust", parity.rust)):
        definitions = scan()
        for name in ("kvc_scope_create", "kvc_seq_truncate", "kvc_queue_drain", "kvc_event_drain"):
            users = parity.users_of(name, definitions)
            if left := parity.users_of(name, [d for d in definitions if str(d) not in users]):
                failures.append(f"{language}: without {users} the scan still finds {left} for {name}")
    if failures:
        raise SystemExit("\n".join(failures))
    print(f"{len(built)} calls in {len(parity.LANGUAGES)} languages")


main()
