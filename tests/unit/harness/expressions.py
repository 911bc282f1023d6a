"""Expressions of Spark SQL with the values that Spark gives them, row by row: tests/fixtures/spark_expressions.txt."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from txnclient.change import duck
from txnclient.change.names import of_table
from txnclient.change.sql import Sql, arrow_schema, parsed
from txnclient.formats import schemas

VALUES = Path(__file__).parents[2] / "fixtures" / "spark_expressions.txt"
DDL = (
    "id bigint, t tinyint, i int, b bigint, f float, x double, p decimal(10,2), s string, u string, d date, "
    "ts timestamp, n timestamp_ntz, k boolean, st struct<a:int,B:string>, bin binary, arr array<int>"
)
Z = dt.UTC
ROWS: list[tuple[Any, ...]] = [
    (1, 1, 10, 100, 1.5, 2.5, Decimal("1.25"), "abc", "a%c", dt.date(2020, 1, 31),
     dt.datetime(2020, 1, 31, 12, 30, 45, 123456, Z), dt.datetime(2020, 1, 31, 12, 30, 45), True,
     {"a": 1, "B": "x"}, b"ab", [1, 2]),
    (2, -7, -7, -100, -0.1, math.nan, Decimal("-1.25"), "a_c", "ABC", dt.date(2024, 2, 29),
     dt.datetime(2024, 2, 29, 23, 59, 59, 0, Z), dt.datetime(1999, 12, 31, 23, 59, 59), False,
     {"a": None, "B": "y"}, b"", []),
    (3, *(None,) * 15),
    (4, 7, 3, 1 << 40, 0.1, -0.0, Decimal("99999.99"), "", "é€😀", dt.date(1969, 12, 31),
     dt.datetime(1969, 12, 31, 23, 0, 0, 1, Z), dt.datetime(2020, 2, 29), True, None, b"\x00\xff", [None, 3]),
    (5, 100, 2147483000, 9007199254740993, 3.0, 1e300, Decimal("0.05"), "  pad ", "12", dt.date(2000, 1, 1),
     dt.datetime(2000, 1, 1, tzinfo=Z), dt.datetime(2000, 1, 1), None, {"a": 5, "B": None}, b"z", [5]),
]  # fmt: skip
EXPRESSIONS = r"""
i + 1; t + 1; i - b; t * 2; i / 2; b / i; i % 3; -7 % 3; i % t; i div 2; -7 div 2; p + 1; p * 1.1; p * p; p - 0.005
p % 0.3; f * 2; f + x; f + p; f * 1.5; x / 3; x + 1; x * 2; -i; -p; -x; mod(i, 4); (i + 1) / 2; -2147483648
i > 5; b = 1099511627776; t < 2.5; f = 0.1; f > 0.1; f = 1.5; x > 2; x < 1e10; x = x; x > 1e308; x = 0; x = 0.0
p = 1.25; p > 1; p < 1e1; p = x; b = 9007199254740992.0; b = cast(9007199254740992 as double); i = p; x <> 2.5
x <=> cast('NaN' as double); i <=> null; i <=> t; i != 10; not (i > 5); i > 5 and k; i > 5 or k; k and null; k or null
i <> -7 and 1 / (i + 7) > 0; i = -7 or 1 / (i + 7) > 0; not k; k is true; k is not true; k is false; i is not null
s = 'abc'; s == "abc"; s < 'b'; s in ('abc', '', null); i in (10, 3, null); i not in (10, 3); i not in (10, null)
i in (10, 2.5); p in (1.25, 5); i between 0 and 10; i not between 0 and 5; p between 1 and 2.5; 'a' = 'A'; 1 = 1.0
d between '2020-01-01' and '2020-12-31'; d = '2020-01-31'; d > date '2000-01-01'; d = date'2020-1-31'; d < ts; d <= n
ts > timestamp '2000-01-01 00:00:00'; ts >= '2020-01-31 12:30:45.123456'; ts < '2020-01-31'; n > '2000-01-01'
s like 'a%'; s like 'a\\_c'; s like 'a_c'; s like u; u like '%\\%%'; s not like 'a%'; s ilike 'A%'; s not ilike 'A%'
s rlike '^a.c$'; s not rlike '^a'; u like 'a!%c' escape '!'; concat(s, u); s || u || 'x'; concat(s, null)
length(s); length(u); upper(u); lower(u); trim(s); ltrim(s); rtrim(s); substring(s, 2); substring(s, 1, 2)
replace(s, 'a', 'zz'); startswith(s, 'a'); endswith(s, 'c'); contains(s, ''); nvl(s, 'none'); ifnull(i, t)
coalesce(i, 0); coalesce(p, 0); coalesce(i, p); coalesce(x, p); nullif(i, 10); if(i > 5, 'big', 'small'); if(k, i, p)
case when i > 5 then 1 when i is null then 0 end
case i when 10 then 'ten' else 'other' end; case when k then d else ts end
greatest(i, t); least(i, t, 5); greatest(x, 1.0); least(x, 1e10); greatest(s, u); abs(i); abs(p); abs(x); ceil(p)
floor(p); ceil(i); round(p); round(p, 1); round(-1.25, 1); isnull(i); isnotnull(i); T.i; `i` - `T`; St.A + 1
year(d); month(ts); day(n); dayofmonth(d); hour(ts); minute(ts); second(ts); hour(n); to_date(ts); date_add(d, 3)
date_sub(d, 1); date_add(d, i % 5); datediff(d, date'2000-01-01'); datediff(ts, d); d + interval 1 day
d + interval 1 month; d - interval 2 years; d - interval 1 week; ts + interval 2 hours; ts - interval 30 days
ts + interval 1 month; n + interval '5' minute; ts + interval 10 seconds; date'2020-02-29'
timestamp'2020-01-01 00:00:00.5'; timestamp'2020-01-01 00:00:00+05:00'; timestamp_ntz'2020-01-01 10:00:00'
cast(i as string); cast(p as string); cast(k as string); cast(d as string); cast(p as int); cast(f as double)
cast(p as double); cast(p as decimal(7,1)); cast(2.675 as decimal(10,2)); cast(cast(1.005 as double) as decimal(10,2))
cast(i as boolean); cast(k as int); cast(d as timestamp); cast(ts as date); cast(ts as timestamp_ntz)
cast(n as timestamp)
cast('12' as int); cast(' 12 ' as int); cast('1.5' as double); cast('2020-1-5' as date); cast('1e3' as double)
cast('2020-01-05T10:00:00Z' as timestamp); cast('2020-01-05 10:00:00+02:00' as timestamp); cast('true' as boolean)
cast('12.345' as decimal(10,2)); try_cast(u as int); try_cast(s as date); try_cast(s as double); try_cast(x as int)
try_cast(b as int); int(p); double(i); string(i); st.a; st.b; st.a is null; st is null; st = st; st.b = 'x'
named_struct('a', i, 'b', s); named_struct('a', st.a + 1, 'B', upper(st.b)); array(1, 2, i); arr = array(1, 2)
bin = X'6162'; bin > X'00'; X'ff'; 1; -1; 2147483648; 9223372036854775807; 1.50; .5; 0.05; 1e3; 1L; 2S; 3Y; 1.5D; 1.5BD
'a\nb'; 'a\\b'; "dou'ble"; 'it\'s'; r'a\nb'; '\u0041'; '\t|'; 'a' 'b'; true; null
"""
TEXTS = [text.strip() for line in EXPRESSIONS.strip().splitlines() for text in line.split(";")]


def lines(values: list[list[Any]]) -> list[str]:
    """The expressions with these values, as the fixture has them."""
    return [f"{text} => {_plain(each)!r}" for text, each in zip(TEXTS, values, strict=True)]


def rows() -> pa.Table:
    columns = schemas.to_columns(DDL)
    return pa.Table.from_pylist(
        [dict(zip((column.name for column in columns), row, strict=True)) for row in ROWS],
        schema=arrow_schema(columns),
    )


def values_here() -> list[list[Any]]:
    """The values that programs without Spark compute."""
    relation = of_table("db.T", schemas.to_columns(DDL))
    with duck.connected() as connection:
        sql = Sql("db.T", connection, (relation,), dt.datetime.now(Z))
        terms = [sql.term(parsed(text, text))[0].sql for text in TEXTS]
        query = ", ".join(f"{term} AS r{number}" for number, term in enumerate(terms))
        renamed = rows().rename_columns(list(relation.own_names))
        found = duck.run(connection, f"SELECT {query} FROM rows", "db.T", rows=renamed)
    return list(found.to_pydict().values())


def _plain(value: Any) -> Any:
    """A value whose text is that of all that are equal to it in SQL, whatever precision the engines give it."""
    match value:
        case float():
            return "NaN" if math.isnan(value) else value + 0.0
        case Decimal():
            return f"{value.normalize():f}" if value else "0"
        case dt.datetime() if value.tzinfo is not None:
            return f"{value.astimezone(Z)}"
        case dt.date():
            return f"{value}"
        case dict():
            return [_plain(each) for each in value.values()]
        case list():
            return [_plain(each) for each in value]
    return value
