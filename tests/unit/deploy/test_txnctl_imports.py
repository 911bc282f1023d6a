"""What `txnctl sql` imports: nothing that only a node needs, so that a query is not the least of what it takes."""

from __future__ import annotations

import subprocess
import sys

import pytest

FOR_NODES = ("grpc", "msgspec", "pydantic", "pysyncobj", "tomli_w", "txnmanager", "txnparticipant", "uvloop")
"""Packages that nodes need, and processes that start some."""
FOR_OTHERS = ("deltalake", "polars", "prompt_toolkit", "pyiceberg", "pyspark")
ENGINES = ("duckdb", "numpy", "pandas", "pyarrow", "rich", "sqlglot")
"""Libraries that SQL needs, with those that pyarrow imports where they are."""
OF_OTHER_CALLS = (
    "txnclient.change.merge", "txnclient.compact.worker", "txnclient.history.reverting", "txnclient.incoming.adopting",
    "txnclient.outgoing.iceberg", "txndeploy.terminal.listings", "txnstatus.catalog", "txnstatus.lake.delta_log",
    "txnstatus.rpc.server",
)  # fmt: skip
"""Modules of ours that a query does not need, each with what it imports."""
ALSO_LATER = ("aiohttp", "cryptography", "duckdb", "pandas", "pyarrow.dataset", "pyarrow.parquet")
"""Libraries that are for queries other than a count, and for other clusters."""
SQL = "import txndeploy.ctl.speaking, txndeploy.speaking.results, txnclient.ducksql.sessions"
PROGRAM = "import sys; from txndeploy.ctl.commands import app; {}; print(*sys.modules)"


@pytest.mark.parametrize(
    ("imported", "without"),
    [("", (*FOR_NODES, *FOR_OTHERS, *ENGINES)), (SQL, (*FOR_NODES, *FOR_OTHERS))],
    ids=["txnctl", "sql"],
)
def test_a_command_imports_what_it_needs(imported: str, without: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", PROGRAM.format(imported or "pass")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    assert {name.partition(".")[0] for name in done.stdout.split()}.isdisjoint(without)
    assert set(done.stdout.split()).isdisjoint((*OF_OTHER_CALLS, *ALSO_LATER))


def test_nobody_looks_for_garbage_among_what_a_command_imports() -> None:
    """While it is imported, and later; what comes then is looked at, as ever."""
    program = (
        "import gc; from txndeploy.ctl.commands import _Commands; runs = lambda: [each['collections'] for each in "
        "gc.get_stats()]; before = runs(); _Commands()['sql']; now = runs(); "
        "print(now == before, gc.get_freeze_count() > 10_000, gc.isenabled())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout.split() == ["True"] * 3
