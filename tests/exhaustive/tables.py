"""Two tables, each in a shard of its own: what they do with a message, as leader/service.py would."""

from __future__ import annotations

from typing import NamedTuple

from tests.exhaustive import invariants
from tests.exhaustive.clients import (
    DROP,
    OVERWRITE,
    REFUSED,
    REGISTERING,
    WRITING,
    Clients,
    Config,
    client_of,
    replaced,
)
from tests.exhaustive.coordinator import PARTICIPANTS
from tests.exhaustive.messages import Message
from tests.exhaustive.shards import FIRST_TS, Accepted, ShardCore, manifest_of, write_of
from tests.exhaustive.values import OWNER, Error
from txnparticipant.locks.locks import Lock, Mode, Otherwise
from txnparticipant.shard import commands as cmd
from txnparticipant.shard import views
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnparticipant.versions.mvcc import undecided_at
from txnstatus.id_sets import below
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.status.commit.tasks import SendOp
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import NO_TIMESTAMP, ParticipantOpType, ParticipantState, Timestamp, TxnId

PREPARES = ((20, 12), (14, 24))
"""When each transaction prepares, by table. The tables' clocks disagree, and do not keep the order of events."""
BEHIND = 3
"""How far the clock of a shard's second leader is behind the first's."""


class Delivered(NamedTuple):
    after: int
    clients: Clients
    sends: tuple[Message, ...]


class Tables:
    """A table's state is a number: twice its core's, plus one once its shard has another leader."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.cores = tuple(ShardCore(participant, invariants.shard_step) for participant in PARTICIPANTS)
        self.start = tuple(2 * core.start for core in self.cores)

    def shard(self, table: int, number: int) -> ParticipantShard:
        return self.cores[table].shard(number >> 1)

    def table(self, table: int, number: int) -> TableState:
        return self.cores[table].table(number >> 1)

    def accepted(self, table: int, number: int) -> tuple[Accepted, ...]:
        return self.cores[table].states.values[number >> 1].accepted

    def leader_changed(self, table: int, number: int, clients: Clients) -> Delivered | None:
        """The gates of transactions that were about to begin are gone. None: it has changed before."""
        if number & 1:
            return None
        waiting = tuple(c.at(table, 0) if c.writes[table] == REGISTERING else c for c in clients)
        return Delivered(number + 1, waiting, ())

    @staticmethod
    def asks_status(message: Message) -> bool:
        """Whether what it does with the message depends on the status table."""
        return message[0] in ("write", "registered", "refused")

    def deliver(self, table: int, number: int, message: Message, clients: Clients, status: TxnStatusTable) -> Delivered:
        match message:
            case "op", SendOp() as send:
                after, said = self._apply(table, number, self._command(table, number, send))
                answer = (Timestamp(0), said) if isinstance(said, Error) else (said.timestamp, None)
                return Delivered(after, clients, (("answer", send, *answer),))
            case "registered", int() as txn, _:
                return self._begin(table, number, TxnId(txn), clients, status)
            case "refused", int() as txn, _:
                client = client_of(status, TxnId(txn))
                waits = clients[client].writes[table] == REGISTERING
                refused = replaced(clients, client, clients[client].at(table, REFUSED))
                return Delivered(number, refused if waits else clients, ())
            case "write", int() as txn, _:
                return Delivered(self._write(table, number, TxnId(txn), status), clients, ())
        raise AssertionError(message)

    def _command(self, table: int, number: int, send: SendOp) -> cmd.TxnCommand:
        txn_id, participant = send.txn_id, send.participant_id
        match send.op:
            case ParticipantOpType.BEGIN_COMMIT:
                at = PREPARES[table][txn_id] - (BEHIND if number & 1 else 0)
                return cmd.BeginCommit(txn_id, participant, Timestamp(at))
            case ParticipantOpType.FINALIZE_COMMIT:
                return cmd.FinalizeCommit(txn_id, participant, send.commit_ts)
            case _:
                return cmd.AbortTxn(txn_id, participant)

    def _begin(self, table: int, number: int, txn_id: TxnId, clients: Clients, status: TxnStatusTable) -> Delivered:
        """The gate hears that the table is registered; without a gate, nobody waits for it."""
        client = client_of(status, txn_id)
        if clients[client].writes[table] != REGISTERING:
            return Delivered(number, clients, ())
        participant = PARTICIPANTS[table]
        lock = Lock(self.table(table, number).name, Mode.X)
        number, said = self._apply(
            table,
            number,
            cmd.AcquireLocks(txn_id, participant, OWNER, (lock,), Otherwise.REFUSED, FIRST_TS, begins=True)
            if self._config.writes[client][table] == DROP
            else cmd.OpenWrite(txn_id, participant, OWNER, write_of(txn_id), begins=True),
        )
        if isinstance(said, Error):
            return Delivered(number, replaced(clients, client, clients[client].at(table, REFUSED)), ())
        writing = replaced(clients, client, clients[client].at(table, WRITING))
        return Delivered(number, writing, (("write", txn_id, table),))

    def _write(self, table: int, number: int, txn_id: TxnId, status: TxnStatusTable) -> int:
        participant = PARTICIPANTS[table]
        kind = self._config.writes[client_of(status, txn_id)][table]
        overwrite = kind == OVERWRITE
        if kind == DROP:
            number, _said = self._apply(table, number, cmd.DropTable(txn_id, participant, OWNER, below(txn_id)))
        if kind in (DROP, OVERWRITE):
            # What is committed, and not finalised here yet, is published first.
            prepared = views.prepared(self.table(table, number))
            for other in undecided_at(prepared, status.last_commit_ts):
                at = status.commit_ts_at(other, status.last_commit_ts)
                if at:
                    number, _said = self._apply(table, number, cmd.FinalizeCommit(other, participant, at))
        if kind == DROP:
            return number
        return self._apply(table, number, added(table, txn_id, status, overwrite=overwrite))[0]

    def _apply(self, table: int, number: int, command: cmd.TxnCommand) -> tuple[int, ShardApplied | Error]:
        core, said = self.cores[table].apply(number >> 1, command)
        return core * 2 + (number & 1), said

    def told(self, table: int, number: int) -> str:
        records = self.table(table, number).txns.values()
        held = [
            f"{r.txn_id} {r.state.name}" + (f"@{r.commit_ts or r.prepare_ts}" if r.prepare_ts else "")
            for r in records
            if r.state is not ParticipantState.COMMITTED or r.txn_id in (0, 1)
        ]
        return ", ".join(held) or "nothing"


def added(table: int, txn_id: TxnId, status: TxnStatusTable, *, overwrite: bool) -> cmd.AddFiles:
    """The write, as the leader of the table's shard judges it now."""
    base = max(status.last_commit_ts, FIRST_TS) if overwrite else NO_TIMESTAMP
    overwrites = (WHOLE_TABLE,) if overwrite else ()
    return cmd.AddFiles(txn_id, PARTICIPANTS[table], OWNER, write_of(txn_id), manifest_of(txn_id), overwrites, base)
