"""Iceberg metadata on demand: which state of a table it is of, and where it may be."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from txnclient.calls.requests import checked_place
from txnclient.session import Session
from txnclient.snapshot import Snapshot
from txnstatus.errors import IllegalState, InternalError, InvalidArgument
from txnstatus.lake.file_lists import has_bare
from txnstatus.types import Timestamp


@dataclass(frozen=True, slots=True)
class IcebergVersion:
    """Metadata of a table."""

    metadata: str
    """The URI of the metadata file."""
    version: int
    commit_timestamp: Timestamp
    """The state of the table that it shows: that of a snapshot at this timestamp."""


def publish(session: Session, table: str, to: str, places: Collection[str]) -> IcebergVersion:
    """As `Client.publish_iceberg`. `places`: the locations of all tables."""
    from txnclient.incoming.adopting import require_apart
    from txnclient.outgoing import iceberg

    iceberg.require_library()
    root = _root(to)
    require_apart([root.as_uri()], places)
    directory, info = root / iceberg.DIRECTORY, session.table(table)
    whose = f"{session.cluster_id}/{info.table_id}"
    with Snapshot(session, session.last_commit()) as now:
        found = now.table_files(table)
        if found.changes is not None:
            raise IllegalState(
                f"table {table} has rows that were changed by key, which are in no file",
                hint="they are in files after client.compact(table, kind='major')",
            )
        if has_bare(found.files):
            raise IllegalState(
                f"files of {table} do not have the columns that it is partitioned by",
                hint="client.optimize writes them anew, with all columns",
            )
        if filled := found.schema.fills:
            raise IllegalState(
                f"files of {table} do not have its column {filled[0].name!r}, which is no null there",
                hint="a new table with these columns can be shown: CREATE TABLE ... AS SELECT",
            )
        try:
            done = iceberg.write(found, whose, now.timestamp, directory)
        except FileExistsError as error:
            raise IllegalState(f"somebody writes to {directory}, too: {error}") from error
        except NotADirectoryError as error:
            raise InvalidArgument(f"{directory} can be no directory: {error}", hint="name another one") from error
        except (OSError, ValueError) as error:
            raise InternalError(f"the metadata in {directory} does not read, or cannot be written: {error}") from error
    place = directory / f"v{done.number}.metadata.json"
    return IcebergVersion(f"file://{place}", done.number, Timestamp(done.commit))


def _root(to: str) -> Path:
    if "://" not in checked_place(to, "to"):
        return Path(to).resolve()
    parts = urlsplit(to)
    if parts.scheme != "file" or parts.netloc:
        raise InvalidArgument(
            f"{to} is in no file system on which a version is put only where none is", hint="name a directory here"
        )
    return Path(unquote(parts.path))
