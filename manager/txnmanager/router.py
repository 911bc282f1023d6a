"""Calls that one leader can answer: a manager finds it by what the request says, and hands the request on as it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from txnmanager.keepers import CALL_SECONDS, Keepers
from txnstatus.catalog.catalog import shard_group
from txnstatus.catalog.cluster_map import shard_of_table_id
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import NotFound, TxnError
from txnstatus.names import check_table_name
from txnstatus.rpc.calls import Call, Handler, takes_calls
from txnstatus.rpc.methods import full_name
from txnstatus.rpc.server import Registry
from txnstatus.status.ranges import OfTransaction, StatusRanges


@dataclass(frozen=True, slots=True)
class Ways:
    """How leaders are found."""

    client: TxnSystemClient
    ranges: StatusRanges
    keepers: Keepers


Route = Callable[[Ways, MethodDescriptor], Handler]
"""Makes what hands requests of the method on."""


def route(registry: Registry, ways: Ways) -> None:
    """Has the node answer all of ROUTES."""
    for name, to_leader in ROUTES.items():
        method = descriptor_pool.Default().FindMethodByName(name)
        registry.add_method(method, to_leader(ways, method))


def _by_txn_id(ways: Ways, method: MethodDescriptor) -> Handler:
    ranges = ways.ranges
    response = GetMessageClass(method.output_type)

    @takes_calls
    def pass_on(calls: Sequence[Call]) -> None:
        asked = [OfTransaction(call, call.request, ranges, call.request.txn_id) for call in calls]
        ranges.pass_on(method.name, asked, response)

    return pass_on


def _by_shard(ways: Ways, method: MethodDescriptor) -> Handler:
    client, name, response = ways.client, full_name(method), GetMessageClass(method.output_type)

    @takes_calls
    def pass_on(calls: Sequence[Call]) -> None:
        by_shard: defaultdict[int, list[Call]] = defaultdict(list)
        for call in calls:
            by_shard[call.request.shard].append(call)
        for shard, asked in by_shard.items():
            client.ask_leader(shard_group(shard), name, asked, response, CALL_SECONDS)

    return pass_on


def _by_table_id(ways: Ways, method: MethodDescriptor) -> Handler:
    keepers, name, response = ways.keepers, full_name(method), GetMessageClass(method.output_type)

    @takes_calls
    def pass_on(calls: Sequence[Call]) -> None:
        keepers.ask_by_id(name, _by_what(calls, _checked_id), response)

    return pass_on


def _by_name(name_of: Callable[[Any], str]) -> Route:
    def to_leader(ways: Ways, method: MethodDescriptor) -> Handler:
        keepers, name, response = ways.keepers, full_name(method), GetMessageClass(method.output_type)

        @takes_calls
        def pass_on(calls: Sequence[Call]) -> None:
            keepers.ask(name, _by_what(calls, lambda request: check_table_name(name_of(request))), response)

        return pass_on

    return to_leader


def _by_what(calls: Sequence[Call], what: Callable[[Any], str]) -> list[tuple[str, Call]]:
    """Each call with what its table is asked for by. One that asks by nothing that there can be is told so."""
    found: list[tuple[str, Call]] = []
    for call in calls:
        try:
            found.append((what(call.request), call))
        except TxnError as error:
            call.tell(error)
    return found


def _checked_id(request: Any) -> str:
    """Raises NotFound."""
    table_id: str = request.table_id
    try:
        shard_of_table_id(table_id)
    except ValueError:
        raise NotFound(f"no table with id {table_id!r}") from None
    return table_id


_by_table = _by_name(lambda request: request.table)
_by_its_name = _by_name(lambda request: request.name)

ROUTES: Mapping[str, Route] = {
    "txnstatus.TxnManager.AbortTransaction": _by_txn_id,
    "txnstatus.TxnManager.GetTransactionState": _by_txn_id,
    "txnstatus.Table.GetTable": _by_its_name,
    "txnstatus.Table.AlterTable": _by_table,
    "txnstatus.Table.DropTable": _by_table,
    "txnstatus.Table.OpenWrite": _by_table,
    "txnstatus.Table.AddFiles": _by_table,
    "txnstatus.Table.WriteRows": _by_table,
    "txnstatus.Table.Scan": _by_table,
    "txnstatus.Compactions.RequestCompaction": _by_table,
    "txnstatus.Compactions.RenewCompaction": _by_table_id,
    "txnstatus.Compactions.CompleteCompaction": _by_table_id,
    "txnstatus.Compactions.FailCompaction": _by_table_id,
    "txnstatus.Audit.AuditShard": _by_shard,
    "txnstatus.Audit.AuditTable": _by_table_id,
    "txnstatus.Audit.AuditTransaction": _by_table_id,
    "txnstatus.Audit.AdoptDirectories": _by_table_id,
}
"""Method → by what its leader is found. What concerns several leaders, or is asked in turns, is in `txn_manager`."""
