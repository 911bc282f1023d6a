"""What a transaction costs: commands, and durable rounds of which each waits for the one before. Counted, not timed.

Every command is seen on its way into a leader's log and at its release, when it is durable on a majority. A round waits
for another one if its command was submitted after the other's was released. Disks are slow here, the network is fast
and no call is held up, so that what goes side by side does not come one after the other by chance.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import pytest

from tests.sim.actors.client import Client
from tests.sim.campaign import scenario
from tests.sim.planted.everything import APART
from tests.sim.world import seams, world
from txnparticipant.shard import commands as shard_cmd
from txnstatus.catalog.catalog import CATALOG
from txnstatus.proto import common_pb2, table_pb2
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.parts import split
from txnstatus.raft.proposals import Proposal
from txnstatus.status import commands as status_cmd
from txnstatus.types import DECIDED_COMMIT, TxnState

OWNER = "alice"
CODECS: dict[str, Any] = {"status": status_cmd, "shard": shard_cmd}
OF_TRANSACTIONS = (status_cmd.BeginTxns, *get_args(status_cmd.TxnCommand), *get_args(shard_cmd.TxnCommand))
TABLES = ("a.one", "a.two")
REPEATED = 3
DISK_SECONDS = (0.05, 0.05)
IN_THREADS = ("tests.sim.world.cluster:AnyPlace.is_loop", lambda *_: False)
"""Syncs take their time: on the loop they would take none, and what goes side by side might be over one by one."""


@dataclass
class Cost:
    """The cost of what was done since the last `clear`."""

    commands: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    """Durable rounds in the longest chain."""

    def clear(self) -> None:
        self.commands.clear()
        self.rounds = 0

    def seam(self) -> tuple[str, Any]:
        submit = RaftDriver.submit

        def counted(
            driver: RaftDriver, commands: Sequence[bytes], ended: Callable[[Proposal], None], *, linger: bool = False
        ) -> None:
            is_catalog = driver.group.group == CATALOG
            addressed = [] if is_catalog else [(part.partition("-")[0], own) for part, own in map(split, commands)]
            decoded = [(kind, CODECS[kind].decode(own)) for kind, own in addressed if kind in CODECS]
            if not decoded or not isinstance(decoded[0][1], OF_TRANSACTIONS):
                submit(driver, commands, ended, linger=linger)
                return
            self.commands.update(f"{kind} {type(command).__name__}" for kind, command in decoded)
            number = self.rounds + 1

            def released(proposal: Proposal) -> None:
                self.rounds = max(self.rounds, number)
                ended(proposal)

            submit(driver, commands, released, linger=linger)

        return "txnstatus.raft.driver:RaftDriver.submit", counted


@dataclass(frozen=True)
class Spent:
    until_written: int
    """Rounds from the begin until the writes are answered."""
    to_commit: int
    commands: Counter[str]


async def _transaction(
    client: Client, cost: Cost, tables: tuple[str, ...], number: int, *, carried: bool, adds: bool
) -> Spent:
    """`carried`: its begin carries the first writes. `adds`: its commit adds their files."""
    cost.clear()
    write_id = f"write{number:04}"
    request = pb.BeginTransactionRequest(request_id=f"request {number} {tables}", owner=OWNER, count=1)
    if carried:
        request.first_writes.extend(pb.FirstWrite(table=table, write_id=write_id) for table in tables)
    begun = await client._call("txnstatus.TxnManager/BeginTransaction", request, pb.BeginTransactionResponse)
    (txn_id,) = begun.txn_ids
    assert [opened.table.name for opened in begun.first_writes] == list(tables if carried else ())
    for table in () if carried else tables:
        write = table_pb2.OpenWriteRequest(txn_id=txn_id, owner=OWNER, table=table, write_id=write_id)
        await client._call("txnstatus.Table/OpenWrite", write, table_pb2.OpenWriteResponse)
    until_written, cost.rounds = cost.rounds, 0
    asked = pb.CommitTransactionRequest(txn_id=txn_id, owner=OWNER, wait_millis=2000)
    for opened in begun.first_writes if adds else ():
        manifest = table_pb2.ManifestRef(path=f"{opened.directory}/manifest", bytes=1, crc32=1, file_count=1)
        asked.last_writes.add(txn_id=txn_id, owner=OWNER, table=opened.table.name, write_id=write_id, manifest=manifest)
    answer = await client._call("txnstatus.TxnManager/CommitTransaction", asked, pb.CommitTransactionResponse)
    assert TxnState(answer.txn.state) in DECIDED_COMMIT
    to_commit = cost.rounds
    await asyncio.sleep(1.0)  # virtual: the rest happens in the background
    return Spent(until_written, to_commit, cost.commands.copy())


def _spent(tables: tuple[str, ...], *, carried: bool, adds: bool = False, groups: int = APART) -> list[Spent]:
    """`groups`: by default no table is in the log of the status table."""
    cost, spent = Cost(), list[Spent]()
    made = world.World(replace(scenario.make(4, "calm"), clients=0, duplicates=0.0, late=0.0, groups=groups), None)

    async def work(client: Client) -> None:
        schema = common_pb2.TableSchema(columns=[common_pb2.Column(name="id", type="bigint")])
        for table in TABLES:
            request = table_pb2.CreateTableRequest(name=table, schema=schema, request_id=table)
            await client._call("txnstatus.Table/CreateTable", request, table_pb2.CreateTableResponse)
        for number in range(REPEATED):
            spent.append(await _transaction(client, cost, tables, number, carried=carried, adds=adds))

    with seams.no_collection(), seams.replaced([*made.seams(), cost.seam(), IN_THREADS]), seams.quiet():
        for name in scenario.NODES:
            made.cluster.machines[name].slowness.append(DISK_SECONDS)
            made.cluster.start(name)
        done = made.launch_client("one", work)
        made.loop.run(60.0, lambda: bool(done))
        made.loop.close()
    assert done
    return spent


@pytest.mark.parametrize("tables", [TABLES[:1], TABLES])
def test_commands_and_durable_rounds_of_a_transaction(tables: tuple[str, ...]) -> None:
    spent, count = _spent(tables, carried=False), len(tables)
    for each in spent:
        assert each.until_written == 1 + count, "begin; then register beside each write"
        assert each.to_commit == 2, "prepared; decided"
        assert each.commands == {
            "status BeginTxns": 1,
            "status RegisterParticipants": count,
            "status BeginCommit": 1,
            "status FinalizeCommit": 1,
            "status CompleteCommit": 1,
            "shard OpenWrite": count,
            "shard BeginCommit": count,
            "shard FinalizeCommit": count,
        }


@pytest.mark.parametrize("tables", [TABLES[:1], TABLES])
def test_a_begin_that_carries_first_writes_registers_their_tables_in_its_own_round(tables: tuple[str, ...]) -> None:
    count = len(tables)
    for each in _spent(tables, carried=True):
        assert (each.until_written, each.to_commit) == (1, 2), "begun; prepared; decided"
        assert each.commands == {
            "status BeginTxns": 1,
            "status BeginCommit": 1,
            "status FinalizeCommit": 1,
            "status CompleteCommit": 1,
            "shard BeginCommit": count,
            "shard FinalizeCommit": count,
        }


@pytest.mark.parametrize("tables", [TABLES[:1], TABLES])
def test_in_one_log_first_writes_register_themselves_and_a_commit_is_one_round(tables: tuple[str, ...]) -> None:
    count = len(tables)
    for each in _spent(tables, carried=False, groups=1):
        assert (each.until_written, each.to_commit) == (1 + count, 1), "begun; written; committed"
        assert each.commands == {"status BeginTxns": 1, "shard OpenWrite": count, "status BeginCommit": 1}


@pytest.mark.parametrize(("groups", "rounds"), [(1, 1), (APART, 4)])
def test_what_a_commit_carries_costs_nothing_in_one_log(groups: int, rounds: int) -> None:
    """Elsewhere it is added first, with another table's beside it, and nobody prepares before the commit has begun."""
    for each in _spent(TABLES, carried=True, adds=True, groups=groups):
        assert (each.until_written, each.to_commit) == (1, rounds)
        assert each.commands["shard AddFiles"] == (0 if groups == 1 else len(TABLES))


@pytest.mark.parametrize("tables", [TABLES[:1], TABLES])
def test_in_one_log_a_transaction_whose_begin_carries_its_writes_is_two_rounds(tables: tuple[str, ...]) -> None:
    for each in _spent(tables, carried=True, groups=1):
        assert (each.until_written, each.to_commit) == (1, 1)
        assert each.commands == {"status BeginTxns": 1, "status BeginCommit": 1}
