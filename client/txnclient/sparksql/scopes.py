"""Which transaction a statement of Spark's own SQL is: one of its own, or that of the block in which it runs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from txnclient.client.client import Client
from txnclient.transaction.beginning import begin
from txnclient.transaction.blocks import Block, given_up
from txnclient.transaction.transaction import Transaction
from txnstatus.types import Timestamp

if TYPE_CHECKING:
    from txnclient.transaction.statements import Statements
    from txnclient.write.files import Opened


class Alone:
    """A transaction for each statement, which sees what the statement has read."""

    def __init__(self, client: Client, read_at: Timestamp) -> None:
        self._client, self._read_at = client, read_at

    @contextmanager
    def opening(self, label: str, table: str) -> Iterator[Statements]:
        """Begins it, in the group of the table. If anything fails within, it is over."""
        (txn,), _ = begin(self._client.session, 1, label[:100], 0, uuid.uuid4().hex, near=table)
        try:
            txn.handle.read_as_of(self._read_at)
            yield txn
        except Exception as error:
            txn.leave(error)
            raise

    @contextmanager
    def ending(self, txn: Statements, _: Opened) -> Iterator[None]:
        """Commits as it ends."""
        assert isinstance(txn, Transaction)
        with txn:
            yield

    def give_up(self, txn: Statements, _: Opened, why: str) -> None:
        """Raises TxnAborted where somebody else has."""
        assert isinstance(txn, Transaction)
        txn.require_not_aborted()
        txn.abort(given_up(why))


Scope = Alone | Block
