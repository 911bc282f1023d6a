"""What a request id says of an undo."""

from __future__ import annotations

import pytest

from txnstatus.errors import InvalidArgument
from txnstatus.undoes import request_id_of_undo, require_no_undo, undone_by

UNIQUE = "0123456789abcdef" * 2


@pytest.mark.parametrize("txn_id", [1, 17, (1 << 63) - 1])
def test_an_undo_says_what_it_takes_back(txn_id: int) -> None:
    said = request_id_of_undo(txn_id, UNIQUE)
    assert undone_by(said) == txn_id
    with pytest.raises(InvalidArgument, match=said):
        require_no_undo(said)


@pytest.mark.parametrize(
    "request_id",
    [
        "",
        UNIQUE,
        "undo-of-",
        f"undo-of-0-{UNIQUE}",
        f"undo-of--1-{UNIQUE}",
        f"undo-of-\N{ARABIC-INDIC DIGIT ONE}-{UNIQUE}",
        f"undo-of-{10**19}-{UNIQUE}",
        f"undo-of-17-{UNIQUE}0",
        f"undo-of-17-{UNIQUE}\n",
        f" undo-of-17-{UNIQUE}",
    ],
)
def test_others_are_none(request_id: str) -> None:
    assert undone_by(request_id) is None
    require_no_undo(request_id)
