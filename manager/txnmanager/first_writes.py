"""First writes that a begin carries: its entry makes their tables participants, and claims their directories.

The tables are asked who they are, from memory; they hear of the transaction when it comes to write there, or ends. What
a transaction has claimed and made nothing of, its end tells them: it is cleaned as what it has opened is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from txnmanager.keepers import Keepers
from txnstatus import write_directory
from txnstatus.errors import InvalidArgument, TxnError
from txnstatus.limits import MAX_FIRST_WRITES, check_count
from txnstatus.names import check_table_name
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.calls import Question
from txnstatus.schema import check_write_id
from txnstatus.types import TxnId

Found = Sequence[common.TableInfo] | TxnError
"""The tables, in the order in which they were asked for, or why one of them is not known: NotFound, Unavailable."""


def checked(request: pb.BeginTransactionRequest) -> tuple[str, ...]:
    """The names of the tables, in the order of the writes. Raises InvalidArgument."""
    writes = request.first_writes
    check_count(len(writes), "first writes", MAX_FIRST_WRITES)
    if writes and request.count > 1:
        raise InvalidArgument(f"first writes are of one transaction; {request.count} are to begin")
    for write in writes:
        check_table_name(write.table)
        check_write_id(write.write_id)
    names = tuple(write.table for write in writes)
    if len(set(names)) < len(names):
        raise InvalidArgument("a transaction has one first write on a table")
    return names


def look_up(keepers: Keepers, names: Sequence[str], by: float, told: Callable[[Found], None]) -> None:
    """Asks for the tables of these names: the leaders know them from memory, and those of one shard go together.

    `by`: the loop's time at which they are to be known. `told` hears once.
    """
    tables = _Tables(len(names), told)
    questions = [
        (name, Question(table_pb.GetTableRequest(name=name), by, partial(tables.hear, number)))
        for number, name in enumerate(names)
    ]
    keepers.ask("txnstatus.Table/GetTable", questions, table_pb.GetTableResponse)


class _Tables:
    """Tables that are asked for, until all are known, or one cannot be."""

    def __init__(self, count: int, told: Callable[[Found], None]) -> None:
        self._found = [common.TableInfo()] * count
        self._left = count
        self._told = told

    def hear(self, number: int, answer: table_pb.GetTableResponse | TxnError) -> None:
        if not self._left:
            return  # it was told that another one cannot be
        if isinstance(answer, TxnError):
            self._left = 0
            self._told(answer)
            return
        self._found[number] = answer.table
        self._left -= 1
        if not self._left:
            self._told(self._found)


def participants(
    request: pb.BeginTransactionRequest, found: Sequence[common.TableInfo]
) -> list[common.ParticipantInfo]:
    """A table with a primary key has no directory claimed: from a write's opening on it keeps the keys that change."""
    return [
        common.ParticipantInfo(
            participant_id=table.table_id,
            name=table.name,
            first_write="" if table.schema.primary_key else write.write_id,
        )
        for table, write in zip(found, request.first_writes, strict=True)
    ]


def add_opened(
    begun: pb.BeginTransactionResponse, wanted: Sequence[common.ParticipantInfo], found: Sequence[common.TableInfo]
) -> None:
    """The first writes with which the transaction began: an earlier call may have begun it, which wanted others.

    They are made in place, for a table's schema may be long: else it is copied twice for each.
    """
    recorded = {(each.participant_id, each.first_write) for each in begun.participants}
    txn_id = TxnId(begun.txn_ids[0])
    for participant, table in zip(wanted, found, strict=True):
        name, write_id = participant.participant_id, participant.first_write
        if write_id and (not begun.begun_before or (name, write_id) in recorded):
            write = begun.first_writes.add(directory=write_directory.uri_of(table.location, txn_id, write_id))
            write.table.CopyFrom(table)
