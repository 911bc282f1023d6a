"""The finished transactions of a status table: kept encoded, as a snapshot has them, until somebody asks for one.

There are far more of them than of all others, nobody changes them, and few are ever asked for. So a restart need not
make objects of them, and a snapshot need not encode them again.
"""

from __future__ import annotations

import itertools
from collections import deque

from txnstatus.status.records import TxnRecord, decode, encode
from txnstatus.types import TERMINAL, TxnId


class Finished:
    def __init__(self) -> None:
        self._encoded: dict[TxnId, bytes] = {}
        """Id → the record, encoded; in the order in which they finished."""
        self._order: deque[TxnId] = deque()
        """The ids in the same order: to find a dict's first key after many have gone takes long."""
        self.gone = 0
        """How many were dropped."""

    def __len__(self) -> int:
        return len(self._encoded)

    @property
    def count(self) -> int:
        """How many have finished: it grows, until a snapshot is restored, which knows of those it keeps."""
        return self.gone + len(self._encoded)

    def __contains__(self, txn_id: TxnId) -> bool:
        return txn_id in self._encoded

    def add(self, record: TxnRecord) -> None:
        self._encoded[record.txn_id] = encode(record)
        self._order.append(record.txn_id)

    def restore(self, encoded: bytes) -> TxnRecord:
        """Adds one as a snapshot has it; returns it. Raises ValueError for one that is not finished."""
        record = decode(encoded)
        if record.state not in TERMINAL:
            raise ValueError(f"transaction {record.txn_id} in state {record.state} among the finished ones")
        self._encoded[record.txn_id] = encoded
        self._order.append(record.txn_id)
        return record

    def find(self, txn_id: TxnId) -> TxnRecord | None:
        encoded = self._encoded.get(txn_id)
        return None if encoded is None else decode(encoded)

    @property
    def oldest(self) -> TxnRecord | None:
        """The first one to finish."""
        return decode(self._encoded[self._order[0]]) if self._order else None

    def at(self, number: int) -> TxnRecord:
        """A record by its number among those that have finished, from 0 on. Raises IndexError: it is not kept."""
        if number < self.gone:
            raise IndexError(f"record {number} is gone: {self.gone} are")
        return decode(self._encoded[self._order[number - self.gone]])

    def drop_oldest(self) -> TxnRecord:
        self.gone += 1
        return decode(self._encoded.pop(self._order.popleft()))

    def encoded(self) -> tuple[bytes, ...]:
        """All records, in the order in which they finished."""
        return tuple(self._encoded.values())

    def latest(self, count: int) -> list[TxnId]:
        """Transactions that finished last, so many, the last one first, as far as they are kept."""
        return list(itertools.islice(reversed(self._order), count))
