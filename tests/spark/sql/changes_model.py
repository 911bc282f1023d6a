"""What DELETE, UPDATE and MERGE come to, by SELECTs of plain Spark over a copy of the rows; statements at random."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = tuple[int | None, str | None, int | None]
COLUMNS = ("k", "p", "v")
DDL = "k bigint, p string, v bigint"
PARTITION = "t.p = 'a'"
"""A predicate that is of one partition, where the table is split by p."""


@dataclass(frozen=True)
class When:
    rows: str
    """MATCHED, NOT MATCHED or NOT MATCHED BY SOURCE."""
    condition: str
    values: tuple[str, ...] | None
    """New values of the columns; None: the row is deleted."""

    def sql(self) -> str:
        head = f"WHEN {self.rows} AND {self.condition} THEN "
        if self.values is None:
            return head + "DELETE"
        if self.rows == "NOT MATCHED":
            return f"{head}INSERT ({', '.join(COLUMNS)}) VALUES ({', '.join(self.values)})"
        sets = [f"{name} = {value}" for name, value in zip(COLUMNS, self.values, strict=True) if value != f"t.{name}"]
        return f"{head}UPDATE SET {', '.join(sets)}"


class Model:
    """A copy of a table."""

    def __init__(self, spark: SparkSession, *, is_keyed: bool) -> None:
        self._spark, self._is_keyed = spark, is_keyed
        self.rows: list[Row] = []

    def is_possible(self, rows: list[Row]) -> bool:
        keys = [row[0] for row in rows]
        return not self._is_keyed or (None not in keys and len(set(keys)) == len(keys))

    def delete(self, where: str) -> list[Row]:
        return self._asked(f"SELECT {', '.join(COLUMNS)} FROM model t WHERE NOT coalesce({where}, false)")

    def update(self, sets: dict[str, str], where: str) -> list[Row]:
        new = [
            f"CASE WHEN coalesce({where}, false) THEN {sets[name]} ELSE {name} END" if name in sets else name
            for name in COLUMNS
        ]
        return self._asked(f"SELECT {', '.join(new)} FROM model t")

    def replace(self, where: str, select: str) -> list[Row]:
        """By the rows that the query makes of the source."""
        return self.delete(where) + self._asked(select)

    def merge(self, on: str, whens: list[When]) -> list[Row] | None:
        """None: a row matches twice, and a clause is about rows that match."""
        cases = dict.fromkeys(("MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"), "")
        for number, when in enumerate(whens):
            cases[when.rows] += f" WHEN {when.condition} THEN {number}"
        acts = {rows: f"CASE{whens} END" if whens else "NULL" for rows, whens in cases.items()}
        act = (
            f"CASE WHEN t.n IS NULL THEN {acts['NOT MATCHED']} WHEN s.n IS NULL THEN {acts['NOT MATCHED BY SOURCE']} "
            f"ELSE {acts['MATCHED']} END"
        )
        new = []
        for column, name in enumerate(COLUMNS):
            found = [f" WHEN {n} THEN {when.values[column]}" for n, when in enumerate(whens) if when.values]
            new.append(f"CASE act{''.join(found)} END AS {name}" if found else f"NULL AS {name}")
        both = f"struct(t.*) AS t, struct(s.*) AS s FROM model t FULL JOIN source s ON {on}"
        pairs = f"SELECT t.n AS place, {act} AS act, {both}"
        wanted = "act IS NOT NULL OR (t.n IS NOT NULL AND s.n IS NOT NULL)"
        found = self._asked(f"SELECT act, place, s.n, {', '.join(new)} FROM ({pairs}) WHERE {wanted}")
        matches = Counter(place for _, place, source, *_ in found if None not in (place, source))
        if cases["MATCHED"] and max(matches.values(), default=1) > 1:
            return None
        dead = {place for act, place, *_ in found if None not in (act, place)}
        kept = [row for n, row in enumerate(self.rows) if n not in dead]
        return kept + [tuple(row) for act, _, _, *row in found if act is not None and whens[act].values is not None]

    def _asked(self, select: str) -> list:
        view(self._spark, "model", self.rows)
        return [tuple(row) for row in self._spark.sql(select).collect()]


def view(spark: SparkSession, name: str, rows: list[Row]) -> None:
    """A view of the rows, with their numbers."""
    numbered = [(n, *row) for n, row in enumerate(rows)]
    spark.createDataFrame(numbered, f"n int, {DDL}").coalesce(1).createOrReplaceTempView(name)


class Drawn:
    """Statements, and rows, from a seed."""

    def __init__(self, seed: int, *, is_keyed: bool) -> None:
        self._random = random.Random(seed)
        self._is_keyed = is_keyed

    def rows(self, count: int, *, first: int = 0) -> list[Row]:
        draw = self._random
        keys = range(first, first + count) if self._is_keyed else [draw.choice([None, *range(8)]) for _ in range(count)]
        return [(key, draw.choice([None, "a", "b"]), draw.choice([None, *range(6)])) for key in keys]

    def source(self) -> list[Row]:
        rows = self.rows(6, first=self._random.randrange(20))
        return rows + rows[: self._random.choice([0, 0, 0, 1])]

    def predicate(self, *more: str) -> str:
        return self._random.choice([*self._of_columns(), "t.v > (SELECT avg(v) FROM source)", *more])

    def condition(self) -> str:
        """A predicate that looks into no other table."""
        n = self._random.randrange(6)
        return self._random.choice([*self._of_columns(), f"t.p IN ('a', 'x') AND t.v <> {n}", f"t.v <=> {n}"])

    def _of_columns(self) -> list[str]:
        n = self._random.randrange(6)
        return [
            f"t.k % 3 = {n % 3}",
            f"t.v > {n}",
            PARTITION,
            "t.p IS NULL",
            f"t.v IS NULL OR t.k < {n}",
            f"NOT (t.p = 'b' AND t.v > {n})",
        ]

    def sets(self) -> dict[str, str]:
        new = {
            "k": ["t.k + 1", "t.k * 100"] if not self._is_keyed else ["t.k + 1", "t.k + 1000"],
            "p": ["t.p || 'x'", "coalesce(t.p, 'c')", "NULL"],
            "v": ["t.v * 2 + t.k", "CASE WHEN t.v > 2 THEN NULL ELSE t.v + 1 END", "(SELECT max(v) FROM source)"],
        }
        names = self._random.sample(COLUMNS, self._random.randrange(1, 3))
        return {name: self._random.choice(new[name]) for name in names}

    def on(self) -> str:
        ons = ["t.k = s.k", "t.k = s.k AND s.v > 1", "t.k <=> s.k AND t.p <=> s.p", "t.k + 1 = s.k"]
        return self._random.choice(ons if self._is_keyed else [*ons, "t.v = s.v AND t.k > s.k"])

    def whens(self) -> list[When]:
        draw, found = self._random, []
        for _ in range(draw.randrange(0, 3)):
            change = draw.choice([None, ("t.k", "s.p", "s.v + t.v"), ("t.k", "t.p", "coalesce(s.v, -t.v)")])
            found.append(When("MATCHED", draw.choice(["true", "s.v > 2", "t.p = s.p", "t.v IS NULL"]), change))
        if draw.random() < 0.8 or not found:
            found.append(
                When("NOT MATCHED", draw.choice(["true", "s.v > 1", "s.p IS NOT NULL"]), ("s.k", "s.p", "s.v"))
            )
        if draw.random() < 0.5:
            change = draw.choice([None, ("t.k", "'gone'", "t.v")])
            found.append(When("NOT MATCHED BY SOURCE", draw.choice(["t.v > 3", "t.k % 4 = 1", "t.p = 'gone'"]), change))
        return found
