"""A node's log: JSON objects where its configuration says so, and other levels while it runs."""

from __future__ import annotations

import json
import os
import signal
import tomllib
from pathlib import Path
from typing import Any

import tomli_w

from tests.support import fast_cluster, wait_until


def _lines(path: Path) -> list[dict[str, Any]]:
    """Whole ones; each has to be JSON."""
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def test_a_node_logs_json_and_tells_more_when_it_is_asked(tmp_path: Path) -> None:
    cluster = fast_cluster(tmp_path / "cluster", nodes=1)
    path = cluster.config_path("n1")
    plain = tomllib.loads(path.read_text())

    def configure(**said: object) -> None:
        path.write_text(tomli_w.dumps({**plain, "log_format": "json", **said}))

    configure()
    with cluster:
        log, pid = cluster.log_path("n1"), cluster.pid("n1")
        before = _lines(log)
        assert {each["process"] for each in before} == {"n1"}
        assert any(" leads in term " in each["message"] for each in before)
        assert not [each for each in before if each["level"] == "DEBUG"]

        def asked(**said: object) -> dict[str, Any]:
            """What the node says of its levels once its configuration says that."""
            count = len(_lines(log))
            configure(**said)
            os.kill(pid, signal.SIGHUP)
            told = wait_until(
                lambda: [each for each in _lines(log)[count:] if each["logger"] == "txndeploy.node.telling"],
                "the node has read its levels",
            )
            return told[0]

        assert asked(log_level="DEBUG")["message"] == "the log tells DEBUG of all"
        assert asked(log_levels={"txnstatus.raft": "DEBUG"})["message"] == (
            "the log tells INFO of all, DEBUG of txnstatus.raft"
        )
        refused = asked(log_level="CHATTY")
        assert refused["level"] == "ERROR"
        assert "log_level" in refused["message"]
        assert cluster.running("n1")
