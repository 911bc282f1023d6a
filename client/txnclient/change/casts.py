"""Types of SQL expressions: what is compared with what, and how a value becomes one of another type, as Spark does it.

Spark's ANSI rules: what does not fit is an error, never a null. What the two engines would write differently as text
is refused. The session's time zone is UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from txnclient.formats.fitting import widens
from txnstatus.ddl import VOID, Type
from txnstatus.errors import InvalidArgument
from txnstatus.names import double_quoted

BOOLEAN = Type("boolean")
INT = Type("int")
BIGINT = Type("bigint")
DOUBLE = Type("double")
STRING = Type("string")
DATE = Type("date")
NULL = Type(VOID)

INTEGRAL = ("tinyint", "smallint", "int", "bigint")
FLOATING = ("float", "double")
_DUCK = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
}
_DAY = r"\d{4}-\d{1,2}-\d{1,2}"
_TIME = rf"{_DAY}([ T]\d{{1,2}}:\d{{2}}(:\d{{2}}(\.\d{{1,6}})?)?)?"
_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_TEXTS = {
    **dict.fromkeys(INTEGRAL, r"[+-]?\d+"),
    **dict.fromkeys(FLOATING, rf"(?i){_NUMBER}|nan|[+-]?inf(inity)?"),
    "decimal": _NUMBER,
    "boolean": "(?i)true|false",
    "date": _DAY,
    "timestamp": rf"{_TIME}(Z|[+-]\d{{2}}:\d{{2}})?",
    "timestamp_ntz": _TIME,
}
"""The texts that are read as a value of a type, by its name."""


RAISES = "error("
"""The call by which an expression in the engine's SQL fails."""


@dataclass(frozen=True, slots=True)
class Term:
    """An expression in the engine's SQL."""

    sql: str
    type: Type
    is_text: bool = False
    """Whether it is a literal string, which becomes what it is compared with."""


def family(kind: Type) -> str:
    """The name that types share whose values are compared as they are."""
    return "number" if kind.name in (*INTEGRAL, *FLOATING, "decimal") else kind.name


def text(value: str) -> str:
    """The text as a literal."""
    return "'" + value.replace("'", "''") + "'"


def duck_type(kind: Type) -> str:
    match kind.name:
        case "array":
            return f"{duck_type(kind.inner[0])}[]"
        case "map":
            return f"MAP({duck_type(kind.inner[0])}, {duck_type(kind.inner[1])})"
        case "struct":
            fields = zip(kind.fields, kind.inner, strict=True)
            return f"STRUCT({', '.join(f'{double_quoted(name)} {duck_type(inner)}' for name, inner in fields)})"
        case "decimal":
            return f"DECIMAL({kind.precision},{kind.scale})"
    return _DUCK[kind.name]


def alike(terms: Sequence[Term], shown: str) -> list[Term]:
    """The terms as they can be compared, or stand for each other. Raises InvalidArgument."""
    families = {family(term.type) for term in terms if not term.is_text} - {VOID}
    if not families or families == {"string"}:
        return list(terms)
    if len(families) == 1 and "number" not in families:
        wanted = next(term.type for term in terms if not term.is_text and term.type != NULL)
        if any(term.type not in (wanted, NULL) for term in terms if not term.is_text):
            raise _unlike(terms, shown)
        return [cast(term, wanted, shown) if term.is_text else term for term in terms]
    for wider in ("timestamp", "timestamp_ntz"):
        if families == {"date", wider}:
            return [term if term.type == NULL else cast(term, Type(wider), shown) for term in terms]
    if families != {"number"} or any(term.is_text for term in terms):
        raise _unlike(terms, shown)
    kinds = {term.type.name for term in terms}
    if "decimal" in kinds and kinds & set(FLOATING):
        return [term if term.type in (NULL, DOUBLE) else cast(term, DOUBLE, shown) for term in terms]
    return list(terms)


def _unlike(terms: Sequence[Term], shown: str) -> InvalidArgument:
    kinds = list(dict.fromkeys(str(term.type) for term in terms))
    return InvalidArgument(f"{shown}: {' and '.join(kinds)} do not go together", hint="CAST one to the other's type")


def stored(term: Term, wanted: Type, column: str, shown: str) -> Term:
    """The value as one of a column. Raises InvalidArgument where its type does not fit."""
    if not (widens(term.type, wanted) or family(term.type) == family(wanted) == "number"):
        raise InvalidArgument(
            f"column {column!r} is {wanted}, and its new value {shown} is {term.type}",
            hint=f"CAST it if that is meant: CAST(... AS {str(wanted).upper()})",
        )
    return cast(term, wanted, shown)


def cast(term: Term, wanted: Type, shown: str, *, tries: bool = False) -> Term:
    """Raises InvalidArgument for types of which there is no cast. `tries`: null for what does not fit."""
    found, sql, into = term.type, term.sql, duck_type(wanted)
    if found == wanted:
        return replace(term, is_text=False)
    word = "TRY_CAST" if tries else "CAST"
    if found == NULL or _is_plain(found, wanted):
        return Term(f"{word}({sql} AS {into})", wanted)
    if family(found) == "number" and wanted.name in INTEGRAL:
        return Term(f"{word}(trunc({sql}) AS {into})", wanted)
    if found.name in FLOATING and wanted.name == "decimal":
        return Term(f"{word}(CAST(CAST({sql} AS DOUBLE) AS VARCHAR) AS {into})", wanted)
    if found == STRING and wanted.name in _TEXTS:
        trimmed = f"trim({sql})"
        wrong = "NULL" if tries else f"{RAISES}{text('a string does not read as ' + str(wanted) + ': ')} || {sql})"
        reads = f"regexp_full_match({trimmed}, {text(_TEXTS[wanted.name])})"
        return Term(f"CASE WHEN {reads} OR {sql} IS NULL THEN {word}({trimmed} AS {into}) ELSE {wrong} END", wanted)
    raise InvalidArgument(f"{shown}: there is no cast here from {found} to {wanted}")


def _is_plain(found: Type, wanted: Type) -> bool:
    """Whether a cast does what Spark's does."""
    names = (found.name, wanted.name)
    if family(found) == "number":
        if wanted.name in INTEGRAL:
            return found.name in INTEGRAL
        if wanted.name == "decimal":
            return found.name not in FLOATING
        return wanted.name in FLOATING or wanted == BOOLEAN or (wanted == STRING and found.name not in FLOATING)
    if found == BOOLEAN:
        return wanted == STRING or wanted.name in (*INTEGRAL, *FLOATING)
    times = ("date", "timestamp", "timestamp_ntz")
    return (names[0] in times and names[1] in times) or names == ("date", "string") or widens(found, wanted)
