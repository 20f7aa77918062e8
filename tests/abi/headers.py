"""Reads the public headers: which functions, structs, constants they declare, and what is written about each.

Not a C parser: the headers keep to a small form (one `typedef struct X { ... } X;` a struct, one `enum { ... };` a list of constants, one
`KVC_API` statement a function), and whatever does not fit it is an error here rather than a declaration that no test sees.
"""

import dataclasses
import pathlib
import re

ORDER = "export error types store seq attend object queue view cluster observe".split()
NOT_BUILT = "@since not built yet: KVC_ERR_UNSUPPORTED"


@dataclasses.dataclass
class Function:
    name: str
    header: str
    parameters: list
    comment: str

    @property
    def built(self):
        return NOT_BUILT not in self.comment


@dataclasses.dataclass
class Struct:
    name: str
    members: list  # names, in order
    undocumented: list

    @property
    def sized(self):
        return self.members[0] == "size"


@dataclasses.dataclass
class Surface:
    functions: list
    structs: list
    constants: list  # names, in order
    undocumented: list  # constants and structs without a comment


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def members_of(body):
    """Names in a struct's body, and those that no comment follows."""
    names, bare = [], []
    for statement in without_comments(body).split(";"):
        for declarator in statement.split(","):
            found = re.search(r"(\w+)\s*(\[\w+\])?$", declarator.strip())
            if found:
                names.append(found[1])
    for name in names:
        if not re.search(r"\b%s(\[\w+\])?\s*[,;]\s*/\*\*<" % name, body):
            bare.append(name)
    return names, bare


def functions_of(text, header):
    found = []
    for match in re.finditer(r"^KVC_API ([^;]*);", text, flags=re.M):
        name, parameters = re.search(r"(kvc_\w+)\((.*)\)$", match[1], flags=re.S).groups()
        parameters = [] if parameters == "void" else [re.search(r"(\w+)$", p.strip())[1] for p in parameters.split(",")]
        comment = re.search(r"/\*\*((?:(?!\*/).)*)\*/\s*$", text[: match.start()], flags=re.S)
        found.append(Function(name, header, parameters, comment[1] if comment else ""))
    return found


def read(include):
    """The surface of all headers below the folder `include`, in their order."""
    surface = Surface([], [], [], [])
    for header in ORDER:
        text = (pathlib.Path(include) / "kvc" / f"{header}.h").read_text()
        surface.functions += functions_of(text, header)
        for match in re.finditer(r"(\*/)?\s*typedef struct (\w+) \{(.*?)\} \2;", text, flags=re.S):
            members, bare = members_of(match[3])
            surface.structs.append(Struct(match[2], members, bare))
            if not match[1]:
                surface.undocumented.append(match[2])
        for match in re.finditer(r"^enum \{(.*?)\};", text, flags=re.M | re.S):
            names = re.findall(r"\b(KVC_\w+) = ", without_comments(match[1]))
            surface.constants += names
            surface.undocumented += [n for n in names if not re.search(r"\b%s = -?\d+,?\s*/\*\*<" % n, match[1])]
        surface.constants += re.findall(r"^#define (KVC_\w+) 0x", text, flags=re.M)
    return surface
