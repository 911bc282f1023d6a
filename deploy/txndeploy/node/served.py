"""Who answers for a part: one service, also while two groups of this node have it in their logs.

A replica that is behind may not know yet that a shard has left its group, while the group that it went to has it here,
too. The one with the higher number of its migration is the later one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from txnparticipant.leader.service import ShardService
from txnstatus.status.service import StatusService

PartService = StatusService | ShardService


class _Served(NamedTuple):
    number: int
    service: PartService


class ServedParts:
    def __init__(self, add: Callable[[str, object, str], None], remove: Callable[[str], None]) -> None:
        """`add`: has a service of the wire answered for a part; `remove`: has nothing answered for it any more."""
        self._add, self._remove = add, remove
        self._served: dict[str, list[_Served]] = {}

    def open(self, part: str, number: int, service: PartService) -> None:
        """`number`: of the migration by which the part came to its group; 0: it began there."""
        self._served.setdefault(part, []).append(_Served(number, service))
        self._choose(part)

    def close(self, part: str, service: object) -> None:
        left = [each for each in self._served.pop(part) if each.service is not service]
        if left:
            self._served[part] = left
        self._choose(part)

    def _choose(self, part: str) -> None:
        self._remove(part)
        if served := self._served.get(part):
            last = max(served, key=lambda each: each.number)
            for name, implementation in _answers(last.service):
                self._add(name, implementation, part)


def _answers(service: PartService) -> Sequence[tuple[str, object]]:
    """Names of services of the wire, and what answers their calls for the part."""
    if isinstance(service, StatusService):
        return [(name, service) for name in ("TxnManager", "TxnStatus", "Admin")]
    return [
        *(("Table", service), ("Participant", service), ("Audit", service.audit), ("Keeper", service.keeping)),
        *((name, service.savepoints) for name in ("Savepoints", "SavepointHolder")),
        *(("Compactions", service.compactions), ("TxnSavepoints", service.txn_savepoints)),
        ("CommitCounter", service.counter),
    ]
