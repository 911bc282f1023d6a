"""Why a transaction is as it is: what it waits for and since when, and what one can do about it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

from txnclient.client import participants
from txnclient.client.participants import ParticipantSummary
from txnclient.history.timeline import of_record
from txnclient.info import txn_summary
from txnclient.session import Session
from txnclient.showing import facts
from txnclient.write.locks import LockInfo, shown
from txnstatus.errors import Forgotten, NotFound
from txnstatus.foreign import foreign_name
from txnstatus.lake.timeline import Past, TableChange
from txnstatus.proto import common_pb2 as common
from txnstatus.types import TERMINAL, AbortCode, ParticipantState, TxnState, micros_of, time_of

_ENDING = {
    TxnState.COMMIT_IN_PROGRESS.name: (frozenset({ParticipantState.COMMIT_IN_PROGRESS}), "prepared"),
    TxnState.FINALIZE_IN_PROGRESS.name: (frozenset({ParticipantState.COMMITTED}), "published"),
    TxnState.ABORT_IN_PROGRESS.name: (frozenset({ParticipantState.ABORTED}), "undone"),
}
"""State in which a transaction waits for its participants → in which of theirs one has done its part, and its name."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What there is to say of a transaction, as sentences for people."""

    txn_id: int
    state: str
    story: tuple[str, ...]
    """What it is, and what it waits for."""
    advice: tuple[str, ...]
    """What one can do; empty: nothing is to be done."""

    def __str__(self) -> str:
        return "\n".join(
            (f"transaction {self.txn_id} {'. '.join(self.story)}.", *(f"- {each}" for each in self.advice))
        )

    def _repr_html_(self) -> str:
        """The explanation as a notebook shows it."""
        return facts(f"transaction {self.txn_id}", {"why": "; ".join(self.story), "what to do": "; ".join(self.advice)})


@dataclass(frozen=True, slots=True)
class Seen:
    """What was asked of a cluster about a transaction."""

    txn: Past
    keepalive_seconds: float
    participants: Sequence[ParticipantSummary] = ()
    silent: Mapping[str, str] = field(default_factory=dict)
    """Participants, by name, that did not answer → why."""
    locks: Sequence[LockInfo] = ()
    """Locks that it holds or waits for."""
    others: Mapping[int, Past] = field(default_factory=dict)
    """Transactions that are in its way, as far as they are known."""


class Asked(Protocol):
    """Whom one asks: a `Client`."""

    session: Session

    def past(self, txn_id: int) -> Past: ...


def ask(client: Asked, txn_id: int) -> Explanation:
    """What `Client.explain` says. Raises NotFound, Forgotten."""
    try:
        record = client.session.record(txn_id)
    except Forgotten:
        return _of_past(client, client.past(txn_id))
    summary = txn_summary(record)
    if summary.state in TERMINAL:
        return _of_past(client, of_record(summary))
    locks = list[LockInfo]()

    def ask_for_locks(session: Session, each: common.ParticipantInfo) -> None:
        if foreign_name(each.participant_id) is None and summary.state is TxnState.OPEN:
            locks.extend(lock for lock in shown(session, each.name) if lock.txn_id == txn_id)

    found, silent = participants.look_at_all(client.session, record, ask_for_locks)
    told = [each for each in found if each.name not in silent]
    once = list({(lock.object, lock.mode): lock for lock in locks}.values())
    in_the_way = dict.fromkeys(other for lock in once for other in lock.blocked_by)
    seen = Seen(
        of_record(summary), summary.keepalive_millis / 1000, told, silent, once, _others(client, list(in_the_way))
    )
    return explain(seen, datetime.now(UTC))


def _of_past(client: Asked, past: Past) -> Explanation:
    """What there is to say of one that is over."""
    others = {} if past.winner is None else _others(client, [past.winner])
    return explain(Seen(past, 0.0, others=others), datetime.now(UTC))


def _others(client: Asked, txn_ids: Sequence[int]) -> dict[int, Past]:
    """As far as they are known."""
    found = {}
    for txn_id in txn_ids:
        with contextlib.suppress(NotFound, Forgotten):
            found[txn_id] = client.past(txn_id)
    return found


def explain(seen: Seen, now: datetime) -> Explanation:
    """Pure: the same for whoever asks."""
    txn = seen.txn
    if txn.state == TxnState.OPEN.name:
        story, advice = _open(seen, now)
    elif txn.state in _ENDING:
        story, advice = _ending(seen, now)
    elif txn.state == TxnState.ABORTED.name:
        story, advice = _aborted(seen)
    else:
        story, advice = _committed(txn)
    return Explanation(txn.txn_id, txn.state, tuple(story), tuple(advice))


def _open(seen: Seen, now: datetime) -> tuple[list[str], list[str]]:
    txn, waiting = seen.txn, [lock for lock in seen.locks if not lock.acquired]
    story = [
        f"is open: {_whose(txn)} began it {_ago(now - txn.began)} ago",
        f"It is aborted once nothing was heard of it for {seen.keepalive_seconds:g} s, or a little longer",
        _took_part(txn.tables, "Nothing was written in it yet", "It has written to, or locked, "),
        *(_waits(lock, seen.others, now) for lock in waiting),
        *_of_silent(seen.silent),
    ]
    ends = f"`txnctl txn abort {txn.txn_id} --reason ...`"
    in_the_way = dict.fromkeys(other for lock in waiting for other in lock.blocked_by)
    if in_the_way:
        first = next(iter(in_the_way))
        return story, [
            f"wait for {_listed(in_the_way)} to end, or end it: `txnctl txn abort {first} --reason ...`",
            f"or end this one: {ends}",
        ]
    return story, [f"whoever has its handle, or its token, commits or aborts it; {ends} ends it, too"]


def _waits(lock: LockInfo, others: Mapping[int, Past], now: datetime) -> str:
    since = _ago(now - time_of(micros_of(lock.since)))
    behind = _listed(_named(each, others) for each in lock.blocked_by) or "what it was asked for together with"
    return f"It has waited for {since} for a lock ({lock.mode}) on {lock.object}, behind {behind}"


def _ending(seen: Seen, now: datetime) -> tuple[list[str], list[str]]:
    txn, (done, name) = seen.txn, _ENDING[seen.txn.state]
    missing = [each for each in seen.participants if each.state not in done]
    story = [
        f"has been in {txn.state} for {_ago(now - txn.ended)}: {_whose(txn)} began it {_ago(now - txn.began)} ago",
        *(
            f"{each.name} is not {name} yet ({each.state.name if each.state else 'it does not tell'})"
            for each in missing
        ),
        *_of_silent(seen.silent),
    ]
    if not missing and not seen.silent:
        story.append(f"All its participants are {name}: it ends in a moment")
    if txn.state == TxnState.FINALIZE_IN_PROGRESS.name:
        story.append("It is decided: it will be committed, and can neither be aborted nor lost")
    advice = []
    if any(foreign_name(each.participant_id) is not None for each in missing):
        advice.append("`txnctl participant list` says which hosts do not answer: start those")
    if seen.silent or any(foreign_name(each.participant_id) is None for each in missing):
        advice.append("`txnctl status` says which groups have no leader: start their nodes")
    if txn.state == TxnState.COMMIT_IN_PROGRESS.name:
        advice.append(f"`txnctl txn abort {txn.txn_id} --reason ...` still ends it: it is not decided")
    return story, advice


def _aborted(seen: Seen) -> tuple[list[str], list[str]]:
    txn = seen.txn
    code = txn.abort_code.lower()
    story = [
        f"was aborted at {_time(txn.ended)}, by {txn.aborted_by}: {txn.abort_reason}",
        f"{_whose(txn)} had begun it at {_time(txn.began)}",
    ]
    if txn.winner is not None:
        objects = f", in {', '.join(txn.conflicts)}" if txn.conflicts else ""
        story.append(f"Who was first: {_named(txn.winner, seen.others)}{objects}")
    match code:
        case AbortCode.CONFLICT:
            advice = ["begin anew, read what is there now, and do the work once more: nothing of it is left"]
        case AbortCode.EXPIRED:
            advice = [
                "its program died, or could not reach the cluster for so long: its log says which; "
                "a longer keep-alive is an argument of `client.transaction`"
            ]
        case _:
            advice = []
    return story, advice


def _committed(txn: Past) -> tuple[list[str], list[str]]:
    story = [
        f"is committed, since {_time(txn.ended)}: {_whose(txn)} had begun it at {_time(txn.began)}",
        _took_part(txn.tables, "Nothing was written in it", "It has changed "),
    ]
    return story, [f"`txnctl txn undo {txn.txn_id}` takes it back"] if txn.tables else []


def _took_part(tables: Sequence[TableChange], none: str, some: str) -> str:
    return f"{some}{_listed(each.table for each in tables)}" if tables else none


def _of_silent(silent: Mapping[str, str]) -> Iterator[str]:
    yield from (f"{name} does not answer: {why}" for name, why in silent.items())


def _whose(txn: Past) -> str:
    return f"{txn.owner} ({txn.label})" if txn.label else txn.owner


def _named(txn_id: int, others: Mapping[int, Past]) -> str:
    other = others.get(txn_id)
    return f"transaction {txn_id}" if other is None else f"transaction {txn_id} of {_whose(other)} ({other.state})"


def _listed(names: Iterable[object]) -> str:
    return ", ".join(map(str, names))


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _ago(time: timedelta) -> str:
    """In the largest unit of which there are two."""
    seconds = max(0.0, time.total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
