"""A manager on the serving side, for tests of the ways that lead to its handlers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

from txnstatus.errors import NotFound
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.channel import PeerChannel
from txnstatus.rpc.guests import Bounds
from txnstatus.rpc.listener import Listener
from txnstatus.rpc.server import Registry
from txnstatus.security.access import Access
from txnstatus.security.bearers import Bearers
from txnstatus.security.tls import Tls

STATE = "txnstatus.TxnManager/GetTransactionState"
SECONDS = 10.0
USERS = ("alice", "bob", "loader")
"""Users who may do anything."""

METHOD = pb.DESCRIPTOR.services_by_name["TxnManager"].methods_by_name["GetTransactionState"]


class Manager:
    """Answers for even transactions at once, for odd ones that there are none; 0 hangs."""

    def __init__(self) -> None:
        self.gave_up = asyncio.Event()
        self.asked = 0
        self.meanwhile: Callable[[], object] = lambda: None
        """What happens while it answers."""

    def __getattr__(self, _name: str) -> Callable[..., Awaitable[object]]:
        async def handler(request: pb.GetTransactionStateRequest) -> pb.GetTransactionStateResponse:
            self.asked += 1
            self.meanwhile()
            if request.txn_id == 0:
                try:
                    await asyncio.sleep(SECONDS)
                except asyncio.CancelledError:
                    self.gave_up.set()
                    raise
            if request.txn_id % 2:
                raise NotFound(f"no transaction {request.txn_id}")
            return pb.GetTransactionStateResponse(txn={"txn_id": request.txn_id})

        return handler


class Served:
    """A manager on a port of its own."""

    def __init__(
        self,
        bounds: Bounds = Bounds(),  # noqa: B008 it is a value
        tls: Tls | None = None,
        bearers: Bearers | None = None,
    ) -> None:
        self.bounds = bounds
        self.tls, self.bearers = tls, bearers

    async def __aenter__(self) -> Served:
        self.manager = Manager()
        self.cluster_id = ""
        self.registry = Registry("this node", lambda: self.cluster_id)
        self.registry.access = Access(USERS)
        self.registry.add(pb.DESCRIPTOR.services_by_name["TxnManager"], self.manager)
        self.listener = Listener(self.registry, bounds=self.bounds, tls=self.tls, bearers=self.bearers)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        await self.listener.bind(self.address)
        await self.listener.start()
        self.channel = PeerChannel(self.address)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channel.close()
        self.listener.stop()

    async def state(self, txn_id: int, timeout: float = SECONDS) -> int:
        request = pb.GetTransactionStateRequest(txn_id=txn_id)
        answer = await self.channel.call(STATE, request, pb.GetTransactionStateResponse, timeout)
        return answer.txn.txn_id
