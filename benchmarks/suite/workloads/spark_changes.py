"""What MERGE and DELETE by Spark take, beside a job of Spark's that writes all rows anew."""

from __future__ import annotations

from benchmarks.suite.model import OURS, Goal, Workload
from benchmarks.suite.turns.changes import Changed
from benchmarks.suite.workloads.sql import OverTables

ROWS, QUICK_ROWS = 10_000_000, 100_000


class ByStatements(OverTables):
    about = "one session; statements of the client and a rewrite in turn; medians of ratios"
    turns = Changed


WORKLOAD = Workload(
    name="spark-changes",
    title="MERGE and DELETE by Spark beside a rewrite",
    about="A MERGE of a DataFrame with 0.3 % as many rows as the table, of which two of three update one, and a DELETE "
    "of one row in a hundred, all over the table; each with its commit. The plain one reads all rows, and writes and "
    "syncs those that are to be there.",
    contenders=lambda settings: [ByStatements(settings)],
    points=(QUICK_ROWS, ROWS),
    axis="rows",
    operation="statement",
    rounds=3,
    goals=tuple(
        Goal(OURS, f"{name} / plain", ROWS, bound, at_most=True) for name, bound in (("merge", 0.6), ("delete", 0.3))
    ),
)
