"""The Spin model in docs/model holds what it says, and finds each fault that is planted in it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

MODEL = Path(__file__).parent.parent / "docs" / "model" / "commit.pml"
COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = [
    pytest.mark.skipif(shutil.which("spin") is None, reason="spin is not installed (apt-get install spin)"),
    pytest.mark.skipif(COMPILER is None, reason="there is no C compiler"),
]

ONE = ("T=1", "CRASHES=2")
TWO = ("T=2", "CRASHES=0", "WRITTEN")
ENDS = ("T=1", "CRASHES=1", "LIVENESS")
FAULTS = [
    (ONE, "FAULT_EARLY_DECISION"),
    (ONE, "FAULT_LATE_REGISTER"),
    (ONE, "FAULT_EXPIRE"),
    (ONE, "FAULT_ACK"),
    (ONE, "FAULT_TOMBSTONE"),
    (ONE, "FAULT_ONE_TIMESTAMP"),
    (ONE, "FAULT_READ_PREPARED"),
    (TWO, "FAULT_TIMESTAMPS_FALL"),
    (ENDS, "FAULT_FORGETFUL_LEADER"),
]


def errors(directory: Path, *defines: str) -> int:
    """How many violations Spin finds, which stops at the first."""
    fair = "LIVENESS" in defines
    run(directory, "spin", *(f"-D{name}" for name in defines), "-a", str(MODEL))
    assert COMPILER is not None
    build = ("-DNFAIR=3",) if fair else ("-DSAFETY",)
    run(directory, COMPILER, "-O2", "-w", "-DVECTORSZ=512", *build, "-o", "pan", "pan.c")
    told = run(directory, "./pan", "-m100000", *(("-a", "-f") if fair else ()))
    assert "search not completed" not in told or "pan:1:" in told, told
    found = re.search(r"errors: (\d+)", told)
    assert found is not None, told
    return int(found.group(1))


def run(directory: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("defines", [ONE, TWO, ENDS], ids=" ".join)
def test_the_model_holds(tmp_path: Path, defines: tuple[str, ...]) -> None:
    assert errors(tmp_path, *defines) == 0


@pytest.mark.parametrize(("defines", "fault"), FAULTS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_planted_fault_is_found(tmp_path: Path, defines: tuple[str, ...], fault: str) -> None:
    assert errors(tmp_path, *defines, fault) == 1


def test_every_fault_of_the_model_is_planted_by_a_test() -> None:
    assert set(re.findall(r"FAULT_\w+", MODEL.read_text())) == {fault for _, fault in FAULTS}
