"""Reasons of a failure in a line, for whoever goes on in its transaction: Spark and Python tell where before what."""

from __future__ import annotations

import re

_TASK = re.compile(r"\(TID \d+\) \([^)]*\): ")
"""What Spark says of a stage that failed, up to what its task says."""
_CLASS = re.compile(r"^(?:\w+\.)+(?=\w+: )")
_TRACE = "Traceback (most recent call last)"


def reason(told: str) -> str:
    """What Spark, or an error of its, says that something has failed of; empty where it says nothing."""
    said = _TASK.split(told)[-1].split("\nCaused by: ")[-1].split("\n\tat ")[0].split("\nJVM stacktrace:")[0]
    lines = [line.strip() for line in said.splitlines() if line.strip() and "SQLSTATE" not in line[:9]] or [""]
    # Python's own tells where it was raised first, and at the end what.
    return _CLASS.sub("", lines[-1] if any(_TRACE in line for line in lines) else lines[0])
