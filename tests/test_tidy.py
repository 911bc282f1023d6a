"""The shape of the source: short functions, short files, a docstring a module, nothing left lying about."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
    "wheel"
]["packages"]
OTHER_FOLDERS = ("tests", "docs", "benchmarks")
MAY_PRINT = "txndeploy"
"""The package of the command line."""

MAX_FUNCTION_LINES = 70
MAX_FILE_LINES = 400
VAGUE = re.compile(r"(Of|Those|Who|Whose|So long|So many|So far|Theirs)\b")
VAGUE_FOR_ATTRIBUTES = re.compile(
    r"(About|After|Also|And|As|At|Besides?|Between|By|For|From|In|Inside|Into|Its?|Not|On|Once|Since|So|That|Their|They|To"
    r"|Under|Unless|Until|Where there|With|Within)\b"
)
"""Beginnings that a function's docstring may have, which says what is done; an attribute's says what there is."""
LEFT_OVER = re.compile(r"\b(TODO|FIXME|XXX)\b")


@dataclass(frozen=True)
class Source:
    path: str
    """The file's path, relative to the repository."""
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)


def _read(folders: Iterable[str], suffix: str = ".py") -> list[Source]:
    return [
        Source(file.relative_to(ROOT).as_posix(), file.read_text())
        for folder in folders
        for file in sorted((ROOT / folder).rglob(f"*{suffix}"))
        if not file.stem.endswith("_pb2")
    ]


LIBRARY = _read(PACKAGES)
SIMULATOR = _read(f"tests/sim/{room}" for room in ("actors", "campaign", "judges", "world"))
EVERYTHING = LIBRARY + _read(OTHER_FOLDERS)
PROTOS = _read(PACKAGES, ".proto")


# ---- the rules: each yields what breaks it


def long_functions(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"{source.path}:{node.lineno}: {node.name} has {lines} lines; {MAX_FUNCTION_LINES} are possible"


def long_files(source: Source) -> Iterator[str]:
    lines = source.text.count("\n")
    if lines > MAX_FILE_LINES:
        yield f"{source.path}: {lines} lines; {MAX_FILE_LINES} are possible"


def left_overs(source: Source) -> Iterator[str]:
    """Notes to oneself, in comments."""
    if source.path.endswith(".proto"):
        comments = [(n, line) for n, line in enumerate(source.text.splitlines(), 1) if "//" in line]
    else:
        tokens = tokenize.generate_tokens(io.StringIO(source.text).readline)
        comments = [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
    for line, comment in comments:
        if LEFT_OVER.search(comment):
            yield f"{source.path}:{line}: {comment.strip()}"


def no_docstring(source: Source) -> Iterator[str]:
    name = Path(source.path).stem
    is_public = name in ("__init__", "__main__") or not name.startswith("_")
    if is_public and not ast.get_docstring(source.tree):
        yield f"{source.path}: no docstring says what the module is for"


def vague_docstrings(source: Source) -> Iterator[str]:
    """Docstrings, other than a module's, that begin with a word about something that stands elsewhere."""
    tree = source.tree
    of_attributes = set(_docstrings_of_attributes(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str() as text)) if node is not tree.body[0] and (
                VAGUE.match(text) or (node in of_attributes and VAGUE_FOR_ATTRIBUTES.match(text))
            ):
                begin = text.splitlines()[0]
                yield f"{source.path}:{node.lineno}: {begin!r} makes no sense alone; begin with a noun"


def _docstrings_of_attributes(tree: ast.Module) -> Iterator[ast.Expr]:
    for scope in ast.walk(tree):
        if isinstance(scope, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for before, node in pairwise(scope.body):
                match node:
                    case ast.Expr(value=ast.Constant(value=str())) if isinstance(before, ast.Assign | ast.AnnAssign):
                        yield node


def swallowed(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        match node:
            case ast.ExceptHandler(type=None | ast.Name(id="Exception" | "BaseException"), body=[only]) if isinstance(
                only, ast.Pass | ast.Continue
            ) or (isinstance(only, ast.Expr) and isinstance(only.value, ast.Constant)):
                yield f"{source.path}:{node.lineno}: every exception is caught and none is told"
            case ast.Call(
                func=ast.Name(id="suppress") | ast.Attribute(attr="suppress"),
                args=[ast.Name(id="Exception" | "BaseException"), *_],
            ):
                yield f"{source.path}:{node.lineno}: every exception is suppressed"


def prints(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield f"{source.path}:{node.lineno}: a library logs; it does not print"


def imports_tests(source: Source) -> Iterator[str]:
    """What two tests share lies in a harness: a module of tests can change, and go, without a look at others."""
    for node in ast.walk(source.tree):
        names = [f"{node.module}.{each.name}" for each in node.names] if isinstance(node, ast.ImportFrom) else []
        names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            if re.search(r"(^|\.)test_", name):
                yield f"{source.path}:{node.lineno}: {name} is imported; what tests share belongs into a harness"


# ---- the source keeps them


@pytest.mark.parametrize(
    ("rule", "sources"),
    [
        (long_functions, EVERYTHING),
        (long_files, LIBRARY + SIMULATOR),
        (left_overs, EVERYTHING + PROTOS),
        (no_docstring, LIBRARY + SIMULATOR),
        (vague_docstrings, EVERYTHING),
        (swallowed, EVERYTHING),
        (imports_tests, EVERYTHING),
        (prints, [source for source in LIBRARY if f"/{MAY_PRINT}/" not in source.path]),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_source_is_tidy(rule: Callable[[Source], Iterator[str]], sources: list[Source]) -> None:
    assert len(sources) > 5, "the source was not found"
    broken = [line for source in sources for line in rule(source)]
    assert not broken, "\n  " + "\n  ".join(broken)


def test_every_package_is_typed() -> None:
    missing = [f"{folder}/py.typed" for folder in PACKAGES if not (ROOT / folder / "py.typed").is_file()]
    assert not missing, f"missing: {', '.join(missing)}"


# ---- the rules see what they should


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (long_functions, "def f():\n" + "    pass\n" * MAX_FUNCTION_LINES),
        (long_files, "x = 1\n" * (MAX_FILE_LINES + 1)),
        (left_overs, "x = 1  # " + "TO" + "DO: more\n"),
        (no_docstring, "x = 1\n"),
        (vague_docstrings, 'x = 1\n"""Of one pass."""\n'),
        (vague_docstrings, 'def f() -> int:\n    """So many are left."""\n    return 1\n'),
        (vague_docstrings, 'class A:\n    """Whose turn it is."""\n'),
        (vague_docstrings, 'class A:\n    def __init__(self) -> None:\n        self.x = 1\n        """Theirs."""\n'),
        (vague_docstrings, 'x = 1\n"""In one request."""\n'),
        (vague_docstrings, 'x: int = 1\n"""By table."""\n'),
        (vague_docstrings, 'class A:\n    x = 1\n    """It waits."""\n'),
        (vague_docstrings, 'class A:\n    x: int\n    """Its name."""\n'),
        (vague_docstrings, 'class A:\n    def __init__(self) -> None:\n        self.x = 1\n        """That is."""\n'),
        (swallowed, "try:\n    f()\nexcept Exception:\n    pass\n"),
        (swallowed, "try:\n    f()\nexcept:\n    ...\n"),
        (swallowed, "with contextlib.suppress(Exception):\n    f()\n"),
        (prints, "def f():\n    print(1)\n"),
        (imports_tests, "from tests.unit.test_x import World\n"),
        (imports_tests, "from tests.unit import test_x\n"),
        (imports_tests, "import tests.unit.test_x\n"),
    ],
)
def test_a_rule_sees(rule: Callable[[Source], Iterator[str]], text: str) -> None:
    assert len(list(rule(Source("m.py", text)))) == 1


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (long_functions, "def f():\n" + "    pass\n" * (MAX_FUNCTION_LINES - 1)),
        (long_files, "x = 1\n" * MAX_FILE_LINES),
        (swallowed, "try:\n    f()\nexcept OSError:\n    pass\n"),
        (swallowed, "try:\n    f()\nexcept Exception:\n    log()\n"),
        (no_docstring, '"""What it is for."""\n'),
        (vague_docstrings, 'x = 1\n"""What was asked for."""\n'),
        (vague_docstrings, 'class A:\n    x: bool\n    """Whether it waits."""\n'),
        (vague_docstrings, 'x = 1\n"""Bytes of a row."""\n'),
        (vague_docstrings, 'def f() -> None:\n    """For a new leadership."""\n'),
        (imports_tests, "from tests.unit.harness.latest_x import World\n"),
    ],
)
def test_a_rule_lets_pass(rule: Callable[[Source], Iterator[str]], text: str) -> None:
    assert not list(rule(Source("m.py", text)))
