"""Counts what ran in every lane (JUnit files in the directory given) and lists what was skipped with its reason."""
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def main() -> None:
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.xml")):
        cases = ElementTree.parse(path).getroot().findall(".//testcase")
        skipped = [case for case in cases if case.find("skipped") is not None or case.get("status") in ("notrun", "disabled")]
        failed = [case for case in cases if case.find("failure") is not None]
        print(f"{path.stem}: {len(cases)} tests, {len(failed)} failed, {len(skipped)} skipped")
        for case in skipped:
            lines = [line.strip() for line in case.findtext("system-out", "").splitlines() if line.strip()]
            print(f"  skipped {case.get('name')}: {lines[-1] if lines else 'no reason given'}")
        for case in cases:  # single cases inside a test program that skip themselves
            lines = case.findtext("system-out", "").splitlines()
            for i, line in enumerate(lines):
                if line.startswith("[  SKIPPED ]") and "(" in line:
                    reason = next((text.strip() for text in reversed(lines[:i]) if text.strip() and not text.startswith("[")), "no reason given")
                    print(f"  skipped {case.get('name')}/{line.split()[3]}: {reason}")


main()
