"""What is counted of transactions: each write once, and nothing of those that committed before."""

from __future__ import annotations

from collections.abc import Mapping

from tests.unit.harness.shards import committed, new_shard, table_of
from txnparticipant.shard.counting import Count, Tally, parts
from txnparticipant.shard.table import TableState
from txnstatus.types import Timestamp, TxnId


def counts(table: TableState, since: int) -> Mapping[TxnId, Count]:
    tally = Tally()
    for part in parts(table, Timestamp(since)):
        tally.add(part)
    return tally.counts


def test_writes_of_a_time_are_counted() -> None:
    shard = new_shard()
    for number in range(1, 4):
        committed(shard, number, f"write00{number}", 100 * number, overwrite=number == 3)
    one = Count(added_rows=10, added_files=1)
    table = table_of(shard)
    assert counts(table, 0) == {TxnId(number): one for number in (1, 2, 3)}
    assert counts(table, 200) == {TxnId(number): one for number in (2, 3)}
    assert counts(table, 301) == {}
