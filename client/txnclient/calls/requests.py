"""Requests from a program's values: what does not fit its field is the program's error, named."""

from __future__ import annotations

from typing import Any, TypeVar

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
                raise InvalidArgument(f"{name} {_short(value)}: {error}") from error
        raise


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
