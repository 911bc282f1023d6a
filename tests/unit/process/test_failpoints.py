"""Failpoints: what an armed one does, and that the matrix of faults has every one that the code has."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import time
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.clocks import Clocks
from tests.faults.points import BACKUP_POINTS, COMPACTION_POINTS, FOREIGN_OPS, FOREIGN_POINTS, POINTS
from txnparticipant.shard.commands import Command as ShardCommand
from txnstatus.errors import OutcomeUnknown
from txnstatus.process.failpoints import arm, arm_from_file, failpoint
from txnstatus.proto import catalog_pb2
from txnstatus.status.commands import Command as StatusCommand

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _disarm() -> Iterator[None]:
    yield
    arm("")


def test_off_nothing_happens() -> None:
    failpoint("a.point")
    arm("another.point=error")
    failpoint("a.point")


def test_an_error_is_the_one_of_the_place() -> None:
    arm("a.point=error;b.point=error")
    with pytest.raises(OSError, match=r"a\.point") as caught:
        failpoint("a.point")
    assert caught.value.errno == errno.EIO
    with pytest.raises(OutcomeUnknown, match=r"b\.point"):
        failpoint("b.point", OutcomeUnknown)


def test_a_delay_waits() -> None:
    arm("a.point=delay:0.05")
    before = time.monotonic()
    failpoint("a.point")
    assert time.monotonic() - before >= 0.05


def test_a_mark_lets_one_act_and_tells_who(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    arm(f"a.point=error@{mark}")
    with pytest.raises(OSError, match=r"a\.point"):
        failpoint("a.point")
    failpoint("a.point")
    assert int(mark.read_text()) == os.getpid()


def test_a_crash_is_kill_9() -> None:
    program = "from txnstatus.process.failpoints import arm, failpoint; arm('a.point=crash'); failpoint('a.point')"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL


def test_a_file_arms_and_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "failpoints"
    path.write_text("a.point=error")
    arm_from_file(path)
    assert not path.exists()
    with pytest.raises(OSError, match=r"a\.point"):
        failpoint("a.point")


def test_a_delay_lasts_though_the_wall_clock_is_turned(tmp_path: Path) -> None:
    clocks = Clocks(tmp_path / "clocks", {"n1": 300})
    program = (
        "import time; from txnstatus.process.failpoints import arm, failpoint; arm('a.point=delay:0.1'); "
        "began = time.monotonic(); failpoint('a.point'); assert time.monotonic() - began >= 0.1"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **clocks.environment("n1")}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


@pytest.mark.parametrize("bad", ["a.point", "a.point=explode", "a.point=delay", "a.point=delay:soon"])
def test_what_cannot_be_armed_is_refused_whole(bad: str) -> None:
    with pytest.raises(ValueError, match=r"a\.point|soon|explode|delay"):
        arm(f"b.point=error;{bad}")
    failpoint("b.point")


# ---- which points there are


def _in_source() -> set[str]:
    found: set[str] = set()
    for folder in ("txnstatus", "participant", "manager", "client", "deploy"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            kinds = re.findall(r'= Proposer\(\s*"(\w+)"', text)
            found |= set(re.findall(r'failpoint\(f?"([^"]+)"', text))
            found |= {f"{kind}.{when}.COMMAND" for kind in kinds for when in ("before", "after")}
    passed_on = {"{self._kind}.before.{type(command).__name__}", "{self._kind}.after.{type(command).__name__}"}
    return {name.replace("{name}", "COMMAND") for name in found - passed_on}


def _expanded(names: set[str]) -> set[str]:
    commands = {
        "status": [command.__name__ for command in typing.get_args(StatusCommand)],
        "shard": [command.__name__ for command in typing.get_args(ShardCommand)],
        "catalog": [
            "".join(word.title() for word in field.name.split("_"))
            for field in catalog_pb2.CatalogCommand.DESCRIPTOR.oneofs_by_name["command"].fields
        ],
        "foreign": list(FOREIGN_OPS),
    }
    return {
        name.replace("COMMAND", command)
        for name in names
        for command in (commands[name.split(".")[0]] if "COMMAND" in name else ("",))
    }


def test_the_matrix_has_every_point() -> None:
    names = [*(point.name for point in POINTS), *FOREIGN_POINTS, *COMPACTION_POINTS, *BACKUP_POINTS]
    assert sorted(names) == sorted(_expanded(_in_source()))
    assert len(names) >= 40
