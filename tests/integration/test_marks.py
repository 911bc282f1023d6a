"""Marks of sources on a real cluster: they commit with what was taken, and outlive the transactions that moved them."""

from __future__ import annotations

import contextlib
import json
import random
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tests import blocks
from tests.support import FAST_TXN, fast_cluster, rows, visible, wait_until
from txnclient import (
    Client,
    Conflict,
    Forgotten,
    IllegalState,
    InvalidArgument,
    NotFound,
    SnapshotTooOld,
    TxnAborted,
)
from txnclient.compact.worker import Worker
from txnclient.showing import Shown
from txnclient.streams import marks
from txnclient.streams.marks import MARKS
from txndeploy.ctl import commands
from txndeploy.local.cluster import LocalCluster
from txnstatus.catalog.catalog import shard_group
from txnstatus.lake import rows as lake_rows
from txnstatus.lake.rows import from_ipc

pytestmark = pytest.mark.cluster
NewTable = Callable[..., str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    short = {"retention_ms": 1_000, "snapshot_retention_seconds": 1, "snapshot_lease_seconds": 1.0}
    with fast_cluster(tmp_path_factory.mktemp("marks"), txn=FAST_TXN.model_copy(update=short)) as running:
        yield running


def test_there_is_none_before_the_first(client: Client) -> None:
    assert client.mark("nobody") is None
    assert client.marks() == []
    with pytest.raises(NotFound, match="source 'nobody' has no mark; there are: none"):
        client.remove_mark("nobody")


def test_a_rename_leaves_marks_where_they_are(client: Client, new_table: NewTable) -> None:
    """A consumer that was about to write to the table is refused, mark and all, and goes on by the new name."""
    table = new_table()
    take(client, table, 1)
    late = client.begin()
    client.rename_table(table, f"{table}_new")
    late.mark("renamed", 2, expected=1)
    with pytest.raises(IllegalState, match=f"{table}_new"):
        late.write(rows(2), f"{table}_new")
    with pytest.raises(IllegalState, match="can only be aborted"):
        late.commit()
    assert (mark := client.mark("renamed")) is not None
    assert mark.position == 1
    take(client, f"{table}_new", 2)
    assert visible(client, f"{table}_new") == [[1, 2]]
    for name, to in ((MARKS, "_txn.others"), (f"{table}_new", MARKS)):
        with pytest.raises(InvalidArgument):
            client.rename_table(name, to)
    client.remove_mark("renamed")


def take(client: Client, table: str, number: int) -> None:
    with client.transaction() as txn:
        txn.write(rows(number), table)
        txn.mark("renamed", number, expected=number - 1 or None)


def test_it_commits_with_the_rows_or_not_at_all(client: Client, new_table: NewTable) -> None:
    table, other = new_table(), new_table()
    with client.transaction() as txn:
        assert txn.marked("orders") is None
        txn.write(rows(1), table)
        txn.mark("orders", {"0": 10, "1": 20}, expected=None)
        assert txn.marked("orders").position == {"0": 10, "1": 20}  # type: ignore[union-attr]
        txn.write(rows(1), other)
        assert client.mark("orders") is None
    found = client.mark("orders")
    assert found is not None
    assert (found.position, found.txn_id, found.owner) == ({"0": 10, "1": 20}, txn.id, client.owner)
    given_up = client.begin()
    given_up.write(rows(2), table)
    given_up.mark("orders", {"0": 11, "1": 20}, expected=found.position)
    given_up.abort()
    assert client.mark("orders") == found
    assert visible(client, table, other) == [[1], [1]]


def test_a_repeated_one_is_refused_with_all_that_it_wrote_when_its_transaction_is_long_forgotten(
    cluster: LocalCluster, client: Client, new_table: NewTable
) -> None:
    """After a change of leaders, flushes and a compaction, too."""
    table = new_table()

    def take(above: int | None, *numbers: int) -> int:
        with client.transaction() as txn:
            txn.write(rows(*numbers), table)
            txn.mark("repeated", numbers[-1], expected=above)
        return txn.id

    first = take(None, 1, 2)
    take(2, 3, 4)
    wait_until(lambda: _is_forgotten(client, first), "its record is gone")
    with client.transaction() as txn:
        txn.mark("large", "x" * FAST_TXN.row_flush_bytes, expected=None)
    wait_until(lambda: bool(client.compact(MARKS, wait=False)), "marks were flushed, and are to be compacted")
    assert Worker(client.session, "tests", threading.Event(), MARKS).run_once()
    leader = cluster.leader(shard_group(0))
    cluster.kill(leader)
    cluster.start_node(leader)
    for above, *numbers in ((None, 1, 2), (2, 3, 4), (7, 8)):
        with pytest.raises(IllegalState, match=f"to (be at {above}|have no mark): it is at 4, where transaction"):
            take(above, *numbers)
    take(4, 5)
    assert visible(client, table) == [[1, 2, 3, 4, 5]]
    assert client.mark("repeated").position == 5  # type: ignore[union-attr]


def _is_forgotten(client: Client, txn_id: int) -> bool:
    try:
        client.get(txn_id)
    except Forgotten:
        return True
    return False


@pytest.mark.parametrize("before", [None, 1])
def test_of_two_that_move_it_at_once_the_first_to_commit_wins(
    client: Client, new_table: NewTable, before: int | None
) -> None:
    source, table = f"race from {before}", new_table()
    if before is not None:
        with client.transaction() as txn:
            txn.mark(source, before, expected=None)
    with client.transaction() as winner:
        loser = client.begin()
        for each, number in ((winner, 2), (loser, 3)):
            each.mark(source, number, expected=before)
            each.write(rows(number), table)
    with pytest.raises(Conflict, match=source) as caught:
        loser.commit()
    assert caught.value.winner == winner.id
    assert visible(client, table) == [[2]]
    assert client.mark(source).position == 2  # type: ignore[union-attr]


def test_one_that_is_wrong_ends_the_transaction(client: Client, new_table: NewTable) -> None:
    table = new_table()
    txn = client.begin()
    txn.write(rows(1), table)
    with pytest.raises(IllegalState, match="source 'wrong' was expected to be at 5: it has no mark"):
        txn.mark("wrong", 6, expected=5)
    with pytest.raises(IllegalState, match="can only be aborted: the mark of source 'wrong' failed"):
        txn.commit()
    for source, position in (("", 1), ("wrong", None), ("wrong", {1: 2}), ("wrong", b"x")):
        other = client.begin()
        with pytest.raises(InvalidArgument):
            other.mark(source, position, expected=None)  # type: ignore[arg-type]
        with pytest.raises((IllegalState, TxnAborted)):
            other.commit()
    with pytest.raises(InvalidArgument, match="source"):
        client.mark("a\nb")
    assert visible(client, table) == [[]]


def test_one_transaction_moves_several_and_one_twice(client: Client) -> None:
    with client.transaction() as txn:
        txn.mark("left", 1, expected=None)
        txn.mark("right", 1, expected=None)
        txn.mark("left", 2, expected=1)
    found = client.marks()
    assert isinstance(found, Shown)
    at = {each.source: each.position for each in found if each.txn_id == txn.id}
    assert at == {"left": 2, "right": 1}


def test_an_undo_takes_back_rows_and_leaves_the_mark(client: Client, new_table: NewTable) -> None:
    """The source goes on from where it is, also where later batches have moved the mark."""
    table = new_table()
    loads = []
    for number in (1, 2):
        with client.transaction() as txn:
            txn.write(rows(number), table)
            txn.mark("undone", number, expected=number - 1 or None)
        loads.append(txn.id)
    client.undo(loads[0])
    assert visible(client, table) == [[2]]
    assert client.mark("undone").position == 2  # type: ignore[union-attr]


def test_the_page_runs_as_pasted(client: Client) -> None:
    """Twice, as after a restart: the second one has nothing to take."""
    batches = [pa.table({"id": [1, 2], "item": ["pen", "ink"]}), pa.table({"id": [3], "item": ["pen"]})]

    def consume(after: dict[str, int] | None) -> tuple[pa.Table, dict[str, int]] | None:
        number = 0 if after is None else after["0"]
        return (batches[number], {"0": number + 1}) if number < len(batches) else None

    for _ in range(2):
        exec(blocks.block("docs/streaming.md", "txn.mark("), {"client": client, "consume": consume})
    assert visible(client, "kiosk.events") == [[1, 2, 3]]
    with client.snapshot() as snapshot:
        assert snapshot.to_arrow("kiosk.sold")["pieces"].to_pylist() == [1, 1, 1]


def test_they_are_listed_and_removed_from_the_command_line(cluster: LocalCluster, client: Client) -> None:
    with client.transaction() as txn:
        txn.mark("listed", "b", expected=None)

    def txnctl(*args: str) -> str:
        done = CliRunner().invoke(commands.app, [*args, "--cluster", cluster.addresses])
        return f"{done.exit_code} {done.output}"

    code, _, document = txnctl("marks", "list", "--json").partition(" ")
    assert code == "0"
    (listed,) = (each for each in json.loads(document)["marks"] if each["source"] == "listed")
    assert (listed["position"], listed["txn_id"], listed["owner"]) == ('"b"', txn.id, client.owner)
    assert "listed" in txnctl("marks", "list")
    assert txnctl("marks", "remove", "listed").startswith("0 the mark of listed is removed.")
    assert client.mark("listed") is None
    assert "1 error: source 'listed' has no mark; there are: " in txnctl("marks", "remove", "listed")
    with client.transaction() as anew:
        anew.mark("listed", "a", expected=None)


def test_one_change_is_looked_at_however_many_there_are(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """All were, twice in each transaction: a stream took the longer, the more batches it had written."""
    looked_at: list[bytes] = []

    def counted(data: bytes) -> pa.Table:
        looked_at.append(data)
        return from_ipc(data)

    for place in (marks, lake_rows):
        monkeypatch.setattr(place, "from_ipc", counted)
    for number in range(8):
        looked_at.clear()
        with client.transaction() as txn:
            before = txn.marked("many")
            txn.mark("many", number, expected=before and before.position)
        assert before is None or len(looked_at) <= 2


def test_what_is_found_for_one_source_is_what_is_there(client: Client) -> None:
    """Over moves, removals, restores, flushes and compactions."""
    dice, sources, at = random.Random(11), ["a", "b", "c"], client.last_commit()
    for step in range(40):
        source = dice.choice(sources)
        match dice.choice(["move", "move", "move", "remove", "large", "restore", "compact"]):
            case "move" | "large" as what:
                position = "x" * FAST_TXN.row_flush_bytes if what == "large" else step
                with client.transaction() as txn:
                    before = txn.marked(source)
                    txn.mark(source, position, expected=before and before.position)
                    now = txn.marked(source)
                    assert now is not None
                    assert now.position == position
            case "remove":
                with contextlib.suppress(NotFound):
                    client.remove_mark(source)
            case "restore":
                with contextlib.suppress(SnapshotTooOld, NotFound):
                    client.restore(at, [MARKS])
                at = client.last_commit()
            case "compact":
                with contextlib.suppress(NotFound):
                    client.compact(MARKS, wait=False)
                    Worker(client.session, "tests", threading.Event(), MARKS).run_once()
        all_there = {each.source: each for each in client.marks()}
        assert [client.mark(each) for each in sources] == [all_there.get(each) for each in sources], step
