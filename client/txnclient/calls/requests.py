"""Requests from a program's values: what does not fit its field is the program's error, named."""

from __future__ import annotations

import math
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


def checked_seconds(seconds: object, name: str = "timeout", rule: str = "") -> float:
    """A time to wait, which ends. Raises InvalidArgument, naming the value and the rule; `rule`: more of it."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds < math.inf:  # type: ignore[operator]
        raise InvalidArgument(f"{name} {_short(seconds)}: it is seconds, 0 or more{rule}")
    return float(seconds)  # type: ignore[arg-type]


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
