"""Is one transaction's history linearizable: could its calls have happened one after the other, each within its time?

The search is Wing and Gong's with Lowe's memory of what was tried. The service also moves a transaction by itself (a
commit is decided, an abort is finished), so the search carries the set of all states that the record may be in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from txnstatus.types import DECIDED_ABORT, TxnState

OPEN = TxnState.OPEN
COMMITTING = TxnState.COMMIT_IN_PROGRESS
FINALIZING = TxnState.FINALIZE_IN_PROGRESS
COMMITTED = TxnState.COMMITTED
ABORTING = TxnState.ABORT_IN_PROGRESS
ABORTED = TxnState.ABORTED
EVERY_STATE = frozenset(TxnState)

MAX_STEPS = 2_000_000

States = frozenset[TxnState]
Moves = Mapping[TxnState, frozenset[TxnState]]


class TooHard(Exception):
    """The search was given up: a history of so many overlapping calls proves nothing."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happened to the record at one moment between `invoked` and `returned`."""

    invoked: float
    returned: float
    allowed: States = EVERY_STATE
    """The states in which it can have happened."""
    effect: Mapping[TxnState, TxnState] | None = None
    """What it made of a state; others stay."""
    optional: bool = False
    """Nobody knows whether it happened, or will."""

    def after(self, states: States) -> States:
        effect = self.effect or {}
        return frozenset(effect.get(state, state) for state in states if state in self.allowed)


@dataclass(frozen=True, slots=True)
class Model:
    """How one transaction's record may move."""

    empty: bool = False
    """Nobody takes part: decisions are final at once."""
    may_expire: bool = False
    may_be_refused: bool = False

    @property
    def moves(self) -> Moves:
        """What the service may do by itself, at any time."""
        moves = {FINALIZING: {COMMITTED}, ABORTING: {ABORTED}, COMMITTING: {FINALIZING}, OPEN: set[TxnState]()}
        if self.may_be_refused:
            moves[COMMITTING].add(ABORTING)
        if self.may_expire:
            moves[OPEN].add(ABORTED if self.empty else ABORTING)
        return {state: frozenset(targets) for state, targets in moves.items()}

    @property
    def commit(self) -> Mapping[TxnState, TxnState]:
        return {OPEN: COMMITTED if self.empty else COMMITTING}

    @property
    def abort(self) -> Mapping[TxnState, TxnState]:
        return {OPEN: ABORTED} if self.empty else {OPEN: ABORTING, COMMITTING: ABORTING}

    def requested_commit(self, invoked: float, returned: float, *, known: bool) -> Step:
        return Step(invoked, returned if known else math.inf, effect=self.commit, optional=not known)

    def aborted(self, invoked: float, returned: float) -> Step:
        return Step(invoked, returned, frozenset({OPEN, COMMITTING}) | DECIDED_ABORT, self.abort)

    def maybe_aborted(self, invoked: float) -> Step:
        return Step(invoked, math.inf, effect=self.abort, optional=True)


def observed(invoked: float, returned: float, states: Iterable[TxnState]) -> Step:
    return Step(invoked, returned, frozenset(states))


def closure(states: States, moves: Moves) -> States:
    """All states that these may have become meanwhile."""
    reached, found = states, states
    while found:
        found = frozenset(target for state in found for target in moves.get(state, ())) - reached
        reached |= found
    return reached


def linearizable(steps: Sequence[Step], moves: Moves, max_steps: int = MAX_STEPS) -> bool:
    """Raises TooHard."""
    order = sorted(steps, key=lambda step: step.invoked)
    required = sum(1 << number for number, step in enumerate(order) if not step.optional)
    everything = (1 << len(order)) - 1
    stack = [(everything, closure(frozenset({OPEN}), moves))]
    tried: set[tuple[int, States]] = set()
    while stack:
        left, states = stack.pop()
        if not left & required:
            return True
        if (left, states) in tried:
            continue
        tried.add((left, states))
        if len(tried) > max_steps:
            raise TooHard(f"{len(order)} steps")
        for number in _next_steps(order, left):
            after = order[number].after(states)
            if after:
                stack.append((left & ~(1 << number), closure(after, moves)))
    return False


def _next_steps(order: Sequence[Step], left: int) -> Iterable[int]:
    """The steps that may come first: they began before any other that is left had returned."""
    candidates, first_return = [], math.inf
    for number, step in enumerate(order):
        if not left >> number & 1:
            continue
        if step.invoked > first_return:
            break
        candidates.append(number)
        first_return = min(first_return, step.returned)
    return [number for number in candidates if order[number].invoked <= first_return]


def describe(steps: Iterable[Step]) -> str:
    lines = []
    for step in sorted(steps, key=lambda step: step.invoked):
        what = "may have changed" if step.optional else "changed" if step.effect else "saw"
        allowed = "any" if step.allowed == EVERY_STATE else "|".join(sorted(state.name for state in step.allowed))
        lines.append(f"    {step.invoked:9.3f} to {step.returned:9.3f}: {what} {allowed}")
    return "\n".join(lines)
