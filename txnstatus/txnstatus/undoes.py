"""What an undo says of itself, whatever its label: its request id tells which transaction it takes back.

A record has that id anyway, from its begin on, and no participant has to know of it.
"""

from __future__ import annotations

import re

from txnstatus.errors import InvalidArgument
from txnstatus.types import TxnId

_FIRST = "undo-of-"
_FORM = re.compile(rf"{_FIRST}([1-9][0-9]{{0,18}})-[0-9a-f]{{32}}", re.ASCII)


def request_id_of_undo(txn_id: int, unique: str) -> str:
    """The id with which an undo of the transaction begins. `unique`: 32 hexadecimal digits that no other one has."""
    return f"{_FIRST}{txn_id}-{unique}"


def undone_by(request_id: str) -> TxnId | None:
    """The transaction that one with this request id takes back; None: it is no undo."""
    if not request_id.startswith(_FIRST):
        return None
    found = _FORM.fullmatch(request_id)
    return TxnId(int(found[1])) if found else None


def require_no_undo(request_id: str) -> None:
    """Raises InvalidArgument for an id that only an undo may have."""
    if undone_by(request_id) is not None:
        raise InvalidArgument(f"request_id {request_id!r} is that of an undo: give the write another one")
