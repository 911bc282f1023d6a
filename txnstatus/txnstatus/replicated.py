"""What replicated state machines share: what they store, how they refuse, and the story of what breaks them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from itertools import islice
from typing import Any, dataclass_transform

import msgspec
from msgspec import inspect
from msgspec.msgpack import Decoder

from txnstatus.errors import TxnError
from txnstatus.types import TxnId

KEPT_STEPS = 1_000
"""Steps that one state machine remembers: some 100 bytes each."""
TOLD_STEPS = 10
"""Steps that a story tells."""
TOLD_CHARACTERS = 2_000
"""Characters of a command or a state in a story: the partitions of a manifest may be many."""


@dataclass_transform(frozen_default=True)
class Stored(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """A value in the form that logs and snapshots have: an array of its fields, in their order.

    A command's array begins with the number of its kind, `tag`. Both outlive a release. So a number is never given
    again, and fields are only appended, each with a default, which is what it is in values from before it: empty, 0,
    False or None. Dataclasses in such a value are maps by the names of their fields.
    """


def decoder(kind: Any) -> Callable[[bytes], Any]:
    """Makes what reads values of a kind, or of a union of kinds.

    A newer version writes fields that this one does not know, and up to the feature level that brought them they are
    empty: those are left out. It raises ValueError for one that is not, and for what is no such value.
    """
    strict, known = Decoder(kind), inspect.type_info(kind)

    def decode(data: bytes) -> Any:
        try:
            return strict.decode(data)
        except msgspec.ValidationError as error:
            if TOO_LONG not in str(error):
                raise
        return strict.decode(msgspec.msgpack.encode(_known(msgspec.msgpack.decode(data), known)))

    return decode


TOO_LONG = "at most length"
"""Words by which msgspec says that an array has more elements than its kind has fields."""


def _known(found: Any, kind: Any) -> Any:
    """What was read, without empty fields that came later."""
    if isinstance(kind, inspect.UnionType):
        kind = next((each for each in kind.types if _fits(found, each)), None)
    if isinstance(kind, inspect.StructType) and kind.array_like:
        begins = [] if kind.tag is None else found[:1]
        fields = found[len(begins) :]
        if any(fields[len(kind.fields) :]):
            raise ValueError(
                f"a {kind.cls.__name__} of {len(fields)} fields, which has {len(kind.fields)} in this version"
            )
        return [*begins, *(_known(each, field.type) for each, field in zip(fields, kind.fields, strict=False))]
    if isinstance(kind, inspect.VarTupleType | inspect.ListType):
        return [_known(each, kind.item_type) for each in found]
    if isinstance(kind, inspect.DictType):
        return {name: _known(each, kind.value_type) for name, each in found.items()}
    return found


def _fits(found: Any, kind: Any) -> bool:
    """Whether what was read is of this kind among others: structs begin with their tags, and all else may be None."""
    if isinstance(kind, inspect.StructType) and kind.tag is not None:
        return bool(found) and found[0] == kind.tag
    return (found is None) == isinstance(kind, inspect.NoneType)


@dataclass_transform(frozen_default=True)
class Outcome(msgspec.Struct, frozen=True):
    """What a command came to; made for each on every replica, in a third of the time that a dataclass takes."""


class Rejected(Outcome):
    """The command is refused on every replica alike, and changed nothing."""

    error: TxnError


Step = tuple[int | range, str, type, Enum | str]
"""A transaction (or those that began together), the place, the kind of command, the state after it or its refusal."""


class Story:
    """What a state machine did last, for whoever has to find out how it came to stand where it cannot.

    An exception in `apply`, or a broken invariant, is a fault in the program, and often an earlier one: by the time it
    shows, the log up to it may be gone with a snapshot. So the exception carries the command, the state and the
    transaction's last steps, as notes that the log prints with it. Refusals are answers, and carry nothing.

    The steps are this process's memory, no part of the replicated state: replicas that started at different times
    remember different ones.
    """

    def __init__(self, state_of: Callable[[TxnId], object]) -> None:
        """`state_of`: all that the state machine has of a transaction."""
        self._state_of = state_of
        self._steps: deque[Step] = deque(maxlen=KEPT_STEPS)
        self.note = self._steps.append

    def tell(self, error: Exception, command: object) -> None:
        """Adds the story of the command's transaction to the exception in which the command ended."""
        error.add_note(f"command: {_short(command)}")
        txn_id = getattr(command, "txn_id", None)
        if txn_id is not None:
            self._tell_of(error, txn_id)

    @contextmanager
    def told_if_broken(self) -> Iterator[None]:
        """Around a check of invariants, which comes after every command: the last one's transaction broke them."""
        try:
            yield
        except AssertionError as error:
            if self._steps:
                txn_ids = self._steps[-1][0]
                self._tell_of(error, TxnId(txn_ids[0] if isinstance(txn_ids, range) else txn_ids))
            raise

    def _tell_of(self, error: Exception, txn_id: TxnId) -> None:
        steps = ", ".join(self._steps_of(txn_id))
        error.add_note(f"transaction {txn_id}: {_short(self._state_of(txn_id))}")
        error.add_note(f"its last steps: {steps or 'none since this process started'}")

    def _steps_of(self, txn_id: TxnId) -> list[str]:
        """The oldest first."""
        found = (
            f"{kind.__name__}{place and f' on {place}'} -> {after.name if isinstance(after, Enum) else after}"
            for txn_ids, place, kind, after in reversed(self._steps)
            if txn_ids == txn_id or (isinstance(txn_ids, range) and txn_id in txn_ids)
        )
        return list(islice(found, TOLD_STEPS))[::-1]


def _short(what: object) -> str:
    text = repr(what)
    return text if len(text) <= TOLD_CHARACTERS else f"{text[:TOLD_CHARACTERS]}.."
