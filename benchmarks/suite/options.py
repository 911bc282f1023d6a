"""Options of the command line. Numbers that make no sense are refused, with the option and what it expects."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import typer

NumberT = TypeVar("NumberT", int, float)


def at_least(least: float, about: str | None = None, *names: str) -> Any:
    """An option whose value is a number of that size or more; its name is the parameter's, unless there are `names`."""
    return typer.Option(*names, min=least, callback=_finite, help=about)


def _finite(value: float) -> float:
    """Ranges let NaN pass, and infinity."""
    if not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a number to work with")
    return value


def numbers(option: str, text: str, kind: Callable[[str], NumberT], least: float) -> tuple[NumberT, ...]:
    """The numbers of a comma-separated text, none of them below the least."""
    try:
        found = tuple(kind(part) for part in text.split(",") if part)
    except ValueError:
        found = None
    if found is None or not all(least <= number < math.inf for number in found):
        raise typer.BadParameter(f"{text!r}: expected numbers from {least} on, comma-separated", param_hint=option)
    return found
