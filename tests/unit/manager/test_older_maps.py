"""Managers, and leaders of shards, that have not heard yet of a group that was added a moment ago."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from txnmanager.keepers import Keepers
from txnmanager.savepoints import Savepoints
from txnmanager.txn_manager import Tables
from txnmanager.txn_savepoints import TxnSavepoints
from txnparticipant.shard.placing import Placed
from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.changes import Catalog
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.commands import AddGroup
from txnstatus.catalog.founding import initial
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.catalog.options import Options
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import InvalidArgument, NotFound, TxnError
from txnstatus.proto import savepoint_pb2, table_pb2, txn_savepoint_pb2
from txnstatus.rpc.calls import Call
from txnstatus.rpc.errors import to_detail
from txnstatus.status.ranges import StatusRanges

ELSEWHERE = Placed("air.t", 1).elsewhere()


class System:
    """Leaders that answer whatever they are asked. The catalog's knows of group-1, with shard 1; the map does not."""

    def __init__(self) -> None:
        nodes = {"n1": NodeInfo("n1:1", ("status", "participant"))}
        state = initial(nodes, participant_shards=1, replication=1, range_span=9, options=Options())
        catalog = Catalog(replace(state, version=1, cluster_id="c.1"))
        self.cluster = ClusterMap(catalog.state)
        added = catalog.apply(AddGroup("group-1"))
        assert isinstance(added, CatalogState)
        self._new = added
        self.asked: list[str] = []
        self.random = SimpleNamespace()
        self.catalog_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    @property
    def client(self) -> TxnSystemClient:
        return cast(TxnSystemClient, self)

    async def call_leader(self, group: str, method: str, _request: Any, response: Any, _timeout: float) -> Any:
        if method == "txnstatus.Catalog/GetCatalog":
            self.catalog_asked.set()
            await self.may_answer.wait()
            return self._new.to_wire()
        self.cluster.members(group)
        if method == "txnstatus.Table/RenewLeases":
            return _renewed(group)
        self.asked.append(f"{method.rpartition('/')[2]} {group}")
        return response()

    def ask_leader(self, group: str, _method: str, calls: Sequence[Call], _response: Any, _seconds: float) -> None:
        """Leaders of shard 0, which has placed the table in shard 1, and of that one."""
        for call in calls:
            try:
                self.cluster.members(group)
            except NotFound as error:
                call.tell(error)
            else:
                call.tell(ELSEWHERE if group == "shard-0" else table_pb2.GetTableResponse(placement="group-1"))


def _renewed(group: str) -> table_pb2.RenewLeasesResponse:
    elsewhere = table_pb2.RenewLeaseResult(error=to_detail(ELSEWHERE))
    return table_pb2.RenewLeasesResponse(results=[elsewhere if group == "shard-0" else table_pb2.RenewLeaseResult()])


@pytest.mark.parametrize(
    "request_of", [txn_savepoint_pb2.SetSavepointRequest, txn_savepoint_pb2.RollbackToRequest], ids=["set", "back"]
)
async def test_savepoints_of_a_transaction_reach_its_tables(request_of: Callable[..., Any]) -> None:
    system = System()
    system.may_answer.set()
    savepoints = TxnSavepoints(system.client)
    asked: Any = {
        txn_savepoint_pb2.SetSavepointRequest: savepoints.set_savepoint,
        txn_savepoint_pb2.RollbackToRequest: savepoints.rollback_to,
    }[request_of]
    await asked(request_of(table_ids=["0.0", "1.0"]))
    assert sorted(each.rpartition(" ")[2] for each in system.asked) == ["shard-0", "shard-1"]
    with pytest.raises(InvalidArgument, match="is in no shard that there is"):
        await asked(request_of(table_ids=["2.0"]))


async def test_a_savepoint_of_all_tables_is_held_and_released_by_all_shards() -> None:
    system = System()
    system.may_answer.set()
    savepoints = Savepoints(system.client, cast(Keepers, system))
    request = savepoint_pb2.CreateSavepointRequest(name="load", savepoint_id="s" * 8, owner="ada")
    with pytest.raises(TxnError):  # these leaders hold nothing
        await savepoints.create_savepoint(request)
    assert {"HoldSavepoint shard-0", "HoldSavepoint shard-1"} <= set(system.asked)
    other = System()
    other.may_answer.set()
    release = savepoint_pb2.ReleaseSavepointRequest(name="load", savepoint_id="s" * 8)
    await Savepoints(other.client, cast(Keepers, other)).release_savepoint(release)
    assert sorted(other.asked) == ["DropSavepoint shard-0", "DropSavepoint shard-1"]


async def test_whoever_asks_for_a_table_while_the_catalog_is_asked_hears_no_less() -> None:
    """One call has heard which shard keeps it, and asks the catalog where that is; another comes meanwhile."""
    system = System()
    keepers, request = Keepers(system.client), table_pb2.GetTableRequest(name="air.t")

    def ask() -> asyncio.Future[Any]:
        answer = keepers.call("air.t", "txnstatus.Table/GetTable", request, table_pb2.GetTableResponse)
        return asyncio.ensure_future(answer)

    first = ask()
    await system.catalog_asked.wait()
    second = ask()
    await asyncio.sleep(0)
    system.may_answer.set()
    for answer in (first, second):
        assert (await answer).placement == "group-1"


async def test_leases_on_a_table_there_are_renewed() -> None:
    system = System()
    system.may_answer.set()
    tables = Tables(system.client, StatusRanges(system.client), Keepers(system.client))
    request = table_pb2.RenewLeasesRequest(leases=[table_pb2.SnapshotLease(table="air.t", lease_id="one")])
    (result,) = (await tables.renew_leases(request)).results
    assert not result.HasField("error"), result.error.message


async def test_a_table_is_placed_in_the_group() -> None:
    system = System()
    system.may_answer.set()
    ranges = StatusRanges(system.client)
    assert await ranges.placement("air.t", 0, "group-1") == 1
    with pytest.raises(InvalidArgument, match=r"group-7.*there are group-0, group-1"):
        await ranges.placement("air.t", 0, "group-7")
