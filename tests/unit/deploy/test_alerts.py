"""Alert rules, as Prometheus evaluates them: each speaks up for what it is for, and not before."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from txndeploy.local.authority import Authority
from txnstatus.security.principals import Kind

MONITORING = Path(__file__).parents[3] / "deploy" / "monitoring"
FOUND = shutil.which("promtool")

pytestmark = pytest.mark.skipif(FOUND is None, reason="no promtool: apt-get install prometheus")

NODE = 'instance="n1:7272"'
STORAGE = 'logger="txnparticipant.upkeep.cleaner",level="WARNING"'
CASES: dict[str, tuple[dict[str, str], str, str]] = {
    "TxnstatusNodeSilent": ({f'up{{job="txnstatus",{NODE}}}': "1 0x20"}, "1m", "10m"),
    "TxnstatusGroupWithoutLeader": (
        {'txnstatus_replica_leads{group="group-0",instance="n1:7272"}': "1x4 0x20"},
        "4m",
        "10m",
    ),
    "TxnstatusDiskFull": ({f'txnstatus_replica_stands_still{{group="group-0",{NODE}}}': "0x5 1x20"}, "4m", "10m"),
    "TxnstatusReplicaBehind": (
        {
            f'txnstatus_replica_committed_index{{group="group-0",{NODE}}}': "0+5000x30",
            f'txnstatus_replica_applied_index{{group="group-0",{NODE}}}': "0x30",
        },
        "2m",
        "20m",
    ),
    "TxnstatusNearlyFull": (
        {
            'txnstatus_unfinished_transactions{range="status-0"}': "0+100x30",
            'txnstatus_option{name="max_open_transactions"}': "1000x30",
        },
        "7m",
        "20m",
    ),
    "TxnstatusEndingIsStuck": ({'txnstatus_longest_ending_seconds{range="status-0"}': "0+60x20"}, "1m", "10m"),
    "TxnstatusLoopPauses": ({f"txnstatus_longest_pause_seconds{{{NODE}}}": "0.01x5 0.5x20"}, "8m", "20m"),
    "TxnstatusLoopIsLate": (
        {
            f'txnstatus_loop_lateness_seconds_bucket{{le="0.025",{NODE}}}': "0+3000x40",
            f'txnstatus_loop_lateness_seconds_bucket{{le="0.05",{NODE}}}': "0+3000x10 30000+6000x30",
            f'txnstatus_loop_lateness_seconds_bucket{{le="+Inf",{NODE}}}': "0+3000x10 30000+6000x30",
        },
        "9m",
        "30m",
    ),
    "TxnstatusNoSnapshot": (
        {
            f'txnstatus_replica_log_bytes{{group="group-0",{NODE}}}': "600000000x120",
            f'txnstatus_replica_snapshot_age_seconds{{group="group-0",{NODE}}}': "0+60x120",
        },
        "60m",
        "80m",
    ),
    "TxnstatusNoMoreConnections": (
        {
            f'txnstatus_connections{{kind="client",{NODE}}}': "0+10x30",
            f'txnstatus_connections_limit{{kind="client",{NODE}}}': "100x30",
        },
        "9m",
        "20m",
    ),
    "TxnstatusNoCompactor": ({'txnstatus_open_compactions{shard="shard-0"}': "0x30 200x100"}, "40m", "100m"),
    "TxnstatusStorageFails": ({f"txnstatus_log_lines_total{{{NODE},{STORAGE}}}": "0x5 0+1x100"}, "10m", "60m"),
    "TxnstatusCertificateExpires": (
        {f'txnstatus_certificate_expires_timestamp_seconds{{of="node",{NODE}}}': f"{21 * 86400 + 1800}x120"},
        "29m",
        "60m",
    ),
    "TxnstatusErrors": (
        {f'txnstatus_log_lines_total{{{NODE},logger="txnstatus.rpc.calls",level="ERROR"}}': "0x5 0+1x60"},
        "6m",
        "20m",
    ),
}
"""Alert → series, minute by minute; when it is silent; when it speaks."""


def _rules() -> dict[str, Any]:
    groups = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def _promtool(*arguments: str | Path) -> str:
    assert FOUND is not None
    done = subprocess.run([FOUND, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_rules_and_configuration_are_valid(tmp_path: Path) -> None:
    """With the certificate that is made for it, beside it: without, it asked nodes with TLS for metrics in vain."""
    _promtool("check", "rules", MONITORING / "alerts.yaml")
    shutil.copytree(MONITORING, tmp_path / "prometheus")
    Authority.found("air", tmp_path / "ca").issue(Kind.USER, "prometheus", tmp_path / "prometheus" / "txnstatus")
    _promtool("check", "config", tmp_path / "prometheus" / "prometheus.yaml")
    (scraped,) = yaml.safe_load((MONITORING / "prometheus.yaml").read_text())["scrape_configs"]
    assert scraped["scheme"] == "https"


@pytest.mark.parametrize("alert", CASES)
def test_an_alert_is_silent_until_it_is_not(alert: str, tmp_path: Path) -> None:
    """Whether it fires is asked of the series that Prometheus keeps of alerts."""
    series, silent, loud = CASES[alert]
    firing = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})'
    test = {
        "rule_files": [str(MONITORING / "alerts.yaml")],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {"expr": firing, "eval_time": silent, "exp_samples": []},
                    {"expr": firing, "eval_time": loud, "exp_samples": [{"labels": "{}", "value": 1}]},
                ],
            }
        ],
    }
    path = tmp_path / "test.yaml"
    path.write_text(yaml.safe_dump(test))
    _promtool("test", "rules", path)


def test_each_alert_says_how_grave_it_is_and_what_to_do() -> None:
    for rule in _rules().values():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"].keys() == {"summary", "description"}
