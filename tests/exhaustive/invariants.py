"""What must hold, written down a second time: nothing here asks the code what it would do.

What each rule says stands in docs/testing.md, "Exhaustive search".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any

from tests.exhaustive.one_log import Command
from tests.exhaustive.shards import FIRST_TXN, Accepted
from tests.exhaustive.violation import OWN_CHECKS, TOTAL, require
from txnparticipant.shard import commands as shard_cmd
from txnparticipant.shard import views
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnparticipant.versions.mvcc import undecided_at, visible
from txnstatus.errors import NotFound
from txnstatus.status import commands as cmd
from txnstatus.status.records import TxnRecord
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import (
    DECIDED,
    DECIDED_ABORT,
    DECIDED_COMMIT,
    NO_TIMESTAMP,
    TERMINAL,
    ParticipantId,
    ParticipantState,
    Timestamp,
    TxnId,
    TxnState,
)

ONE_DECISION = "1 one decision"
ONE_OUTCOME = "2 an id answers one outcome"
ACKNOWLEDGED = "3 what was acknowledged stays"
VISIBILITY = "4 all visible or nothing"
STABLE_READS = "5 a timestamp is read alike for ever"
CONFLICTS = "7 no lost overwrite"
SEALED = "8 nothing written after the prepare"
EXPIRY = "9 only OPEN expires"
PREPARED = "committed only if all prepared"
ONE_TIMESTAMP = "one commit timestamp"
ENDED = "ended means ended everywhere"
WITH_ITS_RECORD = "a table in the log of the record is where the record is"
LIVENESS = "without further faults all end"

ALL = (
    ONE_DECISION,
    ONE_OUTCOME,
    ACKNOWLEDGED,
    VISIBILITY,
    STABLE_READS,
    CONFLICTS,
    SEALED,
    EXPIRY,
    PREPARED,
    ONE_TIMESTAMP,
    ENDED,
    WITH_ITS_RECORD,
    LIVENESS,
    OWN_CHECKS,
    TOTAL,
)

_S = TxnState
_MOVES = {
    (_S.OPEN, _S.COMMIT_IN_PROGRESS),
    (_S.OPEN, _S.COMMITTED),
    (_S.OPEN, _S.ABORT_IN_PROGRESS),
    (_S.OPEN, _S.ABORTED),
    (_S.COMMIT_IN_PROGRESS, _S.FINALIZE_IN_PROGRESS),
    (_S.COMMIT_IN_PROGRESS, _S.ABORT_IN_PROGRESS),
    (_S.FINALIZE_IN_PROGRESS, _S.COMMITTED),
    (_S.ABORT_IN_PROGRESS, _S.ABORTED),
}
_P = ParticipantState
_SHARD_MOVES = {
    (None, _P.OPEN),
    (None, _P.COMMIT_IN_PROGRESS),  # registered, never begun
    (None, _P.ABORTED),
    (_P.OPEN, _P.COMMIT_IN_PROGRESS),
    (_P.OPEN, _P.ABORTED),
    (_P.COMMIT_IN_PROGRESS, _P.COMMITTED),
    (_P.COMMIT_IN_PROGRESS, _P.ABORTED),
}

_WITH_RECORD = {
    _S.OPEN: (None, _P.OPEN),
    _S.COMMIT_IN_PROGRESS: (_P.COMMIT_IN_PROGRESS,),
    _S.FINALIZE_IN_PROGRESS: (_P.COMMITTED,),
    _S.COMMITTED: (_P.COMMITTED,),
    _S.ABORT_IN_PROGRESS: (_P.ABORTED,),
    _S.ABORTED: (_P.ABORTED,),
}
"""What a table in the record's log is between two entries."""


def status_step(before: TxnStatusTable, command: Command, _outcome: Any, after: TxnStatusTable) -> None:
    """What one command may do to the status table."""
    rises = after.last_commit_ts >= before.last_commit_ts
    require(rises, STABLE_READS, f"{command} took the last commit back to {after.last_commit_ts}")
    new = {record.txn_id: record for record in after.records()}
    for old in before.records():
        record = new.get(old.txn_id)
        require(record is not None, ONE_OUTCOME, f"{command} lost transaction {old.txn_id}")
        assert record is not None
        move = old.state, record.state
        story = f"{command} took transaction {old.txn_id} from {old.state.name} to {record.state.name}"
        require(old.state is record.state or move in _MOVES, ONE_DECISION, story)
        if isinstance(command, cmd.Expire):
            require(old.state is record.state or old.state is _S.OPEN, EXPIRY, story)
        if record.commit_ts != old.commit_ts:
            require(record.commit_ts > before.last_commit_ts, STABLE_READS, f"{story}, at {record.commit_ts}")
        if old.state in DECIDED:
            same = old.commit_ts == record.commit_ts and old.cause == record.cause
            require(same, ONE_OUTCOME, f"{command} changed the outcome of transaction {old.txn_id}")
        if old.state is not _S.OPEN:
            same = list(old.participants) == list(record.participants)
            require(same, PREPARED, f"{command} added a participant to transaction {old.txn_id}, {old.state.name}")
        for at in _timestamps(before):
            same = before.commit_ts_at(old.txn_id, at) == after.commit_ts_at(old.txn_id, at)
            require(same, STABLE_READS, f"{command} changed what a reader at {at} is told of {old.txn_id}")


def shard_step(before: TableState, command: shard_cmd.TxnCommand, outcome: Any, after: TableState) -> None:
    """What one command may do to a table."""
    for txn_id, old in before.txns.items():
        require(txn_id in after.txns, ONE_OUTCOME, f"{command} lost transaction {txn_id} on {after.table_id}")
        if old.prepare_ts and after.txns[txn_id].state is not _P.ABORTED:
            same = old.prepare_ts == after.txns[txn_id].prepare_ts
            require(same, ONE_TIMESTAMP, f"{command} prepared transaction {txn_id} a second time")
    old_record, record = before.txns.get(command.txn_id), after.txns.get(command.txn_id)
    old_state = old_record.state if old_record else None
    state = record.state if record else None
    story = f"{command} took {command.txn_id} on {after.table_id} from {_name(old_state)} to {_name(state)}"
    require(old_state is state or (old_state, state) in _SHARD_MOVES, ONE_DECISION, story)
    if isinstance(command, shard_cmd.AddFiles | shard_cmd.OpenWrite) and isinstance(outcome, ShardApplied):
        begins = old_record is None and command.begins
        require(begins or old_state is _P.OPEN, SEALED, f"{command} was accepted in {_name(old_state)}")
    if isinstance(command, shard_cmd.FinalizeCommit) and old_record and state is _P.COMMITTED is not old_state:
        for write in old_record.writes.values():
            for replaced in write.replaces:
                gone = before.file_sets[replaced].replaced_ts
                require(not gone, CONFLICTS, f"{command} removes {replaced}, which another removed at {gone}")


def acknowledged(table: TxnStatusTable, record: TxnRecord) -> bool:
    """On `Decided`, and on the answer to a client: whether what is told now is a commit."""
    txn_id, state = record.txn_id, table.get(record.txn_id).state
    story = f"transaction {txn_id} is said to be decided: {record.state.name}; it is {state.name}"
    committed = record.state in DECIDED_COMMIT
    require(record.state in DECIDED and state in (DECIDED_COMMIT if committed else DECIDED_ABORT), ACKNOWLEDGED, story)
    return committed


def everywhere(
    table: TxnStatusTable,
    shards: Sequence[ParticipantShard],
    accepted: Sequence[Sequence[Accepted]],
    told: Mapping[TxnId, bool],
    here: Set[ParticipantId],
    writes: Mapping[TxnId, Collection[int]],
) -> None:
    """What the status table and the participants may be together.

    `here`: those in the log of the table. `writes`: on which of the participants a transaction has written, by their
    places, if it is committed.
    """
    tables = [next(shard.tables()) for shard in shards]
    for record in table.records():
        txn_id, state = record.txn_id, record.state
        story = f"transaction {txn_id} is {state.name}"
        if txn_id in told:
            kept = state in (DECIDED_COMMIT if told[txn_id] else DECIDED_ABORT)
            require(kept, ACKNOWLEDGED, f"{story}; told: {'committed' if told[txn_id] else 'aborted'}")
        if state in DECIDED_COMMIT:
            missing = [each for each in writes[txn_id] if not any(w.txn_id == txn_id for w in accepted[each])]
            require(not missing, ACKNOWLEDGED, f"{story}, and has no write on {[tables[n].table_id for n in missing]}")
        alone = record.participants.keys() <= here
        require(
            not alone or state is _S.OPEN or state in TERMINAL, WITH_ITS_RECORD, f"{story}, and nobody is elsewhere"
        )
        for participant in tables:
            held = participant.txns.get(txn_id)
            there = held.state if held else None
            here_told = f"{story}, and {_name(there)} on {participant.table_id}"
            registered = participant.table_id in record.participants
            if registered and participant.table_id in here:
                require(there in _WITH_RECORD[state], WITH_ITS_RECORD, here_told)
            if registered and state in DECIDED_COMMIT:
                require(there in (_P.COMMIT_IN_PROGRESS, _P.COMMITTED), PREPARED, here_told)
                assert held is not None
                late = held.prepare_ts <= record.commit_ts
                require(
                    late, ONE_TIMESTAMP, f"{here_told}, prepared at {held.prepare_ts}, commits at {record.commit_ts}"
                )
            if registered and state in TERMINAL:
                ended = _P.COMMITTED if state is _S.COMMITTED else _P.ABORTED
                require(there is ended, ENDED, here_told)
            if there is _P.COMMITTED:
                assert held is not None
                require(state in DECIDED_COMMIT, ONE_DECISION, here_told)
                same = held.commit_ts == record.commit_ts
                require(same, ONE_TIMESTAMP, f"{here_told}, {held.commit_ts} there and {record.commit_ts} in the table")
            if there is _P.ABORTED:
                require(state in DECIDED_ABORT, ONE_DECISION, here_told)
            require(registered or there is None, PREPARED, f"{here_told}, where it never registered")
    for participant in tables:
        _one_removes(participant)
    for shard, of_it in zip(shards, accepted, strict=True):
        _reads(table, shard, of_it)


def _one_removes(table: TableState) -> None:
    prepared = [r for r in table.txns.values() if r.state is _P.COMMIT_IN_PROGRESS]
    removed = [replaced for r in prepared for w in r.writes.values() for replaced in w.replaces]
    require(len(removed) == len(set(removed)), CONFLICTS, f"two are prepared to remove one of {removed}")


def _reads(table: TxnStatusTable, shard: ParticipantShard, accepted: Sequence[Accepted]) -> None:
    """Every timestamp that a snapshot can have, read with the shipped code, against what was accepted."""
    participant = next(shard.tables())
    committed = {r.txn_id: r.commit_ts for r in table.records() if r.state in DECIDED_COMMIT}
    dropped_ts = next((committed[r.txn_id] for r in participant.txns.values() if r.drops and r.txn_id in committed), 0)
    for write in accepted:
        late = dropped_ts and committed.get(write.txn_id, 0) > dropped_ts
        require(not late, VISIBILITY, f"{write.txn_id} committed after the drop at {dropped_ts}: nobody sees it")
    for at in _timestamps(table):
        if at == NO_TIMESTAMP:
            continue
        prepared = views.prepared(participant)
        outcomes = {txn_id: table.commit_ts_at(txn_id, at) for txn_id in undecided_at(prepared, at)}
        is_gone = _is_gone(shard, participant, outcomes, at)
        story = f"a reader of {participant.table_id} at {at} is told that it is gone; dropped at {dropped_ts or None}"
        require(is_gone == (0 < dropped_ts <= at), VISIBILITY, story)
        if is_gone:
            continue
        seen = sorted(m.path for m in visible(participant.file_sets.values(), prepared, outcomes, at))
        there = [write for write in accepted if write.txn_id in committed and committed[write.txn_id] <= at]
        gone = {replaced for write in there for replaced in write.replaces}
        expected = sorted(
            f"manifest-{txn_id}"
            for txn_id in (FIRST_TXN, *(write.txn_id for write in there))
            if not any(replaced.startswith(f"{txn_id}_") for replaced in gone)
        )
        story = f"a reader of {participant.table_id} at {at} sees {seen}; committed: {expected}"
        require(seen == expected, VISIBILITY, story)


def _is_gone(shard: ParticipantShard, table: TableState, outcomes: Mapping[TxnId, Timestamp], at: Timestamp) -> bool:
    """As reads.py has it."""
    try:
        shard.table_at(table.name, at)
    except NotFound:
        return True
    return table.dropping is not None and bool(outcomes.get(table.dropping.txn_id))


def _timestamps(table: TxnStatusTable) -> list[Timestamp]:
    """The timestamps of all decided commits."""
    return sorted({r.commit_ts for r in table.records() if r.state in DECIDED_COMMIT and r.commit_ts})


def _name(state: ParticipantState | None) -> str:
    return state.name if state else "unknown"
