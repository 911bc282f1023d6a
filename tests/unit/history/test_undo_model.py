"""Undo and restore against a naive model: rows by number, and every commit that came later."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pytest

from tests.unit.harness.histories import PARTITIONS, Faults, History, drawn
from txnstatus.types import Timestamp

SEEDS = 500
STEPS = 14


class Broken(Exception):
    """What a world shows is not what the model says."""


@dataclass
class Commit:
    """What the model knows of one."""

    at: Timestamp
    before: Counter[int]
    after: Counter[int]
    overwrote: frozenset[str]
    """Partitions that it has replaced, or from which an undo has."""
    partitions: frozenset[str]
    """Partitions in which it has changed rows."""

    @property
    def came(self) -> Counter[int]:
        return self.after - self.before

    @property
    def went(self) -> Counter[int]:
        return self.before - self.after

    def touches(self, other: Commit) -> bool:
        """Whether a later commit is in the way of the other one's undo: rows of both, or files that one replaced."""
        mine, theirs = ({*each.came, *each.went} for each in (self, other))
        return bool(
            mine & theirs
            or self.overwrote & (other.overwrote | other.partitions)
            or (other.overwrote and self.partitions & other.overwrote)
        )


def world(seed: int, faults: Faults | None = None) -> tuple[int, int]:
    """Plays a history, with undos and restores in it. Returns how many were done, and refused. Raises Broken."""
    dice, history = random.Random(seed), History(faults)
    commits, done, refused = list[Commit](), 0, 0
    for _ in range(STEPS):
        before, start = history.rows(history.now), history.now
        roll = dice.random()
        undone = dice.choice(commits) if commits and roll < 0.4 else None
        overwrote = frozenset[str]()
        wanted: Counter[int] | None = None
        if undone is not None:
            wanted = before - undone.came + undone.went
            at = history.undo(undone.at)
            overwrote = undone.overwrote
        elif commits and roll < 0.47:
            wanted = dice.choice(commits).after
            at = history.restore(next(each.at for each in commits if each.after == wanted))
            overwrote = frozenset(PARTITIONS)
        else:
            change = drawn(dice, history.at(start))
            at, overwrote = history.run(change), frozenset(change.overwrites)
        later = [each for each in commits if undone is not None and each.at > undone.at]
        if at is None:
            refused += 1
            if undone is None or not any(each.touches(undone) for each in later):
                raise Broken(f"seed {seed}: refused without a cause")
            continue
        after = history.rows(history.now)
        if wanted is not None:
            done += 1
            if after != wanted:
                raise Broken(f"seed {seed}: {after} after an undo or a restore, and not {wanted}")
            rows = {*undone.came, *undone.went} if undone else set()
            if any(rows & {*each.came, *each.went} for each in later):
                raise Broken(f"seed {seed}: a later commit was in the way")
        changed = [*(before - after), *(after - before)]
        parts = history.partitions(changed, start) | history.partitions(changed, history.now)
        commits.append(Commit(at, before, after, overwrote, frozenset(parts)))
    return done, refused


def test_undo_and_restore_are_what_a_naive_model_says() -> None:
    done, refused = (sum(each) for each in zip(*map(world, range(SEEDS)), strict=True))
    assert done > SEEDS, "hardly anything was undone"
    assert refused > SEEDS / 5, "hardly anything was refused"


@pytest.mark.parametrize(
    "faults",
    [Faults(judges_present=True), Faults(names_no_dead_rows=True), Faults(leaves_dead_rows=True)],
    ids=["judges the present", "names no dead rows", "leaves dead rows"],
)
def test_the_model_finds_what_an_implementation_might_get_wrong(faults: Faults) -> None:
    for seed in range(SEEDS):
        try:
            world(seed, faults)
        except Broken:
            return
    pytest.fail("nothing was found")
