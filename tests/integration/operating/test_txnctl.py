"""`txnctl` as people and programs use it, whatever stands in the fields that users fill."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
import typer
from typer.testing import CliRunner, Result

from tests.support import connect, rows, wait_until
from txnclient import Client, TxnState
from txndeploy.ctl import commands
from txndeploy.local.cluster import LocalCluster
from txnstatus import features

NewTable = Callable[..., str]
HOSTILE = "x [/y] [red]r[/red] [link=http://evil]l :smile: \x1b[31mred\x1b[0m \x07\r\u202e end\nline"
SHOWN = r"x [/y] [red]r[/red] [link=http://evil]l :smile: \x1b[31mred\x1b[0m \x07\r\u202e end\nline"
LISTINGS = [
    ["txn", "list"],
    ["locks"],
    ["locks", "--extended"],
    ["table", "list"],
    ["config", "list"],
    ["participant", "list"],
    ["status"],
    ["upgrade", "show"],
    ["doctor", "--no-storage"],
]


@pytest.fixture
def ctl(cluster: LocalCluster) -> Callable[..., Result]:
    def run(*arguments: str, code: int = 0, **options: Any) -> Result:
        result = CliRunner().invoke(commands.app, [*arguments, "--cluster", cluster.addresses], **options)
        assert result.exit_code == code, f"{arguments}: {result.output}{result.exception!r}"
        return result

    return run


Ctl = Callable[..., Result]


def found(result: Result, name: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(result.stdout)[name]
    return listed


def test_a_table_is_altered_and_shown(ctl: Ctl, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, month int", partition_by=["month"])
    assert "properties" not in ctl("table", "show", table).stdout
    shown = ctl("table", "set", table, "NO_AUTO_COMPACTION=true", "compact_delta_num=5").stdout
    assert re.search(r"compact_delta_num +5", shown)
    ctl("table", "set", table, "NO_AUTO_COMPACTION=")
    (document,) = json.loads(ctl("table", "show", table, "--json").stdout).values()
    assert document["properties"] == {"compact_delta_num": "5"} == dict(client.table(table).properties)
    assert [each["name"] for each in document["columns"]] == ["id", "month"]
    for wrong, said in (
        ("compact_delta_num=1", "compact_delta_num = '1': whole numbers from 2"),
        ("compact_delta=9", "no table property 'compact_delta'; there are NO_AUTO_COMPACTION"),
    ):
        assert said in ctl("table", "set", table, wrong, code=1).stderr
    for arguments in (["compact_delta_num"], ["=5"], ["compact_delta_num=5", "compact_delta_num=6"]):
        assert "PROPERTIES" in ctl("table", "set", table, *arguments, code=2).stderr
    assert "does not exist" in ctl("table", "set", f"{table}x", "compact_delta_num=5", code=1).stderr


def test_columns_are_changed_by_an_operator(ctl: Ctl, client: Client, new_table: NewTable) -> None:
    """All that one command says is one change."""
    table = new_table("id int NOT NULL, v int, w string")

    def columns(*options: str, code: int = 0) -> Any:
        result = ctl("table", "columns", table, *options, "--json", code=code)
        return json.loads(result.stdout)["table"]["columns"] if not code else result.stderr

    changed = ["--rename", "v=u", "--drop", "w", "--widen", "id=bigint", "--add", "w bigint, x string"]
    assert [each["name"] for each in columns(*changed)] == ["id", "u", "w", "x"]
    assert client.table(table).schema.version == 1
    columns("--move", "x=", "--move", "w=x", "--comment", "u=a=b", "--comment", "x=", "--drop-not-null", "id")
    told = [(each.name, each.type, each.nullable, each.comment) for each in client.table(table).schema.columns]
    assert told == [
        ("x", "string", True, ""),
        ("w", "bigint", True, ""),
        ("id", "bigint", True, ""),
        ("u", "int", True, "a=b"),
    ]
    told = columns("--add", "d date, e int DEFAULT 5", "--default", "u=-7", "--default", "d=2024-02-29")
    assert [each["default"] for each in told] == [None, None, None, "-7", "2024-02-29", "5"]
    assert [each.initial for each in client.table(table).schema.columns[4:]] == ["2024-02-29", "5"]
    assert columns("--drop-default", "u")[3]["default"] is None
    assert "'x' is no value" in columns("--default", "u=x", code=1)
    assert "'id' of table" in columns("--widen", "id=int", code=1)
    for wrong, option in (
        ([], "--add, --rename"),
        (["--rename", "u"], "--rename"),
        (["--rename", "u="], "--rename"),
        (["--widen", "=int"], "--widen"),
        (["--move", "x=u", "--move", "x=w"], "--move"),
    ):
        assert option in columns(*wrong, code=2)


def test_a_table_is_ordered_by_an_operator(ctl: Ctl, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, month int", partition_by=["month"])
    client.write(pa.table({"id": [3, 1, 2], "month": pa.array([1, 2, 1], pa.int32())}), table)
    assert f"{table} is ordered by id now" in ctl("table", "optimize", table, "--sort-by", "id").stdout
    document = json.loads(
        ctl(
            *("table", "optimize", table, "--zorder", "id", "--zorder", "month", "--partition", "month=1", "--json")
        ).stdout
    )["optimized"]
    assert document["commit_timestamp"] == client.last_commit()
    with client.snapshot() as snapshot:
        assert sorted(snapshot.to_arrow(table)["id"].to_pylist()) == [1, 2, 3]
    for wrong, said in (
        (["--sort-by", "day"], "'day' is not a column"),
        (["--sort-by", "id", "--partition", "day=1"], "day"),
    ):
        assert said in ctl("table", "optimize", table, *wrong, code=1).stderr
    for either in ([], ["--sort-by", "id", "--zorder", "id"]):
        assert "say one of them" in ctl("table", "optimize", table, *either, code=2).stderr
    with client.begin() as other:
        other.write(pa.table({"id": [4], "month": pa.array([1], pa.int32())}), table)
        left = ctl("table", "optimize", table, "--sort-by", "id", "--timeout", "0", code=1).stderr
        assert f"gives way to transaction {other.id}" in left


@pytest.mark.parametrize("command", LISTINGS, ids=" ".join)
def test_nothing_that_a_user_wrote_is_markup(ctl: Ctl, cluster: LocalCluster, command: list[str]) -> None:
    """A label `x [/y]` ended `txnctl txn list` with a traceback, for everybody."""
    with connect(cluster, owner=HOSTILE) as client:
        comment = HOSTILE.replace("'", "").replace("\\", "")
        client.create_table(
            "hostile.table",
            f"`[red] :smile:` bigint COMMENT '{comment}', note string",
            if_not_exists=True,
        )
        txn = client.begin(label=HOSTILE)
        txn.lock("hostile.table", "S")
        dead = client.begin(label=HOSTILE)
        dead.abort(reason=HOSTILE)
        for arguments in (command, ["txn", "show", str(dead.id)], ["table", "show", "hostile.table"]):
            for options in ([], ["--json"]):
                result = ctl(*arguments, *options)
                assert result.exception is None or isinstance(result.exception, SystemExit)
                printed = result.stdout.replace("\n", "")
                assert printed.isprintable(), printed
                if options:
                    json.loads(result.stdout)
        assert SHOWN in ctl("txn", "list").stdout
        assert SHOWN in ctl("txn", "show", str(dead.id)).stdout
        assert "[red] :smile:" in ctl("table", "show", "hostile.table").stdout
        txn.abort(reason=HOSTILE)


@pytest.mark.parametrize(
    "command",
    [
        ["table", "show", f"t.{HOSTILE}"],
        ["table", "drop", f"t.{HOSTILE}"],
        ["locks", "--table", f"t.{HOSTILE}"],
        ["locks", "--table", HOSTILE],
        ["config", "set", HOSTILE, "1"],
        ["participant", "remove", HOSTILE, "--gone-for-good"],
        ["node", "replace", HOSTILE, "n9", "--address", "127.0.0.1:1"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_errors_say_what_users_wrote_as_they_wrote_it(ctl: Ctl, command: list[str]) -> None:
    result = ctl(*command, code=1)
    assert result.stderr.startswith("error: ")
    assert "[/y] [red]r[/red]" in result.stderr
    assert result.stderr.replace("\n", "").isprintable()
    assert not result.stdout


def test_a_bad_filter_says_so(ctl: Ctl) -> None:
    assert "is no state" in ctl("txn", "list", "--state", "[/y]", code=2).output
    assert "is no time" in ctl("txn", "list", "--since", "[/y]", code=2).output
    assert "is no time" in ctl("txn", "abort", "--reason", "x", "--older-than", "[/y]", code=2).output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--table", "nope"], "'nope'"),
        (["--table", "no.pe"], "no.pe"),
        (["--table", "@nope"], "'@nope'; there are: none"),
        (["--id", "987654"], "987654"),
    ],
)
def test_a_filter_that_names_what_there_is_not_says_so(ctl: Ctl, options: list[str], said: str) -> None:
    """It answered with an empty list, as for a table that nobody writes to."""
    assert said in ctl("txn", "list", *options, code=1).stderr
    if "--table" in options:
        assert said in ctl("txn", "abort", "--reason", "x", "--older-than", "1h", *options, code=1).stderr


@pytest.mark.parametrize("command", LISTINGS, ids=" ".join)
def test_a_listing_for_programs_is_one_document_and_nothing_else(ctl: Ctl, command: list[str]) -> None:
    document = json.loads(ctl(*command, "--json").stdout)
    assert isinstance(document, dict)


def test_the_level_is_shown_and_raised(ctl: Ctl) -> None:
    newest = features.OWN.newest
    shown = ctl("upgrade", "show").stdout
    assert f"feature level {newest}" in shown
    assert str(features.OWN) in shown
    document = json.loads(ctl("upgrade", "show", "--json").stdout)
    assert document["level"] == newest
    assert {(each["levels"], each["answers"]) for each in document["nodes"]} == {(str(features.OWN), True)}
    assert f"at feature level {newest}" in ctl("upgrade", "finish").stdout
    assert "none that this node does" in ctl("upgrade", "finish", "--level", str(newest + 1), code=1).stderr
    assert "only goes up" in ctl("upgrade", "finish", "--level", str(newest - 1), code=1).stderr
    for no_level in (0, -1, 1 << 32):  # 0 was the newest, and it is for good
        assert (
            f"there is no feature level {no_level}:" in ctl("upgrade", "finish", f"--level={no_level}", code=1).stderr
        )


def test_what_is_piped_is_not_broken(ctl: Ctl, client: Client) -> None:
    label = "a label that is longer than what eighty columns leave for it " * 3
    txn = client.begin(label=label.strip())
    assert label.strip() in ctl("txn", "list").stdout
    txn.abort()


def test_transactions_are_chosen_by_what_is_known_of_them(ctl: Ctl, cluster: LocalCluster, new_table: NewTable) -> None:
    table, other = new_table(), new_table()
    with connect(cluster, owner="ann") as ann, connect(cluster, owner="bob") as bob:
        first = ann.begin(label="load")
        first.write(rows(1), table)
        first.commit()
        second, third = bob.begin(label="load"), ann.begin(label="other")
        second.write(rows(2), other)
        third.write(rows(3), table)
        ids = [str(txn.id) for txn in (first, second, third)]

        def chosen(*options: str) -> list[int]:
            return [row["id"] for row in found(ctl("txn", "list", "--json", *options), "transactions")]

        of_ours = [option for txn_id in ids for option in ("--id", txn_id)]
        assert chosen(*of_ours) == [third.id, second.id, first.id]
        assert chosen(*of_ours, "--owner", "ann") == [third.id, first.id]
        assert chosen(*of_ours, "--table", table) == [third.id, first.id]
        assert chosen(*of_ours, "--table", table, "--state", "open") == [third.id]
        assert chosen(*of_ours, "--label", "load") == [second.id, first.id]
        assert chosen(*of_ours, "--since", "1h") == [third.id, second.id, first.id]
        assert chosen(*of_ours, "--since", (datetime.now(UTC) + timedelta(days=1)).isoformat()) == []
        page = json.loads(ctl("txn", "list", "--json", "--limit", "2", *of_ours).stdout)
        assert ([row["id"] for row in page["transactions"]], page["more"]) == ([third.id, second.id], True)
        row = found(ctl("txn", "list", "--json", "--id", ids[0]), "transactions")[0]
        assert set(row) == set(DOCUMENTED["txn list"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", row["begin"])
        assert (row["state"], row["participants"], row["owner"]) == ("COMMITTED", [table], "ann")
        for txn in (second, third):
            txn.abort()


DOCUMENTED = {
    "txn list": [
        *("id", "state", "owner", "label", "begin", "last_transition", "commit", "commit_timestamp"),
        *("keepalive_millis", "participants", "abort_code", "aborted_by", "abort_reason"),
    ],
    "participants": ["name", "participant_id", "state", "begin_commit", "commit", "locks"],
}
"""Keys in JSON, which stay."""


def test_a_transaction_is_shown_with_what_it_has_come_to_everywhere(
    ctl: Ctl, client: Client, new_table: NewTable
) -> None:
    one, two = new_table(), new_table()
    txn = client.begin(label="x")
    txn.write(rows(1), one)
    txn.lock(two, "X")

    def shown() -> dict[str, dict[str, Any]]:
        document = json.loads(ctl("txn", "show", str(txn.id), "--json").stdout)["transaction"]
        assert all(set(each) == set(DOCUMENTED["participants"]) for each in document["participants"])
        return {each["name"]: each for each in document["participants"]}

    before = shown()
    assert {name: before[name]["state"] for name in (one, two)} == {one: "OPEN", two: "OPEN"}
    assert before[two]["locks"] == [two]
    assert before[one]["begin_commit"] is None
    receipt = txn.commit()
    wait_until(lambda: client.get(txn.id).state is TxnState.COMMITTED, "it is done everywhere")
    after = shown()
    assert {name: after[name]["state"] for name in (one, two)} == {one: "COMMITTED", two: "COMMITTED"}
    assert after[one]["begin_commit"] < after[one]["commit"] or after[one]["begin_commit"] == after[one]["commit"]
    assert receipt.commit_timestamp
    assert one in ctl("txn", "show", str(txn.id)).stdout
    assert "998877" in ctl("txn", "show", "998877", code=1).stderr


def test_many_are_aborted_and_each_is_told_of(ctl: Ctl, client: Client) -> None:
    committed, dead, living = client.begin(), client.begin(), client.begin()
    committed.commit()
    dead.abort(reason="[/y]")
    ids = [str(txn.id) for txn in (committed, dead, living)]
    result = ctl("txn", "abort", *ids, "998877", "--reason", "clean up", "--json", code=1)
    told = {row["id"]: row for row in found(result, "aborts")}
    assert [told[txn.id]["aborted"] for txn in (committed, dead, living)] == [False, True, True]
    assert told[committed.id]["note"] == "it has committed: what it wrote is visible and stays"
    assert told[dead.id]["note"] == f"it was aborted before, by {client.owner}: [/y]"
    assert told[living.id]["note"] is None
    assert "998877" in told[998877]["note"]
    wait_until(lambda: client.get(living.id).state is TxnState.ABORTED, "it is aborted")
    assert client.get(living.id).cause.message == "clean up"  # type: ignore[union-attr]
    again = ctl("txn", "abort", ids[2], "--reason", "again")
    assert "it was aborted before" in again.stdout


def test_those_that_are_old_are_aborted(ctl: Ctl, cluster: LocalCluster) -> None:
    with connect(cluster, owner="old") as client:
        old = [client.begin(label="l", keepalive_millis=60_000) for _ in range(3)]
        other = client.begin(label="m", keepalive_millis=60_000)
        choice = ["--reason", "too old", "--older-than", "0s", "--owner", "old", "--label", "l"]
        asked = ctl("txn", "abort", *choice, input="n\n", code=1)
        assert "Abort these 3?" in asked.output
        assert all(txn.state() is TxnState.OPEN for txn in old)
        assert "say --yes" in ctl("txn", "abort", *choice, "--json", code=2).output
        assert found(ctl("txn", "abort", *choice[:3], "1d", *choice[4:], "--yes", "--json"), "aborts") == []
        done = found(ctl("txn", "abort", *choice, "--yes", "--json"), "aborts")
        assert [row["id"] for row in done] == [txn.id for txn in reversed(old)]
        assert other.state() is TxnState.OPEN
        for wrong in (["1", "--older-than", "1h"], [], ["1", "--owner", "old"]):
            assert (
                "say which" in (said := ctl("txn", "abort", *wrong, "--reason", "x", code=2).output)
                or "go with" in said
            )


def every_command(command: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    below = getattr(command, "commands", {})
    return [path, *(each for name, sub in below.items() for each in every_command(sub, (*path, name)))]


@pytest.mark.parametrize("path", every_command(typer.main.get_command(commands.app)), ids=" ".join)
def test_help_has_two_names_everywhere(path: tuple[str, ...]) -> None:
    short, long = (CliRunner().invoke(commands.app, [*path, option]) for option in ("-h", "--help"))
    assert short.exit_code == 0
    assert short.output == long.output
    assert "Usage:" in short.output


def test_who_is_in_the_way_is_explained(ctl: Ctl, client: Client, new_table: NewTable) -> None:
    table = new_table()
    first, second = client.transaction(label="first"), client.transaction()
    first.lock(table, "X")
    assert re.search(rf"It has written to, or locked, .*{re.escape(table)}\.", ctl("explain", str(first.id)).stdout)
    waits = threading.Thread(target=second.lock, args=(table, "X"), kwargs={"lock_timeout": 30})
    waits.start()
    wait_until(lambda: any(not lock.acquired for lock in client.locks(table)), "the second waits")
    said = json.loads(ctl("explain", str(second.id), "--json").stdout)["explanation"]
    assert any(f"on {table}, behind transaction {first.id} of" in each for each in said["story"])
    assert any(f"txnctl txn abort {first.id} " in each for each in said["advice"])
    ctl("txn", "abort", str(first.id), "--reason", "in the way")
    waits.join(30)
    assert "was aborted at" in ctl("explain", str(first.id)).stdout
    assert "in the way" in ctl("explain", str(first.id)).stdout
    receipt = second.commit()
    assert "is committed" in ctl("explain", str(receipt.txn_id)).stdout
    assert "998877" in ctl("explain", "998877", code=1).stderr
