"""The calling side inside the cluster: one stream to a process carries all calls to it."""

from __future__ import annotations

import asyncio
import itertools
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from txnstatus.errors import TxnError, Unavailable
from txnstatus.proto import rpc_pb2 as pb
from txnstatus.rpc.errors import from_detail, from_rpc_error
from txnstatus.rpc.server import GRPC_OPTIONS

ResponseT = TypeVar("ResponseT", bound=Message)


class PeerChannel:
    """Calls to one address. A broken stream fails what was under way, and the next call makes a new one."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._channel: grpc.aio.Channel | None = None
        self._session: _Session | None = None

    async def call(self, method: str, request: Message, response: type[ResponseT], timeout: float) -> ResponseT:
        """Raises the TxnError the peer answered with, or Unavailable."""
        if self._session is None or self._session.closed:
            if self._channel is None:
                self._channel = grpc.aio.insecure_channel(self.address, options=GRPC_OPTIONS)
            self._session = _Session(self._channel, self.address)
        payload = await self._session.call(method, request.SerializeToString(), timeout)
        return response.FromString(payload)

    async def close(self) -> None:
        if self._session is not None:
            self._session.close(Unavailable(f"{self.address}: the channel was closed"))
        if self._channel is not None:
            await self._channel.close()
        self._session = self._channel = None


def _serialize(frame: pb.Frame) -> bytes:
    return frame.SerializeToString()


class _Session:
    """One life of the stream. Calls of one loop turn leave in one frame."""

    def __init__(self, channel: grpc.aio.Channel, address: str) -> None:
        self.closed = False
        self._address = address
        self._ids = itertools.count(1)
        self._outgoing: list[pb.Call] = []
        self._pending: dict[int, asyncio.Future[bytes]] = {}
        self._wake = asyncio.Event()
        self._stream: grpc.aio.StreamStreamCall[pb.Frame, pb.Frame] = channel.stream_stream(
            "/txnstatus.Mux/Connect",
            request_serializer=_serialize,
            response_deserializer=pb.Frame.FromString,
        )()
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._read())]

    async def call(self, method: str, payload: bytes, timeout: float) -> bytes:
        call_id = next(self._ids)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._pending[call_id] = future
        self._outgoing.append(
            pb.Call(id=call_id, method=method, payload=payload, timeout_millis=max(1, int(timeout * 1000)))
        )
        self._wake.set()
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            raise Unavailable(f"{self._address} did not answer {method} within {timeout:.1f} s") from None
        finally:
            self._pending.pop(call_id, None)

    async def _write(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                calls, self._outgoing = self._outgoing, []
                if calls:
                    await self._stream.write(pb.Frame(calls=calls))
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            self._broken(error)

    async def _read(self) -> None:
        try:
            async for frame in self._stream:
                for reply in frame.replies:
                    self._deliver(reply)
            self.close(Unavailable(f"{self._address} ended the stream"))
        except grpc.RpcError as error:
            self._broken(error)

    def _deliver(self, reply: pb.Reply) -> None:
        future = self._pending.get(reply.id)
        if future is None or future.done():
            return
        if reply.HasField("error"):
            future.set_exception(from_detail(reply.error))
        else:
            future.set_result(reply.payload)

    def _broken(self, error: BaseException) -> None:
        known = from_rpc_error(error, self._address) if isinstance(error, grpc.RpcError) else None
        self.close(Unavailable(known.message if known else f"{self._address}: {error}"))

    def close(self, error: TxnError) -> None:
        if self.closed:
            return
        self.closed = True
        for future in self._pending.values():
            if not future.done():
                future.set_exception(error)
        self._stream.cancel()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
