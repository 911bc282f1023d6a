"""What the service tells of tables and of transactions."""

from __future__ import annotations

from dataclasses import dataclass

from txnstatus.proto import common_pb2 as common
from txnstatus.schema import Schema
from txnstatus.types import AbortCause, Timestamp, TxnId, TxnState
from txnstatus.wire import cause_from_wire


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table: what it is called, what it looks like, where it is."""

    table_id: str
    name: str
    location: str
    schema: Schema
    conflicts: str
    """The name of the strategy."""


@dataclass(frozen=True, slots=True)
class TxnSummary:
    """One transaction as the status table has it."""

    txn_id: TxnId
    state: TxnState
    owner: str
    label: str
    keepalive_millis: int
    begin_micros: int
    last_transition_micros: int
    commit_timestamp: Timestamp
    participants: tuple[str, ...]
    """Names of the tables that take part, and of databases in which it locked something."""
    cause: AbortCause | None


def table_info(wire: common.TableInfo) -> TableInfo:
    return TableInfo(wire.table_id, wire.name, wire.location, Schema.from_wire(wire.schema), wire.conflicts)


def txn_summary(wire: common.TxnInfo) -> TxnSummary:
    return TxnSummary(
        TxnId(wire.txn_id),
        TxnState(wire.state),
        wire.owner,
        wire.label,
        wire.keepalive_millis,
        wire.begin_micros,
        wire.last_transition_micros,
        Timestamp(wire.commit_timestamp),
        tuple(sorted(participant.name for participant in wire.participants)),
        cause_from_wire(wire.cause) if wire.HasField("cause") else None,
    )
