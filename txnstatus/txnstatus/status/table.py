"""The transaction status table of one range partition: the replicated state machine.

`TxnStatusTable.apply` is total and deterministic: every command gets `StatusApplied` or `Rejected`, on every
replica the same, and nothing else changes the table. States and answers follow Kudu's TxnStatusManager; where they
differ, docs/protocol.md says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, ValuesView

from txnstatus.errors import IllegalState, InvalidArgument, NotAuthorized, NotFound, forgotten
from txnstatus.limits import MAX_BEGIN_COUNT
from txnstatus.replicated import Outcome, Rejected, Story
from txnstatus.status import chunks
from txnstatus.status import commands as cmd
from txnstatus.status.finished import Finished
from txnstatus.status.owners import Owners, too_many
from txnstatus.status.records import BeginRequest, Step, TxnRecord, by_id, illegal
from txnstatus.status.transitions import TRANSITIONS, Op, Stay
from txnstatus.types import (
    DECIDED_ABORT,
    DECIDED_COMMIT,
    NO_TIMESTAMP,
    TERMINAL,
    Timestamp,
    TxnId,
    TxnState,
)

MAX_FORGET_COUNT = 5_000
"""One Forget drops no more, so that it does not hold the others up."""
CHECKED = 100
"""Finished transactions that `check_invariants` looks at."""

_OP_OF_COMMAND: Mapping[type[cmd.Command], Op] = {
    cmd.RegisterParticipants: Op.REGISTER_PARTICIPANT,
    cmd.BeginCommit: Op.BEGIN_COMMIT,
    cmd.FinalizeCommit: Op.FINALIZE_COMMIT,
    cmd.CompleteCommit: Op.COMPLETE_COMMIT,
    cmd.BeginAbort: Op.BEGIN_ABORT,
    cmd.Expire: Op.EXPIRE,
    cmd.FinalizeAbort: Op.FINALIZE_ABORT,
}

_WITHOUT_PARTICIPANTS = {
    TxnState.COMMIT_IN_PROGRESS: TxnState.COMMITTED,
    TxnState.ABORT_IN_PROGRESS: TxnState.ABORTED,
}


class StatusApplied(Outcome):
    """The command took effect, now or (`changed` False) before."""

    records: tuple[TxnRecord, ...]
    """The transactions it was about, as they are now. A begin without any has made the range full."""
    changed: bool
    steps: tuple[Step, ...] = ()

    @property
    def txn_ids(self) -> tuple[TxnId, ...]:
        return tuple(record.txn_id for record in self.records)


class TxnStatusTable:
    """The transactions with ids in [first_txn_id, end_txn_id). Only `apply` and `restore` change it."""

    def __init__(self, first_txn_id: int, end_txn_id: int) -> None:
        self.first_txn_id = TxnId(first_txn_id)
        self.end_txn_id = TxnId(end_txn_id)
        self._next_txn_id = self.first_txn_id
        self._full = False
        self._last_commit_ts = NO_TIMESTAMP
        self._unfinished: dict[TxnId, TxnRecord] = {}
        self._owners = Owners()
        self._requests: dict[str, BeginRequest] = {}
        self._kept: dict[str, int] = {}
        """Request id → how many of the records are here that it made; at least one is."""
        self._finished = Finished()
        self._oldest_kept = self.first_txn_id
        self._story = Story(self.find)

    # ---- commands

    def apply(self, command: cmd.Command) -> StatusApplied | Rejected:
        try:
            op = _OP_OF_COMMAND.get(type(command))
            if op is None:
                return self._tend(command)  # type: ignore[arg-type]
            moved = self._move(command, op)  # type: ignore[arg-type]
        except Exception as error:
            self._story.tell(error, command)
            raise
        after = moved.error.code if isinstance(moved, Rejected) else moved.records[0].state
        self._story.note((command.txn_id, "", type(command), after))  # type: ignore[union-attr]
        return moved

    def _tend(self, command: cmd.BeginTxns | cmd.Forget | cmd.RaiseFloor) -> StatusApplied | Rejected:
        """What is of no one transaction that there is."""
        match command:
            case cmd.BeginTxns():
                return self._begin(command)
            case cmd.Forget():
                return self._forget(command.finished_before_micros)
            case cmd.RaiseFloor():
                return self._raise_floor(command.timestamp, fills=command.fills)

    def _begin(self, command: cmd.BeginTxns) -> StatusApplied | Rejected:
        # One that no range can hold would leave every range full behind it.
        most = min(MAX_BEGIN_COUNT, self.end_txn_id - self.first_txn_id)
        if not 1 <= command.count <= most:
            return Rejected(
                InvalidArgument(f"cannot begin {command.count} transactions in one call: 1 to {most} may be begun")
            )
        begun = self.begun_by(command.request_id)
        if begun is not None:
            return StatusApplied(begun, changed=False)
        if self._full or self._next_txn_id + command.count > self.end_txn_id:
            was_full, self._full = self._full, True
            return StatusApplied((), changed=not was_full)
        refusal = too_many(command, len(self._unfinished), self._owners.of(command.owner))
        if refusal is not None:
            return Rejected(refusal)
        self._raise_floor(command.floor)
        request = BeginRequest(command.request_id, self._next_txn_id, command.count)
        self._requests[command.request_id], self._kept[command.request_id] = request, command.count
        self._next_txn_id = TxnId(self._next_txn_id + command.count)
        participants, now = by_id(command.participants), command.now_micros
        for txn_id in map(TxnId, request.txn_ids()):
            self._unfinished[txn_id] = TxnRecord(
                txn_id,
                command.owner,
                command.label,
                command.keepalive_millis,
                now,
                now,
                request,
                participants=participants,
            )
        self._owners.more(command.owner, command.count)
        self._full = self._next_txn_id == self.end_txn_id
        self._story.note((request.txn_ids(), "", type(command), TxnState.OPEN))
        return StatusApplied(tuple(self._unfinished[TxnId(i)] for i in request.txn_ids()), changed=True)

    def _move(self, command: cmd.TxnCommand, op: Op) -> StatusApplied | Rejected:
        record = self.find(command.txn_id)
        if record is None:
            return Rejected(self._absent(command.txn_id))
        refusal = self.check_owner(record, getattr(command, "owner", None))
        if refusal:
            return Rejected(refusal)
        outcome = TRANSITIONS[record.state, op]
        if outcome is Stay.ILLEGAL:
            return Rejected(illegal(record, op))
        if isinstance(command, cmd.FinalizeCommit) and command.prepared != len(record.participants):
            return Rejected(IllegalState(f"{command.prepared} of {len(record.participants)} participants are prepared"))
        changed = self._changed(record, command, outcome)
        self._keep(changed)
        return StatusApplied((changed,), changed is not record)

    def _changed(self, record: TxnRecord, command: cmd.TxnCommand, outcome: TxnState | Stay) -> TxnRecord:
        if isinstance(command, cmd.RegisterParticipants):
            return record.joined_by(command.participants)
        if not isinstance(outcome, TxnState):
            return record
        if not record.participants:
            # Nobody is left to hear of it: one entry, one durable round.
            outcome = _WITHOUT_PARTICIPANTS.get(outcome, outcome)
        commit_ts, cause = record.commit_ts, getattr(command, "cause", record.cause)
        if isinstance(command, cmd.FinalizeCommit):
            # Commit timestamps rise in the order of the decisions. So a snapshot at the last one never has to wait
            # for a transaction that is still undecided: that one will be above it.
            commit_ts = self._last_commit_ts = max(command.commit_ts, Timestamp(self._last_commit_ts + 1))
        return record.moved(outcome, command.now_micros, commit_ts, cause)

    def _keep(self, record: TxnRecord) -> None:
        if record.state not in TERMINAL:
            self._unfinished[record.txn_id] = record
        elif self._unfinished.pop(record.txn_id, None):
            self._owners.less(record.owner)
            self._finished.add(record)

    def _forget(self, finished_before_micros: int) -> StatusApplied:
        forgotten = 0
        while forgotten < MAX_FORGET_COUNT and self.finished_before(finished_before_micros):
            request_id = self._finished.drop_oldest().request.request_id
            self._kept[request_id] -= 1
            if not self._kept[request_id]:
                del self._requests[request_id], self._kept[request_id]
            forgotten += 1
        return StatusApplied((), changed=forgotten > 0)

    def _raise_floor(self, timestamp: Timestamp, *, fills: bool = False) -> StatusApplied:
        changed = timestamp > self._last_commit_ts or (fills and not self._full)
        self._last_commit_ts = max(self._last_commit_ts, timestamp)
        self._full = self._full or fills
        return StatusApplied((), changed)

    # ---- questions

    @property
    def last_commit_ts(self) -> Timestamp:
        """The highest commit timestamp decided so far, or the floor: whatever commits from now on is above."""
        return self._last_commit_ts

    @property
    def next_txn_id(self) -> TxnId:
        return self._next_txn_id

    @property
    def oldest_kept(self) -> TxnId:
        """All ids below are forgotten, or were never given out."""
        while self._oldest_kept < self._next_txn_id and not self._keeps(self._oldest_kept):
            self._oldest_kept = TxnId(self._oldest_kept + 1)
        return self.end_txn_id if self.spent else self._oldest_kept

    @property
    def full(self) -> bool:
        """Nothing will ever begin here again."""
        return self._full

    @property
    def nearly_full(self) -> bool:
        """Four fifths of the ids are given out: the next range should be there before they are all gone."""
        used, span = self._next_txn_id - self.first_txn_id, self.end_txn_id - self.first_txn_id
        return self._full or used * 5 >= span * 4

    @property
    def settled(self) -> bool:
        """Full, and nothing is unfinished: nothing will commit here any more."""
        return self._full and not self._unfinished

    @property
    def spent(self) -> bool:
        """Full, and everything that was here is forgotten: the range may go."""
        return self.settled and not self._finished

    @property
    def unfinished(self) -> ValuesView[TxnRecord]:
        return self._unfinished.values()

    @property
    def unfinished_by_id(self) -> Mapping[TxnId, TxnRecord]:
        """The unfinished by id; another mapping after a snapshot was restored."""
        return self._unfinished

    def finished_before(self, micros: int) -> bool:
        """Whether there is something that `Forget` with this time would drop."""
        oldest = self._finished.oldest
        return oldest is not None and oldest.last_transition_micros < micros

    @property
    def finished(self) -> Finished:
        """The transactions that have ended; to be read only. It is another one once a snapshot was restored."""
        return self._finished

    def ids(self, below: int = 0, states: Collection[TxnState] = ()) -> Sequence[int]:
        """Ids of the transactions that may be in one of the states (none = any), the highest first.

        `below`: only lower ids; 0 = all. Some have no record, or are in another state.
        """
        if states and TERMINAL.isdisjoint(states):
            return [txn_id for txn_id in sorted(self._unfinished, reverse=True) if not below or txn_id < below]
        end = min(below or self._next_txn_id, self._next_txn_id)
        return range(end - 1, self._oldest_kept - 1, -1)

    def records(self) -> Iterator[TxnRecord]:
        """All records, the highest id first."""
        return (record for txn_id in self.ids() if (record := self.find(TxnId(txn_id))))

    def find(self, txn_id: TxnId) -> TxnRecord | None:
        return self._unfinished.get(txn_id) or self._finished.find(txn_id)

    def _keeps(self, txn_id: TxnId) -> bool:
        return txn_id in self._unfinished or txn_id in self._finished

    def get(self, txn_id: TxnId) -> TxnRecord:
        """Raises NotFound, or Forgotten."""
        record = self.find(txn_id)
        if record is None:
            raise self._absent(txn_id)
        return record

    def begun_by(self, request_id: str) -> tuple[TxnRecord, ...] | None:
        """What a begin with this request id made, if there was one; without those that are forgotten."""
        request = self._requests.get(request_id)
        if request is None:
            return None
        return tuple(record for i in request.txn_ids() if (record := self.find(TxnId(i))))

    def check_owner(self, record: TxnRecord, owner: str | None) -> NotAuthorized | None:
        """Existence is checked before ownership, as in Kudu. None as owner is the system itself."""
        if owner is None or owner == record.owner:
            return None
        return NotAuthorized(
            f"transaction {record.txn_id} belongs to {record.owner!r}, not to {owner!r}", txn_id=record.txn_id
        )

    def commit_ts_at(self, txn_id: TxnId, snapshot_ts: Timestamp) -> Timestamp:
        """The transaction's commit timestamp if it is committed at or below `snapshot_ts`, else NO_TIMESTAMP.

        Final: what is undecided now will get a timestamp above `last_commit_ts`, and so above every snapshot.
        Raises InvalidArgument for a timestamp that no snapshot of this table can have.
        """
        if snapshot_ts > self._last_commit_ts and not self.settled:
            raise InvalidArgument(
                f"timestamp {snapshot_ts} is ahead of the last commit's, {self._last_commit_ts}: take a snapshot first"
            )
        record = self.find(txn_id)
        if record is None or record.state not in DECIDED_COMMIT or record.commit_ts > snapshot_ts:
            return NO_TIMESTAMP
        return record.commit_ts

    def _absent(self, txn_id: TxnId) -> NotFound:
        if not self.first_txn_id <= txn_id < self.end_txn_id:
            message = f"transaction {txn_id} is not of this range, {self.first_txn_id} to {self.end_txn_id - 1}"
            return NotFound(message, txn_id=txn_id)
        if txn_id < self._next_txn_id:
            return forgotten(txn_id)
        return NotFound(
            f"transaction {txn_id} is unknown: the highest id given out is {self._next_txn_id - 1}",
            txn_id=txn_id,
        )

    # ---- snapshots

    def snapshot(self) -> Iterator[bytes]:
        """The state as of this call, in chunks. Records do not change, so only references are taken now."""
        span = self.first_txn_id, self.end_txn_id
        header = chunks.Header(chunks.VERSION, *span, self._next_txn_id, self._last_commit_ts, self._full)
        unfinished = [self._unfinished[txn_id] for txn_id in sorted(self._unfinished)]
        return chunks.of(header, unfinished, self._finished.encoded())

    def add_chunk(self, chunk: bytes) -> None:
        """Adds what a chunk of a snapshot holds; for a table that is nothing else, the chunks in their order.

        Raises ValueError for a snapshot of another version or range.
        """
        match chunks.decode(chunk):
            case chunks.Header() as header:
                self._restore_header(header)
            case chunks.Unfinished(records):
                self._unfinished.update((record.txn_id, record) for record in records)
                self._restore_requests(records)
                for record in records:
                    self._owners.more(record.owner)
            case chunks.Finished(encoded):
                self._restore_requests(map(self._finished.restore, encoded))

    def become(self, restored: TxnStatusTable) -> None:
        """Takes over all that another table holds, which is not used any more."""
        vars(self).update({**vars(restored), "_story": self._story})

    def _restore_header(self, header: chunks.Header) -> None:
        if header.version != chunks.VERSION:
            raise ValueError(f"status snapshot of version {header.version}; this release reads {chunks.VERSION}")
        if (header.first_txn_id, header.end_txn_id) != (self.first_txn_id, self.end_txn_id):
            raise ValueError(f"a snapshot of the range {header.first_txn_id} to {header.end_txn_id - 1}")
        self._next_txn_id = self._oldest_kept = header.next_txn_id
        self._last_commit_ts = header.last_commit_ts
        self._full = header.full

    def _restore_requests(self, records: Iterable[TxnRecord]) -> None:
        """The begins that made the records."""
        for record in records:
            self._oldest_kept = min(self._oldest_kept, record.txn_id)
            request = self._requests.setdefault(record.request.request_id, record.request)
            self._kept[request.request_id] = self._kept.get(request.request_id, 0) + 1

    def check_invariants(self) -> None:
        """Raises AssertionError; called after every step in tests and in the simulator."""
        with self._story.told_if_broken():
            self._check()

    def _check(self) -> None:
        assert self.first_txn_id <= self._next_txn_id <= self.end_txn_id, "ids outside the range"
        # What has finished does not change, so it is enough to look at it while it is among the latest.
        records = (*self._unfinished.values(), *map(self.get, self._finished.latest(CHECKED)))
        for record in records:
            txn_id = record.txn_id
            assert self.oldest_kept <= txn_id < self._next_txn_id, f"{txn_id} was never given out"
            finished = record.state in TERMINAL
            assert finished == (txn_id in self._finished), f"misplaced: {record}"
            assert finished != (self._unfinished.get(txn_id) is record), f"misplaced: {record}"
            decided = record.state in DECIDED_COMMIT and bool(record.participants)
            assert decided == (record.commit_ts != NO_TIMESTAMP), f"commit timestamp of {record}"
            assert record.commit_ts <= self._last_commit_ts, f"{record} is above the last commit"
            assert (record.state in DECIDED_ABORT) == (record.cause is not None), f"cause of {record}"
            assert record.participants or record.state in TERMINAL | {TxnState.OPEN}, f"nobody to tell: {record}"
            assert record.request == self._requests.get(record.request.request_id), f"the begin of {record}"
        assert self._owners.counts == Counter(each.owner for each in self._unfinished.values()), "owners miscounted"
        commits = [r.commit_ts for r in records if r.commit_ts]
        assert len(set(commits)) == len(commits), "two transactions share a commit timestamp"
        assert self._kept.keys() == self._requests.keys(), "requests that are not counted"
        assert all(self._kept.values()), "requests without records"
        assert sum(self._kept.values()) == len(self._unfinished) + len(self._finished), "records without requests"
