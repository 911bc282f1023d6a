"""What a process says of the interpreter that runs it."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from txnstatus.process import interpreter

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("arguments", "prefix", "profiled"),
    [
        ("'--prefix=/root/.pyenv/versions/3.11.7' '--enable-shared'", "/root/.pyenv/versions/3.11.7", False),
        ("'--enable-optimizations' '--with-lto'", "/usr/local", True),
        ("'--enable-shared' '--prefix=/usr' '--with-computed-gotos'", "/usr", True),
        ("", "/opt/python", False),
    ],
)
def test_a_build_is_profiled_where_it_says_so_or_is_a_distributions(
    arguments: str, prefix: str, profiled: bool
) -> None:
    assert interpreter.is_profiled(arguments, prefix) == profiled


def test_it_says_which_it_is_and_how_it_was_built() -> None:
    said = interpreter.describe()
    assert platform.python_version() in said
    assert ("WITHOUT" in said) == (not interpreter.runs_profiled())


@pytest.mark.parametrize(
    ("named", "environment"),
    [
        ([], ".venv"),
        (["PYTHON=/usr/bin/python3"], ".venv-usr-bin-python3"),
        (["PYTHON=python3.12"], ".venv-python3.12"),
    ],
)
def test_one_that_is_named_to_make_has_an_environment_of_its_own(named: list[str], environment: str) -> None:
    """It was passed over without a word where there was an environment of another one."""
    command = ["make", "--dry-run", "--always-make", "--no-print-directory", "bench", *named]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=30).stdout
    assert said.splitlines()[-1].startswith(f"{environment}/bin/python -m benchmarks.suite")
