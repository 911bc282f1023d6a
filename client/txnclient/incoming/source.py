"""Source: a table of another format at one moment, by its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from txnstatus.errors import InvalidArgument

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class SourceFile:
    uri: str
    values: Mapping[str, str | None] = field(default_factory=dict)
    """The columns of which the file has no value, since its place tells it, and their values as text."""


@dataclass(frozen=True, slots=True)
class Source:
    """What is to come in."""

    format: str
    """The kind of table: "parquet", "delta" or "iceberg"."""
    root: str
    """The URI of its directory."""
    files: Sequence[SourceFile]
    schema: pa.Schema
    """All columns, also those that only places tell."""
    rows: Callable[[], pa.RecordBatchReader]
    """What reads all of its rows, a batch at a time."""
    unlike: str = ""
    """Why its files are not its rows, as they stand; empty: they are."""

    @property
    def directories(self) -> set[str]:
        return {self.root, *(file.uri.rpartition("/")[0] for file in self.files)}


def child(root: str, path: str) -> str:
    """The URI of what lies in a directory under this path, which is plain text and not quoted."""
    return f"{root}/{quote(path, safe='/=')}"


def required(module: str) -> InvalidArgument:
    return InvalidArgument(f"{module} is not installed here", hint="pip install 'txnstatus[import]'")
