"""Chunks of a status table's snapshot: first a header, then the records, some in each chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.msgpack import Encoder

from txnstatus.replicated import Stored, decoder
from txnstatus.status.records import TxnRecord
from txnstatus.types import Timestamp, TxnId

VERSION = 2
CHUNK_RECORDS = 250
"""Records in one chunk: less than a millisecond's work."""


class Header(Stored, tag=1):
    version: int
    first_txn_id: TxnId
    end_txn_id: TxnId
    next_txn_id: TxnId
    last_commit_ts: Timestamp
    full: bool


class Unfinished(Stored, tag=2):
    records: tuple[TxnRecord, ...]
    """Records in the order of their ids."""


class Finished(Stored, tag=3):
    records: tuple[bytes, ...]
    """Records in the order in which they finished, each encoded."""


Chunk = Header | Unfinished | Finished
encode = Encoder().encode
decode: Callable[[bytes], Chunk] = decoder(Chunk)
"""What reads a chunk. Raises ValueError on bytes that are none of this version."""


def of(header: Header, unfinished: Sequence[TxnRecord], finished: Sequence[bytes]) -> Iterator[bytes]:
    yield encode(header)
    for start in range(0, len(unfinished), CHUNK_RECORDS):
        yield encode(Unfinished(tuple(unfinished[start : start + CHUNK_RECORDS])))
    for start in range(0, len(finished), CHUNK_RECORDS):
        yield encode(Finished(tuple(finished[start : start + CHUNK_RECORDS])))
