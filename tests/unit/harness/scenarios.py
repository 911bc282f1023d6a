"""Scenario files: protocol stories as text, in the manner of etcd's raft and of CockroachDB's `datadriven`.

A file begins with a paragraph of `#` lines: the promise that it tells. Blocks follow, with an empty line between them:
commands, a line `----`, and what came out of them. `REWRITE=1 pytest ...` writes what comes out now into the files;
what that changes is for a reviewer to read.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

RULE = "----"
NOTHING = "nothing"
"""What is written where nothing came out: an empty expectation would pass for a forgotten one."""


class Story:
    """The world of a scenario. Each public method is a command, `-` for `_`; its words are its arguments."""

    def end(self) -> None:
        """The scenario is over."""


def scenarios(beside: str) -> pytest.MarkDecorator:
    """One test for each file in the folder `scenarios` beside the module."""
    paths = sorted((Path(beside).parent / "scenarios").glob("*.txt"))
    assert paths, f"no scenarios beside {beside}"
    return pytest.mark.parametrize("path", paths, ids=[path.stem for path in paths])


def check(path: Path, story: Story) -> None:
    """Plays the file; what comes out must be what it says."""
    told = path.read_text()
    try:
        played = "\n\n".join(_played(told, story)) + "\n"
    finally:
        story.end()
    if os.environ.get("REWRITE"):
        path.write_text(played)
    else:
        assert played.splitlines() == told.splitlines(), f"{path.name} tells another story; REWRITE=1 writes this one"


def _played(text: str, story: Story) -> Iterator[str]:
    promise, *blocks = text.strip().split("\n\n")
    assert _is_prose(promise), "a scenario begins with its promise, in lines of #"
    assert any(not _is_prose(block) for block in blocks), "a scenario has commands"
    yield promise
    for block in blocks:
        if _is_prose(block):
            yield block
            continue
        commands, rule, _expected = block.partition(RULE)
        assert rule, f"no {RULE} after\n{block}"
        output = [line for command in commands.splitlines() for line in _done(story, command)]
        yield "\n".join([*commands.splitlines(), RULE, *(output or [NOTHING])])


def _is_prose(block: str) -> bool:
    return all(line.startswith("#") for line in block.splitlines())


def _done(story: Story, command: str) -> Iterable[str]:
    name, *words = shlex.split(command)
    method: Callable[..., Iterable[str] | None] | None = getattr(story, name.replace("-", "_"), None)
    if method is None or name.startswith("_"):
        raise AssertionError(f"no command {name!r}")
    options = dict(word.split("=", 1) for word in words if "=" in word)
    try:
        return list(method(*(word for word in words if "=" not in word), **options) or ())
    except (AssertionError, TypeError, ValueError, KeyError) as error:
        raise AssertionError(f"{command}: {error}") from error
