"""Tables that a shard has given to one that was split off it: who asks the wrong one goes on to the right one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from txnmanager.all_shards import AllShards
from txnmanager.keepers import Keepers
from txnmanager.savepoints import Savepoints
from txnmanager.txn_savepoints import TxnSavepoints
from txnparticipant.shard.dividing import Gone
from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.changes import Catalog
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.commands import FinishMigration, SplitShard
from txnstatus.catalog.founding import initial
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.catalog.options import Options
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import InvalidArgument, PlacedElsewhere, TxnError, Unavailable
from txnstatus.proto import compaction_pb2, savepoint_pb2, txn_savepoint_pb2
from txnstatus.proto import participant_pb2 as pb
from txnstatus.proto.table_pb2 import ListTablesRequest, ListTablesResponse
from txnstatus.rpc.calls import Call, asked
from txnstatus.rpc.errors import to_detail
from txnstatus.status.commit.participant_calls import ParticipantCalls
from txnstatus.status.commit.tasks import SendOp
from txnstatus.status.events import ParticipantAnswered
from txnstatus.status.ranges import StatusRanges
from txnstatus.types import NO_TIMESTAMP, HybridClock, ParticipantId, ParticipantOpType, TxnId

STAYS, GONE, FARTHER = "0.0", "0.1", "0.2"
GOES_TO = {("shard-0", GONE): 1, ("shard-0", FARTHER): 1, ("shard-1", FARTHER): 2}
"""What the shards say: the last one was split off the one that was split off."""
NAMES = {"air.stays": STAYS, "air.gone": GONE, "air.farther": FARTHER}


class System:
    """Leaders of shards 0, 1 and 2. The catalog has all of them, and this process's map the first one, at first."""

    def __init__(self, *, knows: bool = False) -> None:
        nodes = {"n1": NodeInfo("n1:1", ("status", "participant"))}
        state = initial(nodes, participant_shards=1, replication=1, range_span=9, options=Options())
        catalog = Catalog(replace(state, version=1, cluster_id="c.1"))
        old = catalog.state
        for shard, new in ((0, 1), (1, 2)):
            split = catalog.apply(SplitShard(shard, new))
            assert isinstance(split, CatalogState)
            assert isinstance(catalog.apply(FinishMigration(shard, split.version)), CatalogState)
        self._new = catalog.state
        self.cluster = ClusterMap(self._new if knows else old)
        self.asked: list[str] = []
        self.random = SimpleNamespace()
        self.held: set[str] = set()

    @property
    def client(self) -> TxnSystemClient:
        return cast(TxnSystemClient, self)

    async def call_leader(self, group: str, method: str, request: Any, response: Any, _timeout: float) -> Any:
        if method == "txnstatus.Catalog/GetCatalog":
            return self._new.to_wire()
        self.cluster.members(group)
        step = method.rpartition("/")[2]
        self.asked.append(f"{step} {group}")
        if step == "Participate":
            return self._participate(group, request)
        if step == "GetTable":
            self._check(group, NAMES[request.name])
        if step == "HoldSavepoint":
            self.held.add(group)
        if step == "ListSavepoints":
            there = [savepoint_pb2.SavepointInfo(savepoint_id="s" * 8)] * (group in self.held)
            return savepoint_pb2.ListSavepointsResponse(savepoints=there)
        if step == "HoldSavepoint":
            return savepoint_pb2.HoldSavepointResponse(savepoint={"savepoint_id": "s" * 8})
        for table_id in getattr(request, "table_ids", ()):
            self._check(group, table_id)
        return response()

    def ask_leader(self, group: str, _method: str, calls: Sequence[Call], response: Any, _seconds: float) -> None:
        for call in calls:
            self.asked.append(group)
            try:
                self._check(group, call.request.table_id)
            except TxnError as error:
                call.tell(error)
            else:
                call.tell(response())

    def _check(self, group: str, table_id: str) -> None:
        if (shard := GOES_TO.get((group, table_id))) is not None:
            raise Gone(table_id, shard, "").elsewhere()

    def _participate(self, group: str, request: pb.ParticipateRequest) -> pb.ParticipateResponse:
        response = pb.ParticipateResponse()
        for op in request.ops:
            try:
                self._check(group, op.table_id)
            except PlacedElsewhere as error:
                response.results.add(error=to_detail(error))
            else:
                response.results.add(timestamp=5)
        return response


async def by_id(system: System, keepers: Keepers, table_id: str) -> None:
    request = compaction_pb2.RenewCompactionRequest(table_id=table_id)
    method, response = "txnstatus.Compactions/RenewCompaction", compaction_pb2.RenewCompactionResponse
    await asked(request, 1.0, lambda calls: keepers.ask_by_id(method, [(table_id, call) for call in calls], response))


async def test_who_asks_by_an_id_goes_on_and_remembers() -> None:
    system = System()
    keepers = Keepers(system.client)
    await by_id(system, keepers, FARTHER)
    assert system.asked == ["shard-0", "shard-1", "shard-2"], "the catalog was asked for those that it did not know"
    await by_id(system, keepers, FARTHER)
    await by_id(system, keepers, STAYS)
    assert system.asked[3:] == ["shard-2", "shard-0"]
    assert [system.cluster.shard_of(each) for each in (STAYS, GONE, FARTHER)] == [0, 0, 2]


async def test_a_shard_that_no_catalog_has_yet_is_to_be_asked_again() -> None:
    system = System()
    system._new = replace(system.cluster.state, version=9)
    with pytest.raises(Unavailable, match="no shard 1 yet"):
        await by_id(system, Keepers(system.client), GONE)


async def test_savepoints_of_a_transaction_are_asked_for_where_each_table_is() -> None:
    system = System(knows=True)
    request = txn_savepoint_pb2.SetSavepointRequest(txn_id=1, table_ids=[STAYS, GONE, FARTHER])
    await TxnSavepoints(system.client).set_savepoint(request)
    assert sorted({each.rpartition(" ")[2] for each in system.asked}) == ["shard-0", "shard-1", "shard-2"]
    system.asked.clear()
    await TxnSavepoints(system.client).set_savepoint(request)
    assert sorted(system.asked) == [f"SetSavepoint shard-{shard}" for shard in (0, 1, 2)]


async def test_a_participant_that_has_gone_is_asked_there_and_nobody_hears_of_the_detour() -> None:
    system, heard, tasks = System(knows=True), list[ParticipantAnswered](), list[asyncio.Task[None]]()
    clock = HybridClock(lambda: 7)
    calls = ParticipantCalls(system.client, clock, heard.extend, lambda work: tasks.append(asyncio.ensure_future(work)))
    for each in (STAYS, GONE, FARTHER):
        calls.send(SendOp(TxnId(1), ParticipantId(each), ParticipantOpType.BEGIN_COMMIT, NO_TIMESTAMP))
    await asyncio.sleep(0)  # all of a turn leave together
    while any(not task.done() for task in tasks):
        await asyncio.wait(tasks, timeout=5)
        await asyncio.sleep(0)
    assert sorted((each.participant_id, each.error) for each in heard) == [(STAYS, None), (GONE, None), (FARTHER, None)]
    assert system.asked == [f"Participate shard-{shard}" for shard in (0, 1, 2)]


async def test_a_savepoint_is_held_by_what_was_split_off_while_it_was_made() -> None:
    """Whoever was split before he was asked has given tables to a shard that had nothing to hold yet."""
    system = System()
    seen = system._new
    system._new = system.cluster.state

    async def split(*arguments: Any) -> Any:
        answer = await call_leader(*arguments)
        if arguments[1].endswith("HoldSavepoint"):
            system._new = seen
        return answer

    call_leader, system.call_leader = system.call_leader, split  # type: ignore[method-assign]
    savepoints = Savepoints(system.client, Keepers(system.client))
    request = savepoint_pb2.CreateSavepointRequest(name="load", savepoint_id="s" * 8, owner="ada")
    await savepoints.create_savepoint(request)
    assert system.held == {"shard-0", "shard-1", "shard-2"}
    await savepoints.release_savepoint(savepoint_pb2.ReleaseSavepointRequest(name="load", savepoint_id="s" * 8))
    dropped = [each.rpartition(" ")[2] for each in system.asked if each.startswith("Drop")]
    assert sorted(dropped) == ["shard-0", "shard-1", "shard-2"]


async def test_what_is_listed_has_what_was_split_off_while_it_was_asked_for() -> None:
    system = System()
    given = {"shard-0": [1], "shard-1": [2], "shard-2": []}

    async def listing(group: str, method: str, request: Any, response: Any, timeout: float) -> Any:
        answer = await call_leader(group, method, request, response, timeout)
        return answer if method.endswith("GetCatalog") else response(given_to=given[group])

    call_leader, system.call_leader = system.call_leader, listing  # type: ignore[method-assign]
    asked_for = ListTablesRequest(), ListTablesResponse
    assert len(await AllShards(system.client).ask("txnstatus.Table/ListTables", *asked_for)) == 3
    assert system.asked == [f"ListTables shard-{shard}" for shard in (0, 1, 2)]


async def test_who_keeps_a_table_is_found_by_any_number_of_steps() -> None:
    system = System(knows=True)
    ranges = StatusRanges(system.client)
    for shard in (1, 2):  # the first of them says itself that it has given it away
        await ranges.check_keeper("air.farther", shard)
    with pytest.raises(InvalidArgument, match="not by shard-3"):
        await ranges.check_keeper("air.farther", 3)
