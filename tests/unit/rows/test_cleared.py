"""Row changes of a table that is overwritten as a whole, as readers between the overwrites see them."""

from __future__ import annotations

import pytest

from txnparticipant.rows.memrowset import RowBatch, RowSet, TableRows
from txnstatus.types import Timestamp, TxnId

ROWS, CLEARS = (10, 30, 50), (20, 40)


@pytest.mark.parametrize("at", range(5, 60, 5))
def test_each_reader_sees_what_was_changed_since_the_last_overwrite_below(at: int) -> None:
    """Not only since the last of all: who reads between two of them sees nothing of before the first."""
    rows = TableRows()
    for commit_ts in sorted((*ROWS, *CLEARS)):
        if commit_ts in CLEARS:
            rows.clear(Timestamp(commit_ts))
        else:
            batch = RowBatch("w", deletes=False, rows=b"rows", keys=(b"key",))
            rows.publish(RowSet(TxnId(commit_ts), Timestamp(commit_ts), (batch,)))
    seen = rows.view(()).at(Timestamp(at), {})
    cleared = max((each for each in CLEARS if each <= at), default=0)
    assert [each.commit_ts for each in seen.row_sets] == [each for each in ROWS if cleared < each <= at]
