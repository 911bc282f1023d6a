"""What the console serves: documents with the keys that `txnctl` has, to whoever may ask; and nothing that changes."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.console.scene import MARKUP, Scene
from tests.support import SCHEMA, connect, rows
from txndeploy.console.routes import API, PAGE, PREFIX
from txndeploy.local.cluster import LocalCluster

SECONDS = 20


def ask(cluster: LocalCluster, path: str, *, host: str = "", method: str = "GET") -> tuple[int, str, dict[str, str]]:
    address = cluster.configs["n1"].http_address
    request = Request(f"http://{address}{path}", headers={"Host": host or str(address)}, method=method)
    try:
        with urlopen(request, timeout=SECONDS) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except HTTPError as error:
        return error.code, error.read().decode(), dict(error.headers)


def document(cluster: LocalCluster, name: str) -> Any:
    status, text, _ = ask(cluster, f"{API}{name}")
    assert status == 200, text
    return json.loads(text)


def test_the_cluster_has_nodes_groups_and_options(cluster: LocalCluster) -> None:
    found = document(cluster, "cluster")
    assert [(node["node"], node["answers"]) for node in found["nodes"]] == [("n1", True)]
    assert {"node", "group", "parts", "role", "term", "committed", "applied", "drain"} == found["groups"][0].keys()
    assert {"leader"} == {group["role"] for group in found["groups"]}
    assert "retention_ms" in {option["name"] for option in found["options"]}


def test_live_transactions_are_those_that_have_not_ended(cluster: LocalCluster, played: Scene) -> None:
    found = document(cluster, "transactions")
    assert {row["id"] for row in found["transactions"]} == {played.holder, played.waiter}
    assert not found["more"]


def test_a_transaction_has_its_story(cluster: LocalCluster, played: Scene) -> None:
    found = document(cluster, f"transactions/{played.winner}")
    assert [event["what"] for event in found["story"]] == [
        "begins it",
        "is prepared",
        "is decided: it commits",
        "is published by all",
    ]
    assert found["transaction"]["participants"][0]["name"] == "air.weather"
    assert found["explanation"]["story"][0].startswith("is committed, since ")
    waiting = document(cluster, f"transactions/{played.waiter}")
    assert [event["what"] for event in waiting["story"]] == [
        "begins it",
        "has asked for the lock (S)",
        "waits for the lock (X)",
    ]
    ill = document(cluster, f"transactions/{played.ill}")
    assert (ill["transaction"]["label"], ill["transaction"]["abort_reason"]) == (MARKUP, MARKUP)


def test_locks_say_who_waits_for_whom(cluster: LocalCluster, played: Scene) -> None:
    holder, waiter = document(cluster, "locks")["waits"]
    assert (holder["txn_id"], holder["depth"], holder["label"]) == (played.holder, 0, "hourly load")
    assert (waiter["txn_id"], waiter["behind"], waiter["label"]) == (played.waiter, played.holder, "nightly repair")


@pytest.mark.usefixtures("played")
def test_tables_have_sizes_and_health(cluster: LocalCluster) -> None:
    found = document(cluster, "tables")
    assert [(row["name"], row["rows"], row["damage"]) for row in found["tables"]] == [
        ("air.flights", 100, None),
        ("air.planes", 100, None),
        ("air.weather", 1, None),
    ]
    assert all(row["bytes"] > 0 for row in found["tables"])
    assert (found["next"], found["compactions"]) == (None, [])
    assert [row["name"] for row in document(cluster, "tables?from=air.planes")["tables"]] == [
        "air.planes",
        "air.weather",
    ]


@pytest.mark.usefixtures("played")
def test_a_table_is_called_as_it_is_now(cluster: LocalCluster) -> None:
    """What a transaction wrote to before is called in its story as it was then."""
    with connect(cluster) as client:
        client.create_table("sea.ships", SCHEMA)
        done = client.write(rows(1), "sea.ships")
        client.rename_table("sea.ships", "sea.boats")
        found = document(cluster, "tables?from=sea.")["tables"]  # a page that nobody has asked for: they are kept
        assert [(row["name"], row["rows"], row["damage"]) for row in found] == [("sea.boats", 1, None)]
        story = document(cluster, f"transactions/{done.txn_id}")
        assert [each["name"] for each in story["transaction"]["participants"]] == ["sea.ships"]
        assert story["explanation"]["story"][0].startswith("is committed, since ")
        client.drop_table("sea.boats")


def test_conflicts_name_both(cluster: LocalCluster, played: Scene) -> None:
    (found,) = document(cluster, "conflicts")["conflicts"]
    assert (found["id"], found["winner"], found["conflicts"]) == (played.loser, played.winner, ["air.weather"])


def test_steps_and_transactions_are_told_by_how_slow_they_are(cluster: LocalCluster, played: Scene) -> None:
    found = document(cluster, "slow")
    assert {"step", "count", "refused", "mean_seconds", "median_seconds", "p99_seconds"} == found["steps"][0].keys()
    assert played.winner in {row["id"] for row in found["slowest"]}


def test_what_there_is_not_says_so(cluster: LocalCluster) -> None:
    status, text, _ = ask(cluster, f"{API}transactions/987654321")
    assert status == 404
    assert "987654321" in json.loads(text)["error"]["message"]
    assert ask(cluster, f"{API}transactions/x")[0] == 404
    assert ask(cluster, f"{PREFIX}../node.toml")[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", [f"{API}transactions", f"{API}transactions/1", PREFIX])
def test_nothing_can_be_changed(cluster: LocalCluster, method: str, path: str) -> None:
    assert ask(cluster, path, method=method)[0] == 405


@pytest.mark.parametrize(
    "path", [*(f"{PREFIX}{file}" for file in PAGE), f"{API}cluster", f"{API}transactions/987654321"]
)
def test_a_browser_is_told_to_run_what_is_here_only(cluster: LocalCluster, path: str) -> None:
    _, text, headers = ask(cluster, path)
    policy = dict(each.strip().split(" ", 1) for each in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert "://" not in text.replace("http://www.w3.org/2000/svg", "").replace("file://", "")


def test_a_page_of_elsewhere_reads_nothing_here(cluster: LocalCluster) -> None:
    """Its name may lead to loopback: the browser sends it along."""
    for path in (PREFIX, f"{API}cluster"):
        assert ask(cluster, path, host="evil.example")[0] == 421
        assert ask(cluster, path, host="localhost:1")[0] == 200
    assert ask(cluster, "/metrics", host="prometheus.example")[0] == 200


def test_the_first_page_is_the_console(cluster: LocalCluster) -> None:
    assert "<title>txnstatus</title>" in ask(cluster, "/")[1]
