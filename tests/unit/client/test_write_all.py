"""Writes to several tables by one call: what goes side by side, in which order the rest, and what one failure does."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.support import rows
from tests.unit.harness.fake_manager import FakeManager
from txnclient import Client, InvalidArgument
from txnclient.write import files as file_writes
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.schema import Column, Schema
from txnstatus.types import ConflictStrategy

FREE, OTHER, LOCKING = "air.a", "air.b", "air.c"
SCHEMA = Schema((Column("id", "bigint"), Column("note", "string")))
PATIENCE_SECONDS = 30.0


@pytest.fixture
def manager(manager: FakeManager, tmp_path: Path) -> FakeManager:
    def info(name: str) -> common.TableInfo:
        conflicts = ConflictStrategy.NO_WAIT if name == LOCKING else ConflictStrategy.FIRST_COMMITTER_WINS
        return common.TableInfo(
            table_id=f"0.{name}",
            name=name,
            location=f"{tmp_path.as_uri()}/{name}",
            schema=SCHEMA.to_wire(),
            conflicts=conflicts,
        )

    def begin(request: pb.BeginTransactionRequest) -> pb.BeginTransactionResponse:
        opened = [
            table_pb.OpenWriteResponse(
                table=info(write.table), directory=f"{tmp_path.as_uri()}/{write.table}/delta_7_{write.write_id}"
            )
            for write in request.first_writes
        ]
        return pb.BeginTransactionResponse(txn_ids=[7], keepalive_millis=60_000, cluster_id="fake", first_writes=opened)

    manager.answers |= {
        "BeginTransaction": begin,
        "AddFiles": lambda _: table_pb.AddFilesResponse(),
        "Lock": lambda request: table_pb.LockResponse(granted=True, mode="LOCK_S"),
    }
    return manager


def test_the_commit_of_a_write_by_itself_adds_the_files_of_all_its_tables(manager: FakeManager, client: Client) -> None:
    client.write_all({FREE: rows(1), OTHER: rows(1, 2)})
    (commit,) = manager.requests["CommitTransaction"]
    assert {each.table: each.manifest.row_count for each in commit.last_writes} == {FREE: 1, OTHER: 2}
    assert manager.count("AddFiles") + manager.count("OpenWrite") == 0


def test_tables_are_written_to_side_by_side(manager: FakeManager, client: Client) -> None:
    both = threading.Barrier(2)

    def added(_: table_pb.AddFilesRequest) -> table_pb.AddFilesResponse:
        both.wait(PATIENCE_SECONDS)  # nobody is answered before both have asked
        return table_pb.AddFilesResponse()

    manager.answers["AddFiles"] = added
    with client.transaction(tables=[FREE, OTHER]) as txn:
        txn.write_all({FREE: rows(1), OTHER: rows(1, 2)})
    assert {each.table: each.manifest.row_count for each in manager.requests["AddFiles"]} == {FREE: 1, OTHER: 2}
    assert manager.count("CommitTransaction") == 1
    assert not manager.requests["OpenWrite"]


def test_files_and_manifests_of_all_tables_become_durable_together(
    manager: FakeManager, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[set[str]] = []
    monkeypatch.setattr(file_writes, "make_durable", lambda uris: passes.append(set(uris)))
    client.write_all({FREE: rows(1), OTHER: rows(1)})
    (made,) = passes
    names = sorted((uri.split("/")[-3], uri.rpartition("/")[2]) for uri in made)
    assert names == [(each, name) for each in (FREE, OTHER) for name in ("_manifest.json", "part-00000.parquet")]


def test_locks_come_before_all_else(manager: FakeManager, client: Client) -> None:
    client.write_all({FREE: rows(1), LOCKING: rows(1)}, "overwrite")
    (commit,) = manager.requests["CommitTransaction"]
    assert [each.table for each in commit.last_writes] == [LOCKING, FREE]
    assert [each.table for each in manager.requests["Lock"]] == [LOCKING]


def test_one_that_fails_aborts_all(manager: FakeManager, client: Client) -> None:
    def added(request: table_pb.AddFilesRequest) -> table_pb.AddFilesResponse:
        if request.table == OTHER:
            raise InvalidArgument("not these")
        return table_pb.AddFilesResponse()

    manager.answers["AddFiles"] = added
    with pytest.raises(InvalidArgument, match="not these"), client.transaction(tables=[FREE, OTHER]) as txn:
        txn.write_all({FREE: rows(1), OTHER: rows(1)})
    (abort,) = manager.requests["AbortTransaction"]
    assert abort.reason == f"a write to {FREE}, {OTHER} failed: InvalidArgument: not these"
    assert not manager.requests["CommitTransaction"]


def test_nothing_is_a_transaction_without_tables(manager: FakeManager, client: Client) -> None:
    client.write_all({})
    assert manager.count("CommitTransaction") == 1


def test_an_upsert_is_for_one_table(manager: FakeManager, client: Client) -> None:
    with pytest.raises(InvalidArgument, match="one table at a time"):
        client.write_all({FREE: rows(1)}, "upsert")
