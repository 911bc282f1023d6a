"""Faults in what an entry does for tables in its log, planted for the search to find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tests.exhaustive import invariants as rules
from tests.exhaustive.clients import APPEND, OVERWRITE, Config
from tests.exhaustive.faults import Patch, Planted
from tests.exhaustive.violation import OWN_CHECKS, TOTAL
from txnparticipant.leader.machine import ShardMachine
from txnparticipant.shard import commands as shard_cmd
from txnparticipant.shard.changes import ShardApplied
from txnstatus.status import commands as cmd
from txnstatus.status.commit import together
from txnstatus.status.commit.together import Together
from txnstatus.status.records import Step, TxnRecord
from txnstatus.status.table import TxnStatusTable
from txnstatus.status.transitions import TRANSITIONS, Op
from txnstatus.types import NO_TIMESTAMP, Participant, ParticipantId, ParticipantState, Timestamp, TxnId, TxnState

BOTH = {0: APPEND, 1: APPEND}
OVER = {0: APPEND, 1: OVERWRITE}
HERE = Config("here", (BOTH,), crashes=1, faults=1, in_flight=2, here=(0, 1))
SPANS = Config("spans", (BOTH,), crashes=0, faults=0, in_flight=2, here=(0,))
CARRIED = Config("carried", (BOTH,), crashes=1, faults=0, in_flight=2, here=(0, 1), begins_there=True, last=True)
RIVALS = Config("rivals here", (OVER, OVER), crashes=0, faults=0, in_flight=3, written=True, aborts=False, here=(0, 1))
_SECOND = "1."


def _decided_for_those_elsewhere(patch: Patch) -> None:
    go_on = Together._go_on

    def decided(log: Together, record: TxnRecord, own: Any, command: Any, steps: list[Step]) -> TxnRecord:
        record = go_on(log, record, own, command, steps)
        if not (isinstance(command, cmd.BeginCommit) and own and record.state is TxnState.COMMIT_IN_PROGRESS):
            return record
        at = max([NO_TIMESTAMP, *(step.timestamp for step in steps)])
        record = log._move(cmd.FinalizeCommit(record.txn_id, at, command.now_micros, len(record.participants)))
        steps += [keeper.publish(record.txn_id, each.participant_id, record.commit_ts) for each, keeper in own]
        return record

    patch.setattr(Together, "_go_on", decided)


def _without_discarding(left: Callable[[ShardMachine, TxnId, ParticipantId], bool]) -> Callable[[Patch], None]:
    """Where `left` says so, an abort does nothing on the table."""

    def plant(patch: Patch) -> None:
        discard = ShardMachine.discard

        def kept(machine: ShardMachine, txn_id: TxnId, participant: Participant) -> Step:
            participant_id = participant.participant_id
            if not left(machine, txn_id, participant_id):
                return discard(machine, txn_id, participant)
            return Step(participant_id, shard_cmd.AbortTxn(txn_id, participant_id), ShardApplied())

        patch.setattr(ShardMachine, "discard", kept)

    return plant


def _is_prepared(machine: ShardMachine, txn_id: TxnId, participant_id: ParticipantId) -> bool:
    record = machine.shard.record(participant_id, txn_id)
    return record is not None and record.state is ParticipantState.COMMIT_IN_PROGRESS


def _own_are_counted_twice(patch: Patch) -> None:
    with_own = together._with_own

    def twice(command: cmd.FinalizeCommit, record: TxnRecord, own: Any) -> cmd.FinalizeCommit:
        return replace(counted := with_own(command, record, own), prepared=counted.prepared + len(own))

    patch.setattr(together, "_with_own", twice)


def _own_timestamps_do_not_count(patch: Patch) -> None:
    patch.setattr(together, "_highest", lambda _votes, at_least: at_least)


def _refusals_are_passed_over(patch: Patch) -> None:
    prepare = ShardMachine.prepare
    patch.setattr(ShardMachine, "prepare", lambda *asked: replace(prepare(*asked), refused=None))


def _second_is_not_published(patch: Patch) -> None:
    publish = ShardMachine.publish

    def but_one(machine: ShardMachine, txn_id: TxnId, participant_id: ParticipantId, commit_ts: Timestamp) -> Step:
        if not participant_id.startswith(_SECOND):
            return publish(machine, txn_id, participant_id, commit_ts)
        return Step(participant_id, shard_cmd.FinalizeCommit(txn_id, participant_id, commit_ts), ShardApplied())

    patch.setattr(ShardMachine, "publish", but_one)


def _begins_are_not_known_again(patch: Patch) -> None:
    patch.setattr(TxnStatusTable, "begun_by", lambda *_: None)


PLANTED_TOGETHER = (
    Planted("an entry decides for those elsewhere", _decided_for_those_elsewhere, SPANS, rules.ONE_DECISION, 16),
    Planted("a refusal leaves what has prepared", _without_discarding(_is_prepared), RIVALS, rules.WITH_ITS_RECORD, 6),
    Planted(
        "an abort forgets a table",
        _without_discarding(lambda _machine, _txn_id, each: each.startswith(_SECOND)),
        HERE,
        rules.WITH_ITS_RECORD,
        11,
    ),
    Planted("one table is not published", _second_is_not_published, HERE, rules.WITH_ITS_RECORD, 12),
    Planted("own tables count twice", _own_are_counted_twice, SPANS, rules.LIVENESS, 21),
    Planted("own timestamps do not count", _own_timestamps_do_not_count, HERE, rules.WITH_ITS_RECORD, 12),
    Planted("refusals are passed over", _refusals_are_passed_over, RIVALS, rules.WITH_ITS_RECORD, 6),
    Planted(
        "a first write registers nobody",
        lambda patch: patch.setattr(ShardMachine, "_register", lambda *_: None),
        HERE,
        rules.PREPARED,
        6,
    ),
    Planted(
        "what a commit carries is left out",
        lambda patch: patch.setattr(ShardMachine, "write", lambda *_: None),
        CARRIED,
        rules.ACKNOWLEDGED,
        6,
    ),
    Planted(
        "a commit that comes again begins again",
        lambda patch: patch.setitem(TRANSITIONS, (TxnState.COMMITTED, Op.BEGIN_COMMIT), TxnState.COMMIT_IN_PROGRESS),
        HERE,
        TOTAL,
        13,
    ),
    Planted("a begin that comes again begins again", _begins_are_not_known_again, HERE, OWN_CHECKS, 4),
)
