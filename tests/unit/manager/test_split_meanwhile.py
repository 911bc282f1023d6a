"""Managers whose answers take so long that a shard is split before the last of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from txnmanager.compactions import Compactions
from txnmanager.keepers import Keepers
from txnmanager.tables import Tables
from txnparticipant.shard.dividing import Gone
from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.changes import Catalog
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.commands import SplitShard
from txnstatus.catalog.founding import initial
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.catalog.options import Options
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import TxnError
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import compaction_pb2, table_pb2
from txnstatus.rpc.calls import Call
from txnstatus.status.ranges import StatusRanges

STAYS, GOES = common.TableInfo(table_id="0.0", name="air.a"), common.TableInfo(table_id="0.1", name="air.b")


class System:
    """One shard, and its leader; once it is split, shard 1 has a half of it, and the map has known of that before."""

    def __init__(self) -> None:
        nodes = {"n1": NodeInfo("n1:1", ("status", "participant"))}
        state = initial(nodes, participant_shards=1, replication=1, range_span=9, options=Options())
        catalog = Catalog(replace(state, version=1, cluster_id="c.1"))
        self.cluster = ClusterMap(catalog.state)
        after = catalog.apply(SplitShard(0, 1))
        assert isinstance(after, CatalogState)
        self.cluster.update(after)
        self.is_split = False
        self.locked: list[str] = []

    def managers(self) -> tuple[Tables, Compactions]:
        client = cast(TxnSystemClient, self)
        keepers = Keepers(client)
        return Tables(client, StatusRanges(client), keepers), Compactions(client, keepers)

    async def call_leader(self, part: str, method: str, request: Any, _response: Any, _timeout: float) -> Any:
        answer = self._answer(part, method.rpartition("/")[2], request)
        if isinstance(answer, TxnError):
            raise answer
        return answer

    def ask_leader(self, part: str, method: str, calls: Sequence[Call], _response: Any, _seconds: float) -> None:
        for call in calls:
            call.tell(self._answer(part, method.rpartition("/")[2], call.request))

    def _answer(self, part: str, method: str, request: Any) -> Any:
        here = {("shard-0", False): (STAYS, GOES), ("shard-0", True): (STAYS,), ("shard-1", True): (GOES,)}
        tables = here.get((part, self.is_split), ())
        match method:
            case "ListTables":
                self.is_split = True
                return table_pb2.ListTablesResponse(tables=tables)
            case "ShowLocks" if not request.table:
                self.is_split = True
                return table_pb2.ShowLocksResponse(locks=[table_pb2.LockInfo(object=each.name) for each in tables])
            case "ListCompactions":
                self.is_split = True
                its = [compaction_pb2.CompactionInfo(table_id=each.table_id, table=each.name) for each in tables]
                return compaction_pb2.ListCompactionsResponse(compactions=its)
        if "." not in getattr(request, "table", "air."):
            return table_pb2.LockResponse(granted=part == "shard-0")
        if GOES not in tables:
            return Gone(GOES.table_id, 1, "").elsewhere()
        if method == "GetTable":
            return table_pb2.GetTableResponse(table=GOES)
        if not self.is_split:  # the lock is waited for
            self.is_split = True
            return table_pb2.LockResponse()
        self.locked.append(part)
        return table_pb2.LockResponse(granted=True)


async def test_each_table_is_listed_once() -> None:
    tables, _ = System().managers()
    listed = (await tables.list_tables(table_pb2.ListTablesRequest())).tables
    assert [each.name for each in listed] == ["air.a", "air.b"]


async def test_each_lock_and_each_compaction_is_listed_once() -> None:
    tables, _ = System().managers()
    locks = (await tables.show_locks(table_pb2.ShowLocksRequest())).locks
    assert [each.object for each in locks] == ["air.a", "air.b"]
    _, compactions = System().managers()
    found = (await compactions.list_compactions(compaction_pb2.ListCompactionsRequest())).compactions
    assert [each.table for each in found] == ["air.a", "air.b"]


async def test_a_lock_that_is_waited_for_is_waited_for_where_the_table_has_gone() -> None:
    system = System()
    tables, _ = system.managers()
    request = table_pb2.LockRequest(txn_id=1, table=GOES.name, mode=table_pb2.LOCK_X, wait_millis=60_000)
    assert (await tables.lock(request)).granted
    assert system.locked == ["shard-1"]
