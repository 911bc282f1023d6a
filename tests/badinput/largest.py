"""The largest requests that the limits let through, and larger ones: from right ones, by what repeats in them."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from pyroaring import BitMap

from tests.badinput.world import OWNER, World
from txnstatus.limits import (
    MAX_ADOPTED,
    MAX_BEGIN_COUNT,
    MAX_CLAIMED_KEYS,
    MAX_DELETED_FILES,
    MAX_FIRST_WRITES,
    MAX_FROM_WRITES,
    MAX_KEEP_ALIVE_IDS,
    MAX_KEY_BOUND_BYTES,
    MAX_LAST_WRITES,
    MAX_LEASES_PER_CALL,
    MAX_LISTED,
    MAX_LOCK_PARTITIONS,
    MAX_OPS_PER_CALL,
    MAX_OUTCOMES,
    MAX_PARTITION_VALUES,
    MAX_PLAIN_REQUEST_BYTES,
    MAX_SAVEPOINT_TABLES,
    MAX_STATES,
    MAX_TICKET_TABLES,
    MAX_TXN_SAVEPOINTS,
    MAX_VOID,
)
from txnstatus.proto import common_pb2, participant_pb2, table_pb2, txn_status_pb2
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.schema import MAX_COLUMNS, MAX_RETIRED
from txnstatus.table_properties import KNOWN

Make = Callable[[World, Message, int], Sequence[Any]]
"""Makes so many elements, each another one, that are right beside what the message says already."""


def _partitions(_world: World, _request: Message, count: int) -> Sequence[str]:
    return [f"month={number}" for number in range(count)]


def _keys(_world: World, request: Any, count: int) -> Sequence[bytes]:
    request.claim.ClearField("range")
    request.manifest.row_count = count
    return [f"{number:020}".encode() for number in range(count)]


def _ids(world: World, _request: Message, count: int) -> Sequence[int]:
    return [world.open_txn() for _ in range(count)]


def _writes(world: World, request: Any, count: int) -> Sequence[str]:
    return [world.open_write(request.txn_id).rpartition("_")[2] for _ in range(count)]


def _properties(_world: World, _request: Message, count: int) -> Sequence[Message]:
    return [
        common_pb2.TableProperty(name=name, value=value)
        for name, value in zip(KNOWN[:count], ("true", "10", "10"), strict=False)
    ]


def _changes(_world: World, request: Any, count: int) -> Sequence[Message]:
    request.request_id = uuid.uuid4().hex
    return [table_pb2.ColumnChange(name="id", comment=f"the one of {number}") for number in range(count)]


def _columns(_world: World, _request: Message, count: int) -> Sequence[Message]:
    return [common_pb2.Column(name=f"c{number}", type="struct<a:int,b:map<int,string>>") for number in range(count)]


def _registrations(world: World, request: Any, count: int) -> Sequence[Message]:
    txn_id = request.registrations[0].txn_id
    return [
        txn_status_pb2.Registration(
            txn_id=txn_id,
            owner=OWNER,
            participant=common_pb2.ParticipantInfo(participant_id=f"{number % 2}.d{number}", name=f"d{number}"),
        )
        for number in range(count)
    ]


def _first_writes(world: World, _request: Message, count: int) -> Sequence[Message]:
    return [pb.FirstWrite(table=table.name, write_id=uuid.uuid4().hex) for table in world.some_tables(count)]


def _last_writes(world: World, request: Any, count: int) -> Sequence[Message]:
    txn_id, write_id = request.txn_id, uuid.uuid4().hex
    manifests = {
        table.name: f"{table.location}/delta_{txn_id}_{write_id}/_manifest.json" for table in world.some_tables(count)
    }
    return [
        table_pb2.AddFilesRequest(
            txn_id=txn_id,
            owner=OWNER,
            table=table,
            write_id=write_id,
            manifest=table_pb2.ManifestRef(path=path, bytes=1, file_count=1, row_count=1),
            mode=table_pb2.APPEND,
        )
        for table, path in manifests.items()
    ]


def _participants(world: World, _request: Message, count: int) -> Sequence[Message]:
    return [
        common_pb2.ParticipantInfo(participant_id=table.table_id, name=table.name, first_write=uuid.uuid4().hex)
        for table in world.some_tables(count)
    ]


def _table_ids(world: World, _request: Message, count: int) -> Sequence[str]:
    return [table.table_id for table in world.some_tables(count)]


def _write_ids(_world: World, _request: Message, count: int) -> Sequence[str]:
    return [uuid.uuid4().hex for _ in range(count)]


def _ops(world: World, _request: Message, count: int) -> Sequence[Message]:
    return [
        participant_pb2.ParticipantOp(txn_id=world.open_txn(), table_id=world.table_id, type="BEGIN_COMMIT")
        for _ in range(count)
    ]


def _leases(world: World, request: Any, count: int) -> Sequence[Message]:
    at = world.client.snapshot().timestamp
    return [
        table_pb2.SnapshotLease(table="bad.input", timestamp=at, lease_id=uuid.uuid4().hex, lease_millis=30_000)
        for _ in range(count)
    ]


def _directories(_world: World, _request: Message, count: int) -> Sequence[str]:
    return [f"delta_{number}_{uuid.uuid4().hex}" for number in range(count)]


def _without_a_key(world: World, request: Any) -> str:
    """Makes it one about a table without a primary key. Returns the directory of its write."""
    directory = world.open_keyless(request.txn_id)
    request.table, request.write_id = world.keyless, directory.rpartition("_")[2]
    request.manifest.CopyFrom(table_pb2.ManifestRef(path=f"{directory}/_manifest.json", bytes=1, row_count=1))
    request.ClearField("claim")
    request.mode = table_pb2.APPEND
    return directory


def _deletes(world: World, request: Any, count: int) -> Sequence[Message]:
    ref = request.deletes.ref
    ref.path, ref.bytes = f"{_without_a_key(world, request)}/_deletes.parquet", 1
    ref.file_count = ref.row_count = count
    positions = BitMap([1]).serialize()
    return [
        table_pb2.FileDeletes(file=f"delta_1_x/{number}", file_set="1_files0001/", row_count=1, positions=positions)
        for number in range(count)
    ]


def _below(_world: World, _request: Any, count: int) -> Sequence[Message]:
    return [txn_status_pb2.Below(group=f"group-{number}", txn_id=1 << 40) for number in range(count)]


def _ranges(world: World, request: Any, _count: int) -> Sequence[Message]:
    _without_a_key(world, request)
    return [table_pb2.ColumnRange(column="id", lowest=b"1" * MAX_KEY_BOUND_BYTES, highest=b"9" * MAX_KEY_BOUND_BYTES)]


REPEATED: Mapping[str, tuple[int, Make]] = {
    "AddFilesRequest.from_writes": (MAX_FROM_WRITES // 50, _writes),
    "AddFilesRequest.holds": (1, _ranges),
    "Looked.ranges": (1, _ranges),
    "Deletes.files": (MAX_DELETED_FILES, _deletes),
    "AddFilesRequest.overwrites": (MAX_PARTITION_VALUES // 2, _partitions),
    "ManifestRef.partitions": (MAX_PARTITION_VALUES, _partitions),
    "AdoptDirectoriesRequest.names": (MAX_ADOPTED, _directories),
    "CreateSavepointRequest.tables": (MAX_SAVEPOINT_TABLES, lambda _world, _request, count: ["bad.input"] * count),
    "HoldSavepointRequest.here": (MAX_SAVEPOINT_TABLES, lambda _world, _request, count: ["bad.input"] * count),
    "CountCommitsRequest.table_ids": (MAX_LISTED, lambda world, _request, count: [world.table_id] * count),
    "SetSavepointRequest.table_ids": (MAX_OPS_PER_CALL, _table_ids),
    "SetSavepointRequest.released": (MAX_TXN_SAVEPOINTS, _write_ids),
    "RollbackToRequest.table_ids": (MAX_OPS_PER_CALL, _table_ids),
    "RollbackToRequest.held_by": (MAX_OPS_PER_CALL, _table_ids),
    "RollbackToRequest.void": (MAX_VOID, _write_ids),
    "GetOutcomesRequest.txn_ids": (MAX_OUTCOMES, _ids),
    "KeyClaim.keys": (MAX_CLAIMED_KEYS, _keys),
    "KeyRange.partitions": (1, _partitions),
    "KeepTransactionAliveRequest.txn_ids": (MAX_KEEP_ALIVE_IDS, _ids),
    "ListTransactionsRequest.txn_ids": (MAX_LISTED, _ids),
    "ListTransactionsRequest.below": (MAX_LISTED, _below),
    "ListTransactionsRequest.states": (MAX_STATES, lambda _world, _request, count: [1] * count),
    "LockRequest.partitions": (MAX_LOCK_PARTITIONS, _partitions),
    "ParticipateRequest.ops": (MAX_OPS_PER_CALL, _ops),
    "RegisterParticipantsRequest.registrations": (MAX_OPS_PER_CALL, _registrations),
    "RenewLeasesRequest.leases": (MAX_LEASES_PER_CALL, _leases),
    "BeginTransactionRequest.first_writes": (MAX_FIRST_WRITES, _first_writes),
    "CommitTransactionRequest.last_writes": (MAX_LAST_WRITES, _last_writes),
    "RangeBeginRequest.participants": (MAX_FIRST_WRITES, _participants),
    "CreateTableRequest.properties": (len(KNOWN), _properties),
    "AlterTableRequest.properties": (len(KNOWN), _properties),
    "AlterTableRequest.columns": (MAX_COLUMNS, _changes),
    "TicketScope.tables": (MAX_TICKET_TABLES, lambda _world, _request, count: [f"bad.t{n}" for n in range(count)]),
    "TableSchema.columns": (MAX_COLUMNS, _columns),
    "TableSchema.partition_by": (1, lambda _world, _request, _count: ["month"]),
    "TableSchema.retired": (MAX_RETIRED, lambda _world, _request, count: [f"gone{number}" for number in range(count)]),
    "TableSchema.primary_key": (1, lambda _world, _request, _count: ["id"]),
}
"""What repeats in a request, how many there may be, and what makes them."""


Path = tuple[FieldDescriptor, ...]
"""Fields from the request down to one that repeats."""


def repeated(message: Message, above: Path = ()) -> Iterator[Path]:
    """What repeats in a right request, at any depth."""
    for field in message.DESCRIPTOR.fields:
        if field.is_repeated:
            yield (*above, field)
        elif field.type == FieldDescriptor.TYPE_MESSAGE and message.HasField(field.name):
            yield from repeated(getattr(message, field.name), (*above, field))


def name_of(field: FieldDescriptor) -> str:
    return f"{field.containing_type.name}.{field.name}"


def largest(world: World, method: MethodDescriptor, share: float = 1.0) -> Iterator[tuple[str, Message]]:
    """A request for each thing that repeats in it, with as many as there may be; or a share of that."""
    whole: Any = world.request(method)
    if method.name == "AddFiles":
        whole.deletes.SetInParent()
        whole.looked.SetInParent()
    for path in repeated(whole):
        request: Any = world.request(method)
        message = functools.reduce(lambda part, field: getattr(part, field.name), path[:-1], request)
        most, make = REPEATED[name_of(path[-1])]
        elements = make(world, request, max(1, int(most * share)))
        if path[-1].name == "overwrites":
            request.mode = table_pb2.OVERWRITE
            request.manifest.partitions[:] = elements
        if path[-1].name == "keys":
            request.manifest.row_count = len(elements)
        if path[-1].name == "columns":
            elements = [*message.columns, *elements[2:]]
        message.ClearField(path[-1].name)
        getattr(message, path[-1].name).extend(elements)
        yield name_of(path[-1]), request
    if method.name == "BeginTransaction":
        request = world.request(method)
        request.ClearField("first_writes")
        request.count = max(1, int(MAX_BEGIN_COUNT * share))
        yield "count", request


def too_large(world: World, method: MethodDescriptor) -> Iterator[tuple[str, bytes]]:
    """Right requests with a mebibyte of tiny elements, or of text, in each field."""
    right = world.request(method)
    before = right.SerializeToString()
    room = MAX_PLAIN_REQUEST_BYTES - len(before) - 100
    for path in repeated(right):
        many = bytes([_tag(path[-1]), 0]) * (room // 2)
        for field in reversed(path[:-1]):
            many = bytes([_tag(field)]) + _varint(len(many)) + many
        yield name_of(path[-1]), before + many
    for field in right.DESCRIPTOR.fields:
        if not field.is_repeated and field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
            yield field.name, before + bytes([_tag(field)]) + _varint(room) + b"x" * room


def _tag(field: FieldDescriptor) -> int:
    """The tag of the field; of numbers, as if they were not packed."""
    delimited = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE)
    return field.number << 3 | (2 if field.type in delimited else 0)


def _varint(number: int) -> bytes:
    data = b""
    while number > 0x7F:
        data += bytes([number & 0x7F | 0x80])
        number >>= 7
    return data + bytes([number])
