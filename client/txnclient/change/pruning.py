"""Where rows can be for which a predicate holds: an expression of pyarrow that never leaves out one of them.

It is for files and row groups, by the ranges of their columns, and for rows, before the engine looks at them, and names
columns as files do: what is not understood may hold anywhere. A NaN is above all numbers in SQL, in no range, and to
pyarrow neither above a number nor below: so nothing is known of columns with one but what they are equal to or below.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from txnclient.change.casts import INTEGRAL, Term, cast, family
from txnclient.change.names import Named, Relation, resolve
from txnclient.change.plan import Looked
from txnclient.change.sql import Expression, Sql, arrow_schema
from txnclient.formats.file_statistics import text_of_bound
from txnstatus.errors import InvalidArgument

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

_MIRRORED = {"EQ": "EQ", "NullSafeEQ": "EQ", "LT": "GT", "LTE": "GTE", "GT": "LT", "GTE": "LTE"}
_NO_FLOOR = ("EQ", "LT", "LTE")
"""Comparisons of a column with a number that hold for no NaN."""


@dataclass(frozen=True, slots=True)
class Matching:
    """How a MERGE's ON ties a column of the table to the source."""

    named: Named
    value: Term
    """The source's value, which the column has to be equal to."""


@dataclass(frozen=True)
class Pruning:
    """What can be known of a statement's predicates."""

    sql: Sql
    target: Relation
    others: Sequence[Relation] = ()

    def may_hold(self, expression: Expression) -> pc.Expression | None:
        """None: anywhere."""
        return self._of(expression.tree)

    def _of(self, node: Any) -> pc.Expression | None:
        kind = type(node).__name__
        match kind:
            case "Paren":
                return self._of(node.this)
            case "And":
                return _both(self._of(node.this), self._of(node.expression))
            case "Or":
                one, other = self._of(node.this), self._of(node.expression)
                return None if one is None or other is None else one | other
            case "Not":
                inner = node.this
                while type(inner).__name__ == "Paren":
                    inner = inner.this
                return self._null(inner, wanted=False) if type(inner).__name__ == "Is" else None
            case "Is":
                return self._null(node, wanted=True)
            case "In":
                return self._among(node.this, node.expressions)
            case "Between":
                low = self._comparison("GTE", node.this, node.args["low"])
                return _both(low, self._comparison("LTE", node.this, node.args["high"]))
        if kind not in _MIRRORED:
            return None
        if self._column(node.this) is not None:
            return self._comparison("EQ" if kind == "NullSafeEQ" else kind, node.this, node.expression)
        return self._comparison(_MIRRORED[kind], node.expression, node.this)

    def _column(self, node: Any) -> Named | None:
        """The column of the table that stands here by itself."""
        if type(node).__name__ != "Column":
            return None
        try:
            named = resolve([part.name for part in node.parts], [self.target, *self.others])
        except InvalidArgument:
            return None
        return named if not named.fields and named.own_name in self.target.own_names else None

    def _null(self, node: Any, *, wanted: bool) -> pc.Expression | None:
        import pyarrow.compute as pc

        named = self._column(node.this)
        if named is None or type(node.expression).__name__ != "Null":
            return None
        found = pc.field(named.column.in_files)
        return found.is_null() if wanted else found.is_valid()

    def _comparison(self, kind: str, column: Any, constant: Any) -> pc.Expression | None:
        import pyarrow.compute as pc

        named = self._column(column)
        value = None if named is None else self._constant(constant, named)
        if named is None or value is None or (named.type.name == "double" and kind not in _NO_FLOOR):
            return None
        found = pc.field(named.column.in_files)
        match kind:
            case "EQ":
                return found == value
            case "LT":
                return found < value
            case "LTE":
                return found <= value
            case "GT":
                return found > value
        return found >= value

    def _among(self, column: Any, constants: Sequence[Any]) -> pc.Expression | None:
        named = self._column(column)
        if named is None or not constants:
            return None
        values = [self._constant(each, named) for each in constants if type(each).__name__ != "Null"]
        if not values or any(value is None for value in values):
            return None
        ordered = sorted(value.as_py() for value in values if value is not None)
        return _between(named, ordered[0], ordered[-1])

    def _constant(self, node: Any, named: Named) -> pa.Scalar | None:
        """The value of what names no column, as one of the column's type that is equal to it; None: nobody knows."""
        try:
            term, _ = self.sql.term(node, [])
            if term.is_text and named.type.name in ("date", "timestamp", "timestamp_ntz"):
                term = cast(term, named.type, "")
        except InvalidArgument:
            return None
        return _of_type(self.sql.constant(term.sql), term, named)

    # ---- MERGE

    def matchings(self, on: Expression) -> Iterator[Matching]:
        """The parts `target.column = value of the source` of an ON."""
        for part in _conjuncts(on.tree):
            if type(part).__name__ == "EQ":
                for one, other in ((part.this, part.expression), (part.expression, part.this)):
                    named = self._column(one)
                    if named is not None and (value := self._of_source(other)) is not None:
                        yield Matching(named, value)
                        break

    def _of_source(self, node: Any) -> Term | None:
        try:
            term, used = self.sql.term(node, self.others)
        except InvalidArgument:
            return None
        return term if used else None

    def near(self, matching: Matching, lowest: Any, highest: Any) -> pc.Expression | None:
        """Where rows are that can match, given the range of the source's values; None: anywhere."""
        low, high = (_of_type(value, matching.value, matching.named) for value in (lowest, highest))
        return None if low is None or high is None else _between(matching.named, low.as_py(), high.as_py())

    def looked(self, matching: Matching, lowest: Any, highest: Any) -> Looked | None:
        """The same for who compares it with what others add; None: nothing is known."""
        low, high = (_of_type(value, matching.value, matching.named) for value in (lowest, highest))
        if low is None or high is None:
            return None
        first, last = text_of_bound(low.as_py()), text_of_bound(high.as_py())
        return None if first is None or last is None else Looked(matching.named.column.name, first, last)


def _conjuncts(node: Any) -> Iterator[Any]:
    match type(node).__name__:
        case "Paren":
            yield from _conjuncts(node.this)
        case "And":
            yield from _conjuncts(node.this)
            yield from _conjuncts(node.expression)
        case _:
            yield node


def _both(one: pc.Expression | None, other: pc.Expression | None) -> pc.Expression | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _between(named: Named, lowest: Any, highest: Any) -> pc.Expression:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = arrow_schema([named.column]).field(0).type
    found = pc.field(named.column.in_files)
    return (found >= pa.scalar(lowest, kind)) & (found <= pa.scalar(highest, kind))


def _of_type(value: Any, term: Term, named: Named) -> pa.Scalar | None:
    """The value as one of the column's type, if it is one exactly."""
    import pyarrow as pa

    kind = named.type
    if value is None or family(term.type) != family(kind) or kind.name in ("float", "binary", *_NESTED):
        return None
    if kind.name == "double":
        value = float(value)
        if math.isnan(value):
            return None
    elif isinstance(value, float):
        return None
    elif isinstance(value, Decimal) and kind.name in INTEGRAL:
        if value != int(value):
            return None
        value = int(value)
    elif kind.name == "decimal":
        value = Decimal(value)
    try:
        return pa.scalar(value, arrow_schema([named.column]).field(0).type)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return None


_NESTED = ("array", "map", "struct")
