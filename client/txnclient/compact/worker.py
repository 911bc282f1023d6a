"""Worker: leases compactions, one after the other, and does them. Any number of workers, anywhere, work for a cluster.

It holds nothing that anybody misses: when it ends in the middle, its lease does, and what it has written is removed.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from txnclient.alive.heartbeat import Heartbeats
from txnclient.compact.folding import fold
from txnclient.compact.leasing import Leased, lease, renewing
from txnclient.compact.rewriting import DEFAULT_MEMORY_BYTES, Rewritten, rewrite
from txnclient.read import manifests
from txnclient.session import Session
from txnstatus.errors import TxnError, Unavailable
from txnstatus.lake import data_files, dead_rows, kept_dead_rows, lineage, manifest
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.manifest import DataFile
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.process.failpoints import failpoint
from txnstatus.proto import compaction_pb2 as pb
from txnstatus.schema import Schema
from txnstatus.sizes import ANY_SIZE, Sizes
from txnstatus.types import TxnId

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

HIDDEN_NAME = "_hidden.parquet"
"""The file with rows of other files that are hidden by what was folded in."""
IDLE_SECONDS = 2.0
"""Time between two looks for something to do, where there was nothing."""


class Rewrite(Protocol):
    """As txnclient.compact.rewriting.rewrite."""

    def __call__(
        self,
        inputs: Sequence[DataFile],
        dead: DeadRows,
        schema: Schema,
        directory: str,
        *,
        target_bytes: int,
        memory_bytes: int,
        progress: Callable[[int], None],
        more: pa.Table | None = None,
        partition: str = WHOLE_TABLE,
    ) -> Rewritten: ...


class Stopped(Exception):
    """The worker is to end; what it works at is somebody else's."""


@dataclass(slots=True)
class Worker:
    """One thread's work."""

    session: Session
    name: str
    """A name for people."""
    stopping: threading.Event
    """Set by whoever wants it to end: it does within a batch of rows."""
    table: str = ""
    """The only table that it works for; empty: all."""
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    sizes: Sizes = ANY_SIZE
    rewrite: Rewrite = rewrite
    """Whoever writes the files."""

    def run(self) -> None:
        """Until it is to stop."""
        while not self.stopping.is_set():
            try:
                found = self.run_once()
            except TxnError as error:
                log.warning("%s cannot ask for something to do, will try again: %s", self.name, error.message)
                found = False
            if not found:
                self.stopping.wait(IDLE_SECONDS * random.uniform(0.5, 1.0))

    def run_once(self) -> bool:
        """Does one compaction; False: there is none to do. How it ended is told to the service.

        Raises TxnError where nobody could be asked.
        """
        leased = lease(self.session, self.name, self.table, self.sizes)
        if leased is None:
            return False
        heartbeats = Heartbeats(renewing(self.session.channel), "compactor-leases")
        try:
            failpoint("compactor.leased")
            heartbeats.add(leased, time.monotonic())
            self._work(leased)
        except Stopped:
            self._give_up(leased, f"{self.name} was ended", returned=True)
        except Unavailable as error:
            log.warning("%s comes to nothing for now: %s", leased, error.message)
            self._give_up(leased, error.message, returned=True)
        except Exception as error:
            log.warning("%s comes to nothing", leased, exc_info=error)
            self._give_up(leased, error.message if isinstance(error, TxnError) else f"{type(error).__name__}: {error}")
        finally:
            heartbeats.close()
        return True

    def _work(self, leased: Leased) -> None:
        task, began = leased.task, time.monotonic()
        count = sum(ref.file_count for ref in task.inputs)
        log.info("%s: %d files", leased, count)

        def progress(_rows: int) -> None:
            leased.require()
            if self.stopping.is_set():
                raise Stopped
            failpoint("compactor.reading")

        write = partial(
            self.rewrite,
            schema=Schema.from_wire(task.table.schema).in_files,
            directory=task.directory,
            target_bytes=task.target_file_bytes,
            memory_bytes=self.memory_bytes,
            progress=progress,
        )
        done = rewritten(task, write)
        failpoint("compactor.written")
        # Whoever stood still may have been given up, and what it writes from here on would be nobody's.
        leased.renew(self.session.channel, self.session.timeout)
        request = made_durable(task, done)
        failpoint("compactor.durable")
        read_again(done)
        leased.require()
        leased.complete(request)
        failpoint("compactor.completed")
        log.info("%s: %d files became %d in %.1f s", leased, count, len(done.files), time.monotonic() - began)

    def _give_up(self, leased: Leased, reason: str, *, returned: bool = False) -> None:
        """What it has written is removed by the service, in time; also what it wrote when it was given up before."""
        try:
            leased.fail(reason, returned=returned)
        except TxnError as error:
            log.warning("%s ends with its lease: %s", leased, error.message)


def rewritten(task: pb.CompactionTask, write: Callable[..., Rewritten]) -> Rewritten:
    """All of the task but making it durable. `write`: as `rewrite`, with what all calls have in common."""
    if task.table.schema.primary_key:
        return fold(task, lambda files, dead, more, name: write(files, dead, more=more, partition=name))
    inputs = list(chain.from_iterable(manifests.read(task.inputs)))
    return write(inputs, kept_dead_rows.read(task.dead))


def read_again(done: Rewritten) -> None:
    """Raises DataDamaged for an output that is not what was written: once they are switched to, inputs go in time."""
    for file in done.files:
        if fault := data_files.examine(file):
            raise data_files.damaged(file, fault)


def made_durable(task: pb.CompactionTask, done: Rewritten) -> pb.CompleteCompactionRequest:
    files: list[DataFile] = list(done.files)
    ref = lineage.write(task.directory, done.lineage, not_durable=[file.path for file in files])
    failpoint("compactor.lineage")
    listed = manifest.write(
        task.directory, files, table_id=task.table.table_id, txn_id=TxnId(0), write_id=task.compaction_id
    )
    hidden = dead_rows.write(task.directory, done.hidden, HIDDEN_NAME) if done.hidden else None
    return pb.CompleteCompactionRequest(manifest=listed, lineage=ref, hidden=hidden)
