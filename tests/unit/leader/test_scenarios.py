"""Stories of registering: what a shard's leader proposes and asks, what each caller hears, and what the shard keeps.

The files in `scenarios` are played against the shard's service; its log and the status table do as the story says.
There is one table, and one transaction of Alice's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

from tests.unit.harness.leader.shard_service import TABLE, TABLE_ID, Log, Status, shard_service
from tests.unit.harness.scenarios import Story, check, scenarios
from txnparticipant.shard import commands as cmd
from txnparticipant.upkeep.in_doubt import IN_DOUBT_SECONDS
from txnparticipant.versions.mvcc import Manifest
from txnstatus import errors
from txnstatus.errors import TxnError
from txnstatus.proto import participant_pb2 as pb
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.raft.proposals import Proposal
from txnstatus.rpc.errors import from_detail
from txnstatus.types import TxnId, TxnState

TXN, ALICE = TxnId(7), "alice"


@scenarios(beside=__file__)
def test_a_story_of_registering(path: Path) -> None:
    check(path, RegisteringStory())


class RegisteringStory(Story):
    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self.new()

    def end(self) -> None:
        self._runner.close()

    def new(self) -> None:
        """Everything anew: a leader without records; the log and the status table work."""
        self._events: list[str] = []
        self._status, self._log = _Status(self._events), _Log(self._events)
        self._service = shard_service(self._status, self._log)
        self._shard = self._service.shard
        self._calls: dict[str, asyncio.Future[object]] = {}
        self._kept = self._record()
        self._now = 0.0

    # ---- what the others do

    def status(self, how: str = "", fails: str = "") -> Iterable[str]:
        """shut, open, listed, unlisted, works, or a state; `fails`: the answer to everything."""
        self._status.fails = _error(fails) if fails else None
        match how:
            case "shut":
                self._status.open.clear()
            case "open":
                self._status.open.set()
            case "listed" | "unlisted":
                self._status.participants = {TABLE_ID} if how == "listed" else set()
            case "works" | "":
                pass
            case state:
                self._status.state = TxnState[state]
        return self._after()

    def log(self, how: str = "", loses: str = "") -> Iterable[str]:
        """stuck, moves or works; `loses`: what becomes of every entry."""
        self._log.lost = _error(loses) if loses else None
        self._log.stuck = how == "stuck"
        if how == "moves":
            self._log.unstick()
        return self._after()

    def new_leader(self) -> None:
        """The replica leads anew; it has forgotten what it knew in memory."""
        self._service._registering.forget()

    def leftover(self, write_id: str, owner: str = ALICE) -> Iterable[str]:
        """A leader died after the entry of a first write, before it was told that the table is registered."""
        self._shard.apply(cmd.OpenWrite(TXN, TABLE_ID, owner, write_id, begins=True))
        return self._after()

    def switch(self, how: str) -> Iterable[str]:
        """begins, ends: a compaction switches, and nobody prepares for a moment."""
        switching = self._service._switching
        if how == "begins":
            switching._holding.add(TABLE_ID)
        else:
            switching._holding.discard(TABLE_ID)
            switching._held.wake(TABLE_ID)
        return self._after()

    # ---- calls

    def write(self, write_id: str, owner: str = ALICE) -> Iterable[str]:
        request = table_pb.OpenWriteRequest(txn_id=TXN, owner=owner, table=TABLE, write_id=write_id)
        return self._after(write_id, self._service.open_write(request))

    def add_files(self, write_id: str) -> Iterable[str]:
        path = f"{self._shard.table(TABLE).directory(TXN, write_id)}/m"
        manifest = cmd.manifest_to_wire(Manifest(path, 1, 1, 1, 1, 1))
        request = table_pb.AddFilesRequest(txn_id=TXN, owner=ALICE, table=TABLE, write_id=write_id, manifest=manifest)
        return self._after(f"files of {write_id}", self._service.add_files(request))

    def lock(self) -> Iterable[str]:
        request = table_pb.LockRequest(txn_id=TXN, owner=ALICE, table=TABLE, mode="LOCK_X")
        return self._after("lock", self._service.lock(request))

    def prepare(self, first_write: str = "") -> Iterable[str]:
        """`first_write`: one that the begin has claimed."""
        return self._after("prepare", self._participate("BEGIN_COMMIT", first_write))

    def abort(self, first_write: str = "") -> Iterable[str]:
        return self._after("abort", self._participate("ABORT_TXN", first_write))

    def look_for_leftovers(self) -> Iterable[str]:
        return self._after("leftovers", self._look())

    def show(self) -> Iterable[str]:
        yield f"record: {self._kept}"

    # ---- what came of it

    async def _participate(self, op: str, first_write: str) -> None:
        ops = [pb.ParticipantOp(txn_id=TXN, table_id=TABLE_ID, type=op, first_write=first_write)]
        (result,) = (await self._service.participate(pb.ParticipateRequest(ops=ops))).results
        if result.HasField("error"):
            raise from_detail(result.error)

    async def _look(self) -> None:
        await self._service._registering.resolve(self._now)
        self._now += IN_DOUBT_SECONDS
        await self._service._registering.resolve(self._now)

    def _after(self, call: str = "", work: Awaitable[object] | None = None) -> list[str]:
        """All that happens, until nothing more does."""
        self._runner.run(self._settled(call, work))
        self._shard.check_invariants()
        came, self._events[:] = list(self._events), []
        kept, self._kept = self._kept, self._record()
        return [*came, f"record: {self._kept}"] if self._kept != kept else came

    async def _settled(self, call: str, work: Awaitable[object] | None) -> None:
        if work is not None:
            assert call not in self._calls, "it is under way"
            self._calls[call] = asyncio.ensure_future(work)
        for _ in range(40):
            await asyncio.sleep(0)
            for name, task in list(self._calls.items()):
                if task.done():
                    error = self._calls.pop(name).exception()
                    assert error is None or isinstance(error, TxnError)
                    self._events.append(f"{name}: {type(error).__name__ if error else 'done'}")
        if work is not None and call in self._calls:
            self._events.append(f"{call} waits")

    def _record(self) -> str:
        record = self._shard.record(TABLE_ID, TXN)
        if record is None:
            return "none"
        claimed, written = (" ".join(names) or "nothing" for names in (record.claimed, record.writes))
        return f"{record.owner or 'nobody'}'s, {record.state.name}, claimed {claimed}, written {written}"


class _Status(Status):
    def __init__(self, events: list[str]) -> None:
        super().__init__()
        self.owner, self._events = ALICE, events

    def register(self, txn_id: int, owner: str, table_id: str, name: str) -> asyncio.Future[TxnError | None]:
        self._events.append(f"asked to register for {owner}")
        answer = super().register(txn_id, owner, table_id, name)
        answer.add_done_callback(lambda _: self._events.append("registered" if answer.result() is None else "refused"))
        return answer


class _Log(Log):
    def __init__(self, events: list[str]) -> None:
        super().__init__()
        self._events = events

    def submit(self, commands: Sequence[bytes], ended: Callable[[Proposal], None], *, linger: bool = False) -> None:
        self._events += [f"proposed {type(cmd.decode(command)).__name__}" for command in commands]
        super().submit(commands, ended, linger=linger)


def _error(name: str) -> TxnError:
    error = getattr(errors, name)("as the story says")
    assert isinstance(error, TxnError)
    return error
