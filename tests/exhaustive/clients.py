"""The clients: what each may do next, given what it has done and what it can know. Nothing is bound to happen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.exhaustive.coordinator import PARTICIPANTS, View, client_name
from tests.exhaustive.messages import Message
from txnparticipant.shard import dropping
from txnparticipant.shard.commands import AddFiles
from txnparticipant.shard.table import TableState
from txnstatus.status import commands as cmd
from txnstatus.status.records import TxnRecord
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import ParticipantState, TxnId, TxnState

APPEND, OVERWRITE, DROP = "append", "overwrite", "drop"


@dataclass(frozen=True)
class Config:
    """What is searched. All bounds are on what happens; none is on depth."""

    name: str
    writes: tuple[Mapping[int, str], ...]
    """What each client does to which table."""
    crashes: int = 1
    """Changes of the status leader."""
    faults: int = 1
    """Messages lost, late or delivered twice, changes of a shard's leader, proposals that fail."""
    in_flight: int = 3
    """Messages on their way at one time."""
    log: int = 2
    """Proposals in the log at one time; and applied ones that the proposer has not heard of."""
    written: bool = False
    """Start where every client has written; what they do next is open."""
    aborts: bool = True
    """Clients may abort."""
    expires: bool = True
    """The staleness pass may find an open transaction silent, at any time."""
    here: tuple[int, ...] = ()
    """Tables in the log of the status record."""
    begins_there: bool = False
    """A begin carries its first writes, on all of the tables. There is one client then."""
    last: bool = False
    """A commit carries the writes to tables that are here."""
    impatient: bool = False
    """A client may commit before its writes were answered, and go on writing after."""


IDLE, REGISTERING, WRITING, REFUSED = range(4)
ACTIVE, COMMITTING, ABORTING = range(3)


class Client(NamedTuple):
    asked: int = ACTIVE
    writes: tuple[int, ...] = (IDLE, IDLE)
    """How far the write to each table is. REGISTERING is the gate that the table's shard leader keeps in memory."""

    def at(self, table: int, progress: int) -> Client:
        writes = list(self.writes)
        writes[table] = progress
        return self._replace(writes=tuple(writes))


Clients = tuple[Client, ...]


class ClientStep(NamedTuple):
    action: tuple[object, ...]
    clients: Clients
    sends: Message
    unless: tuple[Message, ...]
    """Messages none of which may be on its way: a request is sent again when it was lost."""


def replaced(clients: Clients, client: int, by: Client) -> Clients:
    return (*clients[:client], by, *clients[client + 1 :])


def client_of(table: TxnStatusTable, txn_id: TxnId) -> int:
    return int(table.get(txn_id).label.removeprefix(client_name(0)[:-1]))


def steps(
    config: Config, clients: Clients, view: View, table: TxnStatusTable, tables: Sequence[TableState]
) -> Iterator[ClientStep]:
    records = {record.label: record for record in table.records()}
    told = dict(view.told)
    for number, client in enumerate(clients):
        record = records.get(client_name(number))
        if record is None:
            if not any(
                isinstance(command, cmd.BeginTxns) and command.label == client_name(number) for command in view.pending
            ):
                begin = ("begin", number)
                yield ClientStep(begin, clients, begin, (begin,))
        elif record.txn_id not in told:
            for action, after, message, unless in _steps_of(config, number, client, record, view, tables):
                yield ClientStep(action, replaced(clients, number, after), message, unless)


def _steps_of(
    config: Config, number: int, client: Client, record: TxnRecord, view: View, tables: Sequence[TableState]
) -> Iterator[tuple[tuple[object, ...], Client, Message, tuple[Message, ...]]]:
    txn_id, writes = record.txn_id, config.writes[number]
    if config.last:
        writes = {table: kind for table, kind in writes.items() if table not in config.here}
    answered = [_is_written(tables[table], txn_id) for table in writes]
    if client.asked == ACTIVE or (client.asked == COMMITTING and config.impatient):
        for position, table in enumerate(writes):
            if config.impatient or all(answered[:position]):
                if table in config.here:
                    yield from _write_here(number, client, record, table, view, tables[table])
                else:
                    yield from _write(number, client, txn_id, table, view, tables[table])
    pending = {type(command) for command in view.pending if getattr(command, "txn_id", None) == txn_id}
    commit, abort = ("commit", txn_id), ("abort", txn_id)
    if client.asked == ACTIVE and (config.impatient or all(answered)):
        yield ("commit", number), client._replace(asked=COMMITTING), commit, ()
    if client.asked == COMMITTING and record.state is TxnState.OPEN and cmd.BeginCommit not in pending:
        yield ("commit", number), client, commit, (commit,)
    if config.aborts and client.asked != ABORTING:
        yield ("abort", number), client._replace(asked=ABORTING), abort, ()
    undecided = record.state in (TxnState.OPEN, TxnState.COMMIT_IN_PROGRESS)
    if client.asked == ABORTING and undecided and cmd.BeginAbort not in pending:
        yield ("abort", number), client, abort, (abort,)


def _write(
    number: int, client: Client, txn_id: TxnId, table: int, view: View, state: TableState
) -> Iterator[tuple[tuple[object, ...], Client, Message, tuple[Message, ...]]]:
    there = state.txns.get(txn_id)
    is_open = there is not None and there.state is ParticipantState.OPEN
    register, write = ("register", txn_id, table), ("write", txn_id, table)
    gate = (register, ("registered", txn_id, table), ("refused", txn_id, table))
    registering = any(
        isinstance(command, cmd.RegisterParticipants)
        and (command.txn_id, command.participants[0][0]) == (txn_id, PARTICIPANTS[table])
        for command in view.pending
    )
    match client.writes[table]:
        case 0 if is_open:
            yield ("write", number, table), client.at(table, WRITING), write, (write,)
        case 0:
            yield ("open", number, table), client.at(table, REGISTERING), register, (register,)
        case 1 if not registering:
            yield ("open", number, table), client, register, gate
        case 2 if is_open and not _is_written(state, txn_id):
            yield ("write", number, table), client, write, (write,)


def _write_here(
    number: int, client: Client, record: TxnRecord, table: int, view: View, state: TableState
) -> Iterator[tuple[tuple[object, ...], Client, Message, tuple[Message, ...]]]:
    """There is no gate: the first write's entry makes the table a participant."""
    txn_id, write = record.txn_id, ("write", record.txn_id, table)
    if client.writes[table] == IDLE:
        yield ("write", number, table), client.at(table, WRITING), write, (write,)
    elif record.state is TxnState.OPEN and not _is_written(state, txn_id):
        writing = (txn_id, state.table_id)
        if not any(isinstance(c, AddFiles) and (c.txn_id, c.table_id) == writing for c in view.pending):
            yield ("write", number, table), client, write, (write,)


def _is_written(state: TableState, txn_id: TxnId) -> bool:
    """Whether the client may have had the answer that its write was added, or that its drop may commit."""
    record = state.txns.get(txn_id)
    if record is None:
        return False
    return bool(record.writes) or (record.drops and not any(dropping.prepared_beside(state, record)))
