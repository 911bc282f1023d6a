"""The order of keys, beside the one that their values have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnstatus.key_ranges import KeyOrder, KeyRange
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.lake.rows import encode_keys
from txnstatus.schema import Column, Schema

VALUES = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "decimal(38,10)": st.decimals(-(10**27), 10**27, places=10),
    "decimal(10,0)": st.decimals(-(10**9), 10**9, places=0),
    "string": st.text(st.characters(exclude_categories=["Cs"])),
    "binary": st.binary(),
    "date": st.dates(),
    "timestamp": st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),
}
BY_BYTES: dict[str, Callable[[Any], Any]] = {"string": str.encode}


def keyed(kind: str, *more: str) -> Schema:
    names = ("k", *(f"k{number}" for number in range(len(more))))
    return Schema(tuple(map(Column, names, (kind, *more))), primary_key=names)


def keys_of(schema: Schema, *columns: Iterable[Any]) -> list[bytes]:
    fields = zip(columns, to_arrow(schema), strict=True)
    arrays = [pa.array(list(column), field.type) for column, field in fields]
    rows = pa.Table.from_arrays(arrays, schema=to_arrow(schema))
    return encode_keys(rows, schema).to_pylist()


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_keys_are_ordered_as_their_values_are(kind: str, data: st.DataObject) -> None:
    one, other = data.draw(VALUES[kind]), data.draw(VALUES[kind])
    by = BY_BYTES.get(kind, lambda value: value)
    for schema, more in ((keyed(kind), []), (keyed(kind, "string"), [["a,b", "\\"]])):
        order = KeyOrder(schema)
        (low, also_low), (high, also_high) = order.places_of(keys_of(schema, [one, other], *more))
        assert (low, high) == (also_low, also_high)
        assert (low < high, low == high) == (by(one) < by(other), by(one) == by(other))
    single = KeyOrder(keyed(kind))
    for key in keys_of(keyed(kind), [one, other]):
        assert single.places_of([key]) == [single.ends(KeyRange(key, key))]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("date", b"12345-01-01"),
        ("date", b"-0044-03-15"),
        ("decimal(10,2)", b"1E999999999"),
        ("decimal(10,2)", b"NaN"),
        ("decimal(10,2)", b"\xff"),
        ("bigint", b"x"),
        ("bigint", b"9" * 5000),
        ("double", b"1.0"),
    ],
)
def test_what_does_not_tell_its_place_may_be_anywhere(kind: str, text: bytes) -> None:
    order = KeyOrder(keyed(kind))
    assert order.rank(text) is None
    (anywhere,) = order.places_of([text])
    assert anywhere == order.ends(KeyRange(text, text)) == order.ends(KeyRange())
    lowest, highest = anywhere
    assert all(lowest <= end <= highest for end in order.ends(KeyRange(b"1", b"1")))


def test_a_range_covers_others_with_what_is_open_in_them() -> None:
    order = KeyOrder(keyed("bigint"))
    some = [KeyRange(b"5", b"9", ("m=1", "m=2")), KeyRange(b"-5", b"10", ("m=2", "m=3"))]
    assert order.cover(some[:1]) == some[0]
    assert order.cover(some) == KeyRange(b"-5", b"10", ("m=1", "m=2", "m=3"))
    assert order.cover([*some, KeyRange(None, b"0")]) == KeyRange(None, b"10", ("m=1", "m=2", "m=3"))
    assert order.cover([*some, KeyRange(b"11")]) == KeyRange(b"-5", None, ("m=1", "m=2", "m=3"))


def test_the_first_column_of_a_key_is_read_with_commas_in_it() -> None:
    schema = keyed("string", "bigint")
    texts = ["a", "a,b", "a\\", "a\\,b", "", ","]
    keys = keys_of(schema, texts, range(len(texts)))
    assert [low[-1] for low, _ in KeyOrder(schema).places_of(keys)] == [text.encode() for text in texts]


def test_ranges_read_well() -> None:
    assert (str(KeyRange(b"1", b"5")), str(KeyRange(None, b"\xff"))) == ("1 to 5", "… to \\xff")
    assert date(2024, 1, 1).isoformat() == str(date(2024, 1, 1)), "how manifests spell dates"
    assert str(Decimal("1E-8").scaleb(0)) == "1E-8", "how keys spell small decimals"
