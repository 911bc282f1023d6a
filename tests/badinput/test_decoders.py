"""Whatever the bytes: a value, or one of the errors that a decoder may raise; and a state machine never raises."""

from __future__ import annotations

import contextlib
import hashlib
import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.badinput.wire import mutations
from tests.sim.world.disk import SimDisk
from tests.unit.harness.restoring import restore
from tests.unit.harness.wire_commands import SHARD_GOLDEN, STATUS_GOLDEN, shard_commands, status_commands
from txnclient.token import Token
from txnparticipant.shard import commands as shard_cmd
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.catalog import commands as catalog_cmd
from txnstatus.catalog.catalog import CatalogState, from_wire
from txnstatus.catalog.changes import Catalog
from txnstatus.catalog.founding import initial
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.catalog.options import Options
from txnstatus.errors import TxnError
from txnstatus.proto import catalog_pb2, common_pb2, participant_pb2, raft_pb2, rpc_pb2, txn_manager_pb2
from txnstatus.raft import frames, messages, snapshot
from txnstatus.raft.snapshot import SnapshotCorrupt
from txnstatus.replicated import Rejected
from txnstatus.rpc.errors import from_detail
from txnstatus.status import commands as status_cmd
from txnstatus.status.table import StatusApplied, TxnStatusTable
from txnstatus.types import TxnId

MANY = 10_000
"""How often repeated fields come: a decoder that looks at all of them for each takes minutes over that, and one that
looks at each once no time."""
REFUSALS = (ValueError, DecodeError, TxnError, SnapshotCorrupt)
"""DecodeError is protobuf's own; whoever decodes on behalf of a peer or a disk turns them into a sentence."""


def _catalog() -> Catalog:
    nodes = {name: NodeInfo(f"127.0.0.1:{port}", ("status", "participant")) for port, name in enumerate("abc", 1)}
    return Catalog(initial(nodes, participant_shards=2, replication=3, range_span=10, options=Options()))


def _apply_to_catalog(data: bytes) -> None:
    catalog = _catalog()
    before = catalog.state
    outcome = catalog.apply(catalog_cmd.decode(data))
    if not isinstance(outcome, CatalogState):
        assert catalog.state == before


def _table() -> TxnStatusTable:
    return TxnStatusTable(TxnId(0), TxnId(1_000))


def _token(payload: bytes) -> Token:
    return Token.from_bytes(b"TXN1" + zlib.crc32(payload).to_bytes(4, "little") + payload)


def _snapshot_file(header: bytes) -> object:
    """A snapshot without chunks, sound but for its header."""
    disk, path = SimDisk(random.Random(0)), Path("/group/snapshot")
    end = raft_pb2.SnapshotEnd(sha256=hashlib.sha256(header).digest())
    disk.make_directory(path.parent)
    disk.overwrite(path, frames.frame(frames.SNAPSHOT, header) + frames.frame(frames.END, end.SerializeToString()))
    return snapshot.verify(disk, path, "status-0")


DECODERS: dict[str, tuple[Callable[[bytes], object], type[Message]]] = {
    "catalog command": (_apply_to_catalog, catalog_pb2.CatalogCommand),
    "catalog state": (lambda data: from_wire(catalog_pb2.CatalogState.FromString(data)), catalog_pb2.CatalogState),
    "shard snapshot": (lambda data: ParticipantShard(0).restore(data), participant_pb2.ShardSnapshot),
    "snapshot header": (_snapshot_file, raft_pb2.SnapshotHeader),
    "raft message": (lambda data: messages.decode(raft_pb2.RaftMessage.FromString(data)), raft_pb2.RaftMessage),
    "raft frame": (raft_pb2.RaftFrame.FromString, raft_pb2.RaftFrame),
    "mux frame": (rpc_pb2.Frame.FromString, rpc_pb2.Frame),
    "error detail": (lambda data: from_detail(common_pb2.ErrorDetail.FromString(data)), common_pb2.ErrorDetail),
    "token": (_token, txn_manager_pb2.TxnToken),
}
SOMETHING: dict[int, object] = {FieldDescriptor.TYPE_STRING: "a", FieldDescriptor.TYPE_BYTES: b"a"}
EACH = pytest.mark.parametrize("name", DECODERS)


def filled(message: Message, depth: int = 3) -> Message:
    """Something in every field, so that every field can be wrong."""
    for field in message.DESCRIPTOR.fields:
        if field.message_type:
            if depth:
                part = getattr(message, field.name)
                filled(part.add() if field.is_repeated else part, depth - 1)
        elif field.is_repeated:
            getattr(message, field.name).append(field.default_value or SOMETHING.get(field.type, 1))
    return message


@EACH
def test_wrong_fields(name: str) -> None:
    decode, kind = DECODERS[name]
    count = 0
    for oneof in [None, *(field.name for group in kind.DESCRIPTOR.oneofs for field in group.fields)]:
        message = kind()
        if oneof is None:
            filled(message)
        elif message.DESCRIPTOR.fields_by_name[oneof].message_type:
            filled(getattr(message, oneof)).SetInParent()  # type: ignore[func-returns-value]
        for _, data in mutations(message, MANY):
            count += 1
            try:
                decode(data)
            except REFUSALS:
                continue
    assert count > 20


# ---- what logs and snapshots have


def _near(command: Any) -> Any:
    """The same command about one of few transactions, tables and writes: else each would miss the others."""
    changes: dict[str, object] = {}
    for name, values in (
        ("txn_id", (0, 1, 2)),
        ("table_id", ("0.0", "0.0", "0.1")),
        ("owner", ("me", "me", "me", "you")),
        ("write_id", ("w" * 8, "v" * 8)),
    ):
        if hasattr(command, name) and getattr(command, name) is not None:
            changes[name] = values[zlib.crc32(repr(getattr(command, name)).encode()) % len(values)]
    if isinstance(command, shard_cmd.BeginCommit):
        changes["prepare_ts"] = max(1, command.prepare_ts)  # 0 means none; who stamps it, has a clock
    return type(command)(**{field: changes.get(field, getattr(command, field)) for field in command.__slots__})


def _chunks() -> list[bytes]:
    """A snapshot of a table with a transaction that has finished, and one that has not."""
    table = _table()
    for command, _ in STATUS_GOLDEN:
        table.apply(_near(command))
    table.apply(status_cmd.BeginTxns("another", 1, "me", "", 1_000, 1))
    return list(table.snapshot())


STORED: dict[str, tuple[Callable[[bytes], object], Sequence[bytes]]] = {
    "status command": (status_cmd.decode, [bytes.fromhex(golden) for _, golden in STATUS_GOLDEN]),
    "shard command": (shard_cmd.decode, [bytes.fromhex(golden) for _, golden in SHARD_GOLDEN]),
    "status snapshot": (lambda data: restore(_table(), [data]), _chunks()),
}
WRONG: Sequence[Any] = (None, True, -1, 2**64 - 1, 0.5, "", "a\0", b"\xff", [], {}, {"a": 1}, [[]] * MANY, ["a"] * MANY)
"""Values in place of a field's own."""


def _wronged(words: Any) -> Iterator[Any]:
    """Something wrong in the place of one thing after the other."""
    if isinstance(words, list):
        for at, word in enumerate(words):
            yield from ([*words[:at], each, *words[at + 1 :]] for each in _wronged(word))
    yield from WRONG


@pytest.mark.parametrize("name", STORED)
def test_wrong_fields_of_what_is_stored(name: str) -> None:
    decode, right = STORED[name]
    for words in map(msgspec.msgpack.decode, right):
        for wrong in _wronged(words):
            with contextlib.suppress(*REFUSALS):
                decode(msgspec.msgpack.encode(wrong))


@pytest.mark.parametrize("name", [*DECODERS, *STORED])
@settings(max_examples=200)
@given(data=st.binary(max_size=200))
def test_any_bytes(name: str, data: bytes) -> None:
    decode, _ = {**DECODERS, **STORED}[name]
    with contextlib.suppress(*REFUSALS):
        decode(data)


MODULES: dict[str, Any] = {"status command": status_cmd, "shard command": shard_cmd}


@pytest.mark.parametrize("name", MODULES)
@settings(max_examples=400)
@given(data=st.data())
def test_changed_bytes_of_a_right_command_and_what_is_read_is_written_alike(name: str, data: st.DataObject) -> None:
    module = MODULES[name]
    encoded = bytearray(data.draw(st.sampled_from(STORED[name][1])))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(encoded) - 1))
        encoded[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
        if not encoded:
            return
    try:
        command = module.decode(bytes(encoded))
    except REFUSALS:
        return
    again = module.encode(command)
    assert module.decode(again) == command
    assert module.encode(module.decode(again)) == again


# ---- state machines: total, and whoever is rejected has changed nothing


@settings(max_examples=150)
@given(st.lists(status_commands, max_size=25))
def test_the_status_table_takes_any_commands(commands: list[status_cmd.Command]) -> None:
    table = _table()
    begin = status_cmd.BeginTxns("request", 3, "me", "", 1_000, 1)
    for command in [begin, *commands]:
        before = list(table.snapshot())
        outcome = table.apply(_near(command))
        table.check_invariants()
        if isinstance(outcome, Rejected):
            assert str(outcome.error)
            assert list(table.snapshot()) == before
        else:
            assert isinstance(outcome, StatusApplied)
    restored = _table()
    restore(restored, table.snapshot())
    assert list(restored.snapshot()) == list(table.snapshot())


@settings(max_examples=150)
@given(st.lists(shard_commands, max_size=25))
def test_a_shard_takes_any_commands(commands: list[shard_cmd.Command]) -> None:
    shard = ParticipantShard(0)
    schema = next(c.schema for c, _ in SHARD_GOLDEN if isinstance(c, shard_cmd.CreateTable))
    for command in [shard_cmd.CreateTable("a.b", schema, "file:///w", "request"), *commands]:
        before = shard.snapshot()
        outcome = shard.apply(_near(command))
        shard.check_invariants()
        if isinstance(outcome, Rejected):
            assert str(outcome.error)
            assert shard.snapshot() == before, command
        else:
            assert isinstance(outcome, ShardApplied)
    restored = ParticipantShard(0)
    restored.restore(shard.snapshot())
    assert restored.snapshot() == shard.snapshot()
