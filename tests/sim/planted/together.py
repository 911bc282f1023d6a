"""Faults in what one entry does for participants in its log, put in on purpose, as in planted.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tests.sim.planted.faults import CORE, Planted, Seams
from txnparticipant.leader.machine import ShardMachine
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.changes import ShardApplied
from txnstatus.status.records import Step
from txnstatus.types import Participant, ParticipantId, Timestamp, TxnId

HERE = "txnparticipant.leader.machine:ShardMachine"


def refusals_are_passed_over() -> Seams:
    prepare = ShardMachine.prepare

    def agreed(self: ShardMachine, *asked: Any) -> Step:
        return replace(prepare(self, *asked), refused=None)

    return [(f"{HERE}.prepare", agreed)]


def what_is_aborted_stays_here() -> Seams:
    def left(_self: ShardMachine, txn_id: TxnId, participant: Participant) -> Step:
        participant_id = participant.participant_id
        return Step(participant_id, cmd.AbortTxn(txn_id, participant_id), ShardApplied())

    return [(f"{HERE}.discard", left)]


def one_shard_does_not_publish() -> Seams:
    publish = ShardMachine.publish

    def but_one(self: ShardMachine, txn_id: TxnId, participant_id: ParticipantId, commit_ts: Timestamp) -> Step:
        if not participant_id.startswith("1."):
            return publish(self, txn_id, participant_id, commit_ts)
        return Step(participant_id, cmd.FinalizeCommit(txn_id, participant_id, commit_ts), ShardApplied(commit_ts))

    return [(f"{HERE}.publish", but_one)]


def first_writes_register_nobody() -> Seams:
    return [("txnparticipant.leader.machine:ShardMachine._register", lambda *_: None)]


def what_commits_carry_is_left_out() -> Seams:
    return [(f"{HERE}.write", lambda *_: None)]


CARRYING_TOGETHER = ("what commits carry is left out",)
"""Faults that show where commits carry writes."""
PLANTED_TOGETHER: Mapping[str, Planted] = {
    "refusals are passed over": Planted(("4", "7", "ended", "everything", CORE), "calm", 20, refusals_are_passed_over),
    "what is aborted stays here": Planted(
        ("ended", "everything", "10", "4", CORE), "calm", 10, what_is_aborted_stays_here
    ),
    "one shard does not publish": Planted(("4", "ended", "everything", CORE), "calm", 10, one_shard_does_not_publish),
    "what commits carry is left out": Planted(("10", "everything"), "calm", 10, what_commits_carry_is_left_out),
    "first writes register nobody": Planted(
        ("4", "8", "ended", "everything", CORE), "calm", 10, first_writes_register_nobody
    ),
}
