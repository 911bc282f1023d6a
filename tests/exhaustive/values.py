"""Values by numbers, and what all parts of the search call alike."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

from txnstatus.errors import TxnError

OWNER = "ada"

T = TypeVar("T", bound=Hashable)


class Interned(Generic[T]):
    """Values by small numbers, equal values by one number."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}
        self.values: list[T] = []

    def __call__(self, value: T) -> int:
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number

    def __len__(self) -> int:
        return len(self.values)


class Error(NamedTuple):
    """A refusal, as a value."""

    kind: type[TxnError]
    message: str
    cause: object

    @classmethod
    def of(cls, error: TxnError) -> Error:
        return cls(type(error), error.message, getattr(error, "cause", None))

    def thawed(self) -> TxnError:
        error = self.kind(self.message)
        if self.cause is not None:
            error.cause = self.cause  # type: ignore[attr-defined]
        return error
