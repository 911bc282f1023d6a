"""TPC-H's orders and line items, as far as Q1, Q3 and Q6 look at them, with its refreshes. There are no customers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ORDERS, QUICK_ORDERS = 24_000, 2_000
REFRESHES = 64
REFRESHED = 1_000
"""Orders beside one that comes and one that goes with a refresh."""
MOST_LINES = 7
TABLES = {
    "orders": "o_orderkey bigint, o_custkey bigint, o_segment string, o_totalprice decimal(15,2), o_orderdate date, "
    "o_shippriority int, o_year int",
    "lineitem": "l_orderkey bigint, l_linenumber int, l_quantity decimal(15,2), l_extendedprice decimal(15,2), "
    "l_discount decimal(15,2), l_tax decimal(15,2), l_returnflag string, l_linestatus string, l_shipdate date, "
    "l_year int",
}
KEYS = {"orders": ["o_orderkey"], "lineitem": ["l_orderkey", "l_linenumber"]}
PARTITION_BY = {"orders": ["o_year"], "lineitem": ["l_year"]}
USED = {"Q1": ("lineitem",), "Q3": ("orders", "lineitem"), "Q6": ("lineitem",)}
QUERIES = {
    "Q1": """
SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)),
  sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), avg(l_quantity), avg(l_extendedprice), avg(l_discount),
  count(*)
FROM lineitem WHERE l_shipdate <= DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus ORDER BY 1, 2""",
    "Q3": """
SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
FROM orders JOIN lineitem ON l_orderkey = o_orderkey
WHERE o_segment = 'BUILDING' AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate LIMIT 10""",
    "Q6": """
SELECT sum(l_extendedprice * l_discount) FROM lineitem
WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07
  AND l_quantity < 24""",
}
"""Q3 finds a customer's segment with its order."""
_FIRST, _DAYS, _UNTIL = (date(1992, 1, 1) - date(1970, 1, 1)).days, 2_400, (date(1995, 6, 17) - date(1970, 1, 1)).days
_SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"]


class Made:
    """Data that is the same each time."""

    def __init__(self, orders: int) -> None:
        self._orders, self._each = orders, max(1, orders // REFRESHED)

    def all_of(self, table: str) -> pa.Table:
        return _rows(0, self._orders)[table]

    def refresh(self, number: int) -> Mapping[str, tuple[pa.Table, pa.Table]]:
        """By table: rows that come, and keys that go, which are spread over what there was at first."""
        new = _rows(self._orders + number * self._each, self._each)
        first = number * self._each * (self._orders // (REFRESHES * self._each))
        old = _rows(first, self._each)
        return {name: (new[name], old[name].select(KEYS[name])) for name in TABLES}


def _rows(first: int, count: int) -> Mapping[str, pa.Table]:
    """The orders from a number on, each with its lines; what an order is follows from its number alone."""
    keys = np.arange(first, first + count, dtype=np.int64)
    days = _FIRST + _chance(keys, 1) % _DAYS
    lines = 1 + _chance(keys, 2) % MOST_LINES
    orders = {
        "o_orderkey": keys,
        "o_custkey": _chance(keys, 3) % 150_000,
        "o_segment": pa.array(_SEGMENTS).take(pa.array(_chance(keys, 4) % len(_SEGMENTS))),
        "o_totalprice": _money(_chance(keys, 5) % 50_000_000),
        "o_orderdate": _days(days),
        "o_shippriority": np.zeros(count, np.int32),
    }
    of = np.repeat(np.arange(count), lines)
    numbers = (np.arange(len(of)) - np.repeat(np.cumsum(lines) - lines, lines)).astype(np.int32)
    items = keys[of] * MOST_LINES + numbers
    shipped = days[of] + 1 + _chance(items, 6) % 121
    received = shipped + 1 + _chance(items, 7) % 30
    quantity = 1 + _chance(items, 8) % 50
    flags = np.where(received <= _UNTIL, _chance(items, 9) % 2, 2)
    lineitem = {
        "l_orderkey": keys[of],
        "l_linenumber": numbers,
        "l_quantity": _money(quantity * 100),
        "l_extendedprice": _money(quantity * (90_000 + _chance(items, 10) % 110_000)),
        "l_discount": _money(_chance(items, 11) % 11),
        "l_tax": _money(_chance(items, 12) % 9),
        "l_returnflag": pa.array(["A", "R", "N"]).take(pa.array(flags)),
        "l_linestatus": pa.array(["F", "O"]).take(pa.array((shipped > _UNTIL).astype(np.int64))),
        "l_shipdate": _days(shipped),
    }
    orders["o_year"], lineitem["l_year"] = (
        pc.year(each).cast(pa.int32()) for each in (orders["o_orderdate"], lineitem["l_shipdate"])
    )
    return {"orders": pa.table(orders), "lineitem": pa.table(lineitem)}


def _chance(keys: np.ndarray, salt: int) -> np.ndarray:
    """Numbers that look like chance, each by its key."""
    mixed = (keys.astype(np.uint64) + np.uint64(salt * 0x9E3779B9)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return ((mixed ^ (mixed >> np.uint64(32))) >> np.uint64(1)).astype(np.int64)


def _money(cents: np.ndarray) -> pa.Array:
    whole = pa.array(cents.astype(np.int64)).cast(pa.decimal128(19, 0))
    return pc.multiply(whole, pa.scalar("0.01", pa.string()).cast(pa.decimal128(3, 2))).cast(pa.decimal128(15, 2))


def _days(days: np.ndarray) -> pa.Array:
    return pa.array(days.astype(np.int32)).cast(pa.date32())
