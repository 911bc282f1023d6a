"""Cuts: a group's leader holds its state still for a moment, and has it read afterwards, while it serves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from txnstatus.catalog.service import CatalogMachine
from txnstatus.errors import LimitReached, NotFound
from txnstatus.limits import MAX_CUT_ID_CHARACTERS, check_length
from txnstatus.proto import backup_pb2 as pb
from txnstatus.raft.driver import Hold, RaftDriver
from txnstatus.raft.machine import StateMachine
from txnstatus.raft.snapshot import Meta, framed

HOLD_SECONDS = 1.0
"""Time for which proposals wait at most: all groups of a cut have to be held at one moment."""
KEPT_SECONDS = 60.0
"""Time after which a cut that nobody reads is given up: what it has of the state is in memory until then."""
MAX_CUTS = 8
PIECE_BYTES = 128 << 10
"""Bytes of a piece: some milliseconds' work."""


@dataclass(slots=True)
class _Cut:
    hold: Hold
    answer: pb.HoldGroupResponse
    pieces: Iterator[pb.ReadCutResponse]
    timer: asyncio.TimerHandle | None = None
    taken: bool = False
    """Whether it was held until it was let go."""
    piece: int = -1
    """The number of the last piece that was read."""
    last: pb.ReadCutResponse | None = None


class GroupCuts:
    """Implements the CutHolder service, on each replica of a group."""

    def __init__(self, driver: RaftDriver, machine: StateMachine, node_id: str) -> None:
        self._driver, self._machine, self._node_id = driver, machine, node_id
        self._cuts: dict[str, _Cut] = {}

    async def hold_group(self, request: pb.HoldGroupRequest) -> pb.HoldGroupResponse:
        """Raises NotTheLeader, Unavailable, LimitReached."""
        self._driver.check_lease()
        check_length("cut_id", request.cut_id, MAX_CUT_ID_CHARACTERS)
        if len(self._cuts) >= MAX_CUTS:
            raise LimitReached(f"{MAX_CUTS} cuts of {self._driver.group.group} are being read")
        hold = await self._driver.hold(HOLD_SECONDS)
        # Nothing applies while it is held, so this is the state in which it came to rest.
        group, chunks = self._driver.group, self._machine.snapshot()
        meta = Meta(group.journal[-2], group.journal[-1], group.members)
        answer = pb.HoldGroupResponse(node_id=self._node_id, index=meta.last.idx)
        if isinstance(self._machine, CatalogMachine):
            answer.catalog_version = self._machine.catalog.state.version
        self._cuts[request.cut_id] = _Cut(hold, answer, _pieces(framed(group.group, meta, chunks)))
        self._keep(request.cut_id)
        return answer

    async def take_cut(self, request: pb.TakeCutRequest) -> pb.TakeCutResponse:
        """Where it was not held it is given up."""
        cut = self._cuts.get(request.cut_id)
        if cut is None:
            return pb.TakeCutResponse(held=False)
        cut.taken = cut.taken or self._driver.is_held(cut.hold)
        self._driver.let_go(cut.hold)
        if not cut.taken:
            self._give_up(request.cut_id)
        return pb.TakeCutResponse(held=cut.taken)

    async def read_cut(self, request: pb.ReadCutRequest) -> pb.ReadCutResponse:
        """Raises NotFound for one that there is not, or not any more, and for a piece that is not the next one."""
        cut = self._cuts.get(request.cut_id)
        if cut is None:
            raise NotFound(f"{self._node_id} has no cut {request.cut_id!r:.100} of {self._driver.group.group}")
        self._keep(request.cut_id)
        if request.piece == cut.piece + 1 and (following := next(cut.pieces, None)) is not None:
            cut.last, cut.piece = following, request.piece
        if cut.last is None or request.piece != cut.piece:
            raise NotFound(f"piece {request.piece} does not follow {cut.piece}, the last that was read")
        return cut.last

    def _keep(self, cut_id: str) -> None:
        """For some time from now on."""
        cut = self._cuts[cut_id]
        if cut.timer is not None:
            cut.timer.cancel()
        cut.timer = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._give_up, cut_id)

    def _give_up(self, cut_id: str) -> None:
        cut = self._cuts.pop(cut_id, None)
        if cut is not None and cut.timer is not None:
            cut.timer.cancel()


def _pieces(frames: Iterator[bytes]) -> Iterator[pb.ReadCutResponse]:
    gathered = bytearray()
    for frame in frames:
        gathered += frame
        while len(gathered) >= PIECE_BYTES:
            yield pb.ReadCutResponse(data=bytes(gathered[:PIECE_BYTES]))
            del gathered[:PIECE_BYTES]
    yield pb.ReadCutResponse(data=bytes(gathered), is_last=True)
