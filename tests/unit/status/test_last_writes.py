"""Writes that a commit carries, on the leader that is asked for it: what it judges, and who prepares when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.unit.harness.calls import answered
from tests.unit.harness.status_leader import OWNER, A, B, Leader
from txnstatus.errors import IllegalState, InvalidArgument, LimitReached, TxnError
from txnstatus.limits import MAX_LAST_WRITE_BYTES, MAX_LAST_WRITES
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.status import commands as cmd
from txnstatus.status.commit.beginning import BeginCommits
from txnstatus.status.commit.calls import CommitCalls
from txnstatus.status.commit.last_writes import LastWrites
from txnstatus.status.events import CommitRequested
from txnstatus.status.outcomes import Outcomes
from txnstatus.types import HybridClock, Timestamp, TxnId, TxnState

HERE, AWAY = "air.here", "air.away"


class System:
    """A range's leader, with the table A in its log, and another one that is not."""

    def __init__(self) -> None:
        self.leader = Leader()
        self.done: list[str] = []
        """What was done, in its order."""
        self.refusal: TxnError | None = None
        self.meanwhile: Callable[[], object] = lambda: None
        """What happens while writes are judged."""
        self.cluster = self  # of the client
        beginning = BeginCommits(self.leader.table, self, self._propose, lambda: 5, HybridClock(lambda: 0))  # type: ignore[arg-type]
        self.calls = CommitCalls(
            self.leader.manager,
            self,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            Outcomes(),
            self._handle,
            beginning,
            LastWrites(self, self),  # type: ignore[arg-type]
            lambda work: self._tasks.append(asyncio.ensure_future(work)),
        )
        self._tasks: list[asyncio.Future[None]] = []

    def commit(self, *tables: str, **options: Any) -> TxnState:
        """The state that the commit is answered with."""
        request = pb.CommitTransactionRequest(txn_id=0, owner=OWNER)
        request.last_writes.extend(write(table, **options) for table in tables)

        async def ask() -> pb.CommitTransactionResponse:
            answer: pb.CommitTransactionResponse = await answered(self.calls.commit, request)
            return answer

        return TxnState(asyncio.run(ask()).txn.state)

    def _handle(self, events: Sequence[CommitRequested]) -> None:
        self.done.extend("prepare elsewhere" for _ in events)

    async def _propose(self, command: cmd.Command) -> Any:
        assert isinstance(command, cmd.BeginCommit)
        self.done.append(f"begin with {[each.participant_id for each in command.writes]}")
        return self.leader.table.apply(command)

    # ---- the driver, the proposer, the client and the services beside it

    def check_lease(self) -> None: ...

    def submit(self, commands: Sequence[cmd.Command], told: Any, *, linger: bool = False) -> None:
        self.done.append("begin")
        told(0, [self.leader.table.apply(command) for command in commands])

    def shard_of_table(self, _name: str) -> int:
        return 3

    async def call_leader(self, _group: str, method: str, request: table_pb.AddFilesRequest, *_: object) -> object:
        self.done.append(f"{method} {request.table}")
        return table_pb.AddFilesResponse()

    async def last_write(self, request: table_pb.AddFilesRequest) -> cmd.LastWrite | None:
        self.meanwhile()
        if self.refusal is not None:
            raise self.refusal
        return cmd.LastWrite(A, b"files") if request.table == HERE else None

    def has(self, _txn_id: int, participant_id: str) -> bool:
        return participant_id == A

    def is_ready(self, *_: object) -> bool:
        return True

    async def make_ready(self, *_: object) -> None: ...


def write(table: str, txn_id: int = 0, owner: str = OWNER, size: int = 1) -> table_pb.AddFilesRequest:
    return table_pb.AddFilesRequest(txn_id=txn_id, owner=owner, table=table, write_id="w" * size)


@pytest.fixture
def system() -> System:
    found = System()
    found.leader.begin(A, B)
    return found


def test_nobody_prepares_elsewhere_before_it_is_durable_what_is_to_be_written_here(system: System) -> None:
    """One that is prepared for long asks for the commit, and carries nothing: the write would be lost."""
    assert system.commit(HERE) is TxnState.COMMIT_IN_PROGRESS
    assert system.done == [f"begin with ['{A}']"]


def test_nobody_prepares_elsewhere_before_it_is_durable_what_was_added_there(system: System) -> None:
    """A table that has prepared refuses files, also those that it has: the call made again would be told that it is
    refused, and then be committed, when the table asks for that."""
    system.commit(AWAY)
    assert system.done == [f"txnstatus.Table/AddFiles {AWAY}", "begin with []"]


@pytest.mark.parametrize("table", [HERE, AWAY])
def test_what_is_refused_since_another_call_has_begun_the_commit_is_no_refusal(system: System, table: str) -> None:
    def begun_meanwhile() -> None:
        system.leader.table.apply(cmd.BeginCommit(TxnId(0), OWNER, 5, Timestamp(7)))

    system.meanwhile = begun_meanwhile
    system.refusal = IllegalState("it is prepared: no files are added any more")
    assert system.commit(table) is TxnState.COMMIT_IN_PROGRESS


def test_one_that_is_refused_refuses_the_commit(system: System) -> None:
    system.refusal = LimitReached("too many partitions")
    with pytest.raises(LimitReached):
        system.commit(HERE)
    assert system.done == []
    assert system.leader.table.get(TxnId(0)).state is TxnState.OPEN


def test_a_commit_that_is_under_way_takes_no_more(system: System) -> None:
    system.commit(HERE)
    system.done.clear()
    assert system.commit(HERE) is TxnState.COMMIT_IN_PROGRESS
    assert system.done == ["begin with []"]


@pytest.mark.parametrize(
    ("tables", "options"),
    [
        ([HERE], {"txn_id": 1}),
        ([HERE], {"owner": "bob"}),
        ([HERE], {"size": MAX_LAST_WRITE_BYTES}),
        ([HERE] * (MAX_LAST_WRITES + 1), {}),
    ],
    ids=["transaction", "owner", "bytes", "count"],
)
def test_what_no_commit_carries_is_refused(system: System, tables: list[str], options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        system.commit(*tables, **options)
    assert system.done == []
