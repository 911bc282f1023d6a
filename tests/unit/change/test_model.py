"""Random programs of DELETE, UPDATE and MERGE against a model: rows as dicts, one after the other.

A predicate is made twice: as SQL, and as a function of Python with NULL as None.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.harness.changes import Row, World, counted, schema_of
from txnclient.change import local, merging
from txnclient.change.merge import Merge
from txnclient.change.plan import Act, MergePlan, Rows, RowsChanged
from txnclient.formats import arrow
from txnstatus.errors import InvalidArgument
from txnstatus.lake.arrow_types import to_arrow

DDL = (
    "id bigint, g int, kept int NOT NULL, Name string, p decimal(8,2), day date, at timestamp, "
    "st struct<a:int,b:string>, x double"
)
STATEMENTS = 8


@dataclass(frozen=True)
class Sql:
    text: str
    of: Callable[[Row, Row], Any]
    """The value, given a row of the table and one of the source."""


def literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case dt.datetime():
            return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S}'"
        case dt.date():
            return f"date'{value}'"
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case float() if math.isnan(value):
            return "cast('NaN' as double)"
    return str(value)


class Chance:
    """A source of rows, predicates and statements."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def row(self) -> Row:
        pick = self.random
        row: Row = {name: self.value(name) for name in ("id", "g", "Name", "p", "day", "at", "x")}
        row["kept"] = pick.randrange(9)
        row["st"] = None if pick.random() < 0.2 else {"a": self.value("g"), "b": self.value("Name")}
        return row

    def value(self, name: str) -> Any:
        pick = self.random
        if name != "id" and pick.random() < 0.15:
            return None
        match name:
            case "id":
                return pick.randrange(60) if pick.random() < 0.95 else None
            case "g":
                return pick.randrange(-2, 4)
            case "Name":
                return pick.choice(["", "a", "b%", "O'Hara", "é", "back\\slash", "B"])
            case "p":
                return Decimal(pick.randrange(-500, 500)).scaleb(-2)
            case "day":
                return dt.date(2024, 2, 27) + dt.timedelta(days=pick.randrange(5))
            case "at":
                return dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=pick.randrange(40))
        return pick.choice([0.0, -0.5, 1.5, 1e300, math.nan])

    def predicate(self, depth: int = 2, side: str = "", sides: tuple[str, ...] = ("",)) -> Sql:
        pick = self.random
        kind = pick.randrange(9) if depth else pick.randrange(6)
        if kind == 6:
            inner = self.predicate(depth - 1, sides=sides)
            return Sql(f"NOT ({inner.text})", lambda t, s: None if (v := inner.of(t, s)) is None else not v)
        if kind > 6:
            one, other = self.predicate(depth - 1, sides=sides), self.predicate(depth - 1, sides=sides)
            if kind == 7:
                return Sql(f"({one.text}) and ({other.text})", lambda t, s: _and(one.of(t, s), other.of(t, s)))
            return Sql(
                f"({one.text} OR {other.text})",
                lambda t, s: _not(_and(_not(one.of(t, s)), _not(other.of(t, s)))),
            )
        name, column = self.column(sides)
        constant = self.value(name)
        if kind == 0:
            wants = pick.random() < 0.5
            return Sql(
                f"{column.text} is {'' if wants else 'not '}null", lambda t, s: (column.of(t, s) is None) == wants
            )
        if kind == 1:
            values = [self.value(name) for _ in range(3)]
            texts = ", ".join(map(literal, values))
            return Sql(f"{column.text} in ({texts})", lambda t, s: _in(column.of(t, s), values))
        if kind == 2:
            low, high = self.value(name), self.value(name)
            return Sql(
                f"{column.text} BETWEEN {literal(low)} AND {literal(high)}",
                lambda t, s: _and(_compare(">=", column.of(t, s), low), _compare("<=", column.of(t, s), high)),
            )
        if kind == 3:
            return Sql(f"{column.text} <=> {literal(constant)}", lambda t, s: _key(column.of(t, s)) == _key(constant))
        sign = pick.choice(["=", "==", "<", "<=", ">", ">=", "<>", "!="])
        if pick.random() < 0.2:
            return Sql(
                f"{literal(constant)} {sign} {column.text}", lambda t, s: _compare(sign, constant, column.of(t, s))
            )
        return Sql(f"{column.text} {sign} {literal(constant)}", lambda t, s: _compare(sign, column.of(t, s), constant))

    def column(self, sides: tuple[str, ...]) -> tuple[str, Sql]:
        """A column, or a field of the struct, by a name in any case."""
        pick = self.random
        side = pick.choice(sides)
        name = pick.choice(["id", "id", "g", "Name", "p", "day", "at", "x", "st.a", "st.b"])
        shown = pick.choice([name, name.upper(), ".".join(f"`{part}`" for part in name.split("."))])
        shown = f"{side}.{shown}" if side else shown

        def of(target: Row, source: Row) -> Any:
            row = source if side == "source" else target
            outer, _, field = name.partition(".")
            return row[outer][field] if field and row[outer] is not None else None if field else row[outer]

        return {"st.a": "g", "st.b": "Name"}.get(name, name), Sql(shown, of)

    def values(self, sides: tuple[str, ...]) -> dict[str, Sql]:
        pick = self.random
        found: dict[str, Sql] = {}
        kept = pick.randrange(9)
        for name in pick.sample(["id", "g", "Name", "p", "day", "x", "st"], pick.randrange(1, 4)):
            qualifier = f"{pick.choice(sides)}." if sides != ("",) else ""
            own = name == "st" or pick.random() < 0.6
            found[name] = self.changed(name, qualifier) if own else self.constant(name)
        return found | {"kept": Sql(str(kept), lambda t, s: kept)}

    def constant(self, name: str) -> Sql:
        value = self.value(name)
        return Sql(literal(value), lambda t, s: value)

    def changed(self, name: str, qualifier: str) -> Sql:
        def row(target: Row, source: Row) -> Row:
            return source if qualifier == "source." else target

        def lifted(change: Callable[[Any], Any], column: str = name) -> Callable[[Row, Row], Any]:
            return lambda t, s: None if row(t, s)[column] is None else change(row(t, s)[column])

        column = f"{qualifier}{name}"
        match name:
            case "id" | "g":
                return Sql(f"{column} + 1", lifted(lambda value: value + 1))
            case "Name":
                return Sql(f"concat({column}, '!')", lifted(lambda value: value + "!"))
            case "p":
                return Sql(f"-{column}", lifted(lambda value: -value))
            case "day":
                return Sql(f"date_add({column}, 1)", lifted(lambda value: value + dt.timedelta(days=1)))
            case "x":
                return Sql(f"{column} / 2", lifted(lambda value: value / 2))
        return Sql(
            f"named_struct('a', {qualifier}g, 'b', {column}.b)",
            lambda t, s: {"a": row(t, s)["g"], "b": (row(t, s)["st"] or {"b": None})["b"]},
        )


def _and(one: Any, other: Any) -> Any:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def _not(value: Any) -> Any:
    return None if value is None else not value


def _in(value: Any, values: list[Any]) -> Any:
    if value is None:
        return None
    if _key(value) in [_key(each) for each in values if each is not None]:
        return True
    return None if None in values else False


def _key(value: Any) -> Any:
    """A NaN is equal to itself, and above all numbers."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


def _compare(sign: str, one: Any, other: Any) -> Any:
    if one is None or other is None:
        return None
    one, other = _key(one), _key(other)
    signs = {
        "=": one == other,
        "==": one == other,
        "<": one < other,
        "<=": one <= other,
        ">": one > other,
        ">=": one >= other,
        "<>": one != other,
        "!=": one != other,
    }
    return signs[sign]


# ---- the model


def model_merge(rows: list[Row], source: list[Row], on: Sql, clauses: list[tuple[Rows, Act, Any, Any]]) -> list[Row]:
    """The rows after it. Raises InvalidArgument for a row that is changed twice."""
    kept, matched = [], set()
    for row in rows:
        pairs = [number for number, other in enumerate(source) if on.of(row, other) is True]
        matched.update(pairs)
        about = Rows.MATCHED if pairs else Rows.NOT_MATCHED_BY_SOURCE
        done = []
        for number in pairs or [None]:
            other = {} if number is None else source[number]
            clause = _first(clauses, about, row, other)
            if clause is not None:
                done.append(
                    None if clause[1] is Act.DELETE else row | {n: v.of(row, other) for n, v in clause[2].items()}
                )
        if len(done) > 1 and about is Rows.MATCHED:
            only = [each[1:] for each in clauses if each[0] is Rows.MATCHED]
            if only != [(Act.DELETE, None, None)]:
                raise InvalidArgument("twice")
        kept += [row] if not done else [each for each in done if each is not None]
    for number, other in enumerate(source):
        clause = None if number in matched else _first(clauses, Rows.NOT_MATCHED, {}, other)
        if clause is not None:
            empty = dict.fromkeys(other)
            kept.append(empty | {name: value.of({}, other) for name, value in clause[2].items()})
    return kept


def _first(clauses: list[tuple[Rows, Act, Any, Any]], about: Rows, row: Row, other: Row) -> Any:
    for clause in clauses:
        if clause[0] is about and (clause[3] is None or clause[3].of(row, other) is True):
            return clause
    return None


def random_clauses(chance: Chance) -> list[tuple[Rows, Act, Any, Any]]:
    pick = chance.random
    sides = {Rows.MATCHED: ("target", "source"), Rows.NOT_MATCHED: ("source",), Rows.NOT_MATCHED_BY_SOURCE: ("target",)}
    clauses: list[tuple[Rows, Act, Any, Any]] = []
    for about in pick.sample(list(Rows), pick.randrange(1, 4)):
        for _ in range(pick.randrange(1, 3)):
            act = Act.INSERT if about is Rows.NOT_MATCHED else pick.choice([Act.UPDATE, Act.DELETE])
            condition = chance.predicate(1, sides=sides[about]) if pick.random() < 0.6 else None
            clauses.append((about, act, None if act is Act.DELETE else chance.values(sides[about]), condition))
            if condition is None:
                break
    return clauses


def built(building: Merge[Any], clauses: list[tuple[Rows, Act, Any, Any]]) -> Merge[Any]:
    for about, act, values, condition in clauses:
        name = f"when_{about.name.lower()}_{act.value}"
        texts = () if values is None else ({column: value.text for column, value in values.items()},)
        getattr(building, name)(*texts, condition=None if condition is None else condition.text)
    return building


# ---- programs


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(8, 400))]
)
def test_random_programs_leave_the_rows_that_the_model_has(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Chance(seed)
    pick = chance.random
    monkeypatch.setattr(arrow, "ROWS_PER_GROUP", pick.choice([3, 7, 1000]))
    partition_by = pick.choice([(), ("g",), ("day", "Name")])
    parts = [[chance.row() for _ in range(pick.randrange(1, 25))] for _ in range(pick.randrange(1, 5))]
    world = World.of(tmp_path, schema_of(DDL, partition_by), parts)
    for step in range(STATEMENTS):
        rows = world.rows()
        kind = pick.choice(["delete", "update", "merge", "merge"])
        if kind == "merge":
            _merge(world, chance, rows)
            continue
        where = chance.predicate()
        hit = [where.of(row, {}) is True for row in rows]
        expected = [row for row, each in zip(rows, hit, strict=True) if not each]
        if kind == "delete":
            changed = local.delete(world.there, where.text)
            assert (changed.deleted, changed.rows) == (sum(hit), None), f"{step}: {where.text}"
        else:
            values = chance.values(("",))
            texts = {name: value.text for name, value in values.items()}
            changed = local.update(world.there, texts, where.text)
            assert changed.updated == sum(hit), f"{step}: {where.text}"
            expected += [
                row | {name: value.of(row, {}) for name, value in values.items()}
                for row, each in zip(rows, hit, strict=True)
                if each
            ]
        world.apply(changed)
        assert counted(world.rows()) == counted(expected), f"{step}: {kind} {where.text}"


def _merge(world: World, chance: Chance, rows: list[Row]) -> None:
    pick = chance.random
    source = [chance.row() for _ in range(pick.randrange(12))]
    keys = [("id", "id")] if pick.random() < 0.7 else [("id", "id"), ("Name", "Name")]
    parts = [Sql(f"target.{a} = source.{b}", lambda t, s, a=a, b=b: _compare("=", t[a], s[b])) for a, b in keys]
    if pick.random() < 0.3:
        parts.append(chance.predicate(1, sides=("target", "source")))
    on = Sql(
        " and ".join(f"({part.text})" for part in parts),
        lambda t, s: all(part.of(t, s) is True for part in parts),
    )
    clauses = random_clauses(chance)
    table = pa.Table.from_pylist(source, schema=to_arrow(world.there.schema))

    def run(plan: MergePlan) -> RowsChanged:
        return merging.merge(world.there, table, plan)

    said = f"ON {on.text} {[(c[0].name, c[1].name, c[3] and c[3].text) for c in clauses]}"
    try:
        expected = model_merge(rows, source, on, clauses)
    except InvalidArgument:
        with pytest.raises(InvalidArgument, match="matched by several rows of the source"):
            built(Merge("db.t", world.there.schema, on.text, run), clauses).execute()
        return
    changed = built(Merge("db.t", world.there.schema, on.text, run), clauses).execute()
    world.apply(changed)
    assert counted(world.rows()) == counted(expected), said
    assert len(expected) == len(rows) + changed.inserted - changed.deleted, said
