"""What clients did and were told, and the checks that find a broken promise in it.

Every client notes each call with the moments at which it was made and answered, and what it was told; "unknown" is an
answer. `problems` says what in the whole of it cannot be: the numbers are those of the invariants in docs/testing.md.
"""

from __future__ import annotations

import enum
import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.faults.linear import Model, Step, describe, linearizable, observed
from txnstatus.types import (
    DECIDED_ABORT,
    DECIDED_COMMIT,
    NO_TIMESTAMP,
    TERMINAL,
    AbortCause,
    AbortCode,
    Timestamp,
    TxnId,
    TxnState,
)


class Kind(enum.StrEnum):
    COMMIT = "commit"
    ABORT = "abort"
    STATE = "state"
    KEEP_ALIVE = "keep-alive"


class Answer(enum.StrEnum):
    OK = "ok"
    STATE = "state"
    """The record's state, which COMMIT and STATE give in `state`."""
    ABORTED = "aborted"
    ILLEGAL = "illegal"
    UNKNOWN = "unknown"
    NOT_FOUND = "not found"
    FORGOTTEN = "forgotten"
    """The transaction finished so long ago that nobody remembers how it ended."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call on one transaction. Times are seconds of the clients' common monotonic clock."""

    kind: Kind
    txn_id: TxnId
    invoked: float
    returned: float
    answer: Answer
    state: TxnState | None = None
    commit_ts: Timestamp = NO_TIMESTAMP
    cause: AbortCause | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    request_id: str
    invoked: float
    returned: float
    txn_ids: tuple[TxnId, ...]
    keepalive_seconds: float


@dataclass(frozen=True, slots=True)
class Scan:
    """What one snapshot showed: for each table the transactions that have rows in it, as often as they have."""

    invoked: float
    timestamp: Timestamp
    tables: Mapping[str, tuple[TxnId, ...]]
    repeated: bool = False
    """Whether the timestamp was read before."""


@dataclass
class History:
    """Safe to add to from many threads."""

    begins: list[Begin] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    scans: list[Scan] = field(default_factory=list)
    written: dict[TxnId, tuple[str, ...]] = field(default_factory=dict)
    """The tables to which a transaction wrote one row each, all of them told to be added."""
    attempted: set[TxnId] = field(default_factory=set)
    """Transactions that tried to write anything."""
    unexpected: list[str] = field(default_factory=list)
    """Answers that no fault excuses."""
    acknowledged: dict[TxnId, Call] = field(default_factory=dict)
    """The first answer to each transaction that said it is committed."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, event: Begin | Call | Scan) -> None:
        with self._lock:
            match event:
                case Begin():
                    self.begins.append(event)
                case Call():
                    self.calls.append(event)
                    first = self.acknowledged.get(event.txn_id)
                    if event.state in DECIDED_COMMIT and (first is None or event.returned < first.returned):
                        self.acknowledged[event.txn_id] = event
                case Scan():
                    self.scans.append(event)

    @property
    def ids(self) -> set[TxnId]:
        return {txn_id for begin in self.begins for txn_id in begin.txn_ids}

    def count(self) -> Counter[str]:
        """What the run was made of: calls by kind and answer, for floors and reports."""
        counts = Counter(f"{call.kind} {call.answer}" for call in list(self.calls))
        counts["begun"] = len(self.ids)
        counts["calls"] = len(self.begins) + len(self.calls) + len(self.scans)
        counts["scans"] = len(self.scans)
        counts["committed"] = len(self.acknowledged)
        counts["unknown"] = sum(call.answer is Answer.UNKNOWN for call in list(self.calls))
        return counts


def now() -> float:
    return time.monotonic()


def problems(history: History) -> list[str]:
    """Everything in the history that a service which keeps its promises cannot have said."""
    return [
        *history.unexpected,
        *_reused_ids(history),
        *_changed_answers(history),
        *_not_linearizable(history),
        *_remembered_again(history),
        *_expired_while_alive(history),
        *_commit_order(history),
        *_wrong_scans(history),
    ]


# ---- one transaction


def steps_of(calls: Iterable[Call], model: Model) -> Iterator[Step]:
    for call in calls:
        yield from _STEPS[call.kind](call, model)


def _commit(call: Call, model: Model) -> Iterator[Step]:
    known = call.answer is not Answer.UNKNOWN
    yield model.requested_commit(call.invoked, call.returned, known=known)
    if known:
        yield from _state(call, model)


def _state(call: Call, _model: Model) -> Iterator[Step]:
    if call.answer is Answer.ABORTED:
        yield observed(call.invoked, call.returned, DECIDED_ABORT)
    elif call.answer is Answer.FORGOTTEN:
        yield observed(call.invoked, call.returned, TERMINAL)
    elif call.state is not None:
        yield observed(call.invoked, call.returned, {call.state})
    elif call.answer is not Answer.UNKNOWN:
        yield observed(call.invoked, call.returned, ())


def _abort(call: Call, model: Model) -> Iterator[Step]:
    match call.answer:
        case Answer.OK:
            yield model.aborted(call.invoked, call.returned)
        case Answer.ILLEGAL:
            yield observed(call.invoked, call.returned, DECIDED_COMMIT)
        case Answer.UNKNOWN:
            yield model.maybe_aborted(call.invoked)
        case Answer.FORGOTTEN:
            yield observed(call.invoked, call.returned, TERMINAL)
        case _:
            yield observed(call.invoked, call.returned, ())


def _keep_alive(call: Call, _model: Model) -> Iterator[Step]:
    match call.answer:
        case Answer.OK:
            yield observed(call.invoked, call.returned, {TxnState.OPEN})
        case Answer.ILLEGAL:  # also of an OPEN one whose expiry is on its way
            yield observed(call.invoked, call.returned, frozenset(TxnState) - DECIDED_ABORT)
        case Answer.UNKNOWN:
            return
        case Answer.ABORTED:
            yield observed(call.invoked, call.returned, DECIDED_ABORT)
        case Answer.FORGOTTEN:
            yield observed(call.invoked, call.returned, TERMINAL)
        case _:
            yield observed(call.invoked, call.returned, ())


_STEPS = {Kind.COMMIT: _commit, Kind.ABORT: _abort, Kind.STATE: _state, Kind.KEEP_ALIVE: _keep_alive}


def _not_linearizable(history: History) -> Iterator[str]:
    """Invariants 1 and 3: one path along the state table explains everything that anybody saw."""
    by_txn: defaultdict[TxnId, list[Call]] = defaultdict(list)
    for call in history.calls:
        by_txn[call.txn_id].append(call)
    for txn_id, calls in sorted(by_txn.items()):
        codes = {call.cause.code for call in calls if call.cause is not None}
        why_is_forgotten = not codes and any(call.answer is Answer.FORGOTTEN for call in calls)
        model = Model(
            empty=txn_id not in history.attempted,
            may_expire=AbortCode.EXPIRED in codes or why_is_forgotten,
            may_be_refused=bool(codes & {AbortCode.CONFLICT, AbortCode.REFUSED}) or why_is_forgotten,
        )
        steps = list(steps_of(calls, model))
        if not linearizable(steps, model.moves):
            yield f"1/3: no order explains what was said of transaction {txn_id}:\n{describe(steps)}"


# ---- all transactions


def _reused_ids(history: History) -> Iterator[str]:
    """Invariants 2 and 12: an id answers one begin, and a begin that is repeated answers the same ids."""
    by_request: dict[str, tuple[TxnId, ...]] = {}
    owner: dict[TxnId, str] = {}
    for begin in history.begins:
        first = by_request.setdefault(begin.request_id, begin.txn_ids)
        if first != begin.txn_ids:
            yield f"12: begin {begin.request_id} answered {first}, and then {begin.txn_ids}"
        for txn_id in begin.txn_ids:
            other = owner.setdefault(txn_id, begin.request_id)
            if other != begin.request_id:
                yield f"2: transaction {txn_id} was given to begin {other} and to begin {begin.request_id}"


def _changed_answers(history: History) -> Iterator[str]:
    """Invariant 2: the commit timestamp, and the reason of an abort, are the same whenever one asks."""
    facts: dict[TxnId, tuple[object, object]] = {}
    for call in sorted(history.calls, key=lambda call: call.returned):
        if call.state in DECIDED_COMMIT:
            fact: tuple[object, object] = ("committed at", call.commit_ts)
        elif call.cause is not None:
            fact = ("aborted", call.cause)
        else:
            continue
        first = facts.setdefault(call.txn_id, fact)
        if first != fact:
            yield f"2: transaction {call.txn_id} was {first[0]} {first[1]}, and then {fact[0]} {fact[1]}"


def _remembered_again(history: History) -> Iterator[str]:
    """Invariant 2: what is forgotten stays forgotten."""
    forgotten: dict[TxnId, float] = {}
    for call in history.calls:
        if call.answer is Answer.FORGOTTEN:
            forgotten[call.txn_id] = min(forgotten.get(call.txn_id, math.inf), call.returned)
    for call in history.calls:
        known = call.answer not in (Answer.FORGOTTEN, Answer.UNKNOWN)
        if known and call.invoked > forgotten.get(call.txn_id, math.inf):
            yield f"2: transaction {call.txn_id} was forgotten, and then its {call.kind} was {call.answer}"


def _expired_while_alive(history: History) -> Iterator[str]:
    """Invariant 9: nobody is expired who was promised life within the interval."""
    intervals = {txn_id: begin.keepalive_seconds for begin in history.begins for txn_id in begin.txn_ids}
    promised: dict[TxnId, float] = {}
    for begin in history.begins:
        for txn_id in begin.txn_ids:
            promised[txn_id] = max(promised.get(txn_id, 0.0), begin.invoked)
    expired: dict[TxnId, float] = {}
    for call in history.calls:
        if call.kind is Kind.KEEP_ALIVE and call.answer is Answer.OK:
            promised[call.txn_id] = max(promised.get(call.txn_id, 0.0), call.invoked)
        if call.cause is not None and call.cause.code is AbortCode.EXPIRED:
            expired[call.txn_id] = min(expired.get(call.txn_id, math.inf), call.returned)
    for txn_id, at in expired.items():
        if txn_id in promised and at < promised[txn_id] + intervals[txn_id]:
            yield (
                f"9: transaction {txn_id} was expired {at - promised[txn_id]:.2f} s after it was promised life; "
                f"its interval is {intervals[txn_id]:.2f} s"
            )


def _commit_order(history: History) -> Iterator[str]:
    """What was acknowledged before another transaction began has a lower timestamp, whatever the clocks do."""
    acknowledged = sorted((c for c in history.acknowledged.values() if c.commit_ts), key=lambda call: call.returned)
    begun = {txn_id: begin.invoked for begin in history.begins for txn_id in begin.txn_ids}
    later = sorted((c for c in acknowledged if c.txn_id in begun), key=lambda call: begun[call.txn_id])
    highest, at = (NO_TIMESTAMP, TxnId(-1)), 0
    for call in later:
        while at < len(acknowledged) and acknowledged[at].returned < begun[call.txn_id]:
            highest = max(highest, (acknowledged[at].commit_ts, acknowledged[at].txn_id))
            at += 1
        if highest[0] >= call.commit_ts:
            yield f"6: transaction {call.txn_id} began after {highest[1]} was acknowledged, and committed below it"


def _wrong_scans(history: History) -> Iterator[str]:
    """Invariants 3 to 6 and 12: a snapshot shows what was committed up to it, all of it, once, and again the same."""
    acknowledged = history.acknowledged
    aborted = {call.txn_id for call in history.calls if call.cause is not None}
    by_return = sorted((c for c in acknowledged.values() if c.commit_ts), key=lambda call: call.returned)
    highest, at = (NO_TIMESTAMP, TxnId(-1)), 0
    seen_before: dict[tuple[Timestamp, str], tuple[TxnId, ...]] = {}
    for scan in sorted(history.scans, key=lambda scan: scan.invoked):
        while at < len(by_return) and by_return[at].returned < scan.invoked:
            highest = max(highest, (by_return[at].commit_ts, by_return[at].txn_id))
            at += 1
        if highest[0] > scan.timestamp and not scan.repeated:
            yield f"6: transaction {highest[1]} was acknowledged before snapshot {scan.timestamp}, and is above it"
        for table, txn_ids in scan.tables.items():
            rows = Counter(txn_ids)
            again = seen_before.setdefault((scan.timestamp, table), tuple(sorted(txn_ids)))
            if again != tuple(sorted(txn_ids)):
                yield f"5: {table} at {scan.timestamp} was {_some(again)}, and then {_some(txn_ids)}"
            if twice := [txn_id for txn_id, times in rows.items() if times > 1]:
                yield f"12: {table} at {scan.timestamp} has rows more than once of {_some(twice)}"
            if undead := aborted & rows.keys():
                yield f"4: {table} at {scan.timestamp} shows aborted transactions {_some(undead)}"
            expected = {
                txn_id
                for txn_id, call in acknowledged.items()
                if 0 < call.commit_ts <= scan.timestamp and table in history.written.get(txn_id, ())
            }
            if lost := expected - rows.keys():
                yield f"3/4: {table} at {scan.timestamp} lacks committed transactions {_some(lost)}"
            early = {t for t in rows if t in acknowledged and acknowledged[t].commit_ts > scan.timestamp}
            if early:
                yield f"4: {table} at {scan.timestamp} shows transactions committed later: {_some(early)}"
        yield from _torn(history, scan)


def _torn(history: History, scan: Scan) -> Iterator[str]:
    """Invariant 4: all tables or none, also of a transaction whose outcome nobody was told."""
    shown = {table: set(txn_ids) for table, txn_ids in scan.tables.items()}
    for txn_id in set[TxnId]().union(*shown.values()):
        tables = [table for table in history.written.get(txn_id, ()) if table in shown]
        missing = [table for table in tables if txn_id not in shown[table]]
        if missing:
            yield f"4: at {scan.timestamp} transaction {txn_id} is in some tables, and not in {', '.join(missing)}"


def _some(txn_ids: Iterable[TxnId]) -> str:
    ordered = sorted(txn_ids)
    return ", ".join(map(str, ordered[:5])) + (f" and {len(ordered) - 5} more" if len(ordered) > 5 else "")


# ---- whether a run counts

COMMITS_PER_FAULT = 5
NEEDED = ("abort ok", "keep-alive ok", "state state", "scans")


def shortfalls(counts: Mapping[str, int], faults: int, min_faults: int) -> list[str]:
    """What a run lacks that would let it say something: without load, or without faults, it is void."""
    lacking = [f"no {what}" for what in NEEDED if not counts.get(what)]
    if faults < min_faults:
        lacking.append(f"{faults} faults of {min_faults}")
    if counts.get("committed", 0) < COMMITS_PER_FAULT * (faults + 1):
        lacking.append(f"{counts.get('committed', 0)} commits with {faults} faults")
    return lacking
