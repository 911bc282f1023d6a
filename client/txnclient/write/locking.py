"""Locking inside a transaction: what a program asks for, and what its writes ask for by themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf.message import Message

from txnclient.write import locks
from txnstatus.proto import table_pb2 as pb
from txnstatus.types import Statement, TxnId

if TYPE_CHECKING:
    from txnclient.client import Client

ResponseT = TypeVar("ResponseT", bound=Message)

TURN_SECONDS = 5.0
"""A request waits on the server in turns, each shorter than one attempt of a call."""


class Locking(ABC):
    """The locks of a `Transaction`."""

    client: Client
    id: TxnId
    _alone = False
    """Whether the transaction is one write and nothing else."""

    @abstractmethod
    def _ask(self, method: str, request: Message, response: type[ResponseT]) -> ResponseT: ...

    @abstractmethod
    def _require_writable(self) -> None: ...

    def lock(
        self,
        table: str,
        mode: locks.LockMode,
        *,
        partition: str | Sequence[str] | None = None,
        strategy: str = "wait",
        numretries: int = locks.NUMRETRIES,
        sleep_between_retries: float = locks.SLEEP_BETWEEN_RETRIES,
    ) -> None:
        """Locks a table, partitions of it ("month=1/day=2") or a database, until the transaction ends.

        Parents are locked in S. A request that cannot be granted waits its turn, as long as Hive's options of the
        same names say (`hive.lock.*`); with "wait-die" it waits for younger transactions only, with "wound-wait" it has
        younger ones aborted and waits for older ones, with "no-wait" it does not wait. Operators can
        bring strategies of their own.

        Raises Locked, naming who is in the way, when the last retry is over or somebody would wait for himself: the
        transaction goes on. Raises TxnAborted when wait-die has ended it.
        """
        patience = locks.waits(numretries, sleep_between_retries)
        self._acquire(table, partition, strategy, patience, mode=locks.mode_of(mode))

    def lock_for(
        self,
        statement: Statement | str,
        table: str,
        *,
        partition: str | Sequence[str] | None = None,
        strategy: str = "wait",
        numretries: int = locks.NUMRETRIES,
        sleep_between_retries: float = locks.SLEEP_BETWEEN_RETRIES,
    ) -> None:
        """Locks what a statement locks ("select", "alter table add partition", ...), otherwise as `lock`.

        Which locks that are is a table in docs/protocol.md. For programs that do by themselves what this service does
        not, and for reads that nobody may overwrite before the transaction ends.
        """
        patience = locks.waits(numretries, sleep_between_retries)
        self._acquire(table, partition, strategy, patience, statement=statement)

    def _lock_to_write(self, statement: Statement, table: str, names: Sequence[str], strategy: str) -> bool:
        """By the table's own strategy. Whether nobody else may hold anything of it (X)."""
        patience = locks.waits(locks.NUMRETRIES, locks.SLEEP_BETWEEN_RETRIES)
        return self._acquire(table, names, strategy, patience, statement=statement).mode == pb.LOCK_X

    def _acquire(
        self, table: str, partition: str | Sequence[str] | None, strategy: str, patience: Iterator[float], **what: Any
    ) -> pb.LockResponse:
        self._require_writable()
        request = locks.request_of(self.id, self.client.owner, table, partition, strategy, alone=self._alone, **what)
        turn = min(TURN_SECONDS, self.client.attempt_seconds(self.client.timeout) / 2)
        return locks.acquire(request, self._ask, patience, turn)
