"""Three groups whose transactions are in several of them, and cuts through all, one step of anybody's after the other.

What a group replicates, what answers on its leader, and who cuts are as they are shipped. The logs are the test's: what
is submitted applies in a later step, a leader may be deposed, and a hold may last for too short a time.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from google.protobuf.message import Message

from tests.unit.harness.shards import create
from txndeploy.backup.cut import Cut
from txndeploy.node.cuts import GroupCuts
from txndeploy.node.machines import group_machine
from txnmanager.backups import Backups
from txnparticipant.shard import commands as shard_cmd
from txnstatus.catalog.catalog import CATALOG, CatalogState, shard_group, status_group
from txnstatus.catalog.founding import initial
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.catalog.options import Options
from txnstatus.catalog.service import CatalogMachine
from txnstatus.errors import Unavailable
from txnstatus.proto import backup_pb2 as pb
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.frames import CHUNK, HEADER_BYTES, read_frame
from txnstatus.raft.journal import Entry
from txnstatus.raft.machine import StateMachine
from txnstatus.raft.parts import Parts, address, opening
from txnstatus.replicated import Rejected
from txnstatus.rpc.methods import full_name
from txnstatus.status import commands as cmd
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import HybridClock, Participant, ParticipantId, Timestamp, TxnId

GROUPS, SPAN = 3, 1_000
STATE = replace(
    initial(
        {"n1": NodeInfo("h:1", ("status", "participant", "manager"))},
        participant_shards=GROUPS,
        replication=1,
        range_span=SPAN,
        groups=GROUPS,
        options=Options(),
    ),
    version=1,
    cluster_id="c.0",
)


@dataclass(eq=False)
class Log:
    """A group as its driver is to those who cut: they see no more of it."""

    group: str
    machine: StateMachine
    chance: random.Random
    turn: Callable[[], Any]
    waiting: deque[tuple[str, bytes]] = field(default_factory=deque)
    """What is in the log, and has not applied."""
    held: object = None
    journal: Sequence[Entry] = (Entry(b"", 1, 1), Entry(b"", 2, 1))
    members: tuple[str, ...] = ("n1",)

    def __post_init__(self) -> None:
        self.driver = RestlessDriver(self)


class RestlessDriver:
    """What of a RaftDriver a cut needs."""

    def __init__(self, log: Log) -> None:
        self.group = log
        self._log = log

    def check_lease(self) -> None:
        pass

    async def hold(self, _seconds: float) -> object:
        if self._log.held is not None:
            raise Unavailable("it is held already")
        hold = self._log.held = object()
        while self._log.waiting and not self.is_over(hold):
            await self._log.turn()
        if self.is_over(hold):
            raise Unavailable("it did not come to rest")
        return hold

    def is_over(self, hold: object) -> bool:
        return self._log.held is not hold

    def is_held(self, hold: object) -> bool:
        return not self.is_over(hold)

    def let_go(self, hold: object) -> None:
        if self._log.held is hold:
            self._log.held = None


class World:
    """Programs that commit, and whoever cuts; `turn` lets others have theirs."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.state: CatalogState = STATE
        clock = HybridClock(lambda: 0)
        groups = {group: group_machine(lambda: SPAN, clock) for group in STATE.groups if group != CATALOG}
        self.logs = {
            group: Log(group, machine, self.chance, self.turn)
            for group, machine in (*groups.items(), (CATALOG, CatalogMachine(STATE, lambda _: None)))
        }
        for group, machine in groups.items():
            machine.apply([opening(part) for part in STATE.parts_of(group)])
            for part in STATE.parts_of(group):
                if part.startswith("shard-"):
                    table = create(f"air.{part[6:]}", f"create {part}")
                    machine.apply([address(part) + shard_cmd.encode(table)])
        self.nodes = {
            group: GroupCuts(cast(RaftDriver, log.driver), log.machine, "n1") for group, log in self.logs.items()
        }
        self._programs = [self._program(number) for number in range(5)]
        self._micros = 1

    async def turn(self) -> None:
        """Somebody does something."""
        for _ in range(self.chance.randint(0, 4)):
            match self.chance.random():
                case choice if choice < 0.45:
                    self._apply(self.chance.choice(list(self.logs.values())))
                case choice if choice < 0.992:
                    next(self.chance.choice(self._programs))
                case _:
                    self.chance.choice(list(self.logs.values())).held = None  # too slow, or deposed

    # ---- programs

    def _apply(self, log: Log) -> None:
        if log.waiting:
            part, command = log.waiting.popleft()
            (outcome,) = log.machine.apply([address(part) + command])
            assert not isinstance(outcome, Rejected), outcome.error

    def _program(self, number: int) -> Iterator[None]:
        """One transaction after the other, each in a range and on shards of other groups, step by step."""
        while True:
            ranged = self.chance.choice([status_group(each) for each in range(GROUPS)])
            shards = self.chance.sample(range(GROUPS), self.chance.randint(2, GROUPS))
            self._micros += 1
            request = f"{number} {self._micros}"
            yield from self._submit(ranged, cmd.encode(cmd.BeginTxns(request, 1, "ada", "", 1_000, self._micros)))
            txn_id = self._begun(ranged, request)
            tables = [(shard_group(each), ParticipantId(f"{each}.0")) for each in shards]
            for part, table in tables:
                registers = cmd.RegisterParticipants(txn_id, "ada", (Participant(table, table),))
                yield from self._submit(ranged, cmd.encode(registers))
                yield from self._submit(
                    part, shard_cmd.encode(shard_cmd.OpenWrite(txn_id, table, "ada", "w", begins=True))
                )
            if self.chance.random() < 0.1:
                continue  # it stays open
            prepared = Timestamp(self._next())
            yield from self._submit(ranged, cmd.encode(cmd.BeginCommit(txn_id, "ada", self._micros, prepared)))
            elsewhere = [each for each in tables if self.state.parts[each[0]] != self.state.parts[ranged]]
            if not elsewhere:
                continue  # it was decided in that entry
            for part, table in elsewhere:
                yield from self._submit(part, shard_cmd.encode(shard_cmd.BeginCommit(txn_id, table, prepared)))
            decision = cmd.FinalizeCommit(
                txn_id, Timestamp(self._next()), now_micros=self._micros, prepared=len(elsewhere)
            )
            yield from self._submit(ranged, cmd.encode(decision))
            at = self._table(ranged).get(txn_id).commit_ts
            for part, table in elsewhere:
                yield from self._submit(part, shard_cmd.encode(shard_cmd.FinalizeCommit(txn_id, table, at)))
            yield from self._submit(ranged, cmd.encode(cmd.CompleteCommit(txn_id, self._micros)))

    def _submit(self, part: str, command: bytes) -> Iterator[None]:
        """Waits while the group is held, and then until it has applied."""
        log = self.logs[self.state.parts[part]]
        while log.held is not None:
            yield
        entry = (part, command)
        log.waiting.append(entry)
        while any(each is entry for each in log.waiting):
            yield

    def _next(self) -> int:
        self._micros += 1
        return self._micros << 20

    def _begun(self, ranged: str, request: str) -> TxnId:
        (record,) = self._table(ranged).begun_by(request) or ()
        return record.txn_id

    def _table(self, ranged: str) -> TxnStatusTable:
        machine: Any = self.logs[self.state.parts[ranged]].machine
        table: TxnStatusTable = machine.machines[ranged].table
        return table

    # ---- whoever cuts

    async def cut(self) -> Cut:
        """Raises Unavailable where all groups could not be held."""
        backups = Backups(cast(Any, Calls(self)))
        response = await backups.cut_cluster(pb.CutClusterRequest())
        groups: dict[str, Parts] = {}
        for each in response.groups:
            data = b""
            request = pb.ReadCutRequest(cut_id=response.cut_id, group=each.group, node_id=each.node_id)
            answer = pb.ReadCutResponse()
            while not answer.is_last:
                await self.turn()
                answer = await backups.read_cut(request)
                data += answer.data
                request.piece += 1
            if each.group != CATALOG:
                groups[each.group] = _restored(data)
        return Cut(self.state, groups)


def _restored(data: bytes) -> Parts:
    machine = group_machine(lambda: SPAN, HybridClock(lambda: 0))
    restoring, offset = machine.restoring(), 0
    while offset < len(data):
        found = read_frame(data, offset)
        assert found is not None, "the bytes of a snapshot are frames"
        kind, payload = found
        if kind == CHUNK:
            restoring.add(payload)
        offset += HEADER_BYTES + len(payload)
    restoring.finish()
    return machine


class Calls:
    """What of a TxnSystemClient a cut needs: calls to the groups' leaders, on the way of which others have turns."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.random = world.chance
        self.cluster = self

    @property
    def state(self) -> CatalogState:
        return self._world.state

    def update(self, _state: CatalogState) -> None:
        pass

    def replicas(self, group: str) -> tuple[str, ...]:
        return self.state.replicas(group)

    async def call_leader(
        self, group: str, method: str, request: Message, _response: type[Message], _timeout: float
    ) -> Message:
        if method == "txnstatus.Catalog/GetCatalog":
            return self.state.to_wire()
        return await self._call(group, method, request)

    async def call_node(
        self, _node: str, method: str, request: Message, _response: type[Message], _timeout: float, group: str = ""
    ) -> Message:
        return await self._call(group, method, request)

    async def _call(self, group: str, method: str, request: Message) -> Message:
        handler = {
            full_name(each): name
            for each, name in zip(
                pb.DESCRIPTOR.services_by_name["CutHolder"].methods, ("hold_group", "take_cut", "read_cut"), strict=True
            )
        }[method]
        for _ in range(self._world.chance.randint(0, 8)):
            await self._world.turn()
        answer: Message = await getattr(self._world.nodes[group], handler)(request)
        for _ in range(self._world.chance.randint(0, 8)):
            await self._world.turn()
        return answer
