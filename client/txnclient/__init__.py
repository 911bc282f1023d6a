"""Transactions over many data-lake tables.

    import txnclient

    client = txnclient.connect("127.0.0.1:7051")
    with client.transaction(label="nightly") as txn:     # commits on success, aborts on an exception
        txn.write(flights_df, "air.flights")             # a Spark DataFrame, or a pyarrow Table
        txn.write(weather_df, "air.weather", mode="overwrite")

    with client.snapshot() as snapshot:                  # one timestamp over all tables
        snapshot.read(spark, "air.flights").count()      # a Spark DataFrame
        snapshot.to_arrow("air.weather")

Importing this loads neither pyspark nor pyarrow; a method that needs one of them does.
"""

from txnclient.client.client import Client
from txnclient.client.explaining import Explanation
from txnclient.client.granting import Grant
from txnclient.client.participants import ParticipantSummary
from txnclient.client.publication import Publication
from txnclient.compact.asking import CompactionSummary
from txnclient.connecting import connect
from txnclient.foreign.work import Part
from txnclient.history.savepoints import Savepoint
from txnclient.info import TableInfo, TxnSummary
from txnclient.outcome import CommitReceipt, RowsAffected, RowsWritten
from txnclient.outgoing.iceberg_versions import IcebergVersion
from txnclient.snapshot import Snapshot
from txnclient.streams.marks import Mark
from txnclient.transaction.transaction import Transaction
from txnclient.write.locks import LockInfo
from txnclient.write.staged_files import StagedFiles
from txnstatus.errors import (
    AlreadyExists,
    CommitUnknown,
    Conflict,
    DataDamaged,
    Forgotten,
    IllegalState,
    InternalError,
    InvalidArgument,
    LimitReached,
    Locked,
    NotAuthorized,
    NotFound,
    Overloaded,
    RowsRefused,
    SnapshotTooOld,
    TxnAborted,
    TxnError,
    Unauthenticated,
    Unavailable,
)
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.timeline import Past, TableChange
from txnstatus.schema import Column, Schema
from txnstatus.types import ParticipantState, TxnState

__all__ = [
    "AlreadyExists",
    "Client",
    "Column",
    "CommitReceipt",
    "CommitUnknown",
    "CompactionSummary",
    "Conflict",
    "DataDamaged",
    "DataFile",
    "Explanation",
    "Forgotten",
    "Grant",
    "IcebergVersion",
    "IllegalState",
    "InternalError",
    "InvalidArgument",
    "LimitReached",
    "LockInfo",
    "Locked",
    "Mark",
    "NotAuthorized",
    "NotFound",
    "Overloaded",
    "Part",
    "ParticipantState",
    "ParticipantSummary",
    "Past",
    "Publication",
    "RowsAffected",
    "RowsRefused",
    "RowsWritten",
    "Savepoint",
    "Schema",
    "Snapshot",
    "SnapshotTooOld",
    "StagedFiles",
    "TableChange",
    "TableInfo",
    "Transaction",
    "TxnAborted",
    "TxnError",
    "TxnState",
    "TxnSummary",
    "Unauthenticated",
    "Unavailable",
    "connect",
]
