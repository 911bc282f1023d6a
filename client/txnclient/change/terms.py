"""SQL expressions, as sqlglot has parsed them, in DuckDB's words with Spark's meaning.

Each kind of expression is known here one by one, since the two differ in many: what a division by zero is, what LIKE
escapes, what type a literal has. What is not here is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from txnclient.change.casts import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    NULL,
    RAISES,
    STRING,
    Term,
    alike,
    family,
    text,
)
from txnclient.change.names import Relation, field_of, resolve
from txnstatus.ddl import Type
from txnstatus.errors import InvalidArgument

_MAX_INT, _MAX_BIGINT, _MAX_DIGITS = (1 << 31) - 1, (1 << 63) - 1, 38

SPARK_CAN = "give the statement a session, spark=..., or to a MERGE a Spark DataFrame: then Spark runs it"
_PARTS = ("this", "expression", "expressions")
_MORE_PARTS = {
    "Column": ("table", "db", "catalog"),
    "Literal": ("is_string",),
    "Case": ("ifs", "default"),
    "If": ("true", "false"),
    "Between": ("low", "high"),
    "In": ("query",),
    "Like": ("negate",),
    "ILike": ("negate",),
    "Concat": ("safe",),
    "DPipe": ("safe",),
    "Greatest": ("ignore_nulls",),
    "Least": ("ignore_nulls",),
    "Round": ("decimals",),
    "Trim": ("position",),
    "Substring": ("start", "length"),
    "Replace": ("replacement",),
    "TsOrDsAdd": ("unit",),
    "DateDiff": ("unit",),
    "Cast": ("to",),
    "TryCast": ("to", "safe"),
}
"""The parts that an expression may have: one with a part that nobody here reads would mean something else."""


@dataclass
class Terms:
    """Makes terms of expressions over the same relations."""

    visible: Sequence[Relation]
    hidden: Sequence[Relation]
    type_of: Callable[[str], Type]
    """Type of an expression in the engine's SQL."""
    makers: Mapping[str, Maker]
    """What makes the term of an expression, by the name of sqlglot's class."""
    now: datetime
    query: Callable[[Any], tuple[Term, str]] | None = None
    """Makes of a query inside what it selects, and the rest of it; None: none is known."""
    used: set[str] = field(default_factory=set)
    """The engine's names of the columns that were named."""

    def of(self, node: Any) -> Term:
        """Raises InvalidArgument."""
        kind = type(node).__name__
        make = self.makers.get(kind)
        is_query = node.args.get("query") is not None and not (kind == "In" and self.query)
        if kind in ("Subquery", "Select", "Exists") or is_query:
            raise InvalidArgument(f"{shown(node)}: a query inside cannot be used without Spark", hint=SPARK_CAN)
        if make is None:
            raise InvalidArgument(f"{shown(node)}: {kind} cannot be used without Spark", hint=SPARK_CAN)
        strange = [
            name for name, value in node.args.items() if value and name not in (*_PARTS, *_MORE_PARTS.get(kind, ()))
        ]
        if strange:
            raise InvalidArgument(
                f"{shown(node)}: {kind} with {strange[0]} cannot be used without Spark", hint=SPARK_CAN
            )
        return make(self, node)

    def bound(self, sql: str) -> Term:
        """A term whose type the engine tells."""
        return Term(sql, self.type_of(sql))

    def all_of(self, nodes: Sequence[Any], *families: str) -> list[Term]:
        """The terms, each of one of these families, or null."""
        terms = [self.of(node) for node in nodes]
        for node, term in zip(nodes, terms, strict=True):
            if term.type != NULL and family(term.type) not in families:
                raise InvalidArgument(f"{shown(node)} is {term.type}, where {' or '.join(families)} is expected")
        return terms


def shown(node: Any) -> str:
    written: str = node.sql("spark")
    return written if len(written) <= 100 else f"{written[:100]}..."


# ---- names and literals


def _column(terms: Terms, node: Any) -> Term:
    parts = list(node.parts)
    if type(node.this).__name__ == "Star":
        raise InvalidArgument(f"{shown(node)}: all columns at once cannot be used here")
    return _of_parts(terms, [part.name for part in parts])


def _of_parts(terms: Terms, parts: Sequence[str]) -> Term:
    named = resolve(parts, terms.visible, terms.hidden)
    terms.used.add(named.own_name)
    sql = named.own_name
    for name in named.fields:
        sql = f"struct_extract({sql}, {text(name)})"
    return Term(sql, named.type)


def _dot(terms: Terms, node: Any) -> Term:
    names = [node.expression.name]
    base = node.this
    while type(base).__name__ == "Dot":
        names.insert(0, base.expression.name)
        base = base.this
    if type(base).__name__ == "Column":
        return _of_parts(terms, [*(part.name for part in base.parts), *names])
    term = terms.of(base)
    for name in names:
        found, kind = field_of(term.type, name, shown(node))
        term = Term(f"struct_extract({term.sql}, {text(found)})", kind)
    return term


def _literal(terms: Terms, node: Any) -> Term:
    if not node.is_string:
        return number(str(node.this), shown(node))
    if "\0" in node.this:
        raise InvalidArgument(f"{shown(node)}: a literal with the character 0 cannot be used here")
    return Term(text(node.this), STRING, is_text=True)


def number(digits: str, shown: str) -> Term:
    if "e" in digits.lower():
        return Term(f"CAST({digits} AS DOUBLE)", DOUBLE)
    whole, _, fraction = digits.lstrip("-").partition(".")
    if "." not in digits:
        value = int(digits)
        if -_MAX_INT - 1 <= value <= _MAX_INT:
            return Term(f"CAST({value} AS INTEGER)", INT)
        if -_MAX_BIGINT - 1 <= value <= _MAX_BIGINT:
            return Term(f"CAST({text(str(value))} AS BIGINT)", BIGINT)
    whole = whole.lstrip("0")
    precision, scale = max(len(whole) + len(fraction), 1), len(fraction)
    if precision > _MAX_DIGITS:
        raise InvalidArgument(f"{shown}: a number has at most {_MAX_DIGITS} digits")
    return Term(f"CAST({text(digits)} AS DECIMAL({precision},{scale}))", Type("decimal", (), (), precision, scale))


def _hex(terms: Terms, node: Any) -> Term:
    return Term(f"from_hex({text(node.this)})", Type("binary"))


def _boolean(terms: Terms, node: Any) -> Term:
    return Term("TRUE" if node.this else "FALSE", BOOLEAN)


def _now(terms: Terms, node: Any) -> Term:
    return Term(f"CAST({text(terms.now.astimezone(UTC).isoformat())} AS TIMESTAMPTZ)", Type("timestamp"))


def _today(terms: Terms, node: Any) -> Term:
    return Term(f"CAST({text(terms.now.astimezone(UTC).date().isoformat())} AS DATE)", DATE)


# ---- logic and comparisons


def _logic(word: str, decides: str) -> Callable[[Terms, Any], Term]:
    """`decides`: what the left side is where the right one is not looked at, which may be an error there."""

    def make(terms: Terms, node: Any) -> Term:
        left, right = (term.sql for term in terms.all_of([node.this, node.expression], "boolean"))
        plain = f"({left} {word} {right})"
        return Term(
            f"CASE WHEN {left} IS {decides} THEN {decides} ELSE {plain} END" if RAISES in right else plain, BOOLEAN
        )

    return make


def _not(terms: Terms, node: Any) -> Term:
    (inner,) = terms.all_of([node.this], "boolean")
    return Term(f"(NOT {inner.sql})", BOOLEAN)


def _comparison(sign: str) -> Callable[[Terms, Any], Term]:
    def make(terms: Terms, node: Any) -> Term:
        left, right = _compared(terms, [node.this, node.expression], shown(node))
        return Term(f"({left.sql} {sign} {right.sql})", BOOLEAN)

    return make


def _compared(terms: Terms, nodes: Sequence[Any], shown: str) -> list[Term]:
    return _alike_terms([terms.of(node) for node in nodes], shown)


def _alike_terms(terms: Sequence[Term], shown: str) -> list[Term]:
    found = alike(terms, shown)
    if any(term.type.name == "map" for term in found):
        raise InvalidArgument(f"{shown}: maps cannot be compared")
    return found


def _in(terms: Terms, node: Any) -> Term:
    if terms.query is not None and (query := node.args.get("query")) is not None:
        selected, source = terms.query(query)
        value, among = _alike_terms([terms.of(node.this), selected], shown(node))
        return Term(f"({value.sql} IN (SELECT {among.sql} {source}))", BOOLEAN)
    if not node.expressions:
        raise InvalidArgument(f"{shown(node)}: IN takes a list of values here")
    first, *rest = _compared(terms, [node.this, *node.expressions], shown(node))
    return Term(f"({first.sql} IN ({', '.join(term.sql for term in rest)}))", BOOLEAN)


def _between(terms: Terms, node: Any) -> Term:
    value, low, high = _compared(terms, [node.this, node.args["low"], node.args["high"]], shown(node))
    return Term(f"({value.sql} BETWEEN {low.sql} AND {high.sql})", BOOLEAN)


def _is(terms: Terms, node: Any) -> Term:
    match type(node.expression).__name__:
        case "Null":
            return Term(f"({terms.of(node.this).sql} IS NULL)", BOOLEAN)
        case "Boolean":
            (value,) = terms.all_of([node.this], "boolean")
            return Term(f"({value.sql} IS {'TRUE' if node.expression.this else 'FALSE'})", BOOLEAN)
    raise InvalidArgument(f"{shown(node)}: after IS come NULL, TRUE and FALSE")


def _like(*, folds: bool = False) -> Callable[[Terms, Any], Term]:
    def make(terms: Terms, node: Any, escape: str = "\\") -> Term:
        value, pattern = (term.sql for term in terms.all_of([node.this, node.expression], "string"))
        if folds:
            value, pattern = f"lower({value})", f"lower({pattern})"
        word = "NOT LIKE" if node.args.get("negate") else "LIKE"
        return Term(f"({value} {word} {pattern} ESCAPE {text(escape)})", BOOLEAN)

    return make


def _escape(terms: Terms, node: Any) -> Term:
    name = type(node.this).__name__
    if name not in ("Like", "ILike") or not node.expression.is_string or len(node.expression.this) != 1:
        raise InvalidArgument(f"{shown(node)}: ESCAPE takes one character, after LIKE")
    return _like(folds=name == "ILike")(terms, node.this, node.expression.this)  # type: ignore[call-arg]


def _rlike(terms: Terms, node: Any) -> Term:
    value, pattern = terms.all_of([node.this, node.expression], "string")
    return Term(f"regexp_matches({value.sql}, {pattern.sql})", BOOLEAN)


def _null_test(terms: Terms, node: Any) -> Term:
    """isnull and isnotnull, and what else sqlglot knows no class of."""
    word = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}.get(str(node.this).lower())
    if word is None or len(node.expressions) != 1:
        raise InvalidArgument(f"{shown(node)}: there is no such function without Spark", hint=SPARK_CAN)
    return Term(f"({terms.of(node.expressions[0]).sql} {word})", BOOLEAN)


# ---- choices


def _case(terms: Terms, node: Any) -> Term:
    branches = node.args["ifs"]
    tests = [each.this for each in branches]
    if node.this is not None:
        value, *others = _compared(terms, [node.this, *tests], shown(node))
        conditions = [f"{value.sql} = {other.sql}" for other in others]
    else:
        conditions = [term.sql for term in terms.all_of(tests, "boolean")]
    return _chosen(terms, node, conditions, [each.args["true"] for each in branches], node.args.get("default"))


def _if(terms: Terms, node: Any) -> Term:
    (condition,) = terms.all_of([node.this], "boolean")
    return _chosen(terms, node, [condition.sql], [node.args["true"]], node.args.get("false"))


def _chosen(terms: Terms, node: Any, conditions: Sequence[str], values: Sequence[Any], default: Any) -> Term:
    nodes = [*values, *([] if default is None else [default])]
    found = alike([terms.of(each) for each in nodes], shown(node))
    whens = " ".join(f"WHEN {test} THEN {term.sql}" for test, term in zip(conditions, found, strict=False))
    otherwise = "" if default is None else f" ELSE {found[-1].sql}"
    return _typed(terms, f"CASE {whens}{otherwise} END", found)


def _typed(terms: Terms, sql: str, among: Sequence[Term]) -> Term:
    """A term that is one of others: the engine tells its type only if they are of several."""
    kinds = {term.type for term in among} - {NULL}
    if not kinds:
        return Term("NULL", NULL)
    return Term(sql, kinds.pop()) if len(kinds) == 1 else terms.bound(sql)


def _choice(word: str) -> Callable[[Terms, Any], Term]:
    def make(terms: Terms, node: Any) -> Term:
        nodes = [node.this, *([node.expression] if node.args.get("expression") is not None else node.expressions)]
        found = _compared(terms, nodes, shown(node))
        return _typed(terms, f"{word}({', '.join(term.sql for term in found)})", found)

    return make


Maker = Callable[[Terms, Any], Term]

MAKERS: dict[str, Maker] = {
    "Paren": lambda terms, node: terms.of(node.this),
    "Column": _column,
    "Dot": _dot,
    "Literal": _literal,
    "RawString": lambda terms, node: Term(text(node.this), STRING, is_text=True),
    "HexString": _hex,
    "Boolean": _boolean,
    "Null": lambda terms, node: Term("NULL", NULL),
    "CurrentTimestamp": _now,
    "CurrentDate": _today,
    "And": _logic("AND", "FALSE"),
    "Or": _logic("OR", "TRUE"),
    "Not": _not,
    "EQ": _comparison("="),
    "NEQ": _comparison("<>"),
    "GT": _comparison(">"),
    "GTE": _comparison(">="),
    "LT": _comparison("<"),
    "LTE": _comparison("<="),
    "NullSafeEQ": _comparison("IS NOT DISTINCT FROM"),
    "NullSafeNEQ": _comparison("IS DISTINCT FROM"),
    "In": _in,
    "Between": _between,
    "Is": _is,
    "Anonymous": _null_test,
    "Like": _like(),
    "ILike": _like(folds=True),
    "Escape": _escape,
    "RegexpLike": _rlike,
    "Case": _case,
    "If": _if,
    "Coalesce": _choice("coalesce"),
    "Nullif": _choice("nullif"),
    "Greatest": _choice("greatest"),
    "Least": _choice("least"),
}
