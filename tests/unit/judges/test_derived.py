"""The judge of derived state: what was looked into is no other state than what was not."""

from __future__ import annotations

from tests.sim.judges.derived import _differences
from txnparticipant.rows.changed_keys import ChangedKeys
from txnparticipant.rows.key_places import Changed
from txnstatus.key_ranges import KeyOrder, KeyRange
from txnstatus.schema import Column, Schema
from txnstatus.types import NO_TIMESTAMP, TxnId

ORDER = KeyOrder(Schema((Column("k", "bigint"),), primary_key=("k",)))


def prepared(*txn_ids: int) -> ChangedKeys:
    keys = ChangedKeys()
    for txn_id in txn_ids:
        keys.prepare(TxnId(txn_id), Changed((b"%d" % txn_id,)), ORDER)
    return keys


def test_prepared_keys_that_were_compared_with_a_range_are_the_same_as_before() -> None:
    """A simulated world failed: such keys are put in order when they are first looked into."""
    looked_into = prepared(7)
    assert looked_into.met(Changed((), (KeyRange(b"1", b"9"),)), NO_TIMESTAMP, ORDER)
    assert not list(_differences(looked_into, prepared(7), "keys"))


def test_prepared_keys_that_are_missing_are_seen() -> None:
    assert list(_differences(prepared(6, 7), prepared(6), "keys"))
