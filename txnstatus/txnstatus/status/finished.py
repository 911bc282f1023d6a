"""The finished transactions of a status table: kept encoded, as a snapshot has them, until somebody asks for one.

There are far more of them than of all others, nobody changes them, and few are ever asked for. So a restart need not
make objects of them, and a snapshot need not encode them again.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping

from txnstatus.proto import txn_status_pb2 as pb
from txnstatus.status.records import BeginRequest, TxnRecord, from_wire, to_saved
from txnstatus.types import TERMINAL, TxnId

_ENDED: frozenset[int] = frozenset(TERMINAL)


class Finished:
    def __init__(self, requests: Mapping[str, BeginRequest]) -> None:
        """`requests`: of the table, with those of all records that are here."""
        self._requests = requests
        self._encoded: dict[TxnId, bytes] = {}
        """Id → the record, encoded; in the order in which they finished."""
        self._order: deque[TxnId] = deque()
        """The ids in the same order: to find a dict's first key after many have gone takes long."""

    def __len__(self) -> int:
        return len(self._encoded)

    def __contains__(self, txn_id: TxnId) -> bool:
        return txn_id in self._encoded

    def add(self, record: TxnRecord) -> None:
        self._put(record.txn_id, to_saved(record).SerializeToString(deterministic=True))

    def restore(self, encoded: bytes) -> pb.StatusSnapshot.Record:
        """Adds one as a snapshot has it; returns what it says. Raises ValueError for one that is not finished."""
        saved = pb.StatusSnapshot.Record.FromString(encoded)
        if saved.txn.state not in _ENDED:
            raise ValueError(f"transaction {saved.txn.txn_id} in state {saved.txn.state} among the finished ones")
        self._put(TxnId(saved.txn.txn_id), encoded)
        return saved

    def find(self, txn_id: TxnId) -> TxnRecord | None:
        encoded = self._encoded.get(txn_id)
        if encoded is None:
            return None
        saved = pb.StatusSnapshot.Record.FromString(encoded)
        return from_wire(saved.txn, self._requests[saved.request_id])

    @property
    def oldest(self) -> pb.StatusSnapshot.Record | None:
        """What the first one to finish says."""
        return pb.StatusSnapshot.Record.FromString(self._encoded[self._order[0]]) if self._order else None

    def drop_oldest(self) -> pb.StatusSnapshot.Record:
        return pb.StatusSnapshot.Record.FromString(self._encoded.pop(self._order.popleft()))

    def encoded(self) -> list[bytes]:
        """All records, in the order in which they finished."""
        return list(self._encoded.values())

    def latest(self, count: int) -> list[TxnRecord]:
        """The records of those that finished last."""
        ids = itertools.islice(reversed(self._order), count)
        return [record for txn_id in ids if (record := self.find(txn_id))]

    def _put(self, txn_id: TxnId, encoded: bytes) -> None:
        self._encoded[txn_id] = encoded
        self._order.append(txn_id)
