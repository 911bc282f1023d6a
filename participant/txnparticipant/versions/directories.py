"""Names of the directories in a table's location: whose each is can be told from its name alone."""

from __future__ import annotations

import re

from txnstatus.types import TxnId
from txnstatus.values import value

_NAME = re.compile(
    r"delta_(?:(?P<txn_id>0|[1-9][0-9]{0,18})_(?P<write_id>[A-Za-z0-9]{8,64})|(?P<flush_id>rows[0-9a-f]{16}))"
)

MAX_TXN_ID = 2**63 - 1


@value
class WriteDirectory:
    """The directory of one write of a transaction."""

    txn_id: TxnId
    write_id: str

    @property
    def name(self) -> str:
        return f"delta_{self.txn_id}_{self.write_id}"


@value
class FlushDirectory:
    """The directory of one flush of row changes."""

    flush_id: str

    @property
    def name(self) -> str:
        return f"delta_{self.flush_id}"


def directory_named(name: str) -> WriteDirectory | FlushDirectory | None:
    """The directory with this name; None: this service gives it to none."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    if found["flush_id"]:
        return FlushDirectory(found["flush_id"])
    txn_id = int(found["txn_id"])
    return WriteDirectory(TxnId(txn_id), found["write_id"]) if txn_id <= MAX_TXN_ID else None
