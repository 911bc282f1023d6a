"""Transactions that do not end, and what is left of those that have."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from txnstatus.catalog.cluster_map import shard_of_table_id
from txnstatus.findings import Finding, Kind
from txnstatus.foreign import foreign_name
from txnstatus.proto import audit_pb2, common_pb2
from txnstatus.types import ParticipantState, TxnState

ENDING = (TxnState.COMMIT_IN_PROGRESS, TxnState.FINALIZE_IN_PROGRESS, TxnState.ABORT_IN_PROGRESS)


@dataclass(frozen=True, slots=True)
class Held:
    """What a participant holds for a transaction that has not ended there."""

    table_id: str
    name: str
    state: str
    locks: Sequence[str]


Unfinished = Mapping[int, Sequence[Held]]
"""Where each unfinished transaction holds something."""


def unfinished(participants: Sequence[audit_pb2.AuditedParticipant]) -> Unfinished:
    found: dict[int, list[Held]] = {}
    for participant in participants:
        for txn in participant.unfinished:
            info = participant.info
            held = Held(info.table_id, info.name, _name(txn.state), tuple(txn.locks))
            found.setdefault(txn.txn_id, []).append(held)
    return found


def _name(state: int) -> str:
    return ParticipantState(state).name if state else "not known"


def stuck(
    txns: Sequence[common_pb2.TxnInfo],
    held: Unfinished,
    unseen_shards: Collection[int],
    silent_hosts: Collection[str],
    now_micros: int,
    patience_seconds: float,
) -> Iterator[Finding]:
    """What has been ending for longer than that. `silent_hosts`: of foreign participants, by name."""
    for txn in txns:
        seconds = (now_micros - txn.last_transition_micros) / 1e6
        if TxnState(txn.state) not in ENDING or seconds < patience_seconds:
            continue
        waits = [
            why
            for participant in txn.participants
            if (why := _waits_for(participant, txn.txn_id, held, unseen_shards, silent_hosts))
        ]
        story = f"{TxnState(txn.state).name} for {seconds:.0f} s; " + (
            f"waits for {', '.join(waits)}" if waits else "all its participants have done their part"
        )
        yield Finding(Kind.STUCK_TRANSACTION, f"transaction {txn.txn_id}", "", story)


def _waits_for(
    participant: common_pb2.ParticipantInfo,
    txn_id: int,
    held: Unfinished,
    unseen_shards: Collection[int],
    silent_hosts: Collection[str],
) -> str:
    foreign = foreign_name(participant.participant_id)
    if foreign is not None:
        return f"{participant.name}, whose host does not answer" if foreign in silent_hosts else ""
    for each in held.get(txn_id, ()):
        if each.table_id == participant.participant_id:
            return f"{participant.name}, where it is {each.state}"
    shard = shard_of_table_id(participant.participant_id)  # or one that was split off it
    return f"{participant.name}, whose shard-{shard} does not answer" if shard in unseen_shards else ""


def any_open(held: Unfinished) -> bool:
    return any(each.state == ParticipantState.OPEN.name for found in held.values() for each in found)


def dead(txn_id: int, said: str, held: Sequence[Held]) -> Iterator[Finding]:
    """`said`: what the status table says of a transaction that it does not have among the unfinished."""
    for each in held:
        locks = f", and holds locks on {', '.join(each.locks)}" if each.locks else ""
        story = f"{each.state} here{locks}; the status table: {said}"
        yield Finding(Kind.DEAD_TRANSACTION, each.name, f"transaction {txn_id}", story)
