"""Which call of C a user of each language finds where: read from the bindings' sources, not from a list.

A function is found by its C name in the body of a definition; one that users do not see is followed to those who call it."""

import ast
import re
from dataclasses import dataclass

from tree import ROOT

BINDINGS = ROOT / "bindings"
LANGUAGES = ("C++", "Python", "Go", "Rust")
BEGIN, END = "<!-- parity: written by generate -->\n", "<!-- parity ends -->\n"
HANDLES = {"store": "Store", "scope": "Scope", "seq": "Seq", "lease": "Lease", "view": "View", "queue": "Queue", "region": "Region"}


@dataclass(frozen=True)
class Definition:
    owner: str
    name: str
    body: str
    public: bool
    file: str = ""

    def __str__(self):
        return f"{self.owner}.{self.name}" if self.owner else self.name


def built():
    """The calls that CHANGELOG.md lists as built."""
    changes = (ROOT / "CHANGELOG.md").read_text()
    return re.findall(r"`(kvc_\w+)`", changes[changes.index("Built:"):changes.index("Declared, not built yet")])


def split_at(text, pattern):
    """The text from each match of the pattern to the next, with the match."""
    found = list(re.finditer(pattern, text, re.M))
    return [(match, text[match.start():(found[i + 1].start() if i + 1 < len(found) else len(text))]) for i, match in enumerate(found)]


def cpp():
    text = (ROOT / "include/kvc/kvc.hpp").read_text()
    out = []
    for match, block in split_at(text, r"^class (\w+)[^{]*\{|^inline [\w ]+ (\w+)\(|^namespace \w+ \{"):
        if match[2]:
            out.append(Definition("", match[2], block, True))
        elif match[1]:
            if release := re.search(r"Handle<\w+, (\w+)>", match[0]):
                out.append(Definition(match[1], "release", release[1], True))
            for member, body in split_at(block, r"^  (?:static |explicit )?(?:[\w:<>*&]+ )*(\w+)\("):
                out.append(Definition(match[1], member[1], body, True))
    return out


def python():
    out = []
    for path in sorted((BINDINGS / "python/src/kvc").glob("*.py")):
        text = path.read_text()
        for node in ast.parse(text).body:
            members = node.body if isinstance(node, ast.ClassDef) else [node]
            owner = node.name if isinstance(node, ast.ClassDef) else ""
            for member in members:
                if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    name = "release" if member.name == "_end" else member.name  # what Handle.release does in each class
                    public = not name.startswith("_") or name in ("__init__", "__iter__", "__exit__")
                    out.append(Definition(owner.lstrip("_"), name, ast.get_source_segment(text, member), public, path.name))
    return out


def go():
    out = []
    for path in sorted((BINDINGS / "go").glob("*.go")):
        if path.name.endswith("_test.go") or "DO NOT EDIT" in path.read_text():
            continue
        for match, body in split_at(re.sub(r"//.*", "", path.read_text()), r"^func (?:\(\w* ?\*?(\w+)\) )?(\w+)[\[(]|^\t(\w+)Kind +=.*$"):
            if match[3]:
                out.append(Definition(HANDLES.get(match[3], ""), "Close", match[0], match[3] in HANDLES, path.name))
            else:
                out.append(Definition(match[1] or "", match[2], body, match[2][0].isupper(), path.name))
    return out


def rust():
    out = []
    for path in sorted((BINDINGS / "rust/kvc/src").rglob("*.rs")):
        text = re.sub(r"//.*", "", path.read_text().split("#[cfg(test)]")[0])
        for impl, block in split_at(text, r"^(?:unsafe )?impl(?:<[^{]*?>)? (?:[\w:<>', ]+ for )?(\w+)[^{]*\{|^\w.*\{$"):
            for match, body in split_at(block, r"^ *(pub(?:\([\w: ]+\))? )?(?:const )?(?:unsafe )?(?:async )?fn (\w+)"):
                traits = " for " in impl[0].split("{")[0]
                out.append(Definition((impl[1] or "").removesuffix("Inner"), match[2], body, (match[1] or "").strip() == "pub" or traits, str(path)))
    return out


def users_of(name, definitions, depth=4, of=None):
    """Public definitions that use a name, or use who uses it.  What is not public is looked for in its own file, elsewhere by its owner's name too."""
    is_c = name.startswith("kvc_")
    use = re.compile(rf"\b{name}\b", re.I) if is_c else re.compile(rf"\b{name}\(|\.{name}\b(?!\s*=)")
    owned = of and of.owner and re.compile(rf"\b{of.owner}(::|\.){name}\(", re.I)
    out = []
    for d in definitions:
        pattern = use if not of or d.file == of.file else owned
        if not pattern or not pattern.search(d.body[d.body.find("(") if d.body.startswith("func") else 0:]):
            continue
        if d.public:
            out.append(str(d))
        elif depth and d.name != name:
            out += users_of(d.name, definitions, depth - 1, d)
    plain = name.replace("_", "")
    return sorted(dict.fromkeys(out), key=lambda use: use.rpartition(".")[2].replace("_", "").lower() not in plain)  # those of its own name first


def scan():
    """{language: {C function: where a user finds it}} of all that is built."""
    found = {"C++": cpp(), "Python": python(), "Go": go(), "Rust": rust()}
    return {language: {name: users_of(name, found[language]) for name in built()} for language in LANGUAGES}


def table():
    uses = scan()
    lines = ["| C | " + " | ".join(LANGUAGES) + " |", "|---" * (len(LANGUAGES) + 1) + "|"]
    for name in built():
        cells = [", ".join(f"`{use}`" for use in uses[language][name][:2]) + (" ..." if len(uses[language][name]) > 2 else "") for language in LANGUAGES]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def files():
    """bindings/README.md with the table as it is now."""
    text = (BINDINGS / "README.md").read_text()
    head, _, rest = text.partition(BEGIN)
    return {"README.md": head + BEGIN + "\n" + table() + "\n" + END + rest.partition(END)[2]}
