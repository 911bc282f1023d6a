"""The tests of Spark's SQL with the supported minor releases of Spark other than that which all tests run with.

python -m tests.minors [4.0 4.1 ...] [--] [pytest's arguments]

Each has an environment of its own below .venv: its PySpark, and for all else what the environment of all tests has.
It fails where any release cannot be had, or any test with it fails.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

MINORS = ("4.0", "4.1", "4.2")
TESTS = ["-q", "-m", "not campaign", "-p", "no:cacheprovider", "tests/spark/sql"]
EXECUTORS = "TXN_SPARK_EXECUTORS"
"""The variable that has tests of Spark's SQL run their tasks in executors of their own, when it is set."""
HOME = Path(sys.prefix) / "minors"


def main(arguments: Sequence[str]) -> int:
    minors, chosen = divided(arguments)
    failed = [minor for minor in minors if not passes(minor, chosen)]
    print("FAILED:" if failed else "Passed:", "Spark", ", ".join(failed or minors))
    return int(bool(failed))


def divided(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The releases, which come first, and what is pytest's. Raises SystemExit for a release that is none of MINORS."""
    count = next((at for at, each in enumerate(arguments) if not re.fullmatch(r"\d+\.\d+", each)), len(arguments))
    if unknown := [each for each in arguments[:count] if each not in MINORS]:
        raise SystemExit(f"Spark {unknown[0]}: expected some of {', '.join(MINORS)}")
    rest = arguments[count:]
    return arguments[:count] or MINORS, rest[1:] if rest[:1] == ["--"] else rest


def passes(minor: str, chosen: Sequence[str]) -> bool:
    """Whether there were tests, and all passed."""
    python = environment(minor)
    version = subprocess.check_output([python, "-c", "import pyspark; print(pyspark.__version__)"], text=True).strip()
    print(f"Spark {version}", flush=True)
    command = [python, "-m", "pytest", *TESTS, *chosen]
    return subprocess.run(command, env={**os.environ, EXECUTORS: "1"}, check=False).returncode == 0


def environment(minor: str) -> Path:
    """Its interpreter. Raises CalledProcessError where the release cannot be installed."""
    home = HOME / minor
    python = home / "bin" / "python"
    if not (home / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", home], check=True)
        wanted = f"pyspark=={minor}.*"
        subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", wanted], check=True)
        names = {"base": home, "platbase": home}
        own = Path(sysconfig.get_path("purelib", "venv", vars=names))
        (own / "all_else.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
        (home / "installed").touch()
    return python


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
