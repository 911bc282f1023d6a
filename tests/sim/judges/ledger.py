"""What clients were told, and what the replicated tables decided: the facts that the checks compare.

A client's fact enters when its answer arrives; a table's when its first replica applies the command. Contradictions
are violations at once; what can only be judged when every outcome is known is judged at the end (checks.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.sim.judges.facts import Held, Read
from tests.sim.judges.places import compaction_directory, flush_directory, is_compaction, is_flush, txn_of
from txnparticipant.leader.machine import ShardMachine
from txnparticipant.shard import commands as shard_cmd
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.invariants import check_table
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.foreign import foreign_name
from txnstatus.proto import common_pb2 as common
from txnstatus.raft.machine import StateMachine
from txnstatus.status import commands as cmd
from txnstatus.status.machine import StatusMachine
from txnstatus.status.table import StatusApplied
from txnstatus.types import DECIDED, DECIDED_ABORT, DECIDED_COMMIT, TERMINAL, TxnState

NEVER = float("inf")
_NEXT: dict[TxnState, frozenset[TxnState]] = {
    # Written down again on purpose: the service's own table is what is checked.
    TxnState.OPEN: frozenset(
        {TxnState.COMMIT_IN_PROGRESS, TxnState.COMMITTED, TxnState.ABORT_IN_PROGRESS, TxnState.ABORTED}
    ),
    TxnState.COMMIT_IN_PROGRESS: frozenset({TxnState.FINALIZE_IN_PROGRESS, TxnState.ABORT_IN_PROGRESS}),
    TxnState.FINALIZE_IN_PROGRESS: frozenset({TxnState.COMMITTED}),
    TxnState.ABORT_IN_PROGRESS: frozenset({TxnState.ABORTED}),
}
CLOCK_TOLERANCE = 0.97
"""What is one second by the fastest leader's clock is no less by true time."""


@dataclass(slots=True)
class Write:
    """One AddFiles of a client, times in true seconds."""

    txn_id: int
    table: str
    write_id: str
    directory: str
    manifest: str
    overwrite: bool
    from_writes: tuple[str, ...]
    asked_at: float
    acked_at: float = NEVER


@dataclass(slots=True)
class Txn:
    txn_id: int
    owner: str
    label: str
    keepalive: float
    """Seconds."""
    heard_at: float
    """When the last call that proved it alive was sent, of those that were answered."""
    writes: list[Write] = field(default_factory=list)
    # what clients were told
    told_commit_ts: int | None = None
    told_aborted: bool = False
    told_at: float = NEVER
    # what the status table has
    state: TxnState | None = None
    commit_ts: int = 0
    decided_at: float = NEVER
    cause: str = ""
    prepared: dict[str, int] = field(default_factory=dict)
    """Prepare timestamps by table id, as the shards have them."""
    prepared_at: float = NEVER
    """When the first of them prepared."""
    ended: set[str] = field(default_factory=set)
    """Ids of tables where it has ended."""

    @property
    def committed(self) -> bool:
        return self.state in DECIDED_COMMIT


class Ledger:
    def __init__(self, now: Callable[[], float], on_violation: Callable[[str, str], None]) -> None:
        self.txns: dict[int, Txn] = {}
        self.reads: list[Read] = []
        self.tables: dict[str, str] = {}
        """Tables whose creation was acknowledged: name to id."""
        self.acked_commit_ts = 0
        """The highest commit timestamp that a client was told."""
        self.commands = 0
        self.acked_commits = 0
        self.refused_begins = 0
        self.retirements = 0
        self.switches = 0
        self.flushed: set[str] = set()
        """Directories of files of row changes that readers see."""
        self.given_up: dict[str, float] = {}
        """Directories that nobody will make anything of, each with the time since when."""
        self._now, self.violation = now, on_violation
        self.on_snapshot: Callable[[int], None] = lambda _timestamp: None
        self._floors: dict[str, int] = {}
        """The last commit of each range, or the floor that was raised there."""
        self._snapshot = 0
        """The highest snapshot that was given out: nothing commits at or below it any more, in any range."""
        self._refused: set[str] = set()
        self._begins: dict[str, tuple[int, ...]] = {}
        self._reads: dict[tuple[str, int], Read] = {}
        self._held: dict[tuple[str, str], Held] = {}
        """Leases by their id and table."""

    def txn(self, txn_id: int) -> Txn:
        known = self.txns.get(txn_id)
        if known is None:
            known = self.txns[txn_id] = Txn(txn_id, "", "", 0.0, heard_at=-NEVER)
        return known

    # ---- what clients were told

    def begun(
        self, request_id: str, ids: Iterable[int], owner: str, label: str, keepalive: float, sent_at: float
    ) -> None:
        answer = tuple(ids)
        first = request_id not in self._begins
        before = self._begins.setdefault(request_id, answer)
        lost, new = set(before) - set(answer), set(answer) - set(before)
        forgotten = all(self.txn(txn_id).state in TERMINAL for txn_id in (before if new else lost))
        if (lost or new) and not forgotten:
            self.violation("12 once", f"begin {request_id} answered {before}, then {answer}")
        for other, taken in self._begins.items():
            if other != request_id and set(taken) & set(answer):
                self.violation("2 ids are never reused", f"begins {other} and {request_id} both got {answer}")
        for txn_id in answer:
            txn = self.txn(txn_id)
            txn.owner, txn.label, txn.keepalive = owner, label, keepalive
            if first:  # asked again it gets the same answer, and no new time to live
                txn.heard_at = max(txn.heard_at, sent_at)

    def refused_begin(self, request_id: str, *, asked_once: bool) -> None:
        """At the cap. Another attempt of the same request may still be on its way, and find room."""
        self.refused_begins += 1
        if asked_once:
            self._refused.add(request_id)
            if any(txn.label == request_id for txn in self.txns.values()):
                self.violation("12 once", f"begin {request_id} was refused, and took effect")

    def kept_alive(self, txn_id: int, sent_at: float) -> None:
        txn = self.txn(txn_id)
        txn.heard_at = max(txn.heard_at, sent_at)
        if txn.told_at < sent_at:
            self.violation("1 states", f"transaction {txn_id} has ended, and was kept alive after that")

    def wrote(self, write: Write, sent_at: float) -> None:
        write.acked_at = min(write.acked_at, self._now())
        self._write_answered(write.txn_id, f"write {write.write_id}", sent_at)

    def opened(self, txn_id: int, write_id: str, sent_at: float) -> None:
        self._write_answered(txn_id, f"the opening of write {write_id}", sent_at)

    def _write_answered(self, txn_id: int, what: str, sent_at: float) -> None:
        txn = self.txn(txn_id)
        if txn.told_commit_ts is not None and txn.told_at < sent_at:
            # An abort reaches the participants only after it is told; a commit before.
            self.violation("8 no late writes", f"{what} was accepted after transaction {txn_id} had committed")

    def told(self, info: common.TxnInfo, sent_at: float) -> None:
        """Some answer showed this record."""
        txn = self.txn(info.txn_id)
        state = TxnState(info.state)
        if txn.owner and (info.owner, info.label) != (txn.owner, txn.label):
            self.violation("2 ids are never reused", f"{info.txn_id} is {info.owner}'s {info.label}: not {txn.label}")
        if state not in DECIDED:
            if txn.told_at < sent_at:
                self.violation("1 states", f"transaction {info.txn_id} has ended, and was {state.name} after that")
            return
        txn.told_at = min(txn.told_at, self._now())
        if state in DECIDED_COMMIT:
            if txn.told_aborted or txn.told_commit_ts not in (None, info.commit_timestamp):
                self.violation("1 states", f"{info.txn_id} is committed at {info.commit_timestamp}; was {txn}")
            if txn.told_commit_ts is None:
                self.acked_commits += 1
            txn.told_commit_ts = info.commit_timestamp
            self.acked_commit_ts = max(self.acked_commit_ts, info.commit_timestamp)
        else:
            self.told_aborted(info.txn_id)

    def told_unknown(self, txn_id: int) -> None:
        """Some answer said that there is no such transaction, and never was."""
        if txn_id in self.txns and self.txns[txn_id].owner:
            self.violation("2 ids are never reused", f"transaction {txn_id} was begun, and is unknown")

    def told_aborted(self, txn_id: int) -> None:
        txn = self.txn(txn_id)
        txn.told_at = min(txn.told_at, self._now())
        if txn.told_commit_ts is not None:
            self.violation("1 states", f"{txn_id} is aborted, and was committed at {txn.told_commit_ts}")
        txn.told_aborted = True

    def took_snapshot(self, timestamp: int, known_before: int) -> None:
        if timestamp < known_before:
            self.violation(
                "6 snapshots are fresh", f"a snapshot at {timestamp}; {known_before} was acknowledged before"
            )
        self._snapshot = max(self._snapshot, timestamp)
        self.on_snapshot(timestamp)

    def scanned(self, table: str, timestamp: int, manifests: list[str], sent_at: float) -> None:
        if len(set(manifests)) != len(manifests):
            self.violation("12 once", f"a scan of {table} at {timestamp} has a manifest twice: {manifests}")
        read = Read(table, timestamp, frozenset(manifests), sent_at)
        first = self._reads.setdefault((table, timestamp), read)
        if first.manifests != read.manifests:
            difference = sorted(first.manifests ^ read.manifests)
            self.violation("5 repeatable", f"two scans of {table} at {timestamp} differ in {difference}")
        if first is read:
            self.reads.append(read)

    def refused_read(self, table: str, timestamp: int, why: str) -> None:
        self.violation("6 snapshots are fresh", f"the newest snapshot, {timestamp}, cannot be read: {table}: {why}")

    def leased(self, lease_id: str, table: str, manifests: list[str], until: float) -> None:
        """A scan was answered."""
        self._held[lease_id, table] = Held(frozenset(manifests), until)

    def renewed(self, lease_id: str, table: str, until: float) -> None:
        self._held[lease_id, table].until = until

    def refused_lease(self, lease_id: str, table: str, why: str) -> None:
        held = self._held.pop((lease_id, table), None)
        if held is not None and held.until > self._now():
            self.violation("5 repeatable", f"{table} cannot be read any more under lease {lease_id}: {why}")

    def read_files(self, lease_id: str, table: str, gone: list[str]) -> None:
        """The files that a scan showed were looked for."""
        if gone and self._held[lease_id, table].until > self._now():
            self.violation("10 files", f"{gone} are gone, and {table} is read under lease {lease_id}")

    # ---- what the tables decided

    def applied(self, group: str, machine: StateMachine, command: bytes, outcome: object) -> None:
        self.commands += 1
        if isinstance(machine, StatusMachine):
            self._status_applied(group, command, outcome, len(machine.table.unfinished))
        elif isinstance(machine, ShardMachine):
            self._shard_applied(machine.shard, command, outcome)

    def _status_applied(self, group: str, data: bytes, outcome: object, unfinished: int) -> None:
        if not isinstance(outcome, StatusApplied):
            return
        command = cmd.decode(data)
        if isinstance(command, cmd.RaiseFloor):
            self._floors[group] = max(command.timestamp, self._floors.get(group, 0))
        if isinstance(command, cmd.BeginTxns) and outcome.records and outcome.changed:
            self._check_begin(command, unfinished)
        for record in outcome.records:
            txn_id, txn = record.txn_id, self.txn(record.txn_id)
            before, txn.state = txn.state, record.state
            txn.label = record.label
            if before is record.state:
                continue
            if before is None and record.state is not TxnState.OPEN:
                self.violation("1 states", f"transaction {txn_id} begins as {record.state.name}")
            if before is not None and record.state not in _NEXT.get(before, ()):
                self.violation("1 states", f"transaction {txn_id} goes from {before.name} to {record.state.name}")
            if record.state in DECIDED and before not in DECIDED:
                txn.decided_at, txn.commit_ts = self._now(), record.commit_ts
                txn.cause = record.cause.code if record.cause else ""
                if record.commit_ts:
                    self._check_rises(group, txn)
                if record.state in DECIDED_COMMIT:
                    self._check_prepared(txn, record.participants)
            if record.state in TERMINAL:  # what the same entry has published or discarded comes next
                self._check_ended(txn, record.participants.keys() - {step.participant_id for step in outcome.steps})
            if isinstance(command, cmd.Expire) and record.state in DECIDED_ABORT and before is not None:
                self._check_expiry(txn, before)

    def _check_begin(self, command: cmd.BeginTxns, unfinished: int) -> None:
        if command.request_id in self._refused:
            self.violation("12 once", f"begin {command.request_id} was refused, and takes effect")
        if command.max_unfinished and unfinished > command.max_unfinished:
            self.violation("the cap holds", f"{unfinished} are unfinished, {command.max_unfinished} may be")

    def _check_rises(self, group: str, txn: Txn) -> None:
        """A snapshot at a range's last commit, or at a floor that was raised there, is never joined by a later one."""
        if txn.commit_ts <= self._floors.get(group, 0):
            self.violation("6 timestamps rise", f"{txn} commits in {group}: {self._floors[group]} was there before")
        self._floors[group] = max(txn.commit_ts, self._floors.get(group, 0))
        if txn.commit_ts <= self._snapshot:
            self.violation("6 timestamps rise", f"{txn} commits in {group}: {self._snapshot} was a snapshot before")

    def _check_prepared(self, txn: Txn, participants: Iterable[str]) -> None:
        for table_id in participants:
            if foreign_name(table_id) is not None:
                continue
            prepared = txn.prepared.get(table_id)
            if prepared is None:
                self.violation("4 atomic", f"{txn.txn_id} is decided before {table_id} has prepared")
            elif prepared > txn.commit_ts:
                self.violation("4 atomic", f"{txn.txn_id} commits at {txn.commit_ts}; {table_id} prepared later")

    def _check_ended(self, txn: Txn, participants: Iterable[str]) -> None:
        left = [each for each in participants if foreign_name(each) is None and each not in txn.ended]
        if left:
            self.violation("ended means ended", f"{txn.txn_id} is {txn.state}, and has not ended on {left}")

    def _check_expiry(self, txn: Txn, before: TxnState) -> None:
        silent = self._now() - txn.heard_at
        if before is not TxnState.OPEN:
            self.violation("9 expiry", f"transaction {txn.txn_id} expired in {before.name}")
        if txn.keepalive and silent < txn.keepalive * CLOCK_TOLERANCE:
            self.violation("9 expiry", f"transaction {txn.txn_id} expired {silent:.3f} s after it was heard")

    def _shard_applied(self, shard: ParticipantShard, data: bytes, outcome: object) -> None:
        command = shard_cmd.decode(data)
        touched = shard._tables.get(getattr(command, "table_id", ""))
        if touched is not None:
            check_table(touched, shard.forgotten)
        if not isinstance(outcome, ShardApplied):
            return
        match command:
            case shard_cmd.Retire():
                self.retirements += 1
            case shard_cmd.BeginCommit(txn_id, table_id, _):
                txn = self.txn(txn_id)
                txn.prepared[table_id] = outcome.timestamp
                txn.prepared_at = min(txn.prepared_at, self._now())
            case shard_cmd.FinalizeCommit(txn_id, table_id, commit_ts):
                txn = self.txn(txn_id)
                if not txn.committed or txn.commit_ts != commit_ts:
                    self.violation("4 atomic", f"{table_id} finalises {txn_id} at {commit_ts}: it is {txn}")
                txn.ended.add(table_id)
            case shard_cmd.AbortTxn(txn_id, table_id):
                txn = self.txn(txn_id)
                if txn.state not in DECIDED_ABORT:
                    self.violation("4 atomic", f"{table_id} aborts {txn_id}, which is {txn.state}")
                txn.ended.add(table_id)
            case shard_cmd.FlushRows(table_id, flush_id):
                self.flushed.add(flush_directory(shard, table_id, flush_id))
            case shard_cmd.CommitCompaction():
                self.switches += 1
            case shard_cmd.DropCompaction(table_id, wanted):
                self.given_up.setdefault(compaction_directory(shard, table_id, wanted), self._now())
            case shard_cmd.DropFlush(table_id, flush_id):
                self.given_up.setdefault(flush_directory(shard, table_id, flush_id), self._now())

    def deletes(self, directory: str) -> None:
        """The cleaner is about to delete a directory, or the flusher."""
        if is_flush(directory):
            if directory in self.flushed:
                self.violation("10 files", f"{directory} is deleted, and its row changes are visible")
            return
        txn = None if is_compaction(directory) else self.txn(txn_of(directory))
        if txn is not None and txn.state not in DECIDED:
            self.violation("10 files", f"{directory} is deleted while its transaction is {txn.state}")
        for (lease_id, table), held in self._held.items():
            if held.until > self._now() and any(path.startswith(f"{directory}/") for path in held.manifests):
                self.violation("10 files", f"{directory} is deleted, and {table} is read under lease {lease_id}")
        if txn is not None and txn.committed:
            for write in self.visible_writes(txn):
                used = {write.directory, *(self._directory(write, other) for other in write.from_writes)}
                if directory in used and not self._may_be_replaced(write, txn):
                    self.violation("10 files", f"{directory} is deleted, and {write.manifest} is visible")

    def over_since(self, directory: str) -> float:
        """When nobody needed any more what was written there and is not visible."""
        if is_flush(directory) or is_compaction(directory):
            return self.given_up.get(directory, NEVER)
        return self.txn(txn_of(directory)).decided_at

    def _may_be_replaced(self, write: Write, txn: Txn) -> bool:
        """By an overwrite that was committed later."""
        return any(
            other.committed and other.commit_ts > txn.commit_ts and each.overwrite and each.table == write.table
            for other in self.txns.values()
            for each in other.writes
        )

    @staticmethod
    def _directory(write: Write, other: str) -> str:
        return write.directory.removesuffix(write.write_id) + other

    @staticmethod
    def visible_writes(txn: Txn) -> list[Write]:
        """The acknowledged writes that no overwrite of the same transaction can have replaced."""
        return [
            write
            for write in txn.writes
            if write.acked_at < NEVER
            and not any(
                other is not write
                and other.overwrite
                and other.table == write.table
                and other.acked_at > write.asked_at
                for other in txn.writes
            )
        ]
