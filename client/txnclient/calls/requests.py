"""Requests from a program's values: what does not fit its field is the program's error, named."""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import index
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from txnstatus.errors import InvalidArgument

MessageT = TypeVar("MessageT", bound=Message)


def build(kind: type[MessageT], **fields: Any) -> MessageT:
    """Raises InvalidArgument, naming the field and its value."""
    try:
        return kind(**fields)
    except (TypeError, ValueError):
        for name, value in fields.items():
            try:
                kind(**{name: value})
            except (TypeError, ValueError) as error:
                text = kind.DESCRIPTOR.fields_by_name[name].type == FieldDescriptor.TYPE_STRING
                why = f"expected text, not {type(value).__name__}" if text and not isinstance(value, str) else error
                raise InvalidArgument(f"{name} {_short(value)}: {why}") from error
        raise


def names_of(tables: Iterable[str]) -> list[str]:
    """Each once. Raises InvalidArgument for what is no list of names: a text would be taken for one of its letters."""
    if isinstance(tables, str):
        raise InvalidArgument(f"tables = {_short(tables)}: give a list of names", hint=f"tables=[{_short(tables)}]")
    names = list(tables) if isinstance(tables, Iterable) else None
    if names is None or any(not isinstance(name, str) for name in names):
        raise InvalidArgument(f"tables = {_short(tables if names is None else names)}: expected names, as text")
    return list(dict.fromkeys(names))


def checked_place(place: object, name: str) -> str:
    """The path or URI of a directory. Raises InvalidArgument for what can be neither."""
    if not isinstance(place, str) or not place.rpartition("://")[2] or "\0" in place:
        raise InvalidArgument(f"{name} {_short(place)}: expected a path or a URI, as text")
    return place


def checked_id(txn_id: object) -> int:
    """The id of a transaction, as an int. Raises InvalidArgument: in a request nothing is 0, which is one, too."""
    try:
        if not isinstance(txn_id, bool):
            return index(txn_id)  # type: ignore[arg-type]
    except TypeError:
        pass
    raise InvalidArgument(f"txn_id {_short(txn_id)}: the id of a transaction is a whole number")


def checked_seconds(seconds: object, name: str = "timeout", rule: str = "") -> float:
    """A time to wait, which ends. Raises InvalidArgument, naming the value and the rule; `rule`: more of it."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds < math.inf:  # type: ignore[operator]
        raise InvalidArgument(f"{name} {_short(seconds)}: it is seconds, 0 or more{rule}")
    return float(seconds)  # type: ignore[arg-type]


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
