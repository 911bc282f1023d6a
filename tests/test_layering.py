"""Which module may import which: read from the source, so that those inside functions or for types count, too.

The list of cores and shells and the list of what a core may not touch are ruff's, in pyproject.toml: there is one of
each. Ruff checks names in cores; this checks direction: between packages, between rooms, and from cores to shells.
"""

from __future__ import annotations

import ast
import graphlib
import itertools
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES: list[str] = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]

MAY_IMPORT: dict[str, set[str]] = {
    "txnstatus": set(),
    "txnparticipant": {"txnstatus"},
    "txnmanager": {"txnstatus"},
    "txnclient": {"txnstatus"},
    "pyspark_txn": {"txnclient"},
    "txndeploy": {"txnstatus", "txnparticipant", "txnmanager", "txnclient"},
}
"""Our packages that each package may import besides itself."""
NOT_FOR = {"txnclient": {"txnstatus.raft", "txnstatus.catalog", "txnstatus.status"}}
"""Rooms of other packages that a package must do without: a client needs nothing that only nodes have."""
FLOORS = {
    "txnstatus": "words < process < security < rpc < raft < catalog < status; process < lake; words < tracing < rpc",
    "txnparticipant": "words < versions < rows < shard < upkeep < leader; words < locks < shard; upkeep < foreign",
    "txnclient": "words < calls < alive < session < snapshot < handle < write < transaction < client;"
    "words < formats < read < change < spark < snapshot; handle < foreign < transaction;"
    "spark < compact < client; session < compact; client < control < sparksql; control < ducksql < connecting < aio;"
    "read < history < client; write < history; formats < incoming < client; write < streams < transaction; "
    "incoming < outgoing < client; read < outgoing; snapshot < outgoing; ducksql < connecting < datasource",
    "txndeploy": "words < terminal < console < node < local < demo < ctl;"
    "terminal < doctor < ctl; terminal < speaking < ctl; node < backup < ctl; terminal < overview < ctl",
}
"""The rooms of each package: a room imports those below it. The modules at a package's root are a room, too."""
ROOTS = {
    "txnclient": "connecting",
    "txnclient.session": "session",
    "txnclient.snapshot": "snapshot",
    "txnclient.handle": "handle",
    "txnclient.connecting": "connecting",
}
"""Modules at a package's root that are no words: the floor that each is on."""
SERVING = re.compile(r"service|\w+_service|leader")
"""Rooms and modules that serve a group: whoever composes a node imports them, and nobody else."""
COMPOSES = ("txndeploy", "benchmarks")
"""The packages that compose nodes, or measure a part of one by itself."""
ONLY_IN = {
    "pysyncobj": ("txnstatus.raft",),
    "pyspark": ("txnclient.spark", "txnclient.sparksql", "txnclient.datasource", "txndeploy"),
    "psycopg": ("txnclient.foreign.postgres", "txnparticipant.foreign.postgres"),
}
"""Libraries that one part keeps to itself."""
CORE_LIBRARIES = {"google", "msgspec", "pyroaring"}
"""What a core may import besides the standard library and us: messages, and commands as the log has them."""


@dataclass(frozen=True)
class Import:
    target: str
    """A module, or a name in one."""
    line: int
    lazy: bool
    """Whether the import is inside a function."""
    typing_only: bool


@dataclass(frozen=True)
class Module:
    name: str
    path: str
    """The file's path, relative to the repository."""
    is_core: bool
    imports: tuple[Import, ...]

    @property
    def package(self) -> str:
        return self.name.partition(".")[0]

    def at(self, found: Import) -> str:
        return f"{self.path}:{found.line}"


# ---- reading the source


def imports_in(source: str, package: str = "") -> Iterator[Import]:
    """Every import of a module that lies in `package`."""
    yield from _imports(ast.parse(source).body, package, lazy=False, typing_only=False)


def _imports(nodes: Iterable[ast.AST], package: str, *, lazy: bool, typing_only: bool) -> Iterator[Import]:
    for node in nodes:
        match node:
            case ast.Import():
                for alias in node.names:
                    yield Import(alias.name, node.lineno, lazy, typing_only)
            case ast.ImportFrom():
                base = node.module or ""
                if node.level:
                    parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                    base = ".".join([*parents, *([node.module] if node.module else [])])
                for alias in node.names:
                    yield Import(f"{base}.{alias.name}", node.lineno, lazy, typing_only)
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str() as name), *_],
            ):
                yield Import(name, node.lineno, lazy, typing_only)
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                yield from _imports(node.body, package, lazy=lazy, typing_only=True)
                yield from _imports(node.orelse, package, lazy=lazy, typing_only=typing_only)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                yield from _imports(ast.iter_child_nodes(node), package, lazy=True, typing_only=typing_only)
            case _:
                yield from _imports(ast.iter_child_nodes(node), package, lazy=lazy, typing_only=typing_only)


def _expand(pattern: str) -> list[str]:
    """`a/{b,c}/*` as `a/b/*` and `a/c/*`."""
    parts = [part.split(",") if index % 2 else [part] for index, part in enumerate(re.split(r"[{}]", pattern))]
    return ["".join(choice) for choice in itertools.product(*parts)]


SHELLS = [
    glob
    for pattern, codes in PYPROJECT["tool"]["ruff"]["lint"]["per-file-ignores"].items()
    if "TID251" in codes
    for glob in _expand(pattern)
]


def is_core(path: str) -> bool:
    return not any(fnmatchcase(path, glob) for glob in SHELLS)


def _read_modules() -> list[Module]:
    modules = []
    for folder in PACKAGES:
        base = (ROOT / folder).parent
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = file.relative_to(base).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            package = name if is_package else name.rpartition(".")[0]
            path = file.relative_to(ROOT).as_posix()
            modules.append(Module(name, path, is_core(path), tuple(imports_in(file.read_text(), package))))
    return modules


@pytest.fixture(scope="module")
def modules() -> list[Module]:
    """All of ours: read when a test asks for them, since every process that runs tests imports this file."""
    return _read_modules()


# ---- rooms


class Room(NamedTuple):
    package: str
    name: str


def room(target: str) -> Room:
    """Where a module, or a name in one, lies."""
    package, _, rest = target.partition(".")
    first = rest.partition(".")[0]
    at_root = ROOTS.get(f"{package}.{first}" if first else package)
    return Room(package, at_root or (first if first in BELOW.get(package, {}) else "words"))


def _below(floors: str) -> dict[str, set[str]]:
    """Room -> all rooms below it, from chains such as `a < b < c; b < d`."""
    below: dict[str, set[str]] = {}
    for chain in floors.split(";"):
        names = [name.strip() for name in chain.split("<")]
        for name in names:
            below.setdefault(name, set())
        for lower, upper in itertools.pairwise(names):
            below[upper].add(lower)
    for name in graphlib.TopologicalSorter(below).static_order():
        below[name] = below[name].union(*(below[lower] for lower in below[name]))
    return below


BELOW = {package: _below(floors) for package, floors in FLOORS.items()}


# ---- the rules: each yields what breaks it


def wrong_direction(modules: Iterable[Module]) -> Iterator[str]:
    for module in modules:
        for found in module.imports:
            package = found.target.partition(".")[0]
            if package in MAY_IMPORT and package not in MAY_IMPORT[module.package] | {module.package}:
                allowed = ", ".join(sorted(MAY_IMPORT[module.package])) or "none of our packages"
                yield f"{module.at(found)}: {module.package} imports {found.target}; it may import {allowed}"


def impure_cores(modules: Iterable[Module]) -> Iterator[str]:
    modules = list(modules)
    shells = {module.name for module in modules if not module.is_core}
    ours = {module.package for module in modules}
    banned = set(PYPROJECT["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"])
    for module in modules:
        if not module.is_core:
            continue
        for found in module.imports:
            if found.typing_only:
                continue
            ancestors = set(_with_ancestors(found.target))
            top = found.target.partition(".")[0]
            if ancestors & shells:
                yield f"{module.at(found)}: the core {module.name} imports the shell {max(ancestors & shells, key=len)}"
            elif ancestors & banned:
                yield f"{module.at(found)}: the core {module.name} imports {found.target}, which is banned in cores"
            elif top not in ours | CORE_LIBRARIES | sys.stdlib_module_names:
                yield f"{module.at(found)}: the core {module.name} imports {found.target}, a library"


def strayed_libraries(modules: Iterable[Module]) -> Iterator[str]:
    for module in modules:
        for found in module.imports:
            homes = ONLY_IN.get(found.target.partition(".")[0])
            if homes and not found.typing_only and not set(_with_ancestors(module.name)) & set(homes):
                yield f"{module.at(found)}: {module.name} imports {found.target}; only {' and '.join(homes)} may"


def wrong_floor(modules: Iterable[Module]) -> Iterator[str]:
    """Imports of a room that is not below the importing one, or that the package must do without."""
    for module in modules:
        here = room(module.name)
        for found in module.imports:
            if found.target.partition(".")[0] not in MAY_IMPORT:
                continue
            there = room(found.target)
            if set(_with_ancestors(found.target)) & NOT_FOR.get(module.package, set()):
                yield f"{module.at(found)}: {module.package} must do without {found.target}"
            elif there.package == here.package and there != here and there.name not in BELOW[here.package][here.name]:
                below = ", ".join(sorted(BELOW[here.package][here.name])) or "none"
                yield f"{module.at(found)}: the room {here.name} imports {found.target}; below it are {below}"


def served_elsewhere(modules: Iterable[Module]) -> Iterator[str]:
    """Imports of what serves a group, by others than who composes nodes and the serving room itself."""
    for module in modules:
        for found in module.imports:
            ours = _with_ancestors(found.target) if found.target.partition(".")[0] in MAY_IMPORT else ()
            serving = next((name for name in ours if SERVING.fullmatch(name.rpartition(".")[2])), None)
            if serving and module.package not in COMPOSES and not _is_served_by(module, serving):
                yield f"{module.at(found)}: {module.name} imports {serving}; only {' and '.join(COMPOSES)} may"


def _is_served_by(module: Module, serving: str) -> bool:
    """Whether the module is of the same room, or its leader, which composes what a shard's replica serves."""
    here, there = room(module.name), room(serving)
    return here == there or here == Room("txnparticipant", "leader")


def import_cycle(modules: Iterable[Module]) -> str | None:
    """One cycle of imports, for types and inside functions, too. A package that a module lies in does not count."""
    by_name = {module.name: module for module in modules}
    graph: dict[str, dict[str, Import]] = {}
    for module in by_name.values():
        edges = graph[module.name] = {}
        for found in module.imports:
            target = next((name for name in _with_ancestors(found.target) if name in by_name), None)
            if target and target != module.name:
                edges.setdefault(target, found)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        cycle: list[str] = error.args[1][::-1]
        return "\n".join(f"{by_name[a].at(graph[a][b])}: {a} imports {b}" for a, b in itertools.pairwise(cycle))
    return None


def _with_ancestors(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition(".")[0]


# ---- the source keeps them


def test_every_package_has_its_place(modules: list[Module]) -> None:
    assert {Path(folder).name for folder in PACKAGES} == set(MAY_IMPORT), "a new package needs a line in MAY_IMPORT"
    cores = {module.name for module in modules if module.is_core}
    assert {"txnstatus.status.table", "txnstatus.status.manager", "txnparticipant.shard.shard"} <= cores
    assert not {"txnstatus.raft.group", "txnstatus.status.service", "txndeploy.node.process"} & cores


def test_packages_import_in_one_direction(modules: list[Module]) -> None:
    assert not (broken := list(wrong_direction(modules))), _list(broken)


def test_cores_import_no_shell_and_nothing_that_acts(modules: list[Module]) -> None:
    assert not (broken := list(impure_cores(modules))), _list(broken)


def test_libraries_stay_where_they_belong(modules: list[Module]) -> None:
    assert not (broken := list(strayed_libraries(modules))), _list(broken)


def test_rooms_import_those_below(modules: list[Module]) -> None:
    folders = {(module.package, module.name.split(".")[1]) for module in modules if module.name.count(".") > 1}
    named = {(package, name) for package, rooms in BELOW.items() for name in rooms} | {("txnstatus", "proto")}
    assert not (unknown := folders - named), f"a new room needs a floor: {unknown}"
    assert not (broken := list(wrong_floor(modules))), _list(broken)


def test_what_serves_is_imported_by_who_composes(modules: list[Module]) -> None:
    assert not (broken := list(served_elsewhere(modules))), _list(broken)


def test_no_module_imports_itself_by_way_of_others(modules: list[Module]) -> None:
    assert (cycle := import_cycle(modules)) is None, f"modules import each other:\n{cycle}"


def _list(broken: list[str]) -> str:
    return "imports that break the layers:\n  " + "\n  ".join(broken)


# ---- the rules see what they should


def _module(name: str, source: str, *, core: bool = True) -> Module:
    return Module(name, f"{name}.py", core, tuple(imports_in(source, name.rpartition(".")[0])))


LAZY = "def f():\n    {}\n"
TYPING = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    {}\n"


@pytest.mark.parametrize(
    ("rule", "name", "source", "found"),
    [
        (wrong_direction, "txnstatus.x", "import txnclient", "txnstatus.x.py:1"),
        (wrong_direction, "txnclient.x", LAZY.format("from txnparticipant import txn"), "txnclient.x.py:2"),
        (
            wrong_direction,
            "txnmanager.x",
            "import importlib\nimportlib.import_module('txndeploy')",
            "txnmanager.x.py:2",
        ),
        (wrong_direction, "txnmanager.x", "from txnstatus import types", None),
        (wrong_floor, "txnstatus.rpc.x", TYPING.format("from txnstatus.status import table"), "txnstatus.rpc.x.py:3"),
        (wrong_floor, "txnstatus.types", "import txnstatus.process.disk", "txnstatus.types.py:1"),
        (wrong_floor, "txnparticipant.locks.x", "from txnparticipant.rows import x", "txnparticipant.locks.x.py:1"),
        (wrong_floor, "txnclient.x", "from txnstatus.status.commands import BeginCommit", "txnclient.x.py:1"),
        (wrong_floor, "txnstatus.status.x", "from txnstatus.rpc import errors", None),
        (wrong_floor, "txnstatus.status.x", "from txnstatus import types", None),
        (served_elsewhere, "txnmanager.x", LAZY.format("import txnstatus.status.service"), "txnmanager.x.py:2"),
        (
            served_elsewhere,
            "txnparticipant.upkeep.x",
            "from txnparticipant.leader import rows",
            "txnparticipant.upkeep.x.py:1",
        ),
        (wrong_floor, "txnstatus", "import txnstatus.status.table", "txnstatus.py:1"),
        (wrong_floor, "txnclient", "import txnstatus.raft.machine", "txnclient.py:1"),
        (wrong_floor, "txnclient", "from txnclient.client import Client", None),
        (wrong_floor, "txnclient.read.x", LAZY.format("import txnclient"), "txnclient.read.x.py:2"),
        (served_elsewhere, "txnmanager.x", "import txnparticipant.upkeep.audit_service", "txnmanager.x.py:1"),
        (served_elsewhere, "txnparticipant.leader.x", "from txnparticipant.leader import rows", None),
        (served_elsewhere, "txndeploy.node.x", "from txnparticipant.leader import rows", None),
        (impure_cores, "txnstatus.x", LAZY.format("import pyarrow.fs"), "txnstatus.x.py:2"),
        (impure_cores, "txnstatus.x", LAZY.format("import pydantic"), "txnstatus.x.py:2"),
        (impure_cores, "txnstatus.x", "from txnstatus.shell import f", "txnstatus.x.py:1"),
        (impure_cores, "txnstatus.x", "from . import shell", "txnstatus.x.py:1"),
        (impure_cores, "txnstatus.x", TYPING.format("import pyarrow"), None),
        (impure_cores, "txnstatus.x", "import zlib\nfrom google.protobuf.message import Message", None),
        (strayed_libraries, "txnstatus.lake.storage", "import pysyncobj", "txnstatus.lake.storage.py:1"),
        (strayed_libraries, "txnclient.snapshot", LAZY.format("import pyspark.sql"), "txnclient.snapshot.py:2"),
        (strayed_libraries, "txnclient.snapshot", TYPING.format("import pyspark.sql"), None),
        (strayed_libraries, "txnclient.spark.reader", "import pyspark.sql", None),
    ],
)
def test_a_rule_sees(rule, name: str, source: str, found: str | None) -> None:  # type: ignore[no-untyped-def]
    broken = list(rule([_module(name, source), _module("txnstatus.shell", "", core=False)]))
    assert [line.split(": ")[0] for line in broken] == ([found] if found else [])


@pytest.mark.parametrize("how", ["{}", LAZY, TYPING])
def test_a_cycle_is_seen(how: str) -> None:
    there = _module("txnstatus.a", "from txnstatus import b")
    cycle = import_cycle([there, _module("txnstatus.b", how.format("import txnstatus.a"))])
    assert cycle is not None
    assert "txnstatus.a.py:1: txnstatus.a imports txnstatus.b" in cycle
    assert import_cycle([there, _module("txnstatus.b", how.format("import txnstatus.c"))]) is None
