"""DuckDB's extensions that come as packages of Python: nothing is fetched when they are loaded."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any


def loaded(*names: str) -> Any:
    """A connection of DuckDB in memory, with the extensions of packages `duckdb_extension_NAME`, in that order."""
    settings = {"allow_unsigned_extensions": "true", "autoinstall_known_extensions": "false"}
    connection: Any = importlib.import_module("duckdb").connect(config=settings)
    for name in names:
        package = Path(str(importlib.import_module(f"duckdb_extension_{name}").__file__)).parent
        (extension,) = package.rglob(f"{name}.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
    return connection
