"""Transfers between accounts in several tables, and what must hold of what they see.

An account is a partition, which a transfer overwrites with its new balance, on the base of the snapshot that it read;
or a row of a table with a key, which it upserts.
So the balances of all accounts, read at one timestamp, have the sum 0, always. Each transfer also appends an element
to the list that it finds in an account: the lists' history is judged by tests.sim.judges.isolation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.sim.judges.isolation import Observed, anomalies
from tests.sim.judges.ledger import Ledger
from txnstatus.proto import common_pb2

ACCOUNTS: Mapping[str, tuple[str, ...]] = {
    "bank.north": ("p=1", "p=2", "p=3"),
    "bank.south": ("p=4", "p=5"),
}
"""The tables, and the partitions that are accounts."""
KEYED_ACCOUNTS: Mapping[str, tuple[str, ...]] = {"bank.keyed": ("6", "7")}
"""Tables where rows are written, and the keys that are accounts."""
ACCOUNT_SCHEMA = common_pb2.TableSchema(
    columns=[common_pb2.Column(name=name, type="bigint", nullable=True) for name in ("k", "p")], partition_by=["p"]
)


@dataclass(frozen=True, slots=True)
class Account:
    balance: int = 0
    elements: tuple[int, ...] = ()

    def __str__(self) -> str:
        """As the value of a row."""
        return ",".join(map(str, (self.balance, *self.elements)))

    @classmethod
    def parse(cls, text: str) -> Account:
        balance, *elements = map(int, text.split(","))
        return cls(balance, tuple(elements))


Balances = dict[tuple[str, str], Account]
"""Accounts by table and partition."""


@dataclass
class Bank:
    """What all programs have seen and done."""

    accounts: Mapping[str, tuple[str, ...]]
    contents: dict[tuple[str, str], Account] = field(default_factory=dict)
    """Contents of the files, by manifest and partition."""
    history: list[Observed] = field(default_factory=list)
    """A transfer's outcome is the ledger's; until then it is None."""
    transfers: dict[str, int] = field(default_factory=dict)
    """Transaction ids by the name in the history."""
    elements: int = 0
    tables: set[str] = field(default_factory=set)
    """Tables whose creation was acknowledged."""

    def judge(self, ledger: Ledger) -> list[str]:
        """With every outcome known."""
        return [str(anomaly) for anomaly in anomalies([self._decided(each, ledger) for each in self.history])]

    def _decided(self, seen: Observed, ledger: Ledger) -> Observed:
        if seen.name not in self.transfers:
            return seen
        txn = ledger.txns[self.transfers[seen.name]]
        told_at = txn.told_at if txn.told_commit_ts is not None else float("inf")
        return Observed(seen.name, txn.committed, seen.reads, seen.appends, seen.began_at, told_at)


def lists(balances: Balances) -> dict[str, tuple[int, ...]]:
    return {"/".join(key): account.elements for key, account in balances.items()}
