"""A shard whose tables are compacted: manifests, deleted rows and lineages are real, and of data files there is a list
of the ids of their rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random

from pyroaring import BitMap

from tests.unit.harness.leader.asked import Asked
from tests.unit.harness.leader.rows import OWNER, TABLE, TABLE_ID
from txnclient.read import diff
from txnparticipant.shard import commands as cmd
from txnparticipant.versions.directories import COMPACTIONS
from txnstatus.lake import dead_rows, lineage, manifest
from txnstatus.lake.lineage import Lineage, Segment
from txnstatus.lake.manifest import DataFile
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.proto import compaction_pb2 as pb
from txnstatus.proto import table_pb2
from txnstatus.schema import Column, Schema
from txnstatus.table_properties import Property
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId

SCHEMA = Schema((Column("id", "bigint"), Column("p", "int")))
IN_PARTITIONS = Schema((Column("id", "bigint"), Column("p", "int")), ("p",))
MAJOR, MINOR = pb.COMPACTION_MAJOR, pb.COMPACTION_MINOR


class Compacted(Asked):
    """One table of numbered rows."""

    def __init__(self, directory: Path, schema: Schema = SCHEMA, properties: Sequence[Property] = ()) -> None:
        super().__init__(directory, schema, properties)
        self.ids: dict[str, list[int]] = {}
        """A data file's URI → the ids of its rows."""
        self._writes = itertools.count(1)
        self._rows = itertools.count(1)

    # ---- transactions

    def opened(self, txn_id: TxnId) -> tuple[str, str]:
        """A new write's id and directory."""
        write_id = f"write{next(self._writes):05}"
        self.begin(txn_id)
        self.apply(cmd.OpenWrite(txn_id, TABLE_ID, OWNER, write_id))
        return write_id, self.table.directory(txn_id, write_id)

    def append(
        self, txn_id: int, count: int = 3, *, partition: str = WHOLE_TABLE, base: int | None = None
    ) -> list[int]:
        """Rows in one file, whose ids it returns. `base`: of an overwrite of the partition."""
        ids = [next(self._rows) for _ in range(count)]
        write_id, directory = self.opened(TxnId(txn_id))
        files = [self.file(directory, ids, partition)] if ids else []
        ref = manifest.write(directory, files, table_id=TABLE_ID, txn_id=txn_id, write_id=write_id)
        request = table_pb2.AddFilesRequest(
            txn_id=txn_id, owner=OWNER, table=TABLE, write_id=write_id, manifest=ref, mode=table_pb2.APPEND
        )
        if base is not None:
            request.mode, request.read_timestamp = table_pb2.OVERWRITE, base
            request.overwrites.extend([partition] * bool(partition))
        self.add(request)
        return ids

    def overwrite(self, txn_id: int, base: int, count: int = 1) -> list[int]:
        return self.append(txn_id, count, base=base)

    def file(self, directory: str, ids: Sequence[int], partition: str = WHOLE_TABLE) -> DataFile:
        path = f"{directory}/part-{next(self._writes):05}.parquet"
        self.ids[path] = list(ids)
        return DataFile(path, len(ids), 100 * len(ids), partition)

    def delete(self, txn_id: int, ids: Iterable[int], at: int) -> None:
        """Rows that the transaction sees at the timestamp."""
        wanted, write = set(ids), self.opened(TxnId(txn_id))
        write_id, directory = write
        dead, file_sets = {}, {}
        for ref, file, alive in self.seen(self.scan(at, txn_id)):
            if found := [at for at, id_ in enumerate(self.ids[file.path]) if id_ in wanted and at in alive]:
                dead[file.path] = BitMap(found)
                name = ref.path.split("/")[-2].removeprefix("delta_")
                file_sets[file.path] = f"{name}/{file.partition}"
        assert sum(map(len, dead.values())) == len(wanted), f"not all of {wanted} are there at {at}"
        location = self.table.location
        files = [
            table_pb2.FileDeletes(
                file=path.removeprefix(f"{location}/"),
                file_set=file_sets[path],
                row_count=len(positions),
                positions=positions.serialize(),
            )
            for path, positions in dead.items()
        ]
        self.add(
            table_pb2.AddFilesRequest(
                txn_id=txn_id,
                owner=OWNER,
                table=TABLE,
                write_id=write_id,
                manifest=manifest.write(directory, [], table_id=TABLE_ID, txn_id=txn_id, write_id=write_id),
                deletes=table_pb2.Deletes(ref=dead_rows.write(directory, dead), files=files, snapshot=at),
            )
        )

    def commit(self, txn_id: int) -> Timestamp:
        self.prepare(txn_id)
        commit_ts = self.decide(TxnId(txn_id))
        self.finalize(TxnId(txn_id))
        return commit_ts

    # ---- reads

    def seen(self, answer: table_pb2.ScanResponse) -> list[tuple[table_pb2.ManifestRef, DataFile, BitMap]]:
        """The files that a reader sees, and the positions of their living rows."""
        dead = dead_rows.union(map(dead_rows.read, answer.dead))
        return [
            (ref, file, BitMap(range(file.rows)) - dead.get(file.path, BitMap()))
            for ref in answer.manifests
            for file in manifest.read(ref)
        ]

    def read_ids(self, at: int, txn_id: int | None = None) -> list[int]:
        """The ids of the rows that a reader sees; those that come twice come twice."""
        found = self.seen(self.scan(at, txn_id))
        return sorted(self.ids[file.path][position] for _, file, alive in found for position in alive)

    def difference(self, since: int, until: int) -> tuple[list[int], list[int]]:
        """The ids of the rows that went, and of those that came."""
        after = self.scan(until, lineages_above=since)
        found = diff.between(self.scan(since), after, Timestamp(since), Timestamp(until), self.scan)
        assert isinstance(found, diff.Changes)
        went, came = (
            sorted(
                id_
                for file in part.files
                for position, id_ in enumerate(self.ids[file.path])
                if position not in part.dead.get(file.path, ())
            )
            for part in found.parts.values()
        )
        return went, came

    def directories_seen(self, at: int) -> set[str]:
        return {ref.path.split("/")[-2] for ref in self.scan(at).manifests}

    # ---- compactions

    def request(self, kind: pb.CompactionKind = MAJOR, partition: str = "") -> list[str]:  # type: ignore[override]
        request = pb.RequestCompactionRequest(table=TABLE, kind=kind, partition=partition)
        return list(self.run(self.service.compactions.request_compaction(request)).compaction_ids)

    def lease(self, lease_id: str = "lease") -> pb.CompactionTask | None:
        request = pb.LeaseCompactionRequest(worker="w", lease_id=lease_id)
        answer = self.run(self.service.compactions.lease_compaction(request))
        self.shard.check_invariants()
        return answer.task if answer.HasField("task") else None

    def leased(self, kind: pb.CompactionKind = MAJOR) -> pb.CompactionTask:
        """The task of a compaction that is asked for now."""
        assert self.request(kind)
        task = self.lease()
        assert task is not None
        return task

    def work(self, task: pb.CompactionTask, random: Random | None = None) -> pb.CompleteCompactionRequest:
        """Writes what the task wants, in one file or in several, as a worker does."""
        dead = dead_rows.union(map(dead_rows.read, task.dead))
        outputs: list[DataFile] = []
        segments: list[Segment] = []
        ids: list[int] = []

        def end() -> None:
            if ids:
                outputs.append(self.file(task.directory, ids, task.partition))
                path, old = outputs[-1].path, [each for each in segments if each.output == "now"]
                segments[:] = [each for each in segments if each.output != "now"]
                segments.extend(each._replace(output=path) for each in old)
                ids.clear()

        for ref in task.inputs:
            for file in manifest.read(ref):
                gone = dead.get(file.path, BitMap()) & BitMap(range(file.rows))
                cut = random.randint(0, file.rows) if random else file.rows
                for first, last in ((0, cut), (cut, file.rows)):
                    if first < last:
                        inside = gone & BitMap(range(first, last))
                        segments.append(Segment(file.path, first, last, "now", len(ids), inside))
                        ids += [self.ids[file.path][at] for at in range(first, last) if at not in inside]
                        if random and random.random() < 0.3:
                            end()
        end()
        segments = [each._replace(output="") if each.output == "now" else each for each in segments]
        return self.completion(task, outputs, segments)

    def completion(
        self, task: pb.CompactionTask, outputs: Sequence[DataFile], segments: Sequence[Segment]
    ) -> pb.CompleteCompactionRequest:
        whose = {"table_id": TABLE_ID, "txn_id": COMPACTIONS, "write_id": task.compaction_id}
        return pb.CompleteCompactionRequest(
            table_id=TABLE_ID,
            compaction_id=task.compaction_id,
            lease_id="lease",
            manifest=manifest.write(task.directory, outputs, **whose),
            lineage=lineage.write(task.directory, Lineage(segments)),
        )

    def complete(self, request: pb.CompleteCompactionRequest) -> Timestamp:
        answer = self.run(self.service.compactions.complete_compaction(request))
        self.shard.check_invariants()
        return Timestamp(answer.switched)

    def compact(self, kind: pb.CompactionKind = MAJOR, random: Random | None = None) -> Timestamp:
        """From request to switch."""
        return self.complete(self.work(self.leased(kind), random))

    def history(self) -> list[tuple[str, str]]:
        """Ids and states of those that are over, or not yet."""
        answer = self.run(self.service.compactions.list_compactions(pb.ListCompactionsRequest(table=TABLE)))
        return [
            (each.compaction_id, pb.CompactionState.Name(each.state).removeprefix("COMPACTION_"))
            for each in answer.compactions
        ]

    def change_leader(self) -> None:
        """What was only in the leader's memory is gone."""
        self.run(self._change_leader())

    async def _change_leader(self) -> None:
        for leading in (False, True):
            self.service.on_leadership(leading)


class Model:
    """Rows with their lives, and transactions that change them: what readers should see, and who should win."""

    def __init__(self) -> None:
        self.born: dict[int, Timestamp] = {}
        self.died: dict[int, Timestamp] = {}
        self.overwritten = NO_TIMESTAMP
        """The last commit that has overwritten the table."""

    def at(self, ts: int) -> set[int]:
        return {id_ for id_, born in self.born.items() if born <= ts < self.died.get(id_, born + (1 << 80))}

    def counted(self, ts: int) -> list[int]:
        return sorted(self.at(ts))


class Change:
    """What a transaction of the model does."""

    def __init__(self, txn_id: int, snapshot: int) -> None:
        self.txn_id, self.snapshot = txn_id, snapshot
        self.adds: set[int] = set()
        self.removes: set[int] = set()
        self.overwrites = False
        self.base = snapshot
        self.prepared = False

    def meets(self, model: Model, others: Mapping[int, Change]) -> bool:
        """Whether another one was first."""
        if self.overwrites and model.overwritten > self.base:
            return True
        if any(model.died.get(id_, 0) for id_ in self.removes):
            return True
        return any(
            each.prepared and (each.removes & self.removes or (each.overwrites and self.overwrites))
            for each in others.values()
            if each is not self
        )

    def commits(self, model: Model, at: Timestamp) -> None:
        model.born.update(dict.fromkeys(self.adds, at))
        model.died.update(dict.fromkeys(self.removes, at))
        if self.overwrites:
            model.overwritten = max(model.overwritten, at)

    def sees(self, model: Model, at: int) -> list[int]:
        return sorted([*(model.at(at) - self.removes), *self.adds])
