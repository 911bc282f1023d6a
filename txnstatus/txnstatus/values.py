"""Values: what is made many times for every transaction, and never changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """A dataclass with slots that the type checker keeps frozen.

    The interpreter would keep it frozen by setting each field through a function call: three to seven times as long as
    this takes, which was a tenth of all that a node does.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
