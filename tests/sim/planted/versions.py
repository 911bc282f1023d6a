"""Slips in what goes to nodes of an older version, put in on purpose, as in faults.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.sim.planted.faults import Seams
from txnstatus import features

FEATURES = "txnstatus.features"


def the_gate_is_forgotten() -> Seams:
    return [(f"{FEATURES}:Gate.check", lambda *_: None)]


def a_command_comes_below_its_level() -> Seams:
    """Nodes say what they are as soon as they run, and the list has it that all versions know that."""
    listed = {**features._LEVELS, ("catalog", "RegisterNode"): features.FIRST}
    return [(f"{FEATURES}:_LEVELS", listed), (f"{FEATURES}:REGISTERED", features.FIRST)]


def a_field_comes_below_its_level() -> Seams:
    return [(f"{FEATURES}:FIELDS", dict.fromkeys(features.FIELDS, features.FIRST))]


def the_level_is_raised_whoever_is_there() -> Seams:
    return [(f"{FEATURES}:hindrances", lambda *_: [])]


VERSIONS: Mapping[str, Callable[[], Seams]] = {
    "the gate is forgotten": the_gate_is_forgotten,
    "a command comes below its level": a_command_comes_below_its_level,
    "a field comes below its level": a_field_comes_below_its_level,
    "the level is raised whoever is there": the_level_is_raised_whoever_is_there,
}
