"""Functions and operators that compute: numbers, text, times, casts, and what is made of parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from txnclient.change.casts import BIGINT, BOOLEAN, DATE, INT, INTEGRAL, NULL, RAISES, STRING, Term, alike, cast, text
from txnclient.change.terms import Maker, Terms, number, shown
from txnstatus.ddl import Type, parse
from txnstatus.errors import InvalidArgument

_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")
_TIMES = ("date", "timestamp", "timestamp_ntz")

# ---- numbers


def _arithmetic(sign: str) -> Callable[[Terms, Any], Term]:
    def make(terms: Terms, node: Any) -> Term:
        if type(node.expression).__name__ == "Interval":
            return _moved(terms, node, sign)
        left, right = _numbers(terms, node)
        return terms.bound(f"({left.sql} {sign} {right.sql})")

    return make


def _numbers(terms: Terms, node: Any) -> list[Term]:
    found = terms.all_of([node.this, node.expression], "number")
    return [cast(term, INT, "") if term.type == NULL else term for term in alike(found, shown(node))]


def _division(sign: str) -> Callable[[Terms, Any], Term]:
    def make(terms: Terms, node: Any) -> Term:
        left, right = _numbers(terms, node)
        if sign == "//":
            if not {left.type.name, right.type.name} <= set(INTEGRAL):
                raise InvalidArgument(f"{shown(node)}: DIV is for whole numbers")
            left, right = (cast(term, BIGINT, "") for term in (left, right))
        divisor = right.sql
        if type(node.expression).__name__ != "Literal" or not float(node.expression.this):
            wrong = f"{RAISES}{text('division by zero: ' + shown(node))})"
            divisor = f"CASE WHEN {divisor} = 0 THEN {wrong} ELSE {divisor} END"
        return terms.bound(f"({left.sql} {sign} {divisor})")

    return make


def _negative(terms: Terms, node: Any) -> Term:
    if type(node.this).__name__ == "Literal" and not node.this.is_string:
        return number(f"-{node.this.this}", shown(node))
    (inner,) = terms.all_of([node.this], "number")
    return Term(f"(-{inner.sql})", inner.type)


def _abs(terms: Terms, node: Any) -> Term:
    (inner,) = terms.all_of([node.this], "number")
    return Term(f"abs({inner.sql})", inner.type)


def _whole(word: str) -> Callable[[Terms, Any], Term]:
    def make(terms: Terms, node: Any) -> Term:
        if node.args.get("decimals") is not None:
            raise InvalidArgument(f"{shown(node)}: {word} takes one number here")
        (inner,) = terms.all_of([node.this], "number")
        if inner.type.name == "decimal":
            return terms.bound(f"{word}({inner.sql})")
        return Term(f"CAST({word}({inner.sql}) AS BIGINT)", BIGINT)

    return make


def _round(terms: Terms, node: Any) -> Term:
    (inner,) = terms.all_of([node.this], "number")
    digits = node.args.get("decimals")
    if inner.type.name != "decimal" or (digits is not None and not digits.is_int):
        raise InvalidArgument(f"{shown(node)}: ROUND is for decimals here, to a number of digits", hint="CAST first")
    return terms.bound(f"round({inner.sql}, {0 if digits is None else int(digits.this)})")


# ---- text


def _text_function(word: str, count: int = 1, kind: Type = STRING) -> Callable[[Terms, Any], Term]:
    def make(terms: Terms, node: Any) -> Term:
        names = ("this", "expression", "replacement")
        nodes = [node.args.get(name) for name in names[:count]]
        if any(each is None for each in nodes):
            raise InvalidArgument(f"{shown(node)}: {word} takes {count} here")
        found = terms.all_of(nodes, "string")
        return Term(f"{word}({', '.join(term.sql for term in found)})", kind)

    return make


def _concat(terms: Terms, node: Any) -> Term:
    nodes = node.expressions or [node.this, node.expression]
    return Term(f"({' || '.join(term.sql for term in terms.all_of(nodes, 'string'))})", STRING)


def _trim(terms: Terms, node: Any) -> Term:
    if node.args.get("expression") is not None:
        raise InvalidArgument(f"{shown(node)}: TRIM takes spaces away here, nothing else")
    word = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "trim")
    (inner,) = terms.all_of([node.this], "string")
    return Term(f"{word}({inner.sql})", STRING)


def _substring(terms: Terms, node: Any) -> Term:
    bounds = [node.args[name] for name in ("start", "length") if node.args.get(name) is not None]
    if not all(each.is_int for each in bounds) or int(bounds[0].this) < 1:
        raise InvalidArgument(f"{shown(node)}: SUBSTRING takes whole numbers here, the first from 1 on")
    (inner,) = terms.all_of([node.this], "string")
    return Term(f"substring({inner.sql}, {', '.join(str(int(each.this)) for each in bounds)})", STRING)


# ---- days and times


def _time(terms: Terms, node: Any) -> Term:
    while type(node).__name__ == "TsOrDsToDate" and not node.args.get("format"):
        node = node.this
    term = terms.of(node)
    if term.is_text:
        return cast(term, DATE, shown(node))
    if term.type.name not in _TIMES:
        raise InvalidArgument(f"{shown(node)} is {term.type}, where a date or a timestamp is expected")
    return term


def _part_of_time(word: str) -> Callable[[Terms, Any], Term]:
    def make(terms: Terms, node: Any) -> Term:
        return Term(f"CAST({word}({_time(terms, node.this).sql}) AS INTEGER)", INT)

    return make


def _to_date(terms: Terms, node: Any) -> Term:
    return cast(_time(terms, node), DATE, shown(node))


def _moved(terms: Terms, node: Any, sign: str) -> Term:
    """A time and an interval."""
    unit, amount = str(node.expression.args.get("unit") or "").lower().rstrip("s"), node.expression.this
    if unit not in _UNITS or not str(amount.this).lstrip("-").isdigit():
        raise InvalidArgument(f"{shown(node)}: an interval is a whole number of {', '.join(_UNITS)} here")
    time = _time(terms, node.this)
    if time.type == DATE and unit not in _UNITS[:4]:
        raise InvalidArgument(f"{shown(node)}: a date is moved by days, weeks, months and years")
    moved = f"({time.sql} {sign} INTERVAL ({int(amount.this)}) {unit})"
    return Term(f"CAST({moved} AS DATE)" if time.type == DATE else moved, time.type)


def _days_later(terms: Terms, node: Any) -> Term:
    if str(node.args.get("unit") or "day").lower() != "day":
        raise InvalidArgument(f"{shown(node)}: DATE_ADD adds days here")
    day = cast(_time(terms, node.this), DATE, shown(node))
    (days,) = terms.all_of([node.expression], "number")
    return Term(f"({day.sql} + {cast(days, INT, shown(node)).sql})", DATE)


def _days_between(terms: Terms, node: Any) -> Term:
    if str(node.args.get("unit") or "day").lower() != "day":
        raise InvalidArgument(f"{shown(node)}: DATEDIFF counts days here")
    one, other = (cast(_time(terms, each), DATE, shown(node)) for each in (node.this, node.expression))
    return Term(f"CAST({one.sql} - {other.sql} AS INTEGER)", INT)


# ---- casts, and what is made of parts


def _cast(*, tries: bool) -> Callable[[Terms, Any], Term]:
    def make(terms: Terms, node: Any) -> Term:
        return cast(terms.of(node.this), parse(node.to.sql("databricks")), shown(node), tries=tries)

    return make


def _struct(terms: Terms, node: Any) -> Term:
    parts = {}
    for each in node.expressions:
        if type(each).__name__ != "PropertyEQ":
            raise InvalidArgument(f"{shown(node)}: name the fields: named_struct('a', 1, 'b', 2)")
        parts[each.this.name] = terms.of(each.expression)
    sql = ", ".join(f"{text(name)}: {term.sql}" for name, term in parts.items())
    return Term(f"{{{sql}}}", Type("struct", tuple(term.type for term in parts.values()), tuple(parts)))


def _array(terms: Terms, node: Any) -> Term:
    found = alike([terms.of(each) for each in node.expressions], shown(node))
    if not found:
        raise InvalidArgument(f"{shown(node)}: an array without elements has no type here")
    return terms.bound(f"[{', '.join(term.sql for term in found)}]")


MAKERS: dict[str, Maker] = {
    "Add": _arithmetic("+"),
    "Sub": _arithmetic("-"),
    "Mul": _arithmetic("*"),
    "Div": _division("/"),
    "IntDiv": _division("//"),
    "Mod": _division("%"),
    "Neg": _negative,
    "Abs": _abs,
    "Ceil": _whole("ceil"),
    "Floor": _whole("floor"),
    "Round": _round,
    "Concat": _concat,
    "DPipe": _concat,
    "Length": _text_function("length", kind=INT),
    "Upper": _text_function("upper"),
    "Lower": _text_function("lower"),
    "Replace": _text_function("replace", 3),
    "StartsWith": _text_function("starts_with", 2, BOOLEAN),
    "EndsWith": _text_function("ends_with", 2, BOOLEAN),
    "Contains": _text_function("contains", 2, BOOLEAN),
    "Trim": _trim,
    "Substring": _substring,
    "Year": _part_of_time("year"),
    "Month": _part_of_time("month"),
    "Day": _part_of_time("day"),
    "DayOfMonth": _part_of_time("day"),
    "Hour": _part_of_time("hour"),
    "Minute": _part_of_time("minute"),
    "Second": _part_of_time("second"),
    "TsOrDsToDate": _to_date,
    "TsOrDsAdd": _days_later,
    "DateDiff": _days_between,
    "Cast": _cast(tries=False),
    "TryCast": _cast(tries=True),
    "Struct": _struct,
    "Array": _array,
}
