"""What the public headers declare: functions, structs, constants and handles from SWIG's parse tree, their comments from the text.

Stops at whatever it cannot express, so that a change of a header never gives a binding that is silently wrong."""

import re
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADERS = ("export", "error", "types", "store", "seq", "attend", "object", "view", "queue", "cluster", "observe")
SCALARS = {"void", "char", "int", "float", "double", "size_t", "int32_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "int64_t", "kvc_status"}


class Unknown(Exception):
    """A declaration of a kind that no C header of ours has had so far."""


@dataclass(frozen=True)
class Type:
    """base behind `pointers` (outermost first; True: to const), `count` of them (0: no array)."""
    base: str
    pointers: tuple = ()
    count: int = 0


@dataclass(frozen=True)
class Member:
    name: str
    type: Type
    doc: str = ""


@dataclass
class Struct:
    name: str
    members: list
    doc: str = ""


@dataclass
class Function:
    name: str
    result: Type
    parameters: list
    doc: str = ""


@dataclass
class Callback:
    name: str
    result: Type
    parameters: list
    doc: str = ""


@dataclass(frozen=True)
class Constant:
    name: str
    value: int
    doc: str = ""


@dataclass
class Enum:
    """The constants of one enum (C has no name for it), or of the macros."""
    doc: str
    constants: list


@dataclass
class Tree:
    handles: dict = field(default_factory=dict)  # name: its comment
    structs: list = field(default_factory=list)
    functions: list = field(default_factory=list)
    callbacks: list = field(default_factory=list)
    enums: list = field(default_factory=list)


def attributes(element):
    return {a.get("name"): a.get("value") for a in element.findall("attributelist/attribute")}


def parts(text):
    """'p.q(const).char' -> ['p', 'q(const)', 'char']: dots inside parentheses part nothing."""
    out, depth, current = [], 0, ""
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "." and depth == 0:
            out.append(current)
            current = ""
        else:
            current += c
    return [p for p in [*out, current] if p]


def type_of(pieces):
    pointers, count, const, rest = [], 0, False, list(pieces)
    if rest and (array := re.fullmatch(r"a\((\d+)\)", rest[0])):
        count = int(array[1])
        rest.pop(0)
    while rest and (rest[0] == "p" or rest[0] == "q(const)"):
        if rest.pop(0) == "q(const)":
            const = True
            continue
        if pointers and const:
            pointers[-1] = True
        const = False
        pointers.append(False)
    if pointers and const:
        pointers[-1] = True
    if len(rest) != 1 or "(" in rest[0]:
        raise Unknown(f"type {'.'.join(pieces)}")
    base = rest[0].removeprefix("struct ")
    if base not in SCALARS and not base.startswith("kvc_"):
        raise Unknown(f"type {base}")
    return Type(base, tuple(pointers), count)


def parameters_of(element):
    found = [attributes(p) for p in element.findall("attributelist/parmlist/parm")]
    return [Member(a["name"], type_of(parts(a["type"]))) for a in found if a["type"] != "void"]


class Comments:
    """The comments of one header: before a declaration (/** */), behind a member or constant (/**< */)."""

    def __init__(self, text):
        self.before, self.behind = {}, {}
        for match in re.finditer(r"/\*\*(?!<)(.*?)\*/\s*(.*?)[;{]", text, re.S):
            head = match[2]
            names = re.findall(r"\bkvc_\w+", head)
            key = next((n for n in names if n != "kvc_status"), None)
            key = key or ("enum", text.count("enum {", 0, match.end()) if head.strip().startswith("enum") else match.start())
            self.before.setdefault(key, self.flat(match[1]))
        for match in re.finditer(r"(\w+)(?:\[\d+\])?(?:\s*=\s*[^,/]+?)?\s*[,;]?(?:\s*\};?)?[ \t]*/\*\*<(.*?)\*/", text, re.S):
            owner = re.findall(r"typedef struct (\w+)", text[:match.start()])
            self.behind[(owner[-1] if owner else "", match[1])] = self.flat(match[2])

    @staticmethod
    def flat(text):
        return "\n".join(re.sub(r"^\s*\* ?", "", line).rstrip() for line in text.strip().splitlines())

    def member(self, owner, name):
        return " ".join(self.behind.get((owner, name), "").split())

    def constant(self, name):
        return next((" ".join(text.split()) for (_, key), text in self.behind.items() if key == name), "")


def parse_tree(swig, interface):
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder) / "kvc.xml"
        done = subprocess.run([swig, "-xml", "-w451", "-DSWIGWORDSIZE64", f"-I{ROOT / 'include'}", "-o", xml, interface], capture_output=True, text=True)
        if done.returncode != 0:
            raise Unknown(f"{swig}: {done.stderr.strip()}")
        return ElementTree.parse(xml).getroot()


def struct_of(element, comments):
    a = attributes(element)
    if a["kind"] != "struct":
        raise Unknown(f"{a['kind']} {a['name']}")
    members = []
    for item in element.iter("cdecl"):
        m = attributes(item)
        if "bitfield" in m:
            raise Unknown(f"bit field {a['name']}.{m['name']}")
        members.append(Member(m["name"], type_of(parts(m["decl"]) + parts(m["type"])), comments.member(a["name"], m["name"])))
    return Struct(a["name"], members, comments.before.get(a["name"], ""))


def declaration_of(tree, element, comments):
    a = attributes(element)
    name, declared = a["name"], parts(a["decl"])
    doc = comments.before.get(name, "")
    if a.get("storage") == "typedef":
        if len(declared) == 2 and declared[0] == "p" and declared[1].startswith("f("):
            tree.callbacks.append(Callback(name, type_of(parts(a["type"])), parameters_of(element), doc))
        elif a["type"] == f"struct {name}" and not declared:
            tree.handles[name] = comments.behind.get(("", name), "") or comments.constant(name)
        elif name not in SCALARS:
            raise Unknown(f"typedef {name}")
    elif a.get("kind") == "function" and declared[0].startswith("f("):
        tree.functions.append(Function(name, type_of(declared[1:] + parts(a["type"])), parameters_of(element), doc))
    else:
        raise Unknown(f"declaration {name}")


def read(swig, interface):
    """The tree of every header that the interface file takes in."""
    tree = Tree()
    for include in parse_tree(swig, interface).iter("include"):
        file = Path(attributes(include)["name"])
        if file.stem not in HEADERS or file.parent.name != "kvc":
            continue
        comments, inside, enums = Comments(file.read_text()), set(), 0
        macros = Enum("", [])
        for element in include.iter():
            if element in inside:
                continue
            if element.tag == "class":
                inside.update(element.iter("cdecl"))
                tree.structs.append(struct_of(element, comments))
            elif element.tag == "cdecl":
                declaration_of(tree, element, comments)
            elif element.tag == "enum":
                enums += 1
                items = [attributes(i) for i in element.iter("enumitem")]
                tree.enums.append(Enum(comments.before.get(("enum", enums), ""), [Constant(i["name"], int(i["enumnumval"]), comments.constant(i["name"])) for i in items]))
            elif element.tag == "constant":
                a = attributes(element)
                macros.constants.append(Constant(a["name"], int(a["numval"]), comments.constant(a["name"])))
        if macros.constants:
            tree.enums.append(macros)
    for struct in tree.structs:
        tree.handles.pop(struct.name, None)
    return tree
