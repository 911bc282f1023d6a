"""Many writers beside compaction that comes by itself: it refuses nobody, and nobody keeps it from its end.

Each writer has ids of its own, which lie among those of all others in the same files once these are compacted. So no
writer is ever in another's way, and a refusal has no other reason than a compaction.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.support import FAST_TXN, connect, fast_cluster, wait_until
from txnclient import Client, CommitReceipt, CommitUnknown, CompactionSummary, Conflict, RowsAffected, TxnError
from txnclient.compact.worker import Worker
from txndeploy.local.cluster import LocalCluster
from txnstatus.types import TxnState

SECONDS = float(os.environ.get("TXN_COMPACTION_SECONDS", "30"))
SEED = int(os.environ.get("TXN_SEED", "1"))
WRITERS = 8
WORKERS = 2
IDS = 1_000_000
"""Ids of one writer: ranges that do not meet, by which a MERGE of one is not in the way of another's appends."""
TABLE = "t.load"
UNDECIDED = (TxnState.OPEN, TxnState.COMMIT_IN_PROGRESS)
UNKNOWN_SECONDS = 120.0
"""Time in which a transaction ends whose client does not: it expires, or is decided by a new leader."""
NOTHING_TO_DO = "there is nothing to compact"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    txn = FAST_TXN.model_copy(
        update={
            "compact_delta_num": 8,
            "compact_delta_pct": 5,
            "compact_lease_ms": 10_000,
            "keepalive_default_ms": 30_000,
        }
    )
    with fast_cluster(tmp_path / "cluster", txn=txn) as running:
        yield running


@dataclass
class Writer:
    """One client, and the rows that must be there of it."""

    client: Client
    number: int
    rows: dict[int, str] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    """Stories of conflicts."""
    others: list[str] = field(default_factory=list)
    """Stories of whatever else failed: a machine with other work lets a heartbeat be late."""
    _next: int = 0

    def run(self, until: float) -> None:
        pick = random.Random(SEED * 1000 + self.number)
        while time.monotonic() < until:
            kind = pick.choice(["append", "append", "delete", "update", "merge"])
            after = dict(self.rows)
            try:
                self._change(kind, pick, after)
            except Conflict as error:
                self.refused.append(f"{kind} of writer {self.number}: {error.message}")
            except CommitUnknown:
                self._look()
            except TxnError as error:
                self.others.append(f"{kind} of writer {self.number}: {error.code} {error.message}")
            else:
                self.rows = after
                self.done[kind] += 1
            if pick.random() < 0.05:
                self.check()

    def check(self) -> None:
        """What it reads is what it has written: so its own commits are what it sees, on whichever side of a switch."""
        assert self._read() == self.rows, f"writer {self.number} after {self.done}"

    def _look(self) -> None:
        """Takes what is there for what was done: an outcome was not told."""
        mine = self.client.owner
        wait_until(
            lambda: not self.client.transactions(UNDECIDED, owner=mine), "what it began is over", UNKNOWN_SECONDS
        )
        self.rows = self._read()
        self.done["unknown"] += 1

    def _read(self) -> dict[int, str]:
        low = self.number * IDS
        with self.client.snapshot() as snapshot:
            found = snapshot.to_arrow(TABLE, where=(pc.field("id") >= low) & (pc.field("id") < low + IDS))
        ids = found["id"].to_pylist()
        assert len(ids) == len(set(ids)), "a row comes twice"
        return dict(zip(ids, found["note"].to_pylist(), strict=True))

    def _change(self, kind: str, pick: random.Random, rows: dict[int, str]) -> None:
        """Does it, and says in `rows` what is there then."""
        some = pick.sample(sorted(rows), min(len(rows), pick.randint(1, 10)))
        where = f"id IN ({', '.join(map(str, some or [-1]))})"
        match kind:
            case "append":
                new = self._new(pick.randint(1, 20))
                self.client.write(_table(new), TABLE)
                rows |= new
            case "delete":
                _did(self.client.delete_where(TABLE, where), RowsAffected(deleted=len(some)))
                for each in some:
                    del rows[each]
            case "update":
                _did(
                    self.client.update_where(TABLE, {"note": "concat(note, 'u')"}, where),
                    RowsAffected(updated=len(some)),
                )
                rows |= {each: f"{rows[each]}u" for each in some}
            case _:
                new = self._new(pick.randint(1, 5))
                source = _table({**dict.fromkeys(some, "m"), **new})
                merge = self.client.merge(TABLE, source, on="target.id = source.id")
                merge.when_matched_update({"note": "concat(target.note, source.note)"}).when_not_matched_insert_all()
                _did(merge.execute(), RowsAffected(inserted=len(new), updated=len(some)))
                rows |= {**{each: f"{rows[each]}m" for each in some}, **new}

    def _new(self, count: int) -> dict[int, str]:
        first = self.number * IDS + self._next
        self._next += count
        return {first + number: "a" for number in range(count)}


def _table(rows: dict[int, str]) -> pa.Table:
    return pa.table({"id": pa.array(list(rows), pa.int64()), "note": list(rows.values())})


def _did(receipt: CommitReceipt, wanted: RowsAffected) -> None:
    assert receipt.rows == wanted


@dataclass
class Watch:
    """All compactions that there were: of those that are over the service keeps a few."""

    client: Client
    seen: dict[str, CompactionSummary] = field(default_factory=dict)
    first_seen: dict[str, float] = field(default_factory=dict)
    took: list[float] = field(default_factory=list)
    """Seconds from its beginning to its end, of each that came to something."""

    def look(self) -> None:
        for each in self.client.compactions(TABLE):
            began = self.first_seen.setdefault(each.compaction_id, time.monotonic())
            before = self.seen.get(each.compaction_id)
            if each.state == "succeeded" and (before is None or not before.is_over):
                self.took.append(time.monotonic() - began)
            self.seen[each.compaction_id] = each

    def run(self, ended: threading.Event) -> None:
        while not ended.wait(0.2):
            self.look()

    @property
    def starved(self) -> list[str]:
        """Stories of compactions that came to nothing, though there was something to do."""
        failed = [each for each in self.seen.values() if each.state in ("failed", "attempted")]
        return [f"{each.state}: {each.reason}" for each in failed if each.reason != NOTHING_TO_DO]


@pytest.mark.campaign
@pytest.mark.timeout(300 + 3 * SECONDS)
def test_no_writer_is_refused_and_no_compaction_starves(cluster: LocalCluster) -> None:
    ended = threading.Event()
    with connect(cluster) as client, ThreadPoolExecutor(WRITERS + WORKERS + 1) as pool:
        client.create_table(TABLE, "id bigint, note string")
        watch = Watch(client)
        writers = [Writer(connect(cluster, owner=f"w{number}"), number) for number in range(WRITERS)]
        workers = [Worker(client.session, f"worker-{number}", ended) for number in range(WORKERS)]
        beside = [pool.submit(watch.run, ended), *(pool.submit(each.run) for each in workers)]
        until = time.monotonic() + SECONDS
        try:
            for writing in [pool.submit(each.run, until) for each in writers]:
                writing.result()
            wait_until(lambda: not any(not c.is_over for c in client.compactions(TABLE)), "what is open ends", 60)
            watch.look()
        finally:
            ended.set()
        for each in beside:
            each.result()
        done: Counter[str] = sum((each.done for each in writers), Counter())
        others = [story for each in writers for story in each.others]
        print(
            f"\n{SECONDS:g} s, {WRITERS} writers: {done.total()} statements, {dict(done)}; "
            f"{sum(len(each.refused) for each in writers)} refused, {len(others)} failed otherwise; compactions: "
            f"{dict(Counter(each.state for each in watch.seen.values()))}, "
            f"{max(watch.took, default=0):.1f} s at most, {len(watch.starved)} starved"
        )
        assert not [story for each in writers for story in each.refused]
        assert not watch.starved
        assert watch.took, "nothing was compacted: the run says nothing"
        for writer in writers:
            writer.check()
            writer.client.close()
        with client.snapshot() as snapshot:
            assert snapshot.to_arrow(TABLE).num_rows == sum(len(each.rows) for each in writers)
        assert len(others) < done.total() / 20, others
