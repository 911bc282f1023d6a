"""What two sessions that change rows of one table by SQL come to: snapshot isolation, the first committer wins."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

Rows = dict[int, int]
"""Values by key."""
SESSIONS = 2
KEYS = 6
"""Keys of the rows that there are at first. Further ones are each inserted once."""


@dataclass
class Open:
    """A transaction of a session."""

    seen: Rows | None = None
    """The rows as it sees them; None: it has read nothing yet."""
    began_at: int = 0
    """The number of commits that it sees."""
    changed: set[int] = field(default_factory=set)
    """Keys of rows that were there before it, and that it has changed or deleted."""
    inserted: Rows = field(default_factory=dict)


@dataclass
class Model:
    rows: Rows
    commits: int = 0
    changed_at: dict[int, int] = field(default_factory=dict)
    """The number of the last commit that has changed a row, by its key."""

    def see(self, txn: Open) -> Rows:
        """The rows of a transaction, whose first statement says of which time they are."""
        if txn.seen is None:
            txn.seen, txn.began_at = dict(self.rows), self.commits
        return txn.seen

    def change(self, txn: Open, key: int, value: int | None) -> None:
        """Gives rows with the key this value; None deletes them."""
        seen = self.see(txn)
        if key not in seen:
            return
        if key not in txn.inserted:
            txn.changed.add(key)
        if value is None:
            del seen[key]
            txn.inserted.pop(key, None)
        else:
            seen[key] = value
            if key in txn.inserted:
                txn.inserted[key] = value

    def insert(self, txn: Open, key: int, value: int) -> None:
        self.see(txn)[key] = value
        txn.inserted[key] = value

    def commits_well(self, txn: Open) -> bool:
        """Commits, unless somebody else was first to change one of its rows."""
        if txn.seen is None:
            return True
        if any(self.changed_at.get(key, 0) > txn.began_at for key in txn.changed):
            return False
        self.commits += 1
        for key in txn.changed:
            self.changed_at[key] = self.commits
            if key in txn.seen:
                self.rows[key] = txn.seen[key]
            else:
                self.rows.pop(key, None)
        for key, value in txn.inserted.items():
            self.rows[key] = value
            self.changed_at[key] = self.commits
        return True


@dataclass(frozen=True)
class Step:
    session: int
    what: str
    """"begin", "select", "update", "delete", "insert", "commit" or "rollback"."""
    key: int = 0
    value: int = 0


def steps(seed: int, count: int) -> list[Step]:
    """Statements at random, of which each is in its place. All transactions end."""
    chance, is_open, next_key = random.Random(seed), [False] * SESSIONS, KEYS
    found = list[Step]()
    for number in range(count):
        session = chance.randrange(SESSIONS)
        if not is_open[session]:
            what = "begin"
        else:
            what = chance.choices(("select", "update", "delete", "insert", "commit", "rollback"), (3, 6, 1, 2, 3, 1))[0]
        is_open[session] = what not in ("commit", "rollback")
        key = chance.randrange(next_key)
        if what == "insert":
            key, next_key = next_key, next_key + 1
        found.append(Step(session, what, key, number))
    return [*found, *(Step(each, "commit") for each in range(SESSIONS) if is_open[each])]
