"""Two sessions that change rows of one table by SQL, statement by statement at random, against a model of what they
come to: snapshot isolation, the first committer wins, and savepoints within.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from txnclient import Client
from txnstatus.errors import Conflict, IllegalState

Rows = dict[int, int]
"""Values by key."""
Speak = Callable[[str], list[tuple[object, ...]]]
"""Runs a statement in a session, and returns its rows."""
SESSIONS = 2
KEYS = 6
"""Keys of the rows that there are at first. Further ones are each inserted once."""
NAMES = ("a", "b")
"""Savepoints come by the same names again and again."""


@dataclass
class Open:
    """A transaction of a session."""

    read: Rows | None = None
    """The rows as of its first statement; None: there was none yet."""
    began_at: int = 0
    """The number of commits that it sees."""
    done: list[tuple[int, int | None]] = field(default_factory=list)
    """What it has given to which keys, one after the other; None: the row is deleted."""
    savepoints: list[tuple[str, int]] = field(default_factory=list)
    """Names, and how much was done then."""


@dataclass
class Model:
    rows: Rows
    commits: int = 0
    changed_at: dict[int, int] = field(default_factory=dict)
    """The number of the last commit that has changed a row, by its key."""

    def see(self, txn: Open) -> Rows:
        """The rows of a transaction, whose first statement says of which time they are."""
        if txn.read is None:
            txn.read, txn.began_at = dict(self.rows), self.commits
        return _after(txn.read, txn.done)

    def change(self, txn: Open, key: int, value: int | None) -> None:
        """Gives the row with the key this value, where there is one; None deletes it."""
        if key in self.see(txn):
            txn.done.append((key, value))

    def insert(self, txn: Open, key: int, value: int) -> None:
        self.see(txn)
        txn.done.append((key, value))

    def commits_well(self, txn: Open) -> bool:
        """Commits, unless somebody else was first to change one of its rows."""
        if txn.read is None:
            return True
        keys = {key for key, _ in txn.done}
        if any(self.changed_at.get(key, 0) > txn.began_at for key in keys & txn.read.keys()):
            return False
        self.commits += 1
        self.changed_at |= dict.fromkeys(keys, self.commits)
        self.rows = _after(self.rows, txn.done)
        return True


def _after(rows: Rows, done: Sequence[tuple[int, int | None]]) -> Rows:
    found: dict[int, int | None] = {**rows, **dict(done)}
    return {key: value for key, value in found.items() if value is not None}


@dataclass(frozen=True)
class Step:
    session: int
    what: str
    """A key of `WITHIN`, or "begin"."""
    key: int = 0
    value: int = 0
    name: str = ""


WITHIN = {
    "select": 3,
    "update": 6,
    "delete": 1,
    "insert": 2,
    "savepoint": 2,
    "rollback to": 2,
    "release": 1,
    "fail": 1,
    "commit": 3,
    "rollback": 1,
}
"""What is said within a transaction → how often."""
ALONE = {"begin": 4, "update": 1}
"""What is said where none is open: a change is a transaction of its own then."""


def steps(seed: int, count: int) -> list[Step]:
    """Statements at random, of which each is in its place. All transactions end."""
    chance, next_key = random.Random(seed), KEYS
    saved: list[list[str] | None] = [None] * SESSIONS  # None: no transaction
    failed = [False] * SESSIONS
    found = list[Step]()
    for number in range(count):
        session = chance.randrange(SESSIONS)
        names = saved[session]
        if names is None:
            what = _one(chance, ALONE)
        elif failed[session]:
            what = "rollback to" if names else "rollback"
        else:
            what = _one(chance, WITHIN)
        if what in ("rollback to", "release") and not names:
            what = "savepoint"
        key, name = chance.randrange(next_key), chance.choice(names or NAMES)
        if what == "insert":
            key, next_key = next_key, next_key + 1
        if what == "savepoint":
            name = chance.choice(NAMES)
        saved[session] = _saved(names, what, name)
        failed[session] = what == "fail"
        found.append(Step(session, what, key, number, name))
    return [*found, *(Step(each, "rollback") for each in range(SESSIONS) if saved[each] is not None)]


def _one(chance: random.Random, of: dict[str, int]) -> str:
    return chance.choices(list(of), list(of.values()))[0]


def _saved(names: list[str] | None, what: str, name: str) -> list[str] | None:
    """Savepoints of a session after a statement; None: no transaction is open."""
    if what in ("commit", "rollback"):
        return None
    if names is None:
        return [] if what == "begin" else None
    if what == "savepoint":
        return [*names, name]
    if what in ("rollback to", "release"):
        at = len(names) - 1 - names[::-1].index(name)
        return names[: at + (what == "rollback to")]
    return names


@dataclass
class Played:
    """What a script has come to."""

    conflicts: int = 0
    """Transactions that were told Conflict."""
    went_back: int = 0
    """Rows that were taken back by going to a savepoint."""
    failed: int = 0
    """Statements that failed."""


def play(sessions: Sequence[Speak], client: Client, table: str, named: str, fails: str, script: list[Step]) -> Played:
    """Says all steps, and compares what is seen, within transactions and by others, with the model after each.

    `named`: the table as the sessions call it. `fails`: a statement that fails while it writes to it.
    """
    client.write(pa.table({"k": range(KEYS), "v": range(KEYS)}), table)
    model, played = Model({key: key for key in range(KEYS)}), Played()
    txns: list[Open | None] = [None] * SESSIONS
    for step in script:
        speak, txn = sessions[step.session], txns[step.session]
        match step.what:
            case "begin":
                speak("BEGIN")
                txns[step.session] = Open()
            case "commit":
                assert txn is not None
                if model.commits_well(txn):
                    speak("COMMIT")
                else:
                    played.conflicts += 1
                    with pytest.raises(Conflict):
                        speak("COMMIT")
            case "rollback":
                speak("ROLLBACK")
            case "fail":
                played.failed += 1
                _fail(speak, named, fails)
            case _ if txn is not None:
                played.went_back += _said(speak, model, txn, named, step)
            case _:
                _said(speak, model, alone := Open(), named, step)
                assert model.commits_well(alone)
        if step.what in ("commit", "rollback"):
            txns[step.session] = None
        assert _committed(client, table) == model.rows, step
    return played


def _fail(speak: Speak, named: str, fails: str) -> None:
    with pytest.raises(Exception, match=r".") as failure:
        speak(fails)
    assert not isinstance(failure.value, AssertionError)
    for refused in (f"SELECT * FROM {named}", "COMMIT"):
        with pytest.raises(IllegalState, match="can only be aborted"):
            speak(refused)


def _said(speak: Speak, model: Model, txn: Open, named: str, step: Step) -> int:
    """Returns how many changes were taken back."""
    match step.what:
        case "select":
            assert dict(speak(f"SELECT k, v FROM {named}")) == model.see(txn), step  # type: ignore[arg-type]
        case "update":
            speak(f"UPDATE {named} SET v = {step.value} WHERE k = {step.key}")
            model.change(txn, step.key, step.value)
        case "delete":
            speak(f"DELETE FROM {named} WHERE k = {step.key}")
            model.change(txn, step.key, None)
        case "insert":
            speak(f"INSERT INTO {named} VALUES ({step.key}, {step.value})")
            model.insert(txn, step.key, step.value)
        case "savepoint":
            speak(f"SAVEPOINT {step.name}")
            txn.savepoints.append((step.name, len(txn.done)))
        case "rollback to" | "release":
            speak(f"{step.what} {step.name}")
            at = max(at for at, (name, _) in enumerate(txn.savepoints) if name == step.name)
            if step.what == "release":
                del txn.savepoints[at:]
                return 0
            del txn.savepoints[at + 1 :]
            taken = txn.done[txn.savepoints[at][1] :]
            del txn.done[txn.savepoints[at][1] :]
            return len(taken)
    return 0


def _committed(client: Client, table: str) -> Rows:
    return {row["k"]: row["v"] for row in client.snapshot().to_arrow(table).to_pylist()}
