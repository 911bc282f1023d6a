"""A table without a primary key and its history, on a real shard: files are numbers of rows that nobody has written.

What undo and restore say they need is done here as `txnclient.history.reverting` does it, and each row is known by a
number of its own, which its copies have, too: so a naive model can say what should be there.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyroaring import BitMap

from tests.unit.harness.beginning import begin_txn
from tests.unit.harness.shards import ok
from txnclient.history.effects import Copy, inverse
from txnclient.read.table_files import TableFiles
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.versions.deletes import visible_deletes
from txnparticipant.versions.mvcc import DeadRowsRef, Deletes, FileDeletes, Manifest, visible, visible_ids
from txnstatus.lake.dead_rows import union
from txnstatus.lake.manifest import DataFile
from txnstatus.replicated import Rejected
from txnstatus.schema import Column, Schema
from txnstatus.types import Timestamp, TxnId

TABLE, OWNER, LOCATION = "3.0", "ada", "file:///lake/air/flights"
SCHEMA = Schema((Column("id", "bigint"), Column("p", "int")), partition_by=("p",))
PARTITIONS = ("p=1", "p=2")


@dataclass
class Change:
    """What a transaction is about to do."""

    adds: Mapping[str, int] = field(default_factory=dict)
    """Partition → how many new rows."""
    overwrites: tuple[str, ...] = ()
    dead: Mapping[str, BitMap] = field(default_factory=dict)


@dataclass
class Faults:
    """What an implementation might get wrong."""

    judges_present: bool = False
    """What it takes back is judged as of now, not as of the transaction that is undone."""
    names_no_dead_rows: bool = False
    """Rows that come back in a copy are not named where they are dead."""
    leaves_dead_rows: bool = False
    """Rows that were dead before the span live in the copies."""


class History:
    def __init__(self, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.shard = ParticipantShard(3)
        ok(self.shard, cmd.CreateTable("air.flights", SCHEMA, LOCATION, "request-1"))
        self.now = Timestamp(0)
        self._files: dict[str, list[DataFile]] = {}
        """Path of a manifest → what it lists."""
        self._dead: dict[str, Mapping[str, BitMap]] = {}
        self._rows: dict[str, Sequence[int]] = {}
        """URI of a file → the numbers of its rows."""
        self._count = 0

    # ---- what there is

    def at(self, ts: Timestamp) -> TableFiles:
        table = self.shard.table("air.flights")
        sets, none = table.file_sets.values(), dict[TxnId, Timestamp]()
        seen, writes = list[DataFile](), list[tuple[str, Sequence[DataFile]]]()
        for manifest in visible(sets, (), none, ts):
            found = [file for file in self._files[manifest.path] if file.partition in manifest.partitions]
            seen += found
            writes.append((manifest.path.split("/")[-2].removeprefix("delta_"), found))
        ids = visible_ids(sets, (), none, ts)
        refs = visible_deletes(table.deletes.all.values(), (), none, ts, ids)
        dead = union(self._dead[ref.path] for ref in refs)
        alive = {file.path: dead[file.path] for file in seen if file.path in dead}
        return TableFiles("air.flights", SCHEMA, tuple(seen), dead=alive, writes=tuple(writes))

    def rows(self, ts: Timestamp) -> Counter[int]:
        """The rows that a reader sees, and how often."""
        side = self.at(ts)
        return Counter(
            row
            for file in side.files
            for position, row in enumerate(self._rows[file.path])
            if position not in side.dead.get(file.path, BitMap())
        )

    def partitions(self, rows: Iterable[int], ts: Timestamp) -> set[str]:
        """The partitions in which the rows are."""
        wanted = set(rows)
        return {file.partition for file in self.at(ts).files if wanted.intersection(self._rows[file.path])}

    # ---- what is done

    def run(self, change: Change) -> Timestamp | None:
        """A transaction that reads now; None: it was refused."""
        txn = self._begin()
        if change.adds or change.overwrites:
            write, directory = self._opened(txn)
            files = [self._new_file(directory, partition, count) for partition, count in change.adds.items()]
            self._add(txn, write, directory, files, change.overwrites, self.now)
        if change.dead:
            self._delete(txn, change.dead, self.now)
        return self._commit(txn)

    def undo(self, at: Timestamp) -> Timestamp | None:
        """Takes back what was committed at the timestamp; None: it was refused."""
        return self._revert(Timestamp(at - 1), at, self.now if self.faults.judges_present else at)

    def restore(self, to: Timestamp) -> Timestamp | None:
        return self._revert(to, self.now, self.now)

    def _revert(self, before: Timestamp, after: Timestamp, judged: Timestamp) -> Timestamp | None:
        found = inverse(self.at(before), self.at(after))
        txn, dead = self._begin(), dict(found.dead)
        if self.faults.names_no_dead_rows:
            copied = {copy.file.path for copy in found.copies}
            dead = {path: rows for path, rows in dead.items() if path not in copied}
        for is_replaced in (True, False):
            copies = found.copies_in(replaced=is_replaced)
            if not copies and (is_replaced or not dead):
                continue
            write, directory = self._opened(txn)
            made = [self._copy(copy, directory, number) for number, copy in enumerate(copies)]
            if made:
                self._add(txn, write, directory, made, tuple(found.replaced) if is_replaced else (), judged)
            gone = {
                file.path: copy.dead
                for file, copy in zip(made, copies, strict=True)
                if copy.dead and not (self.faults.leaves_dead_rows and is_replaced)
            }
            if gone or not is_replaced:
                self._delete(txn, gone if is_replaced else {**dead, **gone}, judged)
        return self._commit(txn)

    def _begin(self) -> TxnId:
        self._count += 1
        txn = TxnId(self._count)
        ok(self.shard, begin_txn(txn, TABLE, OWNER))
        return txn

    def _commit(self, txn: TxnId) -> Timestamp | None:
        at = Timestamp(self.now + 10)
        if isinstance(self.shard.apply(cmd.BeginCommit(txn, TABLE, at)), Rejected):
            ok(self.shard, cmd.AbortTxn(txn, TABLE))
            return None
        ok(self.shard, cmd.FinalizeCommit(txn, TABLE, at))
        self.now = at
        return at

    # ---- files

    def _opened(self, txn: TxnId) -> tuple[str, str]:
        self._count += 1
        write = f"write{self._count:05}"
        ok(self.shard, cmd.OpenWrite(txn, TABLE, OWNER, write))
        return write, f"{LOCATION}/delta_{txn}_{write}"

    def _new_file(self, directory: str, partition: str, count: int) -> DataFile:
        path = f"{directory}/_partition_{partition}/part-00000.parquet"
        self._rows[path] = range(self._count * 100, self._count * 100 + count)
        self._count += 1
        return DataFile(path, count, 100, partition)

    def _copy(self, copy: Copy, directory: str, number: int) -> DataFile:
        path = f"{directory}/_partition_{copy.file.partition}/part-{number:05}.parquet"
        self._rows[path] = self._rows[copy.file.path]
        return replace(copy.file, path=path)

    def _add(
        self,
        txn: TxnId,
        write: str,
        directory: str,
        files: Sequence[DataFile],
        overwrites: tuple[str, ...],
        base: Timestamp,
    ) -> None:
        partitions = tuple(sorted({file.partition for file in files}))
        listed = Manifest(f"{directory}/_manifest.json", 9, 9, len(files), 9, 9, partitions)
        self._files[listed.path] = list(files)
        ok(self.shard, cmd.AddFiles(txn, TABLE, OWNER, write, listed, overwrites, base))

    def _delete(self, txn: TxnId, dead: Mapping[str, BitMap], snapshot: Timestamp) -> None:
        if not dead:
            return
        write, directory = self._opened(txn)
        ref = DeadRowsRef(f"{directory}/_deletes.parquet", 9, 9, sum(map(len, dead.values())), len(dead))
        self._dead[ref.path] = dead
        files = tuple(
            FileDeletes(path.removeprefix(f"{LOCATION}/"), _file_set(path), len(rows), rows.serialize())
            for path, rows in dead.items()
        )
        listed = Manifest(f"{directory}/_manifest.json", 9, 9, 0, 0, 0)
        self._files[listed.path] = []
        ok(self.shard, cmd.AddFiles(txn, TABLE, OWNER, write, listed, deletes=Deletes(ref, files, snapshot)))


def _file_set(path: str) -> str:
    write, partition, _ = path.split("/")[-3:]
    return f"{write.removeprefix('delta_')}/{partition.removeprefix('_partition_')}"


def drawn(dice: random.Random, side: TableFiles) -> Change:
    """A change of what there is."""
    roll = dice.random()
    alive = [file for file in side.files if len(side.dead.get(file.path, ())) < file.rows]
    if roll < 0.35 or not alive:
        some = dice.sample(PARTITIONS, dice.randint(1, 2))
        return Change(adds={partition: dice.randint(1, 6) for partition in some})
    if roll < 0.5:
        partition = dice.choice(PARTITIONS)
        return Change(adds={partition: dice.randint(1, 6)} if dice.random() < 0.7 else {}, overwrites=(partition,))
    dead = {}
    for file in dice.sample(alive, min(len(alive), dice.randint(1, 2))):
        left = sorted(BitMap(range(file.rows)) - side.dead.get(file.path, BitMap()))
        dead[file.path] = BitMap(dice.sample(left, dice.randint(1, len(left))))
    adds = {dice.choice(PARTITIONS): dice.randint(1, 3)} if roll > 0.75 else {}
    return Change(adds=adds, dead=dead)
