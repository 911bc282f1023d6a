"""No request keeps a node's loop for long, whatever it holds: all others on the node wait meanwhile."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from tests.badinput.largest import REPEATED, largest, name_of, too_large
from tests.badinput.one_loop import OneLoop
from tests.badinput.ways import EACH, METHODS
from tests.badinput.world import OWNER, Answer, World
from txnstatus import pages
from txnstatus.errors import InvalidArgument
from txnstatus.lake.rows import to_ipc
from txnstatus.limits import MAX_FIRST_WRITES, MAX_LOCK_PARTITIONS, MAX_PARTITION_VALUES
from txnstatus.proto import compaction_pb2, table_pb2
from txnstatus.proto import txn_manager_pb2 as pb

MOST_STEPS = 250_000
"""Steps of one turn of the loop that take less than 50 ms. The largest requests were timed, too (`turns.timed`), on two
shared cores: a millisecond is 7,000 steps where each is a call into C, and 17,000 where they are plain Python."""
SOME_STEPS = 25_000
"""Steps that a turn may take whatever the request: a first one imports what it needs."""
SECONDS = 100.0


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneLoop]:
    with OneLoop(tmp_path_factory.mktemp("one")) as running:
        yield running


@pytest.fixture(scope="module")
def world(one: OneLoop) -> Iterator[World]:
    made = World(one)  # type: ignore[arg-type]
    yield made
    made.close()


@contextmanager
def bounded(one: OneLoop, what: str) -> Iterator[None]:
    with one.turns.counted():
        yield
    assert one.turns.most <= MOST_STEPS, f"{what}: {one.turns.most} steps: {one.turns.where.most_common(5)}"


def test_for_all_that_repeats_in_a_request_there_is_a_largest() -> None:
    def inside(message: Descriptor, above: frozenset[str] = frozenset()) -> Iterator[str]:
        for field in message.fields:
            if field.is_repeated:
                yield name_of(field)
            elif field.message_type and field.message_type.full_name not in above:
                yield from inside(field.message_type, above | {field.message_type.full_name})

    assert {name for method in METHODS.values() for name in inside(method.input_type)} == REPEATED.keys()


@EACH
def test_the_largest_request_that_the_limits_let_through(one: OneLoop, world: World, name: str, kind: str) -> None:
    """And one that is twice as large takes twice as long."""
    half: dict[str, int] = {}
    for share in (0.5, 1.0):
        for what, request in largest(world, METHODS[name], share):
            payload = request.SerializeToString()
            with bounded(one, f"{name}, {what}"):
                answer = world.send(name, payload, SECONDS, world.group(kind))
            assert answer.error is None or answer.error.code != "INTERNAL", answer.error
            bound = 2.2 * half.setdefault(what, one.turns.most) + SOME_STEPS
            assert one.turns.most <= bound, f"{name}, {what}: {one.turns.where.most_common(5)}"


@EACH
def test_a_larger_one(one: OneLoop, world: World, name: str, kind: str) -> None:
    for what, payload in too_large(world, METHODS[name]):
        with bounded(one, f"{name}, a mebibyte of {what}"):
            world.send(name, payload, SECONDS, world.group(kind))


# ---- what a small request has a large effect on


class Table:
    """One of so many partition columns, and a writer of it."""

    def __init__(self, one: OneLoop, world: World, columns: int) -> None:
        self._one, self._world = one, world
        self.name = world.new_name()
        names = [f"p{number}" for number in range(columns)]
        world.client.create_table(self.name, {"id": "bigint", **dict.fromkeys(names, "int")}, partition_by=names)
        self.partitions = [
            "/".join(f"{column}={number}" for column in names) for number in range(MAX_PARTITION_VALUES // columns)
        ]

    def ask(self, method: str, request: Message) -> Answer:
        """Again where it is to be tried again, and then uncounted: a counted turn takes ten times as long, and a busy
        machine longer for so much than one attempt may."""
        what, asked = f"txnstatus.{method}", request.SerializeToString()
        with bounded(self._one, f"{method} of {self.name}"):
            answer = self._world.send(what, asked, SECONDS)
        deadline = time.monotonic() + SECONDS
        while answer.error is not None and answer.error.retriable and time.monotonic() < deadline:
            answer = self._world.send(what, asked, SECONDS)
        return answer

    def add(self, partitions: Sequence[str], *, overwrite: bool) -> tuple[int, Answer]:
        txn_id, write_id = self._world.open_txn(), uuid.uuid4().hex
        opens = table_pb2.OpenWriteRequest(txn_id=txn_id, owner=OWNER, table=self.name, write_id=write_id)
        opened = self._world.client.call("txnstatus.Table/OpenWrite", opens, table_pb2.OpenWriteResponse)
        request = table_pb2.AddFilesRequest(
            txn_id=txn_id,
            owner=OWNER,
            table=self.name,
            write_id=write_id,
            manifest=table_pb2.ManifestRef(
                path=f"{opened.directory}/_manifest.json", bytes=1, file_count=1, partitions=partitions
            ),
            mode=table_pb2.OVERWRITE if overwrite else table_pb2.APPEND,
            overwrites=partitions if overwrite else (),
        )
        return txn_id, self.ask("Table/AddFiles", request)

    def commit(self, txn_id: int) -> None:
        request = pb.CommitTransactionRequest(txn_id=txn_id, owner=OWNER, wait_millis=20_000)
        assert self.ask("TxnManager/CommitTransaction", request).error is None
        self.scan()  # which waits for what the commit does here

    def scan(self, txn_id: int | None = None) -> None:
        request = table_pb2.ScanRequest(table=self.name, timestamp=self._world.client.snapshot().timestamp)
        if txn_id is not None:
            request.txn_id, request.owner = txn_id, OWNER
        assert self.ask("Table/Scan", request).error is None


@pytest.mark.parametrize("columns", [1, 8])
def test_a_transaction_with_as_many_partitions_as_there_may_be(one: OneLoop, world: World, columns: int) -> None:
    """The snapshot of a table had the names of all partitions of a write with each of them: 10,000 made one of a
    gigabyte, and a node that could not write its snapshot ended."""
    table = Table(one, world, columns)
    half = table.partitions[: len(table.partitions) // 2]
    txn_id, added = table.add(table.partitions, overwrite=False)
    assert added.error is None
    table.commit(txn_id)
    wanted = compaction_pb2.RequestCompactionRequest(table=table.name, kind="COMPACTION_MAJOR")
    assert table.ask("Compactions/RequestCompaction", wanted).error is None
    for _ in range(2):
        txn_id, added = table.add(half, overwrite=True)
        assert added.error is None
        table.scan(txn_id)
        table.commit(txn_id)
    txn_id, _ = table.add(half, overwrite=True)
    table.ask("TxnManager/AbortTransaction", pb.AbortTransactionRequest(txn_id=txn_id, owner=OWNER))
    _, refused = table.add([*half, table.partitions[-1]], overwrite=True)
    assert "values" in str(refused.error)
    assert world.digest()["group-0"], "a snapshot can be made"


def test_a_range_that_is_told_of_more_participants_than_a_begin_may_have(world: World) -> None:
    request: Any = world.request(METHODS["txnstatus.TxnStatus/BeginInRange"])
    request.participants.extend([request.participants[0]] * MAX_FIRST_WRITES)
    answer = world.send("txnstatus.TxnStatus/BeginInRange", request.SerializeToString(), group=world.group("range"))
    assert isinstance(answer.error, InvalidArgument), answer
    assert f"{MAX_FIRST_WRITES} are possible" in answer.error.message


def test_locks_on_as_many_partitions_as_there_may_be(one: OneLoop, world: World) -> None:
    table = Table(one, world, 8)
    for turn in range(2):
        txn_id = world.open_txn()
        request = table_pb2.LockRequest(
            txn_id=txn_id,
            owner=OWNER,
            table=table.name,
            mode="LOCK_X",
            partitions=table.partitions[: MAX_LOCK_PARTITIONS // 8],
        )
        answer = table.ask("Table/Lock", request)
        assert (answer.error is None) == (turn == 0)
    table.ask("Table/ShowLocks", table_pb2.ShowLocksRequest(table=table.name))
    request.partitions.append(table.partitions[-1])
    assert "values" in str(table.ask("Table/Lock", request).error)


def test_as_many_rows_as_there_may_be(one: OneLoop, world: World) -> None:
    table = world.new_name()
    world.client.create_table(table, "id bigint", primary_key=["id"])
    rows = to_ipc(pa.table({"id": pa.array(range(10_000), pa.int64())}))
    for _ in range(2):
        txn_id = world.open_txn()
        request = table_pb2.WriteRowsRequest(
            txn_id=txn_id,
            owner=OWNER,
            table=table,
            write_id=uuid.uuid4().hex,
            change="ROW_UPSERT",
            snapshot=world.client.snapshot().timestamp,
            rows=rows,
        )
        commit = pb.CommitTransactionRequest(txn_id=txn_id, owner=OWNER, wait_millis=20_000)
        for method, asked in (("Table/WriteRows", request), ("TxnManager/CommitTransaction", commit)):
            with bounded(one, method):
                answer = world.send(f"txnstatus.{method}", asked.SerializeToString(), SECONDS)
            assert answer.error is None, answer.error


def test_tables_are_listed_page_by_page(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        world.client.create_table(f"pages.t{number}", "id bigint")
    whole = [table.name for table in world.client.tables()]
    monkeypatch.setattr(pages, "MAX_LISTED", 3)
    assert [table.name for table in world.client.tables()] == whole
    assert len(whole) > 10
    assert whole == sorted(whole)
