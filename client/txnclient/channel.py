"""Calls to any living manager: synchronous, retried by request until a deadline."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Sequence
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from txnstatus.errors import IllegalState, InvalidArgument, TxnError, Unavailable
from txnstatus.rpc.errors import from_rpc_error
from txnstatus.rpc.server import GRPC_OPTIONS

ResponseT = TypeVar("ResponseT", bound=Message)

ATTEMPT_SECONDS = 10.0
PAUSE_SECONDS = 0.02
PAUSE_MAX_SECONDS = 0.5


class ManagerChannel:
    """Managers keep nothing, so any of them will do: the last that answered is asked first.

    Every request is idempotent by its content. Safe to use from many threads, and in a forked child.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        self.addresses = tuple(addresses)
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._channels: dict[str, grpc.Channel] = {}
        self._closed = False
        self._turn = random.randrange(len(self.addresses))

    def call(
        self,
        method: str,
        request: Message,
        response: type[ResponseT],
        *,
        timeout: float,
        attempt_seconds: float = ATTEMPT_SECONDS,
    ) -> ResponseT:
        """Raises the final answer, or Unavailable with the addresses tried."""
        deadline = time.monotonic() + timeout
        pause = PAUSE_SECONDS
        while True:
            turn = self._turn
            address = self.addresses[turn % len(self.addresses)]
            left = max(0.001, deadline - time.monotonic())
            try:
                return self._attempt(address, method, request, response, min(left, attempt_seconds))
            except TxnError as error:
                if not error.retriable:
                    raise
                # Its text alone: an exception kept here would keep its frames, and through them the caller's handles,
                # which must become garbage when their owner drops them.
                last = error.message
            self._turn = turn + 1
            if time.monotonic() + pause >= deadline:
                raise Unavailable(
                    f"no manager answered within {timeout:g} s; tried {', '.join(self.addresses)}; last: {last}",
                    hint="check that the cluster runs and that these addresses are its nodes'",
                )
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 1.5, PAUSE_MAX_SECONDS)

    def close(self) -> None:
        """What is under way fails; every later call is refused."""
        with self._lock:
            self._closed = True
            channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.close()

    def _attempt(
        self, address: str, method: str, request: Message, response: type[ResponseT], timeout: float
    ) -> ResponseT:
        call = self._channel(address).unary_unary(
            f"/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        try:
            answer: ResponseT = call(request, timeout=timeout)
        except grpc.RpcError as error:
            raise from_rpc_error(error, address) from None
        except ValueError as error:
            raise Unavailable(f"{address}: {error}") from error  # closed by another thread a moment ago
        return answer

    def _channel(self, address: str) -> grpc.Channel:
        with self._lock:
            if self._closed:
                raise IllegalState("the client is closed")
            if self._pid != os.getpid():
                # The parent's channels do not work here, and closing them would end the parent's calls.
                self._channels, self._pid = {}, os.getpid()
            channel = self._channels.get(address)
            if channel is None:
                channel = self._channels[address] = grpc.insecure_channel(address, options=GRPC_OPTIONS)
            return channel


def parse_addresses(addresses: str | Sequence[str]) -> tuple[str, ...]:
    """Raises InvalidArgument for anything but `host:port`, comma-separated or as a sequence."""
    parts = addresses.split(",") if isinstance(addresses, str) else list(addresses)
    cleaned = tuple(part.strip() for part in parts if part.strip())
    if not cleaned:
        raise InvalidArgument("no address given: expected host:port, or several, comma-separated")
    for address in cleaned:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise InvalidArgument(f"address {address!r}: expected host:port")
    return cleaned
