"""All tests, side by side, with lint and types beside them.

python -m tests.run [--campaign | --quick] [pytest's arguments]

With --quick: lint, types, the rules of the source, and the unit tests of the rooms that are not as on `main`. The last
line says what was left out, and the command that brings it. It fails when any part does, or has no test.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import IO

WORKERS = 4
"""Tests at a time on two cores: nodes, and deadlines, are waited for more than they work (see `tests/conftest.py`)."""
CHECKS = (["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"])
ALWAYS = ["--durations", "20"]
RULES = ("tests/test_layering.py", "tests/test_tidy.py", "tests/test_proto.py", "tests/test_docs.py")
BROKEN_FROM_AFAR = ("tests/unit/process", "tests/badinput/test_decoders.py", "tests/sim/test_determinism.py")
"""What changes of other rooms break."""
UNIT = Path("tests/unit")
_SKIPPED = re.compile(r"SKIPPED \[(\d+)\] \S+ (.*)")
_CAMPAIGNS = re.compile(r"(\d+) tests of campaigns$")
"""What `tests/conftest.py` says at the end."""


def main(arguments: Sequence[str]) -> int:
    campaign, quick = "--campaign" in arguments, "--quick" in arguments
    chosen = [argument for argument in arguments if argument not in ("--campaign", "--quick")]
    if quick:
        chosen = [*RULES, *BROKEN_FROM_AFAR, *_changed_rooms(), *chosen]
    left: Counter[str] = Counter()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes would each compile all they import
    if campaign:
        print(f"seed {os.environ.get('TXN_SEED', '1')}", flush=True)
    with tempfile.TemporaryFile() as told:
        checks = [] if campaign else [_start(command, told) for command in CHECKS]
        passed = _tests("campaign" if campaign else "not campaign", chosen, left)
        failed = [" ".join(check.args[2:]) for check in checks if check.wait()]
        print(_read(told))
    if not passed:
        failed.append("tests")
    campaigns = left.pop("campaigns", 0)
    left_out = [f"{number} skipped: {reason}" for reason, number in left.most_common()]
    if left_out:
        left_out.append("what can be installed for these, `.ci/run` as root installs")
    if campaigns:
        left_out.insert(0, f"{campaigns} tests of campaigns: make nightly")
    if failed:
        print("FAILED:", "; ".join(failed))
    print("Left out:", "; ".join(left_out) or "nothing")
    return int(bool(failed))


def _changed_rooms() -> list[str]:
    """The folders of unit tests for what is not as on `main`."""
    base = subprocess.check_output(["git", "merge-base", "HEAD", "main"], text=True).strip()
    changed = subprocess.check_output(["git", "diff", "--name-only", base], text=True).splitlines()
    rooms = {UNIT / part for path in changed for part in Path(path).parent.parts if (UNIT / part).is_dir()}
    return sorted(map(str, rooms))


def _start(command: Sequence[str], told: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", *command], stdout=told, stderr=subprocess.STDOUT)


def _read(told: IO[bytes]) -> str:
    told.seek(0)
    return told.read().decode(errors="replace")


def _tests(which: str, chosen: Sequence[str], left: Counter[str]) -> bool:
    """Whether there were any, and all passed; what pytest says is shown as it comes, what it left out is counted."""
    command = [sys.executable, "-m", "pytest", "-m", which, "-n", str(WORKERS), *ALWAYS, *chosen]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as running:
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
            if found := _SKIPPED.match(line):
                left[found[2]] += int(found[1])
            elif found := _CAMPAIGNS.match(line):
                left["campaigns"] = int(found[1])
    return running.returncode == 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
