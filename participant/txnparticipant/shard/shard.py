"""ParticipantShard: the replicated state of the tables of one shard.

`apply` is total and deterministic: every command gets `ShardApplied` or `Rejected`, the same on every replica.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from txnparticipant.shard import commands as cmd
from txnparticipant.shard import dividing, dropping, savepoints, snapshot
from txnparticipant.shard.adoption import adopt
from txnparticipant.shard.changes import (
    OP_OF_COMMAND,
    ShardApplied,
    alter,
    change,
    flush,
    illegal,
    mark_cleaned,
    withdraw,
)
from txnparticipant.shard.compacting import compact, translate
from txnparticipant.shard.invariants import check_held, check_table
from txnparticipant.shard.naming import Names
from txnparticipant.shard.records import Dropped, FormerNames, TableTxn
from txnparticipant.shard.table import TableState
from txnparticipant.shard.transitions import TRANSITIONS, Op, Stay
from txnparticipant.shard.translation import retirable_until
from txnstatus.errors import AlreadyExists, IllegalState, NotFound, TxnError, forgotten
from txnstatus.id_sets import NOBODYS, IdSet
from txnstatus.proto import participant_pb2 as pb
from txnstatus.replicated import Rejected, Story
from txnstatus.types import NO_TIMESTAMP, ParticipantId, ParticipantState, Timestamp, TxnId


class ParticipantShard:
    """The state of one shard. Only `apply`, `divide`, `gave_once` and `restore` change it."""

    def __init__(self, shard: int) -> None:
        self.shard = shard
        self._tables: dict[str, TableState] = {}
        self.names = Names(shard, self._tables, {})
        self._next_table_number = 0
        self.apart_below = TxnId(0)
        """Transactions with lower ids are of before the shard came to its log: they ask it as one of another log, even
        where their records are in the same one."""
        self.gone: dict[str, dividing.Gone] = {}
        """Id → a table that was here, and another shard has got."""
        self.came: frozenset[str] = frozenset()
        """Ids of tables that have come from another shard, whatever became of them here."""
        self.forgotten = NOBODYS
        """Transactions that are over for good; what still comes for one is late, and refused."""
        self._savepoints: dict[str, cmd.Savepoint] = {}
        """Id → savepoint."""
        self._story = Story(lambda txn_id: [table.txns[txn_id] for table in self.tables() if txn_id in table.txns])

    # ---- commands

    def apply(self, command: cmd.Command) -> ShardApplied | Rejected:
        try:
            op = OP_OF_COMMAND.get(type(command))
            outcome = self._move(command, op) if op else self._tend(command)  # type: ignore[arg-type]
        except Exception as error:
            self._story.tell(error, command)
            raise
        txn_id: TxnId | None = getattr(command, "txn_id", None)
        if txn_id is not None:
            table_id: str = command.table_id  # type: ignore[union-attr]
            record = self.record(table_id, txn_id)
            after = outcome.error.code if isinstance(outcome, Rejected) else record.state if record else "no record"
            self._story.note((txn_id, table_id, type(command), after))
        return outcome

    def _tend(self, command: cmd.ShardCommand | cmd.TableCommand) -> ShardApplied | Rejected:
        """What becomes of the shard and its tables, whatever transactions do."""
        match command:
            case cmd.CreateTable():
                return self._create(command)
            case cmd.PlaceTable():
                return self._place(command)
            case cmd.ForgetTxns():
                return self._forget(command.txns)
            case cmd.HoldSavepoint():
                refused = savepoints.hold(self._savepoints, command.savepoint, self._tables)
                return Rejected(refused) if refused else ShardApplied()
            case cmd.DropSavepoint():
                savepoints.release(self._savepoints, command.savepoint_id, self._tables)
                return ShardApplied()
        table = self.find(command.table_id)
        if table is None:
            return self._of_nothing(command)
        match command:
            case cmd.Retire():
                table.retire(retirable_until(table, command.up_to))
                return ShardApplied()
            case cmd.Adopt():
                return adopt(table, command.directory, self.forgotten)
            case cmd.ForgetTable():
                return self._forget_table(table)
            case cmd.AlterTable():
                return alter(table, command)
            case cmd.RenameTable():
                return self._rename(table, command)
            case cmd.Withdraw():
                return withdraw(table, command)
            case cmd.MarkCleaned():
                cleaned = mark_cleaned(table, command)
                self._drop_if_forgotten(table, command.txn_id)
                return cleaned
            case cmd.OpenFlush() | cmd.FlushRows() | cmd.DropFlush():
                return flush(table, command)
            case cmd.TranslateWrites():
                return translate(table, command)
            case cmd.OpenCompaction() | cmd.ClaimCompaction() | cmd.CommitCompaction() | cmd.DropCompaction():
                return compact(table, command)

    def _move(self, command: cmd.TxnCommand, op: Op) -> ShardApplied | Rejected:
        """What a transaction does to a table, as the state of its record there allows."""
        table = self.find(command.table_id)
        if table is None:
            return self._of_nothing(command)
        record = table.txns.get(command.txn_id)
        if record is None and command.txn_id in self.forgotten:
            return Rejected(forgotten(command.txn_id))
        if op is _WRITE and getattr(command, "begins", False):
            op = Op.FIRST_WRITE
        outcome = TRANSITIONS[record.state if record else None, op]
        if outcome is _ILLEGAL:
            return Rejected(illegal(table, command.txn_id, record, op))
        if outcome is _ALREADY:
            assert record is not None
            return ShardApplied(record.commit_ts or record.prepare_ts)
        if record is None:
            record = TableTxn(command.txn_id, getattr(command, "owner", ""), _OPEN)
        result = change(table, record, command)
        if isinstance(result, ShardApplied):
            assert outcome is _OK or outcome is record.state, f"{op} led to {record.state.name}, and not to {outcome}"
            self._tables[table.table_id] = table
            if record.drops and table.dropped is not None:
                self.names.drop(table)
        return result

    def _of_nothing(self, command: cmd.TxnCommand | cmd.TableCommand) -> ShardApplied | Rejected:
        """A command for a table that is not there. Who never came to one that is gone ends there all the same."""
        table_id = command.table_id
        if isinstance(command, cmd.AbortTxn) and table_id not in self.gone:
            number = table_id.removeprefix(f"{self.shard}.")
            if table_id in self.came or (number.isdecimal() and int(number) < self._next_table_number):
                return ShardApplied()
        return Rejected(self.no_table(table_id))

    def find(self, table_id: str) -> TableState | None:
        """A table, or a database. Nobody creates those: one is here while it is in a transaction's record."""
        found = self._tables.get(table_id)
        return TableState.database(table_id) if found is None and table_id.startswith(f"{self.shard}.") else found

    def _place(self, command: cmd.PlaceTable) -> ShardApplied | Rejected:
        refused = self.names.place(command)
        return Rejected(refused) if refused else ShardApplied()

    def _rename(self, table: TableState, command: cmd.RenameTable) -> ShardApplied | Rejected:
        refused = self.names.rename(table, command, self.forgotten)
        return Rejected(refused) if refused else ShardApplied()

    def _create(self, command: cmd.CreateTable) -> ShardApplied | Rejected:
        if placed := self.names.placed.get(command.name):
            return Rejected(placed.elsewhere())
        if known := self.names.made_by(command.name, command.request_id):
            return ShardApplied(table_id=known.table_id)
        if self.names.has(command.name):
            return Rejected(AlreadyExists(f"table {command.name} exists already"))
        before = self.dropped(command.name)
        table_id = f"{self.shard}.{self._next_table_number}"
        self._next_table_number += 1
        self._tables[table_id] = TableState(
            table_id,
            command.name,
            command.location,
            command.schema,
            command.request_id,
            command.conflicts,
            command.properties,
            created=max(command.created, self.names.ended(command.name)),
            made=command.made,
            before=before[-1][1] if before else None,
            former=FormerNames(freed=self.names.freed(command.name)),
        )
        self.names.add(self._tables[table_id])
        self._tables[table_id].held_at = savepoints.held_at(self.savepoints(), self._tables[table_id])
        return ShardApplied(table_id=table_id)

    def _forget_table(self, table: TableState) -> ShardApplied | Rejected:
        if not dropping.is_spent(table):
            return Rejected(IllegalState(f"table {table.name} ({table.table_id}) is not dropped, or not gone yet"))
        self.names.forget(table)
        del self._tables[table.table_id]
        return ShardApplied()

    def _forget(self, txns: IdSet) -> ShardApplied:
        self.forgotten |= txns
        for table in list(self._tables.values()):
            for txn_id in [txn_id for txn_id in table.txns if txn_id in txns]:
                self._drop_if_forgotten(table, txn_id)
        return ShardApplied()

    def _drop_if_forgotten(self, table: TableState, txn_id: TxnId) -> None:
        ended = txn_id not in table.unfinished and txn_id not in table.uncleaned
        if ended and txn_id in self.forgotten:
            table.forget(txn_id)
            if table.is_database and not table.txns:
                del self._tables[table.table_id]

    def divide(self, other: ParticipantShard, share: Collection[str]) -> None:
        """Gives an empty one the tables of the share, as far as these can go, with what their transactions and the
        savepoints need there. `share`: ids."""
        going = {table.table_id: table for table in dividing.divisible(self._tables, share)}
        other._tables, other.came = going, frozenset(going)
        other.forgotten, other.apart_below = self.forgotten, self.apart_below
        other._savepoints = savepoints.split_off(self._savepoints)
        other.names = Names(other.shard, going, {})
        self._give(going, other.shard)

    def gave_once(self, other: ParticipantShard, table_ids: Collection[str]) -> None:
        """These tables of the other one came from this one, of which all later than that is lost."""
        self.gone |= dividing.gone(other._tables, table_ids, other.shard)
        self._give({table.table_id: table for table in dividing.given(self._tables, table_ids)}, other.shard)
        self._next_table_number = max(self._next_table_number, dividing.next_number(table_ids, self.shard))

    def _give(self, going: Mapping[str, TableState], to: int) -> None:
        self.gone |= dividing.gone(going, going, to)
        self.came -= going.keys()
        self._tables = {id_: table for id_, table in self._tables.items() if id_ not in going}
        self.names = Names(self.shard, self._tables, self.names.placed | dividing.elsewhere(going.values(), to))

    # ---- questions

    def keeps(self, table_id: str) -> bool:
        """Whether it is this one that knows what became of a table."""
        return table_id in self.came or (table_id.startswith(f"{self.shard}.") and table_id not in self.gone)

    @property
    def given_to(self) -> list[int]:
        """The shards to which it has given tables."""
        return sorted({each.shard for each in self.gone.values()})

    def half(self) -> tuple[str, ...]:
        """Ids of tables with about a half of the work."""
        return dividing.half(self._tables.values())

    def table(self, name: str) -> TableState:
        """Raises NotFound, PlacedElsewhere."""
        return self.names.now(name)

    def table_at(self, name: str, at: Timestamp) -> TableState:
        """The one that had the name at the timestamp; or else the one that has it now, if it was there then.

        Raises NotFound, PlacedElsewhere.
        """
        return self.names.at(name, at)

    def table_for(self, name: str, txn_id: TxnId) -> TableState:
        """The table for a write of the transaction. Raises NotFound also where it wrote to one that is dropped since,
        and IllegalState where it may mean another one."""
        return self.names.for_write(name, txn_id)

    def name_of(self, table_id: str) -> str:
        """What the participant is called; of a table that there is not, its id."""
        table = self.find(table_id)
        return table.name if table else table_id

    def table_by_id(self, table_id: str) -> TableState:
        """Raises NotFound, PlacedElsewhere."""
        if (found := self._tables.get(table_id)) is None:
            raise self.no_table(table_id)
        return found

    def no_table(self, table_id: str) -> TxnError:
        """The answer to whoever means by an id what is not here."""
        gone = self.gone.get(table_id)
        return gone.elsewhere() if gone else dropping.no_table(table_id, self.shard)

    def record(self, table_id: str, txn_id: TxnId) -> TableTxn | None:
        """What there is of the transaction on the participant."""
        table = self._tables.get(table_id)
        return table.txns.get(txn_id) if table else None

    def free_location(self, wanted: str) -> str:
        """The wanted location, or one beside it, where no table of this shard is, or was and has left something."""
        taken = {*(each.location for each in self._tables.values()), *(each.location for each in self.gone.values())}
        numbered = (f"{wanted}.{number}" for number in range(1, len(taken) + 1))
        return next(location for location in (wanted, *numbered) if location not in taken)

    def dropped(self, name: str) -> list[tuple[TableState, Dropped]]:
        """The tables of this name that are dropped and not forgotten, in that order, and how each came to its end."""
        return self.names.dropped(name)

    def participant(self, name: str) -> TableState:
        """A table, or a database, by its name. Raises NotFound."""
        if "." in name:
            return self.table(name)
        if (found := self.find(f"{self.shard}.{name}")) is None:
            raise NotFound(f"{name!r} is no name of a database")
        return found

    def tables(self) -> Iterator[TableState]:
        """All, with the databases in which something is locked."""
        return iter(self._tables.values())

    def savepoints(self) -> Collection[cmd.Savepoint]:
        """All that the shard holds, for its own tables or as the home of a name."""
        return self._savepoints.values()

    def last_row_change(self, table_id: str) -> Timestamp:
        """What prepares after it must commit above it, whichever clock its timestamp came from."""
        table = self._tables.get(table_id)
        return table.rows.newest if table else NO_TIMESTAMP

    def undecided(self) -> Iterator[tuple[ParticipantId, TxnId]]:
        """What is prepared, on any table or database."""
        for table in self._tables.values():
            for record in table.unfinished.values():
                if record.state is ParticipantState.COMMIT_IN_PROGRESS:
                    yield ParticipantId(table.table_id), record.txn_id

    def to_clean(self) -> Iterator[tuple[TableState, TxnId, tuple[str, ...]]]:
        """Writes of ended transactions, whose directories nobody will ever see, or see again."""
        for table in self._tables.values():
            for txn_id in dict.fromkeys([*table.uncleaned, *table.retired]):
                yield table, txn_id, table.writes_to_clean(txn_id)

    def newly_to_clean(self) -> list[tuple[str, TxnId]]:
        """Table id and transaction: what of `to_clean` is other than when this was asked for the last time."""
        return [(table.table_id, txn_id) for table in self._tables.values() for txn_id in table.take_fresh()]

    def writes_to_clean(self, table_id: str, txn_id: TxnId) -> tuple[str, ...]:
        """Empty where the table is gone."""
        table = self._tables.get(table_id)
        return table.writes_to_clean(txn_id) if table else ()

    def are_unused(self, table_id: str, txn_id: TxnId, write_ids: Sequence[str]) -> bool:
        """Whether what is to be cleaned is no more than what a committed transaction has claimed, and not used."""
        record = self.record(table_id, txn_id)
        return record is not None and record.state is ParticipantState.COMMITTED and [*write_ids] == record.claimed

    def spent(self) -> list[TableState]:
        """Dropped tables of which nothing is left."""
        return self.names.spent()

    # ---- snapshots

    def snapshot(self) -> bytes:
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        """The snapshot, as of this call, in parts; each is made when it is asked for, also after later commands."""
        wire = pb.ShardSnapshot(
            version=snapshot.VERSION,
            next_table_number=self._next_table_number,
            forgotten=self.forgotten.to_wire(),
            placed=[snapshot.placed_to_wire(self.names.placed[name]) for name in sorted(self.names.placed)],
            savepoints=[snapshot.savepoint_to_wire(self._savepoints[each]) for each in sorted(self._savepoints)],
            apart_below=self.apart_below,
            gone=[snapshot.gone_to_wire(self.gone[each]) for each in sorted(self.gone)],
            came=sorted(self.came),
        )
        return snapshot.chunks(wire, [self._tables[table_id] for table_id in sorted(self._tables)])

    def restore(self, data: bytes) -> None:
        """What `snapshot` made. Raises ValueError for one of another version."""
        restoring = snapshot.Restored(self.become)
        restoring.add(data)
        restoring.finish()

    def become(self, wire: pb.ShardSnapshot, tables: dict[str, TableState]) -> None:
        """Takes over what a snapshot has brought back."""
        self._next_table_number = wire.next_table_number
        self.forgotten = IdSet.from_wire(wire.forgotten)
        self.apart_below = TxnId(wire.apart_below)
        self.gone = {each.table_id: snapshot.gone_from_wire(each) for each in wire.gone}
        self.came = frozenset(wire.came)
        self._tables = tables
        self.names = Names(self.shard, tables, {each.name: snapshot.placed_from_wire(each) for each in wire.placed})
        self._savepoints = {each.savepoint_id: snapshot.savepoint_from_wire(each) for each in wire.savepoints}
        for savepoint in self._savepoints.values():
            for table in savepoints.covered(savepoint, self._tables):
                table.held_at[savepoint.timestamp] += 1

    def check_invariants(self) -> None:
        """Raises AssertionError."""
        with self._story.told_if_broken():
            self.names.check_invariants()
            for table in self._tables.values():
                assert self.keeps(table.table_id), f"{table.table_id} has gone, or never came"
                check_table(table, self.forgotten)
                check_held(table, savepoints.held_at(self.savepoints(), table))


# Every transaction comes by these: a module's names are found in a fifth of the time that an enum's take.
_OPEN, _WRITE, _OK, _ALREADY, _ILLEGAL = ParticipantState.OPEN, Op.WRITE, Stay.OK, Stay.ALREADY, Stay.ILLEGAL
