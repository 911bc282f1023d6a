"""What a backup has to have of the tables' files, by the states at its cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.harness.cutting import SPAN, STATE
from txndeploy.backup import data
from txndeploy.backup.cut import Cut
from txndeploy.node.machines import group_machine
from txnparticipant.shard import commands as shard_cmd
from txnparticipant.shard.commands import manifest_from_wire
from txnstatus.lake import manifest
from txnstatus.lake.manifest import DataFile
from txnstatus.raft.parts import Parts, address, opening
from txnstatus.replicated import Rejected
from txnstatus.schema import Column, Schema
from txnstatus.status import commands as cmd
from txnstatus.types import HybridClock, Participant, ParticipantId, Timestamp, TxnId

TABLE, WRITE, AT = ParticipantId("1.0"), "write0001", Timestamp(1 << 30)


def cut_of(directory: Path, *, decided: bool) -> tuple[Cut, set[str]]:
    """A write is prepared on a shard, whose transaction is decided, or is not, by a range in another log; its files."""
    location = directory.as_uri()
    write = f"{location}/delta_0_{WRITE}"
    file = DataFile(f"{write}/x.parquet", 3, 10)
    (directory / f"delta_0_{WRITE}").mkdir()
    ref = manifest.put(write, [file], table_id=TABLE, txn_id=0, write_id=WRITE)
    groups = {f"group-{number}": group_machine(lambda: SPAN, HybridClock(lambda: 0)) for number in range(3)}
    for group, machine in groups.items():
        machine.apply([opening(part) for part in STATE.parts_of(group)])

    def apply(part: str, command: bytes) -> None:
        (outcome,) = groups[STATE.parts[part]].apply([address(part) + command])
        assert not isinstance(outcome, Rejected), outcome.error

    listed = manifest_from_wire(ref)
    schema, txn_id = Schema((Column("id", "bigint"),)), TxnId(0)
    for command in (
        shard_cmd.CreateTable("a.one", schema, location, "creates"),
        shard_cmd.OpenWrite(txn_id, TABLE, "ada", WRITE, begins=True),
        shard_cmd.AddFiles(txn_id, TABLE, "ada", WRITE, listed),
        shard_cmd.BeginCommit(txn_id, TABLE, AT),
    ):
        apply("shard-1", shard_cmd.encode(command))
    apply("status-0", cmd.encode(cmd.BeginTxns("r", 1, "ada", "", 1_000, 1)))
    apply("status-0", cmd.encode(cmd.RegisterParticipants(txn_id, "ada", (Participant(TABLE, "a.one"),))))
    apply("status-0", cmd.encode(cmd.BeginCommit(txn_id, "ada", 1, AT)))
    if decided:
        apply("status-0", cmd.encode(cmd.FinalizeCommit(txn_id, AT, now_micros=2, prepared=1)))
    machines: dict[str, Parts] = groups
    return Cut(STATE, machines), {file.path, ref.path}


@pytest.mark.parametrize("decided", [True, False])
def test_files_of_what_is_decided_are_wanted_before_it_is_published(tmp_path: Path, decided: bool) -> None:
    cut, files = cut_of(tmp_path, decided=decided)
    copies, elsewhere = data.wanted(cut)
    assert ({each.uri for each in copies}, elsewhere) == (files if decided else set(), 0)
