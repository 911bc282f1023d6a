"""Tables that are dropped and made anew under their names: who had a name when, and what a reader of then is shown.

Every table that is made has an id of its own, and lives from its creation to the commit that drops it. Writes only
append, so what a reader at a timestamp must see of a table is what had committed there by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.sim.judges.ledger import NEVER, Ledger, Txn

RUINS = ("ruin.one", "ruin.two")


@dataclass(slots=True)
class Built:
    table_id: str
    name: str
    acked_at: float
    """When the creation was acknowledged for the first time."""


@dataclass(frozen=True, slots=True)
class Added:
    txn_id: int
    table_id: str
    name: str
    manifest: str
    opened_at: float
    """When the write was asked for."""


@dataclass(frozen=True, slots=True)
class Visit:
    """What a reader of a name was shown; without a table there was none."""

    name: str
    timestamp: int
    sent_at: float
    taken_at: float
    """When the snapshot was asked for."""
    table_id: str = ""
    manifests: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Named:
    """A program was told what table has a name now."""

    name: str
    table_id: str
    sent_at: float


@dataclass(frozen=True, slots=True)
class Refusal:
    """A program was told that a name is taken."""

    name: str
    sent_at: float
    told_at: float


class Ruins:
    def __init__(self, now: Callable[[], float], range_span: int) -> None:
        self._now = now
        self._range_span = range_span
        self._made: dict[str, tuple[str, float]] = {}
        """The names of all tables that were made, by their ids, and when."""
        self.refusals: list[Refusal] = []
        self.named: list[Named] = []
        self.built: dict[str, Built] = {}
        self.drops: dict[int, str] = {}
        """The ids of the tables that transactions drop if they commit."""
        self.added: list[Added] = []
        self.visits: list[Visit] = []
        self.taken: dict[int, float] = {}
        """Snapshots, and when each was asked for the first time."""
        self.requests: dict[str, str] = {}
        """The ids of the tables that requests made."""

    def make(self, table_id: str, name: str) -> None:
        """To be called when a table is made, by whoever and for whomever."""
        self._made.setdefault(table_id, (name, self._now()))

    def made(self, request_id: str, table_id: str, name: str, now: float) -> Iterator[str]:
        """A creation was acknowledged. Gives what cannot be."""
        first = self.requests.setdefault(request_id, table_id)
        if first != table_id:
            yield f"{request_id} made {first}, and then {table_id}"
        if any(known == table_id and other != request_id for other, known in self.requests.items()):
            yield f"{table_id} was made twice"
        self.built.setdefault(table_id, Built(table_id, name, now))

    def judge(self, ledger: Ledger, *, retires: bool) -> Iterator[tuple[str, str]]:
        """With every outcome known. `retires`: what was dropped may be gone, and forgotten."""
        droppers = [ledger.txns[txn_id] for txn_id in self.drops]
        dropped = {self.drops[txn.txn_id]: txn for txn in droppers if txn.committed}
        ends = {table_id: txn.commit_ts for table_id, txn in dropped.items()}
        for name in RUINS:
            of_name = [built for built in self.built.values() if built.name == name]
            standing = [built.table_id for built in of_name if built.table_id not in ends]
            if len(standing) > 1:
                yield "drops", f"{name} is {standing} at once"
        for added in self.added:
            txn, drop = ledger.txns[added.txn_id], dropped.get(added.table_id)
            if drop is not None and txn.committed and txn.commit_ts > drop.commit_ts:
                yield "drops", f"{added} committed at {txn.commit_ts}, after the drop at {drop.commit_ts}"
            if drop is not None and drop.told_at < added.opened_at:
                yield "drops", f"{added} came after the drop by {drop.txn_id} was told"
            if txn.committed:
                yield from self._too_old(added, dropped)
        for refusal in self.refusals:
            yield from self._taken(refusal, dropped)
        for named in self.named:
            if (drop := dropped.get(named.table_id)) is not None and drop.told_at < named.sent_at:
                yield "drops", f"{named}: the drop by {drop.txn_id} was told before"
        for visit in self.visits:
            yield from self._judge(visit, ends, ledger, retires)

    def _taken(self, refusal: Refusal, dropped: dict[str, Txn]) -> Iterator[tuple[str, str]]:
        """A name is taken by a table that was made by then, and whose drop nobody had been told of before."""
        for table_id, (name, made_at) in self._made.items():
            drop = dropped.get(table_id)
            if name == refusal.name and made_at < refusal.told_at and (drop is None or drop.told_at > refusal.sent_at):
                return
        yield "drops", f"{refusal}: no table had the name"

    def _too_old(self, added: Added, dropped: dict[str, Txn]) -> Iterator[tuple[str, str]]:
        """Whoever began before the table of the name was dropped may have meant that one. Ids of one range tell."""
        for table_id, drop in dropped.items():
            before = self.built.get(table_id)
            is_before = before is not None and before.name == added.name and _number(table_id) < _number(added.table_id)
            is_of_one_range = added.txn_id // self._range_span == drop.txn_id // self._range_span
            if is_before and is_of_one_range and added.txn_id < drop.txn_id:
                yield "drops", f"{added} is older than the drop of {table_id} by {drop.txn_id}"

    def _judge(self, visit: Visit, ends: dict[str, int], ledger: Ledger, retires: bool) -> Iterator[tuple[str, str]]:
        if not visit.table_id:
            there = [
                built.table_id
                for built in self.built.values()
                if built.name == visit.name
                and built.acked_at < visit.taken_at
                and ends.get(built.table_id, NEVER) > visit.timestamp
            ]
            if there and not (retires and there[0] in ends):
                yield "drops", f"{visit}: there was {there}"
            return
        if ends.get(visit.table_id, NEVER) <= visit.timestamp:
            yield "drops", f"{visit}: {visit.table_id} was dropped at {ends[visit.table_id]}"
        expected = self._seen(visit.table_id, visit.timestamp, ledger)
        if visit.manifests != expected:
            yield "drops", f"{visit}: expected {sorted(expected)}"

    def _seen(self, table_id: str, timestamp: int, ledger: Ledger) -> frozenset[str]:
        def committed(added: Sequence[Added]) -> Iterator[str]:
            for each in added:
                txn = ledger.txns[each.txn_id]
                if txn.committed and txn.commit_ts <= timestamp:
                    yield each.manifest

        return frozenset(committed([each for each in self.added if each.table_id == table_id]))


def _number(table_id: str) -> int:
    return int(table_id.partition(".")[2])
