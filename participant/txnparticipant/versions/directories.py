"""Names of the directories in a table's location: whose each is can be told from its name alone."""

from __future__ import annotations

import re

from txnstatus import write_directory
from txnstatus.types import TxnId
from txnstatus.values import value

_NAME = re.compile(
    r"delta_(?:(?P<txn_id>0|[1-9][0-9]{0,18})_(?P<write_id>[A-Za-z0-9]{8,64})"
    r"|(?P<flush_id>rows[0-9a-f]{16})|(?P<minor>minor[0-9a-f]{16}))|base_(?P<major>major[0-9a-f]{16})"
)

MAX_TXN_ID = 2**63 - 1
COMPACTIONS = TxnId(-1)
"""The one in the place of a transaction that has written what compactions write, and removes what they replace."""


@value
class WriteDirectory:
    """The directory of one write of a transaction."""

    txn_id: TxnId
    write_id: str

    @property
    def name(self) -> str:
        return write_directory.name_of(self.txn_id, self.write_id)


@value
class FlushDirectory:
    """The directory of one flush of row changes."""

    flush_id: str

    @property
    def name(self) -> str:
        return f"delta_{self.flush_id}"


@value
class CompactionDirectory:
    """The directory of one compaction: a base, where it has rewritten all of a partition."""

    compaction_id: str

    @property
    def name(self) -> str:
        return f"{'base' if self.compaction_id.startswith('major') else 'delta'}_{self.compaction_id}"


Directory = WriteDirectory | FlushDirectory | CompactionDirectory


def directory_named(name: str) -> Directory | None:
    """The directory with this name; None: this service gives it to none."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    if found["flush_id"]:
        return FlushDirectory(found["flush_id"])
    if compaction_id := found["minor"] or found["major"]:
        return CompactionDirectory(compaction_id)
    txn_id = int(found["txn_id"])
    return WriteDirectory(TxnId(txn_id), found["write_id"]) if txn_id <= MAX_TXN_ID else None


def directory_of(txn_id: TxnId, write_id: str) -> WriteDirectory | CompactionDirectory:
    """The directory of a write, or of a compaction, which is the one write that it makes."""
    return CompactionDirectory(write_id) if txn_id == COMPACTIONS else WriteDirectory(txn_id, write_id)
