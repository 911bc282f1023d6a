"""What callers of all status ranges get while ranges come and go."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from google.protobuf.message import Message

from txnstatus.catalog import NodeInfo, initial, status_group
from txnstatus.cluster_map import ClusterMap
from txnstatus.options import Options
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import txn_status_pb2 as status_pb
from txnstatus.status_ranges import StatusRanges
from txnstatus.system_client import TxnSystemClient


def test_a_range_that_is_dropped_while_it_is_listed_is_left_out() -> None:
    founded = initial(
        {"n1": NodeInfo("h:1", ("status", "participant"))},
        participant_shards=1,
        replication=1,
        range_span=10,
        options=Options(),
    )
    groups = {**founded.groups, status_group(1): ("n1",)}
    cluster = ClusterMap(replace(founded, groups=groups, next_range=2))
    without_the_first = {name: members for name, members in groups.items() if name != status_group(0)}

    async def call_leader(group: str, _method: str, _request: Any, _response: Any, _timeout: float) -> Message:
        cluster.members(group)
        cluster.update(replace(cluster.state, groups=without_the_first, version=1))
        return status_pb.ListTransactionsResponse(txns=[common.TxnInfo(txn_id=11)])

    ranges = StatusRanges(cast(TxnSystemClient, SimpleNamespace(cluster=cluster, call_leader=call_leader)))
    listed = asyncio.run(ranges.listed(status_pb.ListTransactionsRequest()))
    assert [txn.txn_id for txn in listed.txns] == [11]
