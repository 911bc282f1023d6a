"""Many seeds from the command line: their progress, their figures, and an early end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.sim.campaign import campaign, scenario
from tests.sim.campaign.result import Result

COMMAND = [sys.executable, "-m", "tests.sim"]


def test_figures_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    command = [*COMMAND, "3..4", "--profile", "calm", "--processes", "1", "--report", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    figures = json.loads(path.read_text())
    expected = campaign.run(range(3, 4), "calm", processes=1)
    assert figures["seeds"] == 1
    assert figures["digest"] == f"{expected.digest:08x}"
    assert figures["acked_commits"] == expected.acked_commits > 0
    assert figures["profiles"] == {"calm": 1}
    assert figures["failures"] == []


def test_a_failure_is_among_the_figures() -> None:
    report = campaign.Report()
    made = scenario.make(7, "calm")
    report.add(Result(made, 0, ["3 lost: it is gone"], 1.0, 0, 0, 0, 0))
    failure = {"seed": 7, "profile": "calm", "violation": "3 lost: it is gone"}
    assert json.loads(report.to_json())["failures"] == [failure]


def test_sigterm_ends_it_with_the_figures_so_far(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    program = (
        "import os, signal; from tests.sim.campaign import command, campaign;"
        "add = campaign.Report.add\n"
        "def once(self, result): add(self, result); os.kill(os.getpid(), signal.SIGTERM)\n"
        "campaign.Report.add = once\n"
        f"import pathlib; command._campaign(range(3, 53), 'calm', 1, pathlib.Path({str(path)!r}))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert "interrupted: 1 of 50 seeds" in ran.stdout
    assert json.loads(path.read_text())["seeds"] == 1
