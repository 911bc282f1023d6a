"""TPC-H's eight tables as its own generator makes them, which DuckDB's extension has, and the answers it knows."""

from __future__ import annotations

from pathlib import Path

from benchmarks.suite.duckdb_extensions import loaded

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
MODULES = ("duckdb", "duckdb_extension_tpch")
"""Modules of Python that it takes."""


def write(directory: Path, scale: float) -> None:
    """A file of Parquet for each table, `NAME.parquet`, in the directory, which is made."""
    directory.mkdir(parents=True)
    with loaded("tpch") as made:
        made.execute("CALL dbgen(sf = $1)", [scale])
        for table in TABLES:
            made.execute(f"COPY {table} TO '{directory}/{table}.parquet'")


def answers(scale: float) -> dict[str, str]:
    """Query → its answer: a line of names, then values, with bars between them. Of scales 0.01, 0.1 and 1."""
    with loaded("tpch") as made:
        found = made.execute("SELECT query_nr, answer FROM tpch_answers() WHERE scale_factor = $1", [scale]).fetchall()
    return {f"Q{number}": answer for number, answer in found}
