"""A session's transaction that SQL begins and ends, where `with client.transaction()` has no place to stand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime

from txnclient.client.client import Client
from txnclient.outcome import CommitReceipt
from txnclient.read import instants
from txnclient.transaction import blocks
from txnclient.transaction.blocks import Block, Catalog
from txnclient.transaction.reasons import reason
from txnclient.transaction.transaction import Transaction
from txnstatus.errors import CommitUnknown, IllegalState, TxnError
from txnstatus.limits import MAX_LABEL_CHARACTERS, check_length


@dataclass(slots=True)
class _Open:
    """A transaction that is not over, as far as is known."""

    txn: Transaction
    block: Block | None
    """None: a commit was asked for, and its outcome has not come."""
    catalogs: Mapping[str, Catalog]
    is_script: bool
    begun_by: str
    """The one that has spoken for the session."""


class SqlSession:
    """What statements of a session have begun and not ended. Of any thread: one after the other."""

    def __init__(self, client: Client, catalogs: Callable[[], Mapping[str, Catalog]]) -> None:
        """`catalogs`: those of the session, by their names."""
        self.client = client
        self.catalogs = catalogs
        self.speaker = ""
        """The one that speaks for the session: as it is gone, what it has begun ends."""
        self._lock = threading.RLock()
        self._open: _Open | None = None
        self._joined: Block | None = None
        """The block of `Transaction.spark` of which a script is part that runs."""
        self._label = ""
        self._at: int | datetime | None = None

    def set_next(self, label: str | None, at: int | datetime | None) -> None:
        """What the next transaction is called, and of which time it reads.

        Raises IllegalState within one; InvalidArgument for a label or a time that none can have.
        """
        with self._lock:
            if self._open is not None:
                raise IllegalState(
                    f"transaction {self._open.txn.id} has begun: its label and its snapshot are what they are",
                    txn_id=self._open.txn.id,
                    hint="SET TRANSACTION is for the next one: say it before BEGIN",
                )
            if label is not None:
                check_length("label", label, MAX_LABEL_CHARACTERS)
                self._label = label
            if at is not None:
                instants.resolve(at, self.client.last_commit())
                self._at = at

    # ---- the beginning and the end

    def begin(self, *, is_script: bool = False) -> Transaction:
        """Raises IllegalState within a transaction, also within a block of `Transaction.spark`."""
        with self._lock:
            if self._open is not None:
                raise IllegalState(
                    f"BEGIN: transaction {self._open.txn.id} is open in this session",
                    txn_id=self._open.txn.id,
                    hint="COMMIT or ROLLBACK ends it; transactions are not nested",
                )
            at = None if self._at is None else instants.resolve(self._at, self.client.last_commit())
            txn = self.client.begin(self._label)
            catalogs = self.catalogs()
            try:
                if at is not None:
                    txn.handle.read_as_of(at)
                block = blocks.begin(txn, catalogs)
            except BaseException:
                txn.abort("its statements are another transaction's")
                raise
            self._open = _Open(txn, block, catalogs, is_script, self.speaker)
            self._label, self._at = "", None
            return txn

    def commit(self, *, is_script: bool = False) -> CommitReceipt:
        """Raises as `Transaction.commit`, and IllegalState after a statement that has failed: then ROLLBACK remains.

        After CommitUnknown another COMMIT asks for the outcome.
        """
        with self._lock:
            found = self._required("COMMIT", is_script=is_script)
            try:
                found.txn.handle.require_sound()
            except IllegalState as error:
                said = f"COMMIT is refused: {error.message}"
                back = [each.name for each in found.txn.handle.savepoints]
                hint = f"ROLLBACK TO {back[-1]}, or ROLLBACK" if back else "ROLLBACK"
                if is_script:
                    hint = "it is rolled back: a handler took an error of a statement that had begun to write"
                raise IllegalState(said, txn_id=found.txn.id, hint=hint) from None
            try:
                with self._left(found):
                    receipt = found.txn.commit()
            except CommitUnknown:
                raise
            except BaseException:
                self._open = None
                raise
            self._open = None
            return receipt

    def rollback(self, *, is_script: bool = False) -> Transaction:
        """Raises as `Transaction.abort`. In any case nothing is open then."""
        with self._lock:
            return self._rolled_back(self._required("ROLLBACK", is_script=is_script))

    def gone(self, speaker: str) -> None:
        """Nobody speaks for the session any more: what was begun in it and not committed is rolled back."""
        with self._lock:
            if self._open is not None and self._open.begun_by == speaker:
                self._rolled_back(self._open)

    def closed(self, speaker: str) -> None:
        """The session ends, and statements of it may run on: what was begun in it is aborted, and has them until it is
        gone, since none of them may be a transaction of its own.
        """
        found = self._open  # whoever has the lock may wait for others' locks, for as long as the transaction lives
        if found is not None and found.begun_by == speaker:
            found.txn.abort("its session was closed")

    def _rolled_back(self, found: _Open) -> Transaction:
        self._open = None
        try:
            with self._left(found):
                pass
        finally:
            found.txn.abort("ROLLBACK")
        return found.txn

    @contextmanager
    def _left(self, found: _Open) -> Iterator[None]:
        """The session's statements are the transaction's no more. Aborts it where one still writes."""
        block, found.block = found.block, None
        try:
            if block is not None:
                blocks.end(block, found.catalogs)
        except IllegalState as error:
            found.txn.leave(error)
            raise
        yield

    # ---- scripts

    def begin_script(self) -> None:
        """A script is a transaction, or part of that of a block of `Transaction.spark`. Raises as `begin`."""
        with self._lock:
            if (there := self._around()) is not None and self._open is None:
                self._joined = there
            else:
                self.begin(is_script=True)

    def commit_script(self) -> None:
        """Raises as `commit`, and nothing is open then: no statement comes after the script that could end it."""
        with self._lock:
            joined, self._joined = self._joined, None
            if joined is not None:
                return
            try:
                self.commit(is_script=True)
            except CommitUnknown:
                self._open = None
                raise
            except IllegalState:
                if self._open is not None:
                    with suppress(TxnError):  # it expires
                        self._rolled_back(self._open)
                raise

    def rollback_script(self, because: str = "") -> None:
        """What it is part of can only be aborted then."""
        with self._lock:
            joined, self._joined = self._joined, None
            if joined is None:
                self.rollback(is_script=True)
            else:
                joined.fail("a script", reason(because))

    # ---- within it

    @contextmanager
    def using(self, statement: str) -> Iterator[Transaction]:
        """The transaction, or that of a block, for what is done at once.

        Raises IllegalState where none is open, and why it is over.
        """
        with self._lock, self._block(statement).using() as txn:
            assert isinstance(txn, Transaction)
            yield txn

    @contextmanager
    def alone(self, statement: str) -> Iterator[Transaction]:
        """As `using`, for what concerns all that was done in it, also after a statement that failed."""
        with self._lock, self._block(statement).alone() as txn:
            assert isinstance(txn, Transaction)
            yield txn

    def _block(self, statement: str) -> Block:
        if self._open is None:
            there = self._around()
            if there is not None and there.cluster_id == self.client.cluster_id:
                return there
        found = self._required(statement)
        if found.block is None:
            raise IllegalState(f"{statement}: transaction {found.txn.id} is being committed", hint="COMMIT again")
        return found.block

    def _around(self) -> Block | None:
        """The block in which the session's statements run."""
        return next((each.block for each in self.catalogs().values() if each.block is not None), None)

    def _required(self, statement: str, *, is_script: bool | None = None) -> _Open:
        """Raises IllegalState where none is open, or its end is not this statement's."""
        found = self._open
        if found is None:
            there = self._around()
            hint = "BEGIN begins one" if there is None else f"the block of {there!r} commits as it ends"
            raise IllegalState(f"{statement}: no transaction is open in this session", hint=hint)
        if is_script is not None and found.is_script is not is_script:
            raise IllegalState(
                f"{statement}: transaction {found.txn.id} is that of a script, from its beginning to its end",
                txn_id=found.txn.id,
                hint="BEGIN ATOMIC ... END commits as it ends, and is rolled back where it fails",
            )
        return found
