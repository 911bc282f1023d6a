"""DuckLake, with its catalog in a DuckDB file."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.suite.duckdb_extensions import loaded
from benchmarks.suite.processes import needs_modules


def missing() -> str | None:
    return needs_modules("duckdb", "duckdb_extension_ducklake")


def versions() -> str:
    return f"DuckDB {version('duckdb')}, DuckLake {version('duckdb-extension-ducklake')}"


def attached(directory: Path) -> Any:
    """A connection of DuckDB that has a new lake, `lake`, in the directory."""
    connection = loaded("ducklake")
    connection.execute(f"ATTACH 'ducklake:{directory}/catalog.ducklake' AS lake (DATA_PATH '{directory}/data/')")
    return connection
