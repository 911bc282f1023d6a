"""Breadth-first search over everything that can happen, with the rules checked in every state.

    python -m tests.exhaustive.search [NAME ...] [--states N]

searches the configurations of that name, all of them by default, N new states of each at most, and prints what was
covered. On a broken rule it prints a shortest way there, and exits with 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.exhaustive import invariants
from tests.exhaustive.clients import APPEND, DROP, OVERWRITE, Config
from tests.exhaustive.violation import Violation
from tests.exhaustive.world import Action, State, World

BOTH_APPEND = {0: APPEND, 1: APPEND}
ONE_OVERWRITES = {0: OVERWRITE, 1: APPEND}
TWO_COMMIT = (BOTH_APPEND, ONE_OVERWRITES)
RIVALS = (ONE_OVERWRITES, ONE_OVERWRITES)
DROPS = ({0: DROP}, {0: APPEND})

SMALL = (
    # One transaction, from its begin to its end.
    Config("life", (BOTH_APPEND,), crashes=1, faults=1, in_flight=2),
    # The same, by a client that commits and goes on writing.
    Config("impatient", (BOTH_APPEND,), crashes=0, faults=0, in_flight=3, impatient=True),
    # The same, under three status leaders.
    Config("leaders", (BOTH_APPEND,), crashes=2, faults=0, in_flight=2),
    # Two transactions that have written, commit, and must both be committed.
    Config("commits", TWO_COMMIT, crashes=1, faults=0, in_flight=4, written=True, aborts=False, expires=False),
    # Two that overwrite the same table, of which one must lose.
    Config("conflict", RIVALS, crashes=1, faults=0, in_flight=3, written=True, aborts=False, expires=False),
    # Both tables in the log of the status record: no message is sent, and an entry is the whole commit.
    Config("together", (BOTH_APPEND,), crashes=2, faults=1, in_flight=3, here=(0, 1)),
    Config("together, rivals", RIVALS, crashes=1, faults=0, in_flight=3, written=True, here=(0, 1)),
    # The same, where the begin carries the first writes and the commit the last ones.
    Config(
        "together, carried", (BOTH_APPEND,), crashes=2, faults=2, in_flight=3, here=(0, 1), begins_there=True, last=True
    ),
    # One table there and one elsewhere.
    Config("spanning", (BOTH_APPEND,), crashes=1, faults=1, in_flight=2, here=(0,)),
    Config(
        "spanning, carried", (BOTH_APPEND,), crashes=1, faults=1, in_flight=2, here=(0,), begins_there=True, last=True
    ),
    Config(
        "spanning, rivals",
        RIVALS,
        crashes=1,
        faults=0,
        in_flight=3,
        written=True,
        aborts=False,
        expires=False,
        here=(0,),
    ),
    # One that appends to a table while another drops it: before it, or not at all.
    Config("drop", DROPS, crashes=0, faults=1, in_flight=2, aborts=False, expires=False),
)
"""Configurations that are searched whole in some seconds each."""
LARGE = (
    Config("commits, faults", TWO_COMMIT, crashes=1, faults=1, in_flight=3, written=True, aborts=False, expires=False),
    Config("commits, aborts", TWO_COMMIT, crashes=1, faults=0, in_flight=3, written=True, expires=False),
    Config("conflict, faults", RIVALS, crashes=1, faults=1, in_flight=3, written=True, aborts=False, expires=False),
    # More than can be searched whole.
    Config("drop, aborts", DROPS, crashes=1, faults=1, in_flight=3),
    Config("everything", TWO_COMMIT, crashes=2, faults=3, in_flight=4, impatient=True),
)
CONFIGS = {config.name: config for config in SMALL + LARGE}
MAX_STATES = 750_000
REPORT_EVERY = 2_000


@dataclass
class Found:
    """What a search has covered. `trace` is set where a rule is broken: what happened, and after each the state."""

    config: Config
    states: int = 0
    transitions: int = 0
    depth: int = 0
    """All states that can be reached in so many steps are in, besides some that take one more."""
    complete: bool = False
    """Every state that can be reached is in."""
    core_steps: int = 0
    """Different steps of the shipped code."""
    cpu_seconds: float = 0.0
    outcomes: set[tuple[str, ...]] = field(default_factory=set)
    """How the transactions may end, in the order of their ids."""
    violation: Violation | None = None
    trace: list[tuple[str, list[str]]] = field(default_factory=list)

    def story(self) -> str:
        """The shortest way to the broken rule, step by step."""
        if self.violation is None:
            return ""
        lines = [f"{self.violation} ({len(self.trace)} steps from the start of {self.config.name!r})"]
        for number, (happened, after) in enumerate(self.trace, 1):
            lines += [f"{number:3}. {happened}", *(f"       {line}" for line in after)]
        return "\n".join(lines)


def search(config: Config, max_states: int, report: Callable[[Found], None] = lambda _: None) -> Found:
    """All states in order of their distance from the start, until a rule is broken or there are `max_states`."""
    found, began, world = Found(config), time.process_time(), World(config)
    seen: dict[State, tuple[State, Action] | None] = {}
    ends: set[State] = set()
    state: State | None = None

    def count() -> Found:
        found.states, found.core_steps = len(seen), world.core_steps
        found.cpu_seconds = time.process_time() - began
        return found

    try:
        layer = [world.start()]
        seen[layer[0]] = None
        while layer and len(seen) < max_states:
            following: list[State] = []
            for number, state in enumerate(layer):
                for action, after in world.successors(state):
                    found.transitions += 1
                    if after not in seen:
                        seen[after] = state, action
                        world.attempt = action
                        world.check(after)
                        following.append(after)
                if number % REPORT_EVERY == 0:
                    report(count())
                    if len(seen) >= max_states:
                        break
            else:
                found.depth += bool(following)
            layer = following
        found.complete = not layer
        for state in seen:
            ends_well(world, state, ends, found.outcomes)
    except Violation as violation:
        found.violation = violation
        found.trace = _trace(world, seen, state, violation)
    return count()


def ends_well(world: World, state: State, ends: set[State], outcomes: set[tuple[str, ...]]) -> None:
    """Follows what happens without further faults until all has ended. Raises Violation where it does not.

    `ends` holds states from which that is known, and gets those on the way; `outcomes` gets the end.
    """
    state = (*state[:5], 0, 0)
    way: dict[State, Action] = {}
    try:
        while state not in ends:
            if state in way:
                raise Violation(invariants.LIVENESS, f"it goes round for ever: {world.unsettled(state)}")
            step = world.calm(state)
            if step is None:
                left = world.unsettled(state)
                if left:
                    raise Violation(invariants.LIVENESS, f"nothing more happens, and {left}")
                ends.add(state)
                outcomes.add(world.outcome(state))
            else:
                way[state] = world.attempt = step[0]
                state = step[1]
                world.check(state)
    except Violation as violation:
        violation.then = list(way.values())
        raise
    ends.update(way)


def circle(config: Config) -> list[str]:
    """What happens round and round for ever without faults; empty: every order of steps comes to an end.

    A step that changes nothing is none. Whatever is left in the end, `search` looks at.
    """
    world = World(replace(config, faults=0))
    way: dict[State, str] = {world.start(): "the start"}
    open_ends = [(state, world.successors(state)) for state in way]
    done: set[State] = set()
    while open_ends:
        state, following = open_ends[-1]
        for action, after in following:
            if after in way and after != state:
                return [*list(way.values())[list(way).index(after) + 1 :], world.tell(action)]
            if after not in way and after not in done:
                way[after] = world.tell(action)
                open_ends.append((after, world.successors(after)))
                break
        else:
            done.add(state)
            del way[state]
            open_ends.pop()
    return []


def _trace(
    world: World, seen: dict[State, tuple[State, Action] | None], state: State | None, violation: Violation
) -> list[tuple[str, list[str]]]:
    """From the start to `state`, and the steps that broke the rule."""
    steps: list[tuple[str, list[str]]] = []
    while state is not None and (came := seen[state]) is not None:
        steps.append((world.tell(came[1]), world.describe(state)))
        state = came[0]
    steps.reverse()
    if violation.then:
        return steps + [(f"without further faults: {world.tell(action)}", []) for action in violation.then]
    return [*steps, (world.tell(world.attempt), [])]


# ---- the command


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {'; '.join(CONFIGS)}")
    parser.add_argument("--states", type=int, default=MAX_STATES, help="new states of each configuration, at most")
    chosen = parser.parse_args(arguments)
    unknown = set(chosen.names) - set(CONFIGS)
    if unknown:
        parser.error(f"no configuration {', '.join(sorted(unknown))}; there are: {'; '.join(CONFIGS)}")
    console = Console()
    results = [_run(CONFIGS[name], chosen.states, console) for name in chosen.names or CONFIGS]
    console.print(summary(results))
    for found in results:
        if found.violation:
            console.print(found.story(), markup=False, highlight=False, soft_wrap=True)
    return 1 if any(found.violation for found in results) else 0


def _run(config: Config, max_states: int, console: Console) -> Found:
    columns = (
        TextColumn("{task.description:16}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} states, depth {task.fields[depth]}, {task.fields[rate]:,.0f} transitions/s"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(config.name, total=max_states, depth=0, rate=0)

        def report(found: Found) -> None:
            rate = found.transitions / (found.cpu_seconds or 1)
            progress.update(task, completed=min(found.states, max_states), depth=found.depth, rate=rate)

        found = search(config, max_states, report)
        report(found)
        progress.update(task, total=found.states, completed=found.states)
    return found


def summary(results: Sequence[Found]) -> Table:
    table = Table(title="Exhaustive search", caption="Rules in every state: " + "; ".join(invariants.ALL))
    for heading in (
        "configuration",
        "states",
        "depth",
        "covered",
        "transitions",
        "CPU s",
        "a second",
        "core steps",
        "broken",
    ):
        table.add_column(heading, justify="left" if heading in ("configuration", "covered", "broken") else "right")
    for found in results:
        table.add_row(
            found.config.name,
            f"{found.states:,}",
            str(found.depth),
            "all" if found.complete else "part",
            f"{found.transitions:,}",
            f"{found.cpu_seconds:.1f}",
            f"{found.transitions / (found.cpu_seconds or 1):,.0f}",
            f"{found.core_steps:,}",
            found.violation.rule if found.violation else "none",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
