"""What the service tells of tables and of transactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from txnclient.showing import listed
from txnstatus.errors import AlreadyExists
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.schema import Column, Schema
from txnstatus.types import AbortCause, Timestamp, TxnId, TxnState
from txnstatus.wire import cause_from_wire

Placed = (
    table_pb.CreateTableResponse
    | table_pb.GetTableResponse
    | table_pb.AlterTableResponse
    | table_pb.RenameTableResponse
)


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table: what it is called, what it looks like, where it is."""

    table_id: str
    name: str
    location: str
    schema: Schema
    conflicts: str
    """The name of the strategy."""
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What the table has for itself where others go by the cluster's options: see `Client.alter_table`."""
    placement: str = ""
    """The group that it is in; empty in listings, which do not say."""
    shard: int | None = None
    """The shard that has it now; None in listings, and where a node of an older version answers."""

    def _repr_html_(self) -> str:
        """The table as a notebook shows it."""
        keys = set(self.schema.primary_key)
        rows = [
            (
                each.name,
                each.type,
                each.nullable,
                each.name in keys,
                each.name in self.schema.partition_by,
                "" if each.default is None else each.default,
                each.comment,
            )
            for each in self.schema.columns
        ]
        return listed(self.name, ("column", "type", "null", "key", "partition", "default", "comment"), rows)

    def require_same(self, schema: Schema, conflicts: str, location: str | None) -> None:
        """Raises AlreadyExists, saying in what it differs from what somebody else would have made; comments aside, and
        the group that it is in: an operator may have moved it."""
        ours, theirs = (tuple(map(_without_comment, each.columns)) for each in (self.schema, schema))
        for what, there, wanted in (
            *((f"column {number + 1}", *pair) for number, pair in enumerate(zip_longest(ours, theirs))),
            ("partition_by", self.schema.partition_by, schema.partition_by),
            ("primary_key", self.schema.primary_key, schema.primary_key),
            ("conflicts", self.conflicts, conflicts),
            ("location", self.location.rstrip("/"), (location or self.location).rstrip("/")),
        ):
            if there != wanted:
                said = ["nothing" if each is None else str(each) for each in (there, wanted)]
                raise AlreadyExists(f"table {self.name} is there already, and its {what} is {said[0]}, not {said[1]}")


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
    undoes: TxnId | None = None
    """An undo's: the transaction that it takes back."""


def _without_comment(column: Column) -> str:
    default = "" if column.default is None else f" DEFAULT {column.default!r}"
    return f"{column.name!r} {column.type}{'' if column.nullable else ' NOT NULL'}{default}"


def table_info(wire: common.TableInfo) -> TableInfo:
    properties, schema = {each.name: each.value for each in wire.properties}, Schema.from_wire(wire.schema)
    return TableInfo(wire.table_id, wire.name, wire.location, schema, wire.conflicts, properties)


def placed_info(answer: Placed) -> TableInfo:
    """A table of an answer that says where it is, too."""
    shard = answer.shard if answer.HasField("shard") else None
    return replace(table_info(answer.table), placement=answer.placement, shard=shard)


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
        TxnId(wire.undoes) if wire.undoes else None,
    )
