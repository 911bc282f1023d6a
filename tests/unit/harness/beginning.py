"""What tests of participants begin with."""

from __future__ import annotations

from txnparticipant.locks.locks import Otherwise
from txnparticipant.shard import commands as cmd
from txnstatus.types import NO_TIMESTAMP, TxnId


def begin_txn(txn_id: TxnId, table_id: str, owner: str) -> cmd.AcquireLocks:
    """A first write that asks for no lock: it leaves nothing behind but the transaction's record."""
    return cmd.AcquireLocks(txn_id, table_id, owner, (), Otherwise.REFUSED, NO_TIMESTAMP, begins=True)
