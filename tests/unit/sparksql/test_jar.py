"""The jar that is checked in is that of the sources, and is built the same each time."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BUILD = ROOT / "client" / "sparksql" / "build.py"
JAR = ROOT / "client" / "txnclient" / "sparksql" / "txn-spark.jar"


def build(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, BUILD, *arguments], capture_output=True, text=True, check=False)


def test_the_jar_is_that_of_the_sources() -> None:
    done = build("--check")
    assert done.returncode == 0, done.stderr


def test_a_jar_of_other_sources_is_noticed(tmp_path: Path) -> None:
    stale = tmp_path / "stale.jar"
    with zipfile.ZipFile(JAR) as good, zipfile.ZipFile(stale, "w") as bad:
        for name in good.namelist():
            bad.writestr(name, good.read(name).replace(b"Version: ", b"Version: 0"))
    done = build("--check", "--jar", stale)
    assert done.returncode == 1
    assert "make jar" in done.stderr


@pytest.mark.campaign
@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no javac")
def test_it_is_built_the_same_each_time(tmp_path: Path) -> None:
    first, second = tmp_path / "first.jar", tmp_path / "second.jar"
    for jar in (first, second):
        assert build("--jar", jar).returncode == 0
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as built, zipfile.ZipFile(JAR) as checked_in:
        assert built.namelist() == checked_in.namelist()
