"""What tests of participants begin with."""

from __future__ import annotations

from txnparticipant import commands as cmd
from txnparticipant.locks import Otherwise
from txnstatus.types import NO_TIMESTAMP, TxnId


def begin_txn(txn_id: TxnId, table_id: str, owner: str) -> cmd.AcquireLocks:
    """A first write that asks for no lock: it leaves nothing behind but the transaction's record."""
    return cmd.AcquireLocks(txn_id, table_id, owner, (), Otherwise.REFUSED, NO_TIMESTAMP, begins=True)
