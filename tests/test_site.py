"""The documentation site: it is made without a warning, and has what it is for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import txnclient

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("mkdocs") is None or find_spec("mkdocstrings") is None:
        pytest.skip("no mkdocs: pip install 'txnstatus[docs]'")
    made = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(made)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def test_each_page_and_decision_is_there(site: Path) -> None:
    for path in (ROOT / "docs").rglob("*.md"):
        assert (site / path.relative_to(ROOT / "docs").with_suffix("") / "index.html").is_file(), path
    for name in ("index.html", "contributing/index.html", "changelog/index.html", "decisions/index.html"):
        assert (site / name).is_file()
    assert (site / "images" / "console-transaction.png").is_file()


def test_the_api_is_described(site: Path) -> None:
    page = (site / "api" / "index.html").read_text()
    described = set(re.findall(r'<h2 id="([\w.]+)"', page))
    assert {name.rpartition(".")[2] for name in described} == set(txnclient.__all__)
    assert "Begins a transaction." in page


def test_it_can_be_searched(site: Path) -> None:
    assert "Transaction.commit" in (site / "search" / "search_index.json").read_text()


def test_what_is_linked_of_the_source_is_there(site: Path) -> None:
    assert (site / "source" / "txnstatus" / "txnstatus" / "proto" / "table.proto" / "index.html").is_file()
