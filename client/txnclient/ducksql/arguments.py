"""Arguments of control statements, which come as SQL: literals, parameters, and arrays and maps of these."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlglot import exp

from txnclient.change.sql import parsed
from txnclient.control.procedures import Parameter
from txnclient.ducksql.trees import Arguments, value_of
from txnstatus.errors import InvalidArgument
from txnstatus.types import micros_at


def evaluated(parameter: Parameter, text: str, args: Arguments) -> Any:
    """What a procedure is given; a time comes as microseconds. Raises InvalidArgument, naming the parameter."""
    found = literal(parsed(text, text[:200]), args)
    if found is None:
        return None
    if parameter.type == "TIMESTAMP":
        return micros_at(_time(found))
    if not _fits(found, parameter.type):
        raise InvalidArgument(f"{parameter.name} is {found!r:.200}: expected {parameter.type}")
    return found


def _fits(value: object, kind: str) -> bool:
    """Whether a value is of a type of Spark's."""
    match kind:
        case "STRING":
            return isinstance(value, str)
        case "BIGINT":
            return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63
        case "BOOLEAN":
            return isinstance(value, bool)
        case "ARRAY<BIGINT>" | "ARRAY<STRING>":
            return isinstance(value, list) and all(_fits(each, kind[len("ARRAY<") : -1]) for each in value)
    return isinstance(value, dict)


def instant(tree: exp.Expression, args: Arguments) -> int | datetime:
    """The point in time of `VERSION AS OF` and `TIMESTAMP AS OF`. Raises InvalidArgument."""
    found = literal(tree.expression, args)
    if tree.name == "TIMESTAMP":
        return _time(found)
    if not isinstance(found, int) or isinstance(found, bool):
        raise InvalidArgument(f"VERSION AS OF {found!r:.200}: a version is a commit's or a snapshot's timestamp")
    return found


def _time(value: object) -> datetime:
    """The time that a text says; in UTC, where it says no zone."""
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
        at = at and (at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC))
    except (ValueError, OverflowError):  # the latter is a time that has no year in UTC
        at = None
    if at is None:
        raise InvalidArgument(f"{value!r:.200} is no time: expected such as '2026-01-31 10:00:00', which is in UTC")
    return at


def literal(tree: Any, args: Arguments) -> Any:
    """The value of a literal, or of an array or a map of them. Raises InvalidArgument for all else."""
    match tree:
        case exp.Literal():
            return tree.this if tree.is_string else _number(tree)
        case exp.Neg(this=exp.Literal(is_string=False)):
            return -_number(tree.this)
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(tree.this)
        case exp.Placeholder():
            return literal(value_of(tree.this, args), args)
        case exp.Array():
            return [literal(each, args) for each in tree.expressions]
        case exp.VarMap() | exp.Map():
            keys, values = (literal(each, args) for each in (tree.args["keys"], tree.args["values"]))
            return dict(zip(keys, values, strict=True))
        case exp.Cast(this=exp.HexString() as digits):
            return bytes.fromhex(digits.this).decode()
        case exp.Cast():
            found = literal(tree.this, args)
            return str(found) if tree.to.is_type("text") and found is not None else found
    raise InvalidArgument(f"{tree.sql()[:200]!r}: expected a literal or a parameter")


def _number(literal: exp.Expression) -> int:
    if not literal.is_int:
        raise InvalidArgument(f"{literal.name!r:.100}: expected a whole number")
    return int(literal.name)
