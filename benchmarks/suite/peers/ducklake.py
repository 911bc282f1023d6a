"""DuckLake, with its catalog in a DuckDB file."""

from __future__ import annotations

import importlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.suite.processes import needs_modules


def missing() -> str | None:
    return needs_modules("duckdb", "duckdb_extension_ducklake")


def versions() -> str:
    return f"DuckDB {version('duckdb')}, DuckLake {version('duckdb-extension-ducklake')}"


def attached(directory: Path) -> Any:
    """A connection of DuckDB that has a new lake, `lake`, in the directory."""
    package = Path(str(importlib.import_module("duckdb_extension_ducklake").__file__)).parent
    (extension,) = package.rglob("ducklake.duckdb_extension")
    settings = {"allow_unsigned_extensions": "true", "autoinstall_known_extensions": "false"}
    connection: Any = importlib.import_module("duckdb").connect(config=settings)
    connection.execute(f"LOAD '{extension}'")
    connection.execute(f"ATTACH 'ducklake:{directory}/catalog.ducklake' AS lake (DATA_PATH '{directory}/data/')")
    return connection
