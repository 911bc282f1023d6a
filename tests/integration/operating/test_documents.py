"""A participant that somebody else wrote: the one of docs/participants.md, in transactions with tables."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import blocks
from tests.faults import till
from tests.support import commit_until_known, rows, visible, wait_until
from txnclient import Client, IllegalState, Transaction, TxnAborted, TxnState
from txndeploy.local.cluster import LocalCluster
from txndeploy.local.network import free_ports
from txnstatus.catalog.catalog import from_wire
from txnstatus.process import failpoints
from txnstatus.proto import admin_pb2

NAME = "documents"
NewTable = Callable[..., str]


class Host:
    """The host of one directory, as a process."""

    def __init__(self, program: Path, cluster: LocalCluster, directory: Path) -> None:
        self.directory = directory
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self.log = program.with_name(f"{directory.name}.log")
        self._program, self._cluster = program, cluster
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, armed: str = "") -> None:
        command = [sys.executable, str(self._program), NAME, str(self.directory), self.address, self._cluster.addresses]
        environment = {**os.environ, failpoints.VARIABLE: armed}
        known = self._served()
        with self.log.open("ab") as output:
            process = self.process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        wait_until(lambda: process.poll() is not None or self._served() > known, "the host serves, or ends", 60)

    def _served(self) -> int:
        return self.log.read_text().count("is served on") if self.log.exists() else 0

    def ended(self) -> int:
        assert self.process is not None
        return self.process.wait(60)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def published(self) -> list[Any]:
        return sorted(
            document
            for path in (self.directory / "published").glob("*.json")
            for document in json.loads(path.read_text())
        )

    def nothing_prepared(self) -> bool:
        return not list((self.directory / "prepared").iterdir())


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "documents.py"
    path.write_text(blocks.block("docs/participants.md", "class DocumentsPart"))
    return path


@pytest.fixture(scope="module")
def host(program: Path, cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    made = Host(program, cluster, tmp_path_factory.mktemp("data") / "documents")
    try:
        made.start()
        yield made
    finally:
        made.kill()


@pytest.fixture(scope="module")
def part_class(program: Path) -> Any:
    return till.part_class(str(program))


def enlisted(client: Client, host: Host, part_class: Any, table: str, row: int) -> Transaction:
    """A transaction with a row in the table and a document."""
    txn = client.begin()
    part = part_class(client.cluster_id, host.directory, txn.id)
    txn.enlist(NAME, part)
    part.add(row)
    txn.write(rows(row), table)
    return txn


def test_the_example_runs_as_pasted(client: Client, cluster: LocalCluster, host: Host, program: Path) -> None:
    script = program.with_name("example.py")
    script.write_text(blocks.block("docs/participants.md", "import DocumentsPart"))
    environment = {**os.environ, "TXN_CLUSTER": cluster.addresses, "DOCUMENTS": str(host.directory)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert client.snapshot().to_arrow("shop.orders").to_pylist() == [{"id": 7, "total": 9.5}]
    wait_until(lambda: {"order": 7} in host.published(), "the document is published")
    for path in (host.directory / "published").glob("*.json"):
        path.unlink()


def test_networks_are_broken_as_the_page_says(tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(blocks.block("docs/testing.md", "best_network("))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_tables_and_documents_in_one_transaction(
    client: Client, new_table: NewTable, host: Host, part_class: Any
) -> None:
    table = new_table()
    enlisted(client, host, part_class, table, 1).commit()
    enlisted(client, host, part_class, table, 2).abort()
    wait_until(lambda: host.published() == [1], "the document is published")
    wait_until(host.nothing_prepared, "nothing is left")
    assert visible(client, table) == [[1]]


@pytest.mark.parametrize("point", ["before.FINALIZE_COMMIT", "after.FINALIZE_COMMIT", "after.BEGIN_COMMIT"])
def test_the_host_is_killed_between_prepare_and_publish(
    client: Client, new_table: NewTable, host: Host, part_class: Any, point: str
) -> None:
    table = new_table()
    before = host.published()
    row = 100 + len(before)
    host.kill()
    host.start(f"foreign.{point}=crash")
    txn = enlisted(client, host, part_class, table, row)
    txn.start_commit()
    assert host.ended() == -signal.SIGKILL
    if point == "before.FINALIZE_COMMIT":
        assert txn.commit().txn_id == txn.id
        assert visible(client, table) == [[row]]
        assert host.published() == before, "decided, and not published yet"
        assert txn.state() is TxnState.FINALIZE_IN_PROGRESS
    host.start()
    commit_until_known(txn)
    wait_until(lambda: host.published() == [*before, row], "the document is published")
    wait_until(lambda: txn.state() is TxnState.COMMITTED, "the transaction has ended")
    assert visible(client, table) == [[row]]


def test_what_is_not_prepared_is_not_committed(
    client: Client, new_table: NewTable, host: Host, part_class: Any
) -> None:
    """The program died after it enlisted, and somebody else asks for the commit."""
    table = new_table()
    before = host.published()
    txn = enlisted(client, host, part_class, table, 7)
    with pytest.raises(TxnAborted, match="no documents of transaction"):
        client.join(txn.token()).commit()
    assert visible(client, table) == [[]]
    assert host.published() == before


def test_a_second_host_that_serves_another_directory_is_refused(
    client: Client, new_table: NewTable, cluster: LocalCluster, program: Path, host: Host, part_class: Any
) -> None:
    other = Host(program, cluster, host.directory.with_name("others"))
    try:
        other.start()
        assert other.ended() == 2
    finally:
        other.kill()
    said = other.log.read_text()
    for named in (host.directory, other.directory):
        assert (named / "identity").read_text() in said
    for address in (host.address, other.address):
        assert address in said
    assert "Traceback" not in said
    answer = client.call("txnstatus.Admin/GetCluster", admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse)
    assert from_wire(answer.catalog).foreign[NAME] == host.address
    before, table = host.published(), new_table()
    enlisted(client, host, part_class, table, 500).commit()
    wait_until(lambda: host.published() == [*before, 500], "the first host goes on")


def test_a_host_that_moves_with_its_directory_is_let_in(
    client: Client, new_table: NewTable, cluster: LocalCluster, program: Path, host: Host, part_class: Any
) -> None:
    before, table = host.published(), new_table()
    host.kill()
    moved = Host(program, cluster, host.directory)
    try:
        moved.start()
        enlisted(client, moved, part_class, table, 600).commit()
        wait_until(lambda: moved.published() == [*before, 600], "it is published from the new place")
    finally:
        moved.kill()
        host.start()


def test_a_second_part_of_one_name_is_refused(client: Client, new_table: NewTable, host: Host, part_class: Any) -> None:
    txn = enlisted(client, host, part_class, new_table(), 8)
    with pytest.raises(IllegalState, match=f"{NAME} is part of transaction {txn.id} already"):
        txn.enlist(NAME, part_class(client.cluster_id, host.directory, txn.id))
    txn.abort()
