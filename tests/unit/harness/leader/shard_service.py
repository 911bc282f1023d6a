"""A shard's service with its Raft group and its status table played by a few lines: whoever tests says what they do."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

from tests.unit.harness.beginning import begin_txn
from txnparticipant.leader.machine import ShardMachine
from txnparticipant.leader.service import ShardService, ShardSettings
from txnparticipant.shard import commands as cmd
from txnparticipant.upkeep.in_doubt import IN_DOUBT_SECONDS
from txnparticipant.versions.mvcc import Manifest
from txnstatus import features
from txnstatus.catalog.options import Options
from txnstatus.errors import IllegalState, NotAuthorized, NotTheLeader, TxnError
from txnstatus.id_sets import NO_IDS, IdSet, below
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import txn_manager_pb2 as manager_pb
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.proposals import Proposal
from txnstatus.schema import Column, Schema
from txnstatus.status.ranges import StatusRanges
from txnstatus.types import NO_TIMESTAMP, HybridClock, Timestamp, TxnId, TxnState

TABLE, TABLE_ID = "air.flights", "0.0"
FLIGHTS = cmd.CreateTable(TABLE, Schema((Column("id", "bigint"),)), "file:///w/t", "r")
MANIFEST = Manifest("file:///m", 1, 1, 1, 1, 1)


class Status:
    """A status table whose transactions are all in one state; snapshots and outcomes go by `commits`."""

    def __init__(self, commits: Mapping[int, int] | None = None) -> None:
        self.commits = {TxnId(txn): Timestamp(ts) for txn, ts in (commits or {}).items()}
        self.snapshots = 0
        self.owner: str | None = None
        """Whoever else registers or looks is told so; None: everybody is welcome."""
        self.state, self.commit_ts = TxnState.OPEN, 0
        self.participants: set[str] = set()
        self.registrations = 0
        self.floor = NO_TIMESTAMP
        self.asked_to_commit: list[tuple[int, str]] = []
        """Transactions and owners of calls that ask for a commit."""
        self.ids_given_out = NO_IDS
        self.open = asyncio.Event()
        """Registrations are held up while it is not set."""
        self.open.set()
        self.fails: TxnError | None = None
        """The answer to everything, instead of the right one."""

    @property
    def last(self) -> Timestamp:
        return max([self.floor, *self.commits.values()])

    def register(self, _txn_id: int, owner: str, table_id: str, _name: str) -> asyncio.Future[TxnError | None]:
        self.registrations += 1
        return asyncio.ensure_future(self._refused(owner, table_id))

    async def _refused(self, owner: str, table_id: str) -> TxnError | None:
        await self.open.wait()
        if self.fails:
            return self.fails
        if self.owner not in (None, owner):
            return NotAuthorized(f"not {owner}'s")
        if self.state is not TxnState.OPEN:
            return IllegalState(f"it is {self.state.name}")
        self.participants.add(table_id)
        return None

    def check_shard(self, _name: str, _shard: int) -> None:
        """Every name is kept by the shard that is asked."""

    async def check_keeper(self, _name: str, _shard: int) -> None:
        """Likewise."""

    def is_by_hash(self, _name: str, _shard: int) -> bool:
        return True

    async def placement(self, _name: str, shard: int, _wanted: str) -> int:
        return shard

    def group_of_shard(self, _shard: int) -> str:
        return "group-0"

    async def older_than(self, txn_id: TxnId) -> IdSet:
        return below(txn_id)

    async def begun(self) -> IdSet:
        return self.ids_given_out

    async def call(self, txn_id: int, method: str, request: Any, _response: object) -> Any:
        if self.fails:
            raise self.fails
        if method == "CommitTransaction":
            self.asked_to_commit.append((txn_id, request.owner))
            return manager_pb.CommitTransactionResponse()
        assert method == "GetTransactionState"
        info = common.TxnInfo(
            txn_id=txn_id, owner=self.owner or "", state=self.state.name, commit_timestamp=self.commit_ts
        )
        for table_id in sorted(self.participants):
            info.participants.add(participant_id=table_id)
        return manager_pb.GetTransactionStateResponse(txn=info)

    async def snapshot(self, at_least: Timestamp = NO_TIMESTAMP) -> Timestamp:
        self.snapshots += 1
        self.floor = max(self.floor, at_least)
        return self.last

    async def outcomes(self, txn_ids: Iterable[TxnId], at: Timestamp) -> dict[TxnId, Timestamp]:
        assert at <= self.last
        found = {txn_id: self.commits.get(txn_id, NO_TIMESTAMP) for txn_id in txn_ids}
        return {txn_id: commit_ts if commit_ts <= at else NO_TIMESTAMP for txn_id, commit_ts in found.items()}


class Log:
    """The Raft group of a shard, with one replica. Entries apply at once, unless it is `stuck`, or has `lost` them."""

    def __init__(self, shard: int = 0) -> None:
        self.machine = ShardMachine(shard, lambda _txn_id: None)
        self.group = SimpleNamespace(group=f"shard-{shard}", has_lease=True)
        self.proposed: list[cmd.Command] = []
        self.stuck = False
        self.lost: TxnError | None = None
        self._waiting: list[Callable[[], None]] = []

    def check_lease(self) -> None:
        if not self.group.has_lease:
            raise self.not_the_leader()

    def not_the_leader(self) -> NotTheLeader:
        return NotTheLeader("not now")

    def submit(self, commands: Sequence[bytes], ended: Callable[[Proposal], None], *, linger: bool = False) -> None:
        self.proposed += map(cmd.decode, commands)
        self._waiting.append(lambda: ended(self._ended(commands)))
        if not self.stuck:
            self.unstick()

    def unstick(self) -> None:
        self.stuck = False
        waiting, self._waiting = self._waiting, []
        for end in waiting:
            end()

    def _ended(self, commands: Sequence[bytes]) -> Proposal:
        return Proposal(commands, error=self.lost) if self.lost else Proposal(commands, self.machine.apply(commands))


def shard_service(
    status: Status | None = None,
    log: Log | None = None,
    *,
    creates: cmd.CreateTable = FLIGHTS,
    warehouse: str = "file:///w",
    disk: ThreadPoolExecutor | None = None,
    zombie_grace_seconds: float = 1.0,
    level: int = features.OWN.newest,
) -> ShardService:
    """One that leads, with one table."""
    log, ticks = log or Log(), itertools.count(1)
    made = ShardService(
        log.machine,
        cast(RaftDriver, log),
        HybridClock(lambda: next(ticks)),
        cast(StatusRanges, status or Status()),
        warehouse,
        disk or ThreadPoolExecutor(1),
        ShardSettings(zombie_grace_seconds, 30.0, IN_DOUBT_SECONDS, row_flush_bytes=4 << 20),
        options=Options,
        level=lambda: level,
    )
    made.shard.apply(creates)
    return made


def wrote_and_prepared(made: ShardService, txn: int, write_id: str, prepare_ts: int) -> None:
    for command in (
        begin_txn(TxnId(txn), TABLE_ID, "me"),
        cmd.OpenWrite(TxnId(txn), TABLE_ID, "me", write_id),
        cmd.AddFiles(TxnId(txn), TABLE_ID, "me", write_id, MANIFEST),
        cmd.BeginCommit(TxnId(txn), TABLE_ID, Timestamp(prepare_ts)),
    ):
        made.shard.apply(command)
