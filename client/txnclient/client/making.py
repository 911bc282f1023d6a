"""Tables that a call makes, and then fills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from txnclient.snapshot import Snapshot
from txnstatus.errors import NotFound

if TYPE_CHECKING:
    from txnclient.client.tables import Tables


def unmake(client: Tables, table: str, table_id: str) -> None:
    """Drops what a call has made that failed then, unless it has rows, or is another table by now.

    Rows are those of a commit whose answer was lost, or of others.
    """
    try:
        if client.table(table).table_id != table_id:
            return
        with Snapshot(client.session, client.session.last_commit()) as now:
            found = now.table_files(table)
            is_empty = not found.files and found.changes is None
        if is_empty:
            client.drop_table(table)
    except NotFound:
        return
