"""Metrics: what a cluster tells of work that this test has done; and that the page, the rules and the dashboard name
what there is.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import promql_parser
import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from tests.support import SCHEMA, connect, fast_cluster, rows, wait_until
from txnclient import Client, Conflict, NotFound
from txndeploy.local.cluster import LocalCluster

ROOT = Path(__file__).parents[3]
MONITORING = ROOT / "deploy" / "monitoring"
SECONDS = 10
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with fast_cluster(tmp_path_factory.mktemp("cluster"), http=True) as running:
        with connect(running) as client:
            client.create_table("m.one", SCHEMA)
            for number in range(3):
                client.write(rows(number), "m.one")
            client.transaction().abort("not wanted")
            _conflict(client)
        yield running


def _conflict(client: Client) -> None:
    first, second = client.transaction(), client.transaction()
    first.write(rows(10), "m.one", "overwrite")
    second.write(rows(11), "m.one", "overwrite")
    first.commit()
    with pytest.raises(Conflict):
        second.commit()


def _get(cluster: LocalCluster, node: str, path: str, accept: str = "") -> tuple[int, str]:
    request = Request(f"http://{cluster.configs[node].http_address}{path}", headers={"Accept": accept})
    try:
        with urlopen(request, timeout=SECONDS) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def _samples(cluster: LocalCluster, node: str) -> Samples:
    families = text_string_to_metric_families(_get(cluster, node, "/metrics")[1])
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def _sum(cluster: LocalCluster, metric: str, **labels: str) -> float:
    """Over all nodes and all samples with these labels."""
    return sum(
        value
        for node in cluster.configs
        for (found, pairs), value in _samples(cluster, node).items()
        if found == metric and labels.items() <= dict(pairs).items()
    )


def test_lateness_and_snapshots_are_told(cluster: LocalCluster) -> None:
    """A young cluster has written no snapshots; the loop is looked at all the time."""
    for node in cluster.configs:
        samples = _samples(cluster, node)
        assert samples["txnstatus_loop_lateness_seconds_count", ()] > 10
        groups = {pairs for name, pairs in samples if name == "txnstatus_replica_term"}
        assert groups
        for name in ("replica_snapshots_total", "replica_snapshot_bytes", "replica_snapshot_seconds"):
            assert {pairs: samples[f"txnstatus_{name}", pairs] for pairs in groups} == dict.fromkeys(groups, 0.0)
        assert all(samples["txnstatus_replica_snapshot_age_seconds", pairs] > 0 for pairs in groups)


def test_what_was_done_is_counted_once(cluster: LocalCluster) -> None:
    assert _sum(cluster, "txnstatus_begun_transactions_total") >= 6
    committed = _sum(cluster, "txnstatus_ended_transactions_total", state="committed")
    assert _sum(cluster, "txnstatus_ended_transactions_total", state="aborted", cause="requested") == 1
    assert _sum(cluster, "txnstatus_ended_transactions_total", state="aborted", cause="conflict") == 1
    assert committed == _sum(cluster, "txnstatus_begun_transactions_total") - 2
    assert _sum(cluster, "txnstatus_unfinished_transactions") == 0
    assert _sum(cluster, "txnstatus_call_seconds_count", method="txnstatus.TxnManager/CommitTransaction") >= 2
    assert _sum(cluster, "txnstatus_log_seconds_count", step="sync") > 0
    assert _sum(cluster, "txnstatus_log_seconds_count", step="replication") > 0
    assert _sum(cluster, "txnstatus_tables") == 1
    assert _sum(cluster, "txnstatus_option", name="retention_ms") > 0
    leads = _sum(cluster, "txnstatus_replica_leads", group="group-0")
    assert leads == 1


def test_a_refusal_is_counted_by_its_code(cluster: LocalCluster) -> None:
    before = _sum(cluster, "txnstatus_refused_calls_total", code="NOT_FOUND")
    with connect(cluster) as client, pytest.raises(NotFound, match="does not exist"):
        client.table("m.nowhere")
    assert _sum(cluster, "txnstatus_refused_calls_total", code="NOT_FOUND") > before


def test_open_metrics_are_read_too(cluster: LocalCluster) -> None:
    _, text = _get(cluster, "n1", "/metrics", "application/openmetrics-text; version=1.0.0")
    assert text.endswith("# EOF\n")
    assert {family.name for family in openmetrics(text)} >= {"txnstatus_call_seconds", "txnstatus_replica_term"}


def test_any_other_path_is_not_there(cluster: LocalCluster) -> None:
    assert _get(cluster, "n1", "/nothing")[0] == 404


def _names(text: str) -> set[str]:
    """Families that the text names, whatever of them."""
    found = set(re.findall(r"\btxnstatus_[a-z_]+", text))
    return {re.sub(r"_(total|bucket|count|sum)$", "", name) for name in found}


def _families(cluster: LocalCluster) -> set[str]:
    found = {family.name for family in text_string_to_metric_families(_get(cluster, "n1", "/metrics")[1])}
    return {name for name in found if name.startswith("txnstatus_")}


def test_the_page_names_each_and_no_other(cluster: LocalCluster) -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    section = page.split("## Metrics and health")[1].split("\n## ")[0]
    suffixes = re.search(r"`txnstatus_replica_leads\{group\}`((?:, `_\w+`)+)", section)
    assert suffixes is not None
    told = _names(section) | {f"txnstatus_replica{suffix}" for suffix in re.findall(r"`(_\w+)`", suffixes[1])}
    assert told == _families(cluster)


def _expressions() -> list[str]:
    rules = yaml.safe_load((MONITORING / "alerts.yaml").read_text())
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    return [rule["expr"] for group in rules["groups"] for rule in group["rules"]] + [
        target["expr"].replace("$__rate_interval", "1m") for panel in panels for target in panel["targets"]
    ]


@pytest.mark.parametrize("expression", _expressions(), ids=itertools.count())
def test_rules_and_panels_ask_for_what_there_is(cluster: LocalCluster, expression: str) -> None:
    promql_parser.parse(expression)
    assert _names(expression) <= _families(cluster)
    for method in re.findall(r'method="([^"]+)"', expression):
        assert _sum(cluster, "txnstatus_call_seconds_count", method=method) > 0


def test_a_node_without_a_majority_lives_and_is_not_ready(cluster: LocalCluster) -> None:
    wait_until(lambda: _get(cluster, "n1", "/readyz")[0] == 200, "n1 is ready")
    for node in ("n2", "n3"):
        cluster.kill(node)
    wait_until(lambda: _get(cluster, "n1", "/readyz")[0] == 503, "n1 is not ready")
    assert "knows no leader of" in _get(cluster, "n1", "/readyz")[1]
    assert _get(cluster, "n1", "/livez")[0] == 200
    for node in ("n2", "n3"):
        cluster.restart(node)
    wait_until(lambda: _get(cluster, "n1", "/readyz")[0] == 200, "n1 is ready again")
