"""Where the files of a transaction's writes are: a directory for each write, in its table's location."""

from __future__ import annotations

from txnstatus.types import TxnId


def name_of(txn_id: TxnId, write_id: str) -> str:
    """The name says whose it is: no two writes have one directory, and what is found on storage can be told."""
    return f"delta_{txn_id}_{write_id}"


def uri_of(location: str, txn_id: TxnId, write_id: str) -> str:
    """`location`: the table's, a URI."""
    return f"{location}/{name_of(txn_id, write_id)}"
