"""The builder of a MERGE, as delta-rs and Spark's mergeInto have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, TypeVar

from txnclient.change.plan import Act, Clause, MergePlan, Rows
from txnclient.staying import Staying
from txnstatus.errors import InvalidArgument
from txnstatus.names import fold
from txnstatus.schema import Schema

Answer = TypeVar("Answer")


class Merge(Staying, Generic[Answer]):
    """A MERGE that grows clause by clause until `execute`. SQL in it names columns `target.x` and `source.x`.

    Clauses count in their order: of those about a row, the first whose condition holds acts; a row for which none holds
    stays as it is. Each method raises InvalidArgument for what cannot be, and changes nothing then.
    """

    instead = "run it where it was begun: its source may be a DataFrame, which Spark's executors read"

    def __init__(
        self,
        table: str,
        schema: Schema,
        on: str,
        execute: Callable[[MergePlan], Answer],
        writing: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`writing`: what each step runs in, since one that fails is a write that failed."""
        self._table = table
        self._schema = schema
        self._plan = MergePlan(checked_text(on, f"ON of a MERGE into {table}"))
        self._execute = execute
        self._writing = writing

    def __repr__(self) -> str:
        return f"<Merge into {self._table}>"

    def when_matched_update(self, values: Mapping[str, str], *, condition: str | None = None) -> Merge[Answer]:
        """Sets columns of a target row that a source row matches: `{"v": "source.v", "n": "target.n + 1"}`."""
        return self._when(Rows.MATCHED, Act.UPDATE, condition, values=values)

    def when_matched_update_all(self, *, condition: str | None = None) -> Merge[Answer]:
        """Sets every column of the table to the source's of the same name."""
        return self._when(Rows.MATCHED, Act.UPDATE, condition)

    def when_matched_delete(self, *, condition: str | None = None) -> Merge[Answer]:
        """Deletes a target row that a source row matches."""
        return self._when(Rows.MATCHED, Act.DELETE, condition)

    def when_not_matched_insert(self, values: Mapping[str, str], *, condition: str | None = None) -> Merge[Answer]:
        """Inserts a row for a source row without a target row; columns that are not given have their default."""
        return self._when(Rows.NOT_MATCHED, Act.INSERT, condition, values=values)

    def when_not_matched_insert_all(self, *, condition: str | None = None) -> Merge[Answer]:
        """Inserts a source row without a target row: every column of the table is the source's of the same name."""
        return self._when(Rows.NOT_MATCHED, Act.INSERT, condition)

    def when_not_matched_by_source_update(
        self, values: Mapping[str, str], *, condition: str | None = None
    ) -> Merge[Answer]:
        """Sets columns of a target row that no source row matches."""
        return self._when(Rows.NOT_MATCHED_BY_SOURCE, Act.UPDATE, condition, values=values)

    def when_not_matched_by_source_delete(self, *, condition: str | None = None) -> Merge[Answer]:
        """Deletes a target row that no source row matches."""
        return self._when(Rows.NOT_MATCHED_BY_SOURCE, Act.DELETE, condition)

    def execute(self) -> Answer:
        """Runs it. Raises InvalidArgument for a MERGE without a clause, or whose SQL does not fit table and source."""
        with self._writing():
            if not self._plan.clauses:
                raise InvalidArgument(
                    f"the MERGE into {self._table} has no clause: it would do nothing",
                    hint="add when_matched_update(...), when_not_matched_insert_all() or another one before execute()",
                )
            return self._execute(self._plan)

    def _when(
        self, rows: Rows, act: Act, condition: str | None, *, values: Mapping[str, str] | None = None
    ) -> Merge[Answer]:
        with self._writing():
            clause = self._clause(rows, act, condition, values)
        self._plan = MergePlan(self._plan.on, (*self._plan.clauses, clause))
        return self

    def _clause(self, rows: Rows, act: Act, condition: str | None, values: Mapping[str, str] | None) -> Clause:
        what = f"WHEN {rows.value.upper()} of a MERGE into {self._table}"
        earlier = next((clause for clause in self._plan.of(rows) if clause.condition is None), None)
        if earlier is not None:
            raise InvalidArgument(
                f"{what}: {act.value} can never act, since {earlier.act.value} before it has no condition",
                hint="put the clause without a condition last",
            )
        if condition is not None:
            condition = checked_text(condition, f"the condition of {act.value} {what}")
        if values is not None:
            values = checked_values(values, self._schema, self._table)
        return Clause(rows, act, values, condition)


def checked_values(values: Mapping[str, str], schema: Schema, table: str) -> dict[str, str]:
    """New values by the columns' names as the table has them. Raises InvalidArgument, naming the column."""
    if not isinstance(values, Mapping) or not values:
        raise InvalidArgument(
            f"new values for rows of table {table} are a mapping of columns to SQL expressions, not {values!r}"
        )
    known = {fold(column.name): column.name for column in schema.columns}
    found: dict[str, str] = {}
    for given, text in values.items():
        name = known.get(fold(given)) if isinstance(given, str) else None
        if name is None:
            raise InvalidArgument(
                f"column {given!r} is set, and is not a column of table {table}: it has {', '.join(known.values())}",
                hint=_whole_struct(given, schema),
            )
        if name in found:
            raise InvalidArgument(f"column {name!r} of table {table} is set twice (case does not count)")
        found[name] = checked_text(text, f"the new value of column {name!r} of table {table}")
    return found


def checked_text(text: str, what: str) -> str:
    """SQL text that is one. Raises InvalidArgument."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidArgument(f"{what}: expected an SQL expression as text, not {text!r}", hint="a value: '5', \"'x'\"")
    return text


def _whole_struct(given: object, schema: Schema) -> str:
    """What to do, where a field of a struct was meant."""
    name = fold(given) if isinstance(given, str) else ""
    for column in schema.columns:
        if column.type.startswith("struct<") and name.startswith(f"{fold(column.name)}."):
            return f"set the whole struct: {{{column.name!r}: \"named_struct('field', value, ...)\"}}"
    return ""
