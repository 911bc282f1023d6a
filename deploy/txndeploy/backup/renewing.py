"""What a cut becomes in a new cluster, chunk by chunk. Decides, performs nothing.

The catalog names the new nodes, and the new cluster's id. What had not been decided at the cut is open, and expires:
its programs are of the old cluster. It must not go on to commit: the old cluster may have aborted it since, and removed
its files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from msgspec.structs import replace as replace_fields

from txnstatus.catalog.catalog import CATALOG, CatalogState, from_wire, range_number, to_wire
from txnstatus.catalog.founding import placed
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.errors import InvalidArgument
from txnstatus.proto import catalog_pb2
from txnstatus.raft.parts import address, split
from txnstatus.status import chunks as status_chunks
from txnstatus.status.records import TxnRecord
from txnstatus.types import TxnId, TxnState

KEEPALIVE_MILLIS = 1_000
NONE: Mapping[str, TxnId] = {}


def catalog(state: CatalogState, nodes: Mapping[str, NodeInfo], *, replication: int, cluster_id: str) -> CatalogState:
    """The catalog of the new cluster. Raises InvalidArgument where it would have groups without members."""
    renewed = replace(
        state,
        nodes=nodes,
        groups={},
        replication=replication,
        cluster_id=cluster_id,
        replacement=None,
        moves=(),
        version=state.version + 1,
    )
    status, participants = renewed.with_role("status"), renewed.with_role("participant")
    if not status or not participants:
        raise InvalidArgument("the new nodes have to have the roles status and participant, at least one each")
    if (state.with_role("status") == state.with_role("participant")) != (status == participants):
        raise InvalidArgument(
            "nodes of both roles, or nodes of one role each, were in the cluster, and are to be again"
        )
    groups, number = {}, 0
    for group in state.groups:
        if group in state.shards_of:
            groups[group] = placed(participants, number, replication)
            number += 1
        else:
            groups[group] = placed(status, 0, replication)
    return replace(renewed, groups=groups)


def chunks(
    group: str, cut: Iterable[bytes], state: CatalogState, next_ids: Mapping[str, TxnId] = NONE
) -> Iterator[bytes]:
    """The chunks of a group's state in the new cluster, of those at the cut. `state`: the new cluster's catalog.
    `next_ids`: ranges → the ids with which they go on, where those are others than at the cut."""
    if group == CATALOG:
        return iter([to_wire(state).SerializeToString(deterministic=True)])
    return (_renewed(chunk, next_ids) for chunk in cut)


def catalog_of(cut: Iterable[bytes]) -> CatalogState:
    """The catalog at the cut. Raises ValueError."""
    return from_wire(catalog_pb2.CatalogState.FromString(b"".join(cut)))


def _renewed(chunk: bytes, next_ids: Mapping[str, TxnId]) -> bytes:
    part, rest = split(chunk)
    if not part or range_number(part) is None:
        return chunk
    match status_chunks.decode(rest):
        case status_chunks.Unfinished(records):
            settled = status_chunks.Unfinished(tuple(map(_settled, records)))
            return address(part) + status_chunks.encode(settled)
        case status_chunks.Header() as header if part in next_ids:
            later = replace_fields(header, next_txn_id=next_ids[part], full=next_ids[part] == header.end_txn_id)
            return address(part) + status_chunks.encode(later)
        case _:
            return chunk


def _settled(record: TxnRecord) -> TxnRecord:
    """An open one of which nobody is heard any more."""
    if record.state in (TxnState.OPEN, TxnState.COMMIT_IN_PROGRESS):
        return replace_fields(record, state=TxnState.OPEN, keepalive_millis=KEEPALIVE_MILLIS)
    return record
