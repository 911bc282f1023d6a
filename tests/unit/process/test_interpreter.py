"""What a process says of the interpreter that runs it."""

from __future__ import annotations

import platform

import pytest

from txnstatus.process import interpreter


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
