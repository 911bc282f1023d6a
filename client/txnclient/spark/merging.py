"""MERGE by Spark.

The source is kept on the executors' disks, so that all that follows sees the same of it; its rows have numbers. It is
joined with rows of the table that its values come near to, and what becomes of each pair is kept likewise: positions
and new rows are of one evaluation. The rest of the source, which no row of the table matches, may be inserted.

Where the source is small and nothing is computed, this process does it: see merging_here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions

from txnclient.change.plan import Act, Clause, Looked, MergePlan, Rows, RowsChanged
from txnclient.change.sql import of_default
from txnclient.formats.file_statistics import python_of, rows_shown, text_of_bound
from txnclient.read.table_files import TableFiles
from txnclient.spark import merging_here, reader
from txnclient.spark.alive_rows import FILE, ROW, has_jvm
from txnclient.spark.expressions import Sql, matchings, running
from txnclient.spark.positions import COUNT, Placed, bitmaps, collected
from txnstatus.errors import InvalidArgument
from txnstatus.names import CHANGE_PREFIX, fold, quoted
from txnstatus.schema import Column as TableColumn

if TYPE_CHECKING:
    from pyroaring import BitMap
    from pyspark.sql import Column, DataFrame

SOURCE, ACT = "_txn_source", "_txn_act"
MAX_BROADCAST_BYTES = 64 << 20
"""Size, more or less, up to which each executor gets the whole source, and rows of the table stay where they are."""
_JOINS = {(False, False): "inner", (True, False): "left", (False, True): "right", (True, True): "full"}
"""Kinds of joins, by whether all rows of the target are wanted, and all of the source."""
MAX_NAMED = 3
MAX_SHOWN = 500
"""Characters of rows in a message."""


def merge(there: TableFiles, source: DataFrame, plan: MergePlan) -> RowsChanged:
    """What `MERGE INTO table USING source` does. Raises InvalidArgument, DataDamaged."""
    plan.require(there.schema, there.name)
    _check_source(source, there.name)
    numbered = source.withColumn(SOURCE, functions.monotonically_increasing_id())
    return _Merge(there, plan, numbered).run()


def _check_source(source: DataFrame, table: str) -> None:
    seen: dict[str, str] = {}
    for name in source.columns:
        if fold(name).startswith(CHANGE_PREFIX):
            raise InvalidArgument(
                f"the source of the MERGE into {table} has column {name!r}: names that begin with {CHANGE_PREFIX} "
                "are taken"
            )
        if seen.setdefault(fold(name), name) != name or source.columns.count(name) > 1:
            raise InvalidArgument(f"the source of the MERGE into {table} has column {name!r} twice")


@dataclass(frozen=True, slots=True)
class _When:
    """A clause whose SQL was checked."""

    clause: Clause
    condition: Column | None
    values: dict[str, Column]
    """Column of the table → its new value."""


@dataclass(frozen=True, slots=True)
class _Near:
    """A source, and where rows can be that match."""

    rows: int
    bytes: int
    """The size of the source, more or less."""
    where: tuple[Column, ...]
    """Filters of the table's rows."""
    looked: tuple[Looked, ...]
    """The same, for those who look at what others add."""


class _Merge:
    """One MERGE while it runs."""

    def __init__(self, there: TableFiles, plan: MergePlan, source: DataFrame) -> None:
        self._there = there
        self._plan = plan
        self._sql = Sql(there.name)
        self._spark = source.sparkSession
        self._none = reader.read_files(self._spark, (), there.schema).alias("target")
        on = self._checked_on(self._none, source.alias("source"))
        self._whens(self._none, source.alias("source"))  # before anything runs
        self._asked_here = merging_here.asked(there, self._none, source.alias("source"), plan, on)
        with running(there.name):
            self._source = source.localCheckpoint().alias("source")

    def run(self) -> RowsChanged:
        near = self._near()
        if self._asked_here is not None and near.rows <= merging_here.MAX_ROWS and near.bytes <= merging_here.MAX_BYTES:
            found = merging_here.merge(self._there, self._source, self._asked_here)
            if found is not None:
                return found
        return self._by_spark(near)

    def _by_spark(self, near: _Near) -> RowsChanged:
        placed = Placed.of(self._spark, self._there)
        target = placed.rows.alias("target")
        on = self._checked_on(target, self._source)
        # Rows without a match come of the same join where neither side is sent around, and it is one by equality.
        is_small = near.bytes <= MAX_BROADCAST_BYTES
        at_once = self._plan.inserts and bool(near.where) and not is_small
        if not self._plan.needs_all_of_target:
            target = reduce(lambda rows, each: rows.where(each), near.where, target)
        whens = self._whens(target, self._source)
        with running(self._there.name):
            pairs = self._pairs(target, on, whens, is_small=is_small, at_once=at_once)
            found = collected(pairs.where(f"{ACT} IS NOT NULL"), ACT)
            new = [pairs] if at_once or any(when.clause.act is Act.UPDATE for when in whens) else []
            counts = self._counts(found, whens)
            if self._plan.inserts and not at_once:
                inserts = self._inserts(pairs, whens)
                counts[Act.INSERT] = inserts.count()
                new.append(inserts)
        dead = bitmaps(found, placed.uris)
        self._check_once(dead, counts, pairs, placed)
        counts[Act.DELETE] = sum(map(len, dead.values())) - counts[Act.UPDATE]
        rows = self._rows(new, whens) if counts[Act.UPDATE] + counts[Act.INSERT] else None
        return replace(
            placed.changed(dead),
            rows=rows,
            inserted=counts[Act.INSERT],
            updated=counts[Act.UPDATE],
            deleted=counts[Act.DELETE],
            looked=near.looked if self._plan.inserts else (),
        )

    # ---- SQL

    def _checked_on(self, target: DataFrame, source: DataFrame) -> Column:
        said = f"ON of the MERGE into {self._there.name}:"
        return self._sql.predicate(target.crossJoin(source), self._plan.on, said)

    def _whens(self, target: DataFrame, source: DataFrame) -> list[_When]:
        visible = {
            Rows.MATCHED: target.crossJoin(source),
            Rows.NOT_MATCHED: source,
            Rows.NOT_MATCHED_BY_SOURCE: target,
        }
        return [self._checked(clause, visible[clause.rows], source) for clause in self._plan.clauses]

    def _checked(self, clause: Clause, rows: DataFrame, source: DataFrame) -> _When:
        condition = None
        if clause.condition is not None:
            said = f"the condition of {clause.act.value} WHEN {clause.rows.value.upper()}"
            condition = self._sql.predicate(rows, clause.condition, said)
        values: dict[str, Column] = {}
        for column in self._there.schema.columns if clause.act is not Act.DELETE else ():
            text = self._text(clause, column, source)
            if text is not None:
                values[column.name] = self._sql.value(rows, text, column)
        return _When(clause, condition, values)

    def _text(self, clause: Clause, column: TableColumn, source: DataFrame) -> str | None:
        """What the clause says of a column; None: it stays as it is."""
        if clause.values is not None:
            return clause.values.get(column.name, of_default(column) if clause.act is Act.INSERT else None)
        named = {fold(name): name for name in source.columns}
        if fold(column.name) not in named:
            raise InvalidArgument(
                f"the source of the MERGE into {self._there.name} has no column {column.name!r}, of which "
                f"{clause.act.value} of all columns takes the value",
                hint="name the columns and their values",
            )
        return f"source.{quoted(named[fold(column.name)])}"

    # ---- which rows

    def _near(self) -> _Near:
        on = self._checked_on(self._none, self._source)
        found = list(matchings(self._none, self._source, on)) if has_jvm(self._spark) else []
        ends = [end(each.value) for each in found for end in (functions.min, functions.max)]
        texts = [
            functions.sum(functions.octet_length(functions.col(f"source.{quoted(field.name)}")))
            for field in self._source.schema
            if field.dataType.typeName() in ("string", "binary")
        ]
        aggregates = [functions.count("*"), *texts, *ends]
        named = [each.alias(f"c{number}") for number, each in enumerate(aggregates)]
        count, *rest = (python_of(values[0]) for values in self._source.agg(*named).toArrow().columns)
        size = sum(each or 0 for each in rest[: len(texts)]) + 16 * count * len(self._source.columns)
        near, looked = [], []
        bounds = iter(rest[len(texts) :])
        for each, lowest, highest in zip(found, bounds, bounds, strict=True):
            low, high = text_of_bound(lowest), text_of_bound(highest)
            if low is not None and high is not None and highest == highest:  # a NaN is in no range
                looked.append(Looked(each.name, low, high))
                column = functions.col(f"target.{quoted(each.name)}")
                if type(lowest) is date:  # by its text: on its way to the JVM one before the year 1000 loses digits
                    near.append(column.between(*(functions.lit(end).cast("date") for end in (low, high))))
                elif type(lowest) in (int, str):
                    near.append(column.between(functions.lit(lowest), functions.lit(highest)))
        return _Near(count, size, tuple(near), tuple(looked))

    def _pairs(
        self, target: DataFrame, on: Column, whens: Sequence[_When], *, is_small: bool, at_once: bool
    ) -> DataFrame:
        """Pairs for which ON holds, and rows without one that a clause is about, each with the clause that acts.

        `at_once`: source rows without one are among them.
        """
        source = functions.broadcast(self._source) if is_small else self._source
        all_of = (self._plan.needs_all_of_target, at_once)
        joined = target.join(source, on, _JOINS[all_of])
        is_target, is_source = (
            functions.col(f"target.{FILE}").isNotNull(),
            functions.col(f"source.{SOURCE}").isNotNull(),
        )
        about = {
            Rows.MATCHED: is_target & is_source,
            Rows.NOT_MATCHED: ~is_target,
            Rows.NOT_MATCHED_BY_SOURCE: ~is_source,
        }
        acting = joined.withColumn(ACT, _number_of(whens, about))
        counts = functions.col(ACT).isNotNull()
        kept = acting.where(counts | is_source if self._plan.inserts and not at_once else counts)
        places = [functions.col(f"target.{FILE}"), functions.col(f"target.{ROW}"), functions.col(f"source.{SOURCE}")]
        acts = (Act.UPDATE, Act.INSERT) if at_once else (Act.UPDATE,)
        return kept.select(ACT, *places, *self._new_values(whens, *acts)).localCheckpoint()

    def _inserts(self, pairs: DataFrame, whens: Sequence[_When]) -> DataFrame:
        """Source rows that no row of the table matches, and that a clause acts on."""
        matched = pairs.select(functions.col(SOURCE).alias("_txn_matched")).where("_txn_matched IS NOT NULL").distinct()
        alone = self._source.join(
            matched, functions.col(f"source.{SOURCE}") == functions.col("_txn_matched"), "left_anti"
        )
        acting = alone.withColumn(ACT, _number_of(whens, {Rows.NOT_MATCHED: functions.lit(True)}))
        kept = acting.where(functions.col(ACT).isNotNull())
        return kept.select(ACT, *self._new_values(whens, Act.INSERT)).localCheckpoint()

    def _new_values(self, whens: Sequence[_When], *acts: Act) -> list[Column]:
        """The table's columns, as what acts has them, of these; null where it does something else."""
        found = []
        for column in self._there.schema.columns:
            value = functions.lit(None).cast(column.type)
            for number, when in enumerate(whens):
                if when.clause.act in acts:
                    new = when.values.get(column.name)
                    new = functions.col(f"target.{quoted(column.name)}") if new is None else new
                    value = functions.when(functions.col(ACT) == number, new).otherwise(value)
            found.append(value.alias(column.name))
        return found

    # ---- what becomes of them

    def _counts(self, found: Any, whens: Sequence[_When]) -> dict[Act, int]:
        counts = dict.fromkeys(Act, 0)
        for number, count in zip(found[ACT].to_pylist(), found[COUNT].to_pylist(), strict=True):
            counts[whens[number].clause.act] += count
        return counts

    def _rows(self, parts: Sequence[DataFrame], whens: Sequence[_When]) -> DataFrame:
        adding = [number for number, when in enumerate(whens) if when.clause.act is not Act.DELETE]
        names = [quoted(column.name) for column in self._there.schema.columns]
        chosen = [part.where(functions.col(ACT).isin(adding)).select(*names) for part in parts]
        return reduce(lambda one, other: one.unionAll(other), chosen)

    def _check_once(self, dead: dict[str, BitMap], counts: dict[Act, int], pairs: DataFrame, placed: Placed) -> None:
        """Raises InvalidArgument, naming rows, for one that several source rows change."""
        import pyarrow as pa

        changed = sum(map(len, dead.values()))
        matched = [(clause.act, clause.condition) for clause in self._plan.of(Rows.MATCHED)]
        if changed == counts[Act.UPDATE] + counts[Act.DELETE] or matched == [(Act.DELETE, None)]:
            return
        acting = pairs.where(f"{ACT} IS NOT NULL AND {FILE} IS NOT NULL").groupBy(FILE, ROW).count().where("count > 1")
        twice = acting.orderBy(FILE, ROW).limit(MAX_NAMED)
        inside, loose = placed.at(bitmaps(collected(twice), placed.uris))
        rows = rows_shown(pa.concat_tables([inside.to_arrow(), loose]))
        raise InvalidArgument(
            f"{acting.count()} rows of table {self._there.name} are each matched by several rows of the source that "
            f"change them: {', '.join(rows)[:MAX_SHOWN]}, ...",
            hint="a row can be changed once: leave one source row for each of its keys, or tell them apart in ON",
        )


def _number_of(whens: Sequence[_When], about: dict[Rows, Column]) -> Column:
    """The number of the clause that acts on a row; null: none does."""
    found = functions.lit(None).cast("int")
    for number, when in reversed(list(enumerate(whens))):
        if when.clause.rows in about:
            hit = about[when.clause.rows]
            hit = hit if when.condition is None else hit & when.condition
            found = functions.when(hit, number).otherwise(found)
    return found
