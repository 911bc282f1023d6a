"""What `txnctl` and the demo show, as terminal tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from rich.table import Table

from txnclient import Client, LockInfo, TxnError, TxnState, TxnSummary, connect
from txnclient.calls.channel import ManagerChannel
from txnclient.info import TableInfo
from txndeploy.local.cluster import LocalCluster
from txnstatus.catalog.catalog import CatalogState, from_wire
from txnstatus.foreign import foreign_id
from txnstatus.proto import admin_pb2, participant_pb2
from txnstatus.types import LOGICAL_BITS, TERMINAL, Timestamp, micros_of

_COLOURS = {
    TxnState.OPEN: "cyan",
    TxnState.COMMITTED: "green",
    TxnState.ABORTED: "red",
    TxnState.ABORT_IN_PROGRESS: "red",
}


def moment(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _short(micros: int) -> str:
    """The time of day for today's moments, the whole for others."""
    day, _, time = moment(micros).partition(".")[0].partition(" ")
    return time if day == datetime.now(UTC).strftime("%Y-%m-%d") else f"{day} {time}"


def hybrid_time(ts: Timestamp) -> str:
    """A hybrid timestamp for people: its wall time, and the logical part where there is one."""
    if not ts:
        return "-"
    logical = ts & ((1 << LOGICAL_BITS) - 1)
    return moment(micros_of(ts)) + (f" +{logical}" if logical else "")


def transactions(txns: Sequence[TxnSummary]) -> Table:
    table = Table(title="transactions (UTC)", title_justify="left")
    for heading in ("id", "state", "owner", "label", "begin", "commit timestamp", "participants", "abort reason"):
        fixed = heading in ("id", "state", "begin")
        justify: Literal["left", "right"] = "right" if heading == "id" else "left"
        table.add_column(heading, justify=justify, no_wrap=fixed, overflow="fold")
    for txn in txns:
        reason = f"{txn.cause.message} (by {txn.cause.by})" if txn.cause else ""
        table.add_row(
            str(txn.txn_id),
            _state(txn.state),
            txn.owner,
            txn.label,
            _short(txn.begin_micros),
            _short(micros_of(txn.commit_timestamp)) if txn.commit_timestamp else "-",
            "\n".join(txn.participants),
            reason,
        )
    return table


def transaction(txn: TxnSummary) -> Table:
    table = Table(title=f"transaction {txn.txn_id}", title_justify="left", show_header=False)
    table.add_row("state", _state(txn.state))
    table.add_row("owner", txn.owner)
    table.add_row("label", txn.label or "-")
    table.add_row("begin (UTC)", moment(txn.begin_micros))
    table.add_row("last transition (UTC)", moment(txn.last_transition_micros))
    table.add_row("keep-alive interval", f"{txn.keepalive_millis} ms")
    table.add_row("commit timestamp", f"{hybrid_time(txn.commit_timestamp)}  ({txn.commit_timestamp})")
    table.add_row("participants", "\n".join(txn.participants) or "-")
    if txn.cause:
        table.add_row("aborted by", txn.cause.by)
        table.add_row("abort reason", f"{txn.cause.message} ({txn.cause.code})")
    return table


def locks(found: Sequence[LockInfo], *, extended: bool) -> Table:
    table = Table(title="locks (UTC)", title_justify="left")
    for heading in ("object", "mode", "state", "transaction", "since", "blocked by"):
        table.add_column(heading, overflow="fold")
    for heading in ("txn state", "label", "owner") if extended else ():
        table.add_column(heading, overflow="fold")
    for lock in found:
        more = (lock.txn_state.name if lock.txn_state else "-", lock.txn_label, lock.owner) if extended else ()
        table.add_row(
            lock.object,
            lock.mode,
            "[green]acquired[/green]" if lock.acquired else "[yellow]waiting[/yellow]",
            str(lock.txn_id),
            _short(micros_of(lock.since)),
            ", ".join(map(str, lock.blocked_by)),
            *more,
        )
    return table


def data_tables(client: Client) -> Table:
    table = Table(title="tables", title_justify="left")
    for heading in ("name", "rows", "files", "partitioned by", "location"):
        table.add_column(heading, justify="right" if heading in ("rows", "files") else "left")
    snapshot = client.snapshot()
    for info in client.tables():
        found = snapshot.files(info.name)
        table.add_row(
            info.name,
            f"{found.rows:,}" + (" and row changes" if found.changes else ""),
            str(len(found.files)),
            ", ".join(info.schema.partition_by) or "-",
            info.location,
        )
    return table


def columns(info: TableInfo) -> Table:
    table = Table(title=f"{info.name} ({info.location})", title_justify="left")
    for heading in ("column", "type", "nullable", "role"):
        table.add_column(heading)
    for column in info.schema.columns:
        roles = [
            role
            for role, chosen in (("partition", info.schema.partition_by), ("key", info.schema.primary_key))
            if column.name in chosen
        ]
        table.add_row(column.name, column.type, "yes" if column.nullable else "no", ", ".join(roles))
    return table


def nodes(cluster: LocalCluster) -> Table:
    table = Table(title=f"cluster in {cluster.directory}", title_justify="left")
    for heading in ("node", "address", "gRPC", "leads", "log"):
        table.add_column(heading)
    for name, config in cluster.configs.items():
        status = cluster.status(name)
        leads = [group.group for group in status.groups if group.leader] if status else ["(no answer)"]
        address, led = config.nodes[name].address, ", ".join(leads) or "-"
        table.add_row(name, address, config.grpc_address or "-", led, str(cluster.log_path(name)))
    return table


def groups(addresses: str, timeout: float) -> Table:
    """Raises Unavailable when no node answers at all."""
    table = Table(title="groups", title_justify="left")
    for heading in ("node", "group", "role", "term", "committed", "applied"):
        table.add_column(heading)
    with connect(addresses, timeout=timeout) as client:
        answer = client.call("txnstatus.Admin/GetCluster", admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse)
    for node, info in sorted(from_wire(answer.catalog).nodes.items()):
        channel = ManagerChannel([info.address])
        try:
            status = channel.call(
                "txnstatus.Admin/GetNode", admin_pb2.GetNodeRequest(), admin_pb2.GetNodeResponse, timeout=1.0
            )
        except TxnError:
            table.add_row(node, "-", "[red]no answer[/red]", "", "", "")
            continue
        finally:
            channel.close()
        for group in status.groups:
            role = "[green]leader[/green]" if group.leader else "follower"
            table.add_row(node, group.group, role, str(group.term), str(group.commit_index), str(group.applied_index))
    return table


def foreign(addresses: str, timeout: float) -> Table:
    """Raises Unavailable when no node answers."""
    table = Table(title="foreign participants", title_justify="left")
    for heading in ("name", "system", "address", "host", "unfinished transactions"):
        table.add_column(heading, overflow="fold")
    with connect(addresses, timeout=timeout) as client:
        answer = client.call("txnstatus.Admin/GetCluster", admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse)
        unfinished = client.transactions(set(TxnState) - TERMINAL)
    catalog = from_wire(answer.catalog)
    for name, address in sorted(catalog.foreign.items()):
        waiting = [str(txn.txn_id) for txn in unfinished if foreign_id(name) in txn.participants]
        host = _host(address) if address else "removed"
        table.add_row(name, catalog.identities.get(name, "-"), address or "-", host, ", ".join(waiting))
    return table


def _host(address: str) -> str:
    return "[green]answers[/green]" if host_answers(address) else "[red]no answer[/red]"


def host_answers(address: str) -> bool:
    """Whether the host of a foreign participant does."""
    channel = ManagerChannel([address])
    try:
        request = participant_pb2.ParticipateRequest()
        channel.call("txnstatus.Participant/Participate", request, participant_pb2.ParticipateResponse, timeout=1.0)
    except TxnError:
        return False
    finally:
        channel.close()
    return True


def options(state: CatalogState) -> Table:
    table = Table(title="options", title_justify="left")
    for heading in ("option", "value", "meaning"):
        table.add_column(heading)
    for name, value, meaning in state.options.items():
        table.add_row(name, str(value), meaning)
    return table


def _state(state: TxnState) -> str:
    colour = _COLOURS.get(state, "yellow")
    return f"[{colour}]{state.name}[/{colour}]"
