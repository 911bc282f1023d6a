"""The documents agree with the code, and their links lead somewhere."""

from __future__ import annotations

import ast
import importlib.util
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.main import get_command

from tests import blocks
from txndeploy.ctl import commands
from txndeploy.node.config import NodeConfig
from txnstatus.lake import stores

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FOLDERS = ("benchmarks", "client", "deploy", "docs", "manager", "participant", "tests", "txnstatus")
FILES = [file.relative_to(ROOT).as_posix() for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"`((?:\w+/)*\w+\.py)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PROMISE_NOTHING = {"What is not secured", "Which Python", "Upgrade"}
"""Sections of documents for operators that promise nothing, or have a table of tests of their own."""


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_tables_are_fresh(generate: ModuleType) -> None:
    assert generate.main(["--check"]) == 0, "run `python docs/generate.py` and commit the result"


def test_a_stale_table_is_noticed_and_mended(
    generate: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in generate.PAGES:
        (tmp_path / name).write_text((ROOT / "docs" / name).read_text())
    page = tmp_path / "protocol.md"
    fresh = page.read_text()
    page.write_text(fresh.replace("**COMMIT_IN_PROGRESS**", "**COMMITTED**", 1))
    assert generate.main(["--check", "--pages", str(tmp_path)]) == 1
    assert "protocol.md is stale" in capsys.readouterr().err
    assert generate.main(["--pages", str(tmp_path)]) == 0
    assert page.read_text() == fresh


def test_a_page_without_its_markers_is_refused(generate: ModuleType) -> None:
    with pytest.raises(ValueError, match="markers"):
        generate.generated("protocol.md", "no table here")


def test_every_failpoint_is_listed() -> None:
    names = set()
    for file in [
        file for folder in ("txnstatus", "participant", "manager", "client") for file in (ROOT / folder).rglob("*.py")
    ]:
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="failpoint"), args=[ast.Constant(value=str() as name), *_]):
                    names.add(name)
                case ast.Call(
                    func=ast.Name(id="failpoint"), args=[ast.JoinedStr(values=[ast.Constant() as start, _]), *_]
                ):
                    names.add(f"{start.value}COMMAND")
                case ast.Call(func=ast.Name(id="Proposer"), args=[ast.Constant(value=str() as kind), *_]):
                    names |= {f"{kind}.before.COMMAND", f"{kind}.after.COMMAND"}
                case ast.Call(func=ast.Name(id="failpoint")) if file.name != "proposer.py":
                    pytest.fail(f"{file.relative_to(ROOT)}:{node.lineno}: a failpoint without a name to list")
    section = (ROOT / "docs" / "testing.md").read_text().partition("\n## Failpoints\n")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`(\w+\.\w+(?:\.COMMAND)?)`", section.partition("| name | where |")[2]))
    assert names == listed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(FENCED.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue  # elsewhere: not checked here
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            broken.append(f"{link}: no such file")
        elif anchor and target.suffix == ".md" and anchor not in _anchors(target):
            broken.append(f"{link}: no such heading")
    assert not broken, f"{page.relative_to(ROOT)}:\n  " + "\n  ".join(broken)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_are_named_are_there(page: Path) -> None:
    """By a path that ends as theirs does."""
    named = FILE.findall(FENCED.sub("", page.read_text()))
    gone = [name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in FILES)]
    assert not gone, f"{page.relative_to(ROOT)} names {', '.join(gone)}"


def test_tests_that_are_named_are_there() -> None:
    """A promise of a page has its test by name."""
    files = list((ROOT / "tests").rglob("*.py"))
    there = {file.stem for file in files}
    there.update(name for file in files for name in re.findall(r"def (test_\w+)", file.read_text()))
    named = {(page.name, name) for page in PAGES for name in re.findall(r"`(test_\w+)`", page.read_text())}
    assert {name for _, name in named} & there, "no page names a test"
    assert not (gone := sorted(each for each in named if each[1] not in there)), gone


@pytest.mark.parametrize("name", ["security", "operations"])
def test_each_section_that_promises_something_has_its_tests(name: str) -> None:
    """Whoever adds a section to what operators rely on says which tests fail where it does not hold."""
    page, heading = (ROOT / "docs" / f"{name}.md").read_text(), "Promises and their tests"
    table = page.partition(f"\n## {heading}\n")[2]
    rows = [line.strip("|").split("|") for line in table.splitlines() if "`test_" in line]
    sections = set(re.findall(r"^## (.+)$", FENCED.sub("", page), re.MULTILINE)) - PROMISE_NOTHING - {heading}
    linked = {section for cells in rows for section in re.findall(r"\[(.+?)\]\(#", cells[0])}
    assert rows
    assert linked == sections
    assert not [cells for cells in rows if len(cells) != 3 or not cells[1].strip()], "a row without a promise"


def test_each_listing_for_programs_has_its_keys_on_the_page() -> None:
    """Nine had none: those that came with grants, limits, what is recorded and logs, and older ones."""
    page = (ROOT / "docs" / "operations.md").read_text()
    section = page.partition("\n## txnctl for programs\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(name for row in rows for name in re.findall(r"`([^`]+)`", row)) == sorted(
        _with_json(get_command(commands.app))
    )


CODE_BLOCKS = [block for page in blocks.PAGES for block in blocks.blocks(page)]


def test_every_block_of_code_says_what_it_is_and_is_run_or_says_why_not() -> None:
    """Examples had names that were nowhere, and nobody ran them."""
    wrong = [block for block in CODE_BLOCKS if block.language not in blocks.CODE + blocks.NO_CODE]
    assert not wrong, "a block without a language"
    loose = []
    for block in CODE_BLOCKS:
        runs = [test for having, test in blocks.RUN_BY.get(block.page, {}).items() if having in block.text]
        if block.language in blocks.CODE and len(runs) != (block.reason is None):
            loose.append(f"{block.page}: {block.text[:60]!r} is run by {runs or 'nobody'}, and says {block.reason!r}")
    assert not loose, "\n  ".join(loose)


def test_what_runs_a_block_knows_of_it() -> None:
    for page, runs in blocks.RUN_BY.items():
        for having, test in runs.items():
            assert any(having in block.text for block in blocks.blocks(page)), f"{page} has no block with {having}"
            assert "blocks." in (ROOT / test).read_text(), f"{test} runs no blocks"


def test_blocks_that_are_not_run_are_listed() -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    section = page.partition("\n## Examples in the documents\n")[2].partition("\n## ")[0]
    listed = set(re.findall(r"^\| `([\w./-]+)` \| `(.+?)` \| (.+?) \|$", section, re.MULTILINE))
    marked = {(block.page, block.text.splitlines()[1].strip(), block.reason) for block in CODE_BLOCKS if block.reason}
    assert {(page, start.strip(), reason) for page, start, reason in listed} == {
        (page, re.sub(r"\s*#.*", "", start), reason) for page, start, reason in marked
    }


TOML = [each for each in CODE_BLOCKS if each.language == "toml"]
OF_STORES = [each for each in TOML if each.text.startswith('["s3://')]


@pytest.mark.parametrize("block", [each for each in TOML if each not in OF_STORES], ids=lambda each: each.page)
def test_configurations_that_are_shown_are_read(block: blocks.Block) -> None:
    required = {"cluster_name": "c", "node_id": "n1", "data_dir": "/d", "warehouse": "file:///w"}
    shown = tomllib.loads(block.text)
    config = NodeConfig.model_validate({**required, "nodes": {"n1": {"address": "127.0.0.1:7051"}}, **shown})
    assert shown.keys() <= config.model_dump(exclude_defaults=True).keys()


def test_the_file_of_stores_that_is_shown_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda _path: "a secret")
    (block,) = OF_STORES
    found, secrets = stores.parse(block.text, "the file")
    assert [store.root for store in found] == ["s3://lake/sales", "s3://archive"]
    assert len(secrets) == 2


def _with_json(command: Any, *names: str) -> Iterator[str]:
    for name, below in getattr(command, "commands", {}).items():
        yield from _with_json(below, *names, name)
    if any("--json" in parameter.opts for parameter in command.params):
        yield " ".join(names)


def _anchors(page: Path) -> set[str]:
    """As GitHub makes them from headings."""
    headings = re.findall(r"^#+ +(.+?) *$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
