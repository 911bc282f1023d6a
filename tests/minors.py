"""The tests of Spark's SQL with the supported minor releases of Spark other than that which all tests run with.

python -m tests.minors [4.0 4.1 ... --] [pytest's arguments]

Each has an environment of its own below .venv: its PySpark, and for all else what the environment of all tests has.
It fails where any release cannot be had, or any test with it fails.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

MINORS = ("4.0", "4.1", "4.2")
TESTS = ["-q", "-m", "not campaign", "-p", "no:cacheprovider", "tests/spark/sql"]
HOME = Path(sys.prefix) / "minors"


def main(arguments: Sequence[str]) -> int:
    split = arguments.index("--") if "--" in arguments else 0
    minors = arguments[:split] or MINORS
    failed = [minor for minor in minors if not passes(minor, arguments[split:][bool(split) :])]
    print("FAILED:" if failed else "Passed:", "Spark", ", ".join(failed or minors))
    return int(bool(failed))


def passes(minor: str, chosen: Sequence[str]) -> bool:
    """Whether there were tests, and all passed."""
    python = environment(minor)
    version = subprocess.check_output([python, "-c", "import pyspark; print(pyspark.__version__)"], text=True).strip()
    print(f"Spark {version}", flush=True)
    return subprocess.run([python, "-m", "pytest", *TESTS, *chosen], check=False).returncode == 0


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
