"""A node's log: JSON objects where its configuration says so, and other levels while it runs."""

from __future__ import annotations

import json
import os
import signal
import tomllib
from pathlib import Path
from typing import Any

import tomli_w
from typer.testing import CliRunner

from tests.support import fast_cluster, wait_until
from txndeploy.ctl import commands


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

        def said(*arguments: str) -> tuple[int, str]:
            ran = CliRunner().invoke(commands.app, ["log-level", *arguments, "--cluster", cluster.addresses, "--json"])
            return ran.exit_code, ran.output

        def levels(*arguments: str) -> dict[str, str]:
            code, told = said(*arguments)
            assert code == 0, told
            found = json.loads(told)["levels"]
            assert {each["node"] for each in found} == {"n1"}
            return {each["logger"]: each["level"] for each in found}

        as_read = {"": "INFO", "txnstatus.raft": "DEBUG"}
        assert levels() == as_read
        assert levels("warning", "--logger", "txnstatus.raft") == {"": "INFO", "txnstatus.raft": "WARNING"}
        assert levels("DEBUG") == {"": "DEBUG", "txnstatus.raft": "WARNING"}
        assert levels("CONFIGURED", "--logger", "txnstatus.raft") == {"": "DEBUG", "txnstatus.raft": "DEBUG"}
        assert levels("CONFIGURED") == as_read
        code, told = said("CHATTY")
        assert code != 0
        assert "there is no level 'CHATTY'; there are: DEBUG, INFO, WARNING, ERROR, CONFIGURED" in told
        code, told = said("DEBUG", "--node", "n7")
        assert code != 0
        assert "there is no node 'n7'; there are: n1" in told


def test_nodes_that_are_silent_keep_no_other_from_its_level(tmp_path: Path) -> None:
    """Pins: the first silent node ended it, and those behind it in the alphabet kept their levels."""
    with fast_cluster(tmp_path / "cluster") as cluster:
        cluster.kill("n1")

        def said(*arguments: str) -> tuple[int, str, str]:
            asked = ["log-level", *arguments, "--cluster", cluster.addresses, "--timeout", "3", "--json"]
            ran = CliRunner().invoke(commands.app, asked)
            return ran.exit_code, ran.stdout, ran.stderr

        code, told, why = said("DEBUG")
        assert code != 0
        assert {(each["node"], each["level"]) for each in json.loads(told)["levels"]} == {
            ("n2", "DEBUG"),
            ("n3", "DEBUG"),
        }
        assert "n1 did not answer" in why
        assert "n2" not in why
