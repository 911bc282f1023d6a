"""The listings of `txnctl`: what there is in a cluster, row by row. The keys of a row are its keys in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from txnclient import (
    Client,
    CompactionSummary,
    DataDamaged,
    LockInfo,
    NotAuthorized,
    NotFound,
    ParticipantState,
    ParticipantSummary,
    Snapshot,
    TxnError,
    TxnState,
    TxnSummary,
    Unauthenticated,
    connect,
)
from txnclient.calls.channel import ManagerChannel
from txnclient.info import TableInfo
from txnclient.read.table_files import TableFiles
from txndeploy.terminal.moves import DRAINED
from txndeploy.terminal.output import Field, Listing
from txnstatus.catalog.catalog import CatalogState, from_wire
from txnstatus.catalog.options import OF_USERS
from txnstatus.foreign import foreign_id
from txnstatus.proto import admin_pb2, participant_pb2
from txnstatus.types import EPOCH, TERMINAL, Timestamp, micros_of

_COLOURS = {
    TxnState.OPEN.name: "cyan",
    TxnState.COMMITTED.name: "green",
    TxnState.ABORTED.name: "red",
    TxnState.ABORT_IN_PROGRESS.name: "red",
}


def time_of(micros: int) -> datetime | None:
    """The time that a clock showed; None: there is none."""
    return EPOCH + timedelta(microseconds=micros) if micros else None


def time_at(at: Timestamp) -> datetime | None:
    """The clock's part of a hybrid timestamp."""
    return time_of(micros_of(at))


def _state(name: str) -> str:
    return _COLOURS.get(name, "yellow")


TXN = (
    Field("id", "id", whole=True),
    Field("state", "state", _state),
    Field("owner", "owner"),
    Field("label", "label"),
    Field("begin", "begin (UTC)"),
    Field("last_transition", "last transition (UTC)", hidden=True),
    Field("commit", "commit (UTC)", wide=True),
    Field("commit_timestamp", "commit timestamp", hidden=True),
    Field("keepalive_millis", "keep-alive interval (ms)", hidden=True),
    Field("participants", "participants"),
    Field("abort_code", "abort code", hidden=True),
    Field("aborted_by", "aborted by", hidden=True),
    Field("abort_reason", "abort reason", brief_chars=60),
)


def txn_row(txn: TxnSummary) -> Mapping[str, Any]:
    cause = txn.cause
    return {
        "id": txn.txn_id,
        "state": txn.state.name,
        "owner": txn.owner,
        "label": txn.label,
        "begin": time_of(txn.begin_micros),
        "last_transition": time_of(txn.last_transition_micros),
        "commit": time_at(txn.commit_timestamp),
        "commit_timestamp": txn.commit_timestamp or None,
        "participants": list(txn.participants),
        "aborted_by": cause.by if cause else None,
        "abort_reason": cause.message if cause else None,
        "abort_code": str(cause.code) if cause else None,
        "keepalive_millis": txn.keepalive_millis,
    }


def transactions(txns: Sequence[TxnSummary], *, more: bool | None = None) -> Listing:
    return Listing("transactions", TXN, list(map(txn_row, txns)), more=more)


_PARTICIPANT_COLOURS = {
    ParticipantState.OPEN.name: "cyan",
    ParticipantState.COMMITTED.name: "green",
    ParticipantState.ABORTED.name: "red",
}


def participants(found: Sequence[ParticipantSummary]) -> Listing:
    fields = (
        Field("name", "participant"),
        Field("participant_id", "id", whole=True),
        Field("state", "state", lambda name: _PARTICIPANT_COLOURS.get(name, "yellow"), whole=True),
        Field("begin_commit", "begin commit (UTC)"),
        Field("commit", "commit (UTC)"),
        Field("locks", "locks"),
    )
    rows = [
        {
            "name": each.name,
            "participant_id": each.participant_id,
            "state": each.state.name if each.state else None,
            "begin_commit": time_at(each.prepare_timestamp),
            "commit": time_at(each.commit_timestamp),
            "locks": list(each.locks),
        }
        for each in found
    ]
    return Listing("participants", fields, rows)


def aborts(outcomes: Sequence[Mapping[str, Any]]) -> Listing:
    """What became of each transaction that was to be aborted."""
    fields = (
        Field("id", "id", whole=True),
        Field("aborted", "aborted", lambda done: "green" if done else "red"),
        Field("state", "state", _state),
        Field("owner", "owner"),
        Field("label", "label"),
        Field("note", "note"),
    )
    return Listing("aborts", fields, outcomes)


def locks(found: Sequence[LockInfo], *, extended: bool) -> Listing:
    fields = [
        Field("object", "object"),
        Field("mode", "mode", whole=True),
        Field("state", "state", lambda state: "green" if state == "acquired" else "yellow"),
        Field("txn_id", "transaction", whole=True),
        Field("since", "since (UTC)"),
        Field("blocked_by", "blocked by"),
        Field("owner", "owner"),
    ]
    if extended:
        fields += [Field("txn_state", "txn state"), Field("label", "label")]
    rows = [
        {
            "object": lock.object,
            "mode": lock.mode,
            "state": "acquired" if lock.acquired else "waiting",
            "txn_id": lock.txn_id,
            "since": time_at(lock.since),
            "blocked_by": list(lock.blocked_by),
            "owner": lock.owner,
            "txn_state": lock.txn_state.name if lock.txn_state else None,
            "label": lock.txn_label,
        }
        for lock in found
    ]
    return Listing("locks", fields, rows)


_COMPACTION_COLOURS = {"working": "cyan", "succeeded": "green", "failed": "red"}


def compactions(found: Sequence[CompactionSummary]) -> Listing:
    fields = (
        Field("compaction_id", "id", whole=True, wide=True),
        Field("table", "table"),
        Field("partition", "partition"),
        Field("kind", "kind", whole=True),
        Field("state", "state", lambda state: _COMPACTION_COLOURS.get(state, "yellow"), whole=True),
        Field("requested", "requested", wide=True),
        Field("opened", "opened (UTC)"),
        Field("worker", "worker"),
        Field("ended", "ended (UTC)", wide=True),
        Field("as_of", "as of", hidden=True),
        Field("switched", "switched", hidden=True),
        Field("input_file_sets", "inputs", grouped=True),
        Field("input_bytes", "input bytes", grouped=True, wide=True),
        Field("input_rows", "input rows", hidden=True),
        Field("output_rows", "rows", grouped=True),
        Field("output_files", "files", grouped=True),
        Field("reason", "reason", brief_chars=60),
    )
    rows = [
        {
            "compaction_id": each.compaction_id,
            "table": each.table,
            "partition": each.partition or None,
            "kind": each.kind,
            "state": each.state,
            "requested": each.requested,
            "opened": time_at(each.opened),
            "worker": each.worker or None,
            "ended": time_at(each.ended),
            "as_of": each.as_of or None,
            "switched": each.switched or None,
            "input_file_sets": each.input_file_sets,
            "input_bytes": each.input_bytes,
            "input_rows": each.input_rows if each.is_over else None,
            "output_rows": each.output_rows if each.is_over else None,
            "output_files": each.output_files if each.is_over else None,
            "reason": each.reason or None,
        }
        for each in found
    ]
    return Listing("compactions", fields, rows)


def data_tables(client: Client) -> Listing:
    """All tables. One that cannot be read now is there with its name and place alone: it must not hide the others."""
    fields = (
        Field("name", "name"),
        Field("rows", "rows", grouped=True),
        Field("files", "files", grouped=True),
        Field("row_changes", "row changes"),
        Field("partition_by", "partitioned by"),
        Field("primary_key", "primary key"),
        Field("location", "location", wide=True),
    )
    rows = []
    with client.snapshot() as snapshot:
        for info in client.tables():
            found = _readable(snapshot, info.name)
            rows.append(
                {
                    "name": info.name,
                    "rows": found and found.rows,
                    "files": found and len(found.files),
                    "row_changes": found and found.changes is not None,
                    "partition_by": list(info.schema.partition_by),
                    "primary_key": list(info.schema.primary_key),
                    "location": info.location,
                }
            )
    return Listing("tables", fields, rows)


def _readable(snapshot: Snapshot, table: str) -> TableFiles | None:
    """None: it is damaged, which `txnctl doctor` explains, or it was made or dropped meanwhile."""
    try:
        return snapshot.table_files(table)
    except (DataDamaged, NotFound):
        return None


def columns(info: TableInfo) -> Listing:
    fields = (
        Field("name", "column"),
        Field("type", "type"),
        Field("nullable", "nullable"),
        Field("roles", "role"),
        Field("default", "default"),
        Field("comment", "comment"),
    )
    chosen = {"partition": info.schema.partition_by, "key": info.schema.primary_key}
    rows = [
        {
            "name": column.name,
            "type": column.type,
            "nullable": column.nullable,
            "roles": [role for role, names in chosen.items() if column.name in names],
            "default": column.default,
            "comment": column.comment,
        }
        for column in info.schema.columns
    ]
    return Listing("columns", fields, rows, title=f"{info.name} ({info.location})")


def properties(info: TableInfo) -> Listing:
    fields = Field("name", "property", whole=True), Field("value", "value")
    rows = [{"name": name, "value": value} for name, value in sorted(info.properties.items())]
    return Listing("properties", fields, rows)


SILENT, NOT_TOLD, REFUSED = "no answer", "not told", "refused"
"""Roles of nodes: one that is silent, one that tells operators only, one that refuses who asks, or is refused."""
WITHOUT_REPLICA = "no replica"
LEARNER = "learner"
_COLOURS = {"leader": "green", SILENT: "red", REFUSED: "red"}


def catalog(client: Client) -> CatalogState:
    """As the node that is asked knows it. Raises Unavailable when none answers."""
    answer = client.call("txnstatus.Admin/GetCluster", admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse)
    return from_wire(answer.catalog)


def groups(client: Client, state: CatalogState) -> Listing:
    """The replicas of each node, as it tells itself."""
    fields = (
        Field("node", "node", whole=True),
        Field("group", "group", whole=True),
        Field("parts", "parts"),
        Field("role", "role", lambda role: _COLOURS.get(role, ""), whole=True),
        Field("term", "term"),
        Field("committed", "committed"),
        Field("applied", "applied"),
        Field("drain", "drain", lambda _word: "yellow"),
    )
    rows: list[Mapping[str, Any]] = []
    nothing = dict.fromkeys(("group", "parts", "term", "committed", "applied"))
    for node, info in sorted(state.nodes.items()):
        of_node = {"node": node, "drain": DRAINED[info.drain]}
        channel = client.session.channel.to(info.address)
        method, request = "txnstatus.Admin/GetNode", admin_pb2.GetNodeRequest()
        try:
            status = channel.call(method, request, admin_pb2.GetNodeResponse, timeout=1.0)
        except TxnError as error:
            role = {NotAuthorized: NOT_TOLD, Unauthenticated: REFUSED}.get(type(error), SILENT)
            rows.append({**of_node, "role": role, **nothing})
            continue
        finally:
            channel.close()
        if not status.groups:
            rows.append({**of_node, "role": WITHOUT_REPLICA, **nothing})
        rows += [
            {
                **of_node,
                "group": group.group,
                "parts": list(group.parts),
                "role": "leader" if group.leader else "follower" if node in group.members else LEARNER,
                "term": group.term,
                "committed": group.commit_index,
                "applied": group.applied_index,
            }
            for group in status.groups
        ]
    return Listing("groups", fields, rows)


def foreign(addresses: str, timeout: float) -> Listing:
    """Raises Unavailable when no node answers."""
    fields = (
        Field("name", "name"),
        Field("system", "system"),
        Field("address", "address"),
        Field("host", "host", lambda host: {"answers": "green", "no answer": "red"}.get(host, "")),
        Field("unfinished", "unfinished transactions"),
    )
    with connect(addresses, timeout=timeout) as client:
        state = catalog(client)
        unfinished = client.transactions(set(TxnState) - TERMINAL)
    rows = [
        {
            "name": name,
            "system": state.identities.get(name),
            "address": address or None,
            "host": ("answers" if host_answers(client.session.channel, name, address) else "no answer")
            if address
            else "removed",
            "unfinished": [txn.txn_id for txn in unfinished if foreign_id(name) in txn.participants],
        }
        for name, address in sorted(state.foreign.items())
    ]
    return Listing("participants", fields, rows, title="foreign participants")


def host_answers(beside: ManagerChannel, name: str, address: str) -> bool:
    """Whether the host of a foreign participant does. `beside`: a channel to the nodes."""
    channel = beside.to(address, f"host/{name}")
    try:
        request = participant_pb2.ParticipateRequest()
        channel.call("txnstatus.Participant/Participate", request, participant_pb2.ParticipateResponse, timeout=1.0)
    except NotAuthorized:
        return True  # with TLS it answers nothing else to users
    except TxnError:
        return False
    finally:
        channel.close()
    return True


def options(state: CatalogState) -> Listing:
    fields = (Field("name", "option", whole=True), Field("value", "value"), Field("meaning", "meaning"))
    rows = [dict(zip(("name", "value", "meaning"), option, strict=True)) for option in state.options.items()]
    return Listing("options", fields, rows)


def limits(state: CatalogState, user: str) -> Listing:
    """What holds for a user; empty: for all, and for each who has limits of his own."""
    whose = [(user, state.limits.get(user, {}))] if user else [("", {}), *sorted(state.limits.items())]
    rows = [
        {"user": each or "all", "name": name, "value": state.limit(each, name), "own": name in own}
        for each, own in whose
        for name in OF_USERS
        if user or not each or name in own
    ]
    fields = (Field("user", "user"), Field("name", "limit", whole=True), Field("value", "value"), Field("own", "own"))
    return Listing("limits", fields, rows)
