"""What the last words of a process say."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from txnstatus.process.stop import stop_process


class Ended(Exception):
    """What stands for the end of the process."""


@pytest.fixture(autouse=True)
def ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(code: int) -> None:
        assert code == os.EX_SOFTWARE
        raise Ended

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(logging, "shutdown", lambda: None)


def test_a_file_that_somebody_removed_is_named_with_what_to_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gone = tmp_path / "gone" / "catalog.new"
    try:
        gone.open("wb")
    except FileNotFoundError as error:
        with pytest.raises(Ended):
            stop_process("the catalog is not saved", error)
    assert f"{gone} was removed or replaced while the node ran" in caplog.text
    assert "remove its data directory and start it again" in caplog.text


def test_another_failure_is_told_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(Ended):
        stop_process("applying entry 7 failed", ValueError("odd"))
    assert "applying entry 7 failed; this process ends now" in caplog.text
    assert "odd" in caplog.text
    assert "data directory" not in caplog.text
