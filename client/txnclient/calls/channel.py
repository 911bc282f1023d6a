"""Calls to any living manager: synchronous, retried by request until a deadline."""

from __future__ import annotations

import copy
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from txnclient.calls import forking
from txnclient.calls.connections import Connections
from txnclient.calls.traces import Contexts, calling
from txnstatus.backoff import Backoff
from txnstatus.errors import InvalidArgument, LimitReached, TxnError, Unauthenticated, Unavailable
from txnstatus.proto.common_pb2 import ErrorDetail
from txnstatus.rpc.attempts import Attempts, NoAnswer
from txnstatus.rpc.errors import NOT_SERVED, from_detail
from txnstatus.rpc.identity import OtherCluster
from txnstatus.tracing import spans

ResponseT = TypeVar("ResponseT", bound=Message)

ATTEMPT_SECONDS = 10.0
ATTEMPTS = 3
"""Attempts that fit into a deadline when there are others to ask: one manager that hangs takes no more than one."""
BAD_SECONDS = 2.0
"""Time for which a manager that failed is asked last."""
MOVES = 0.25
"""Chance with which a manager that had to ask another node is left for that one. So whoever asks two leaders in turns
is with the right one half the time, and not always on its way to the other; nor do many clients move all at once."""
RETRIES = Backoff(first_seconds=0.02, most_seconds=0.5, growth=1.5)
LATER = 1.5
"""Factor by which a client that asked for too much waits longer than it is told, at most: not all come at once."""
NOBODY = "check that the cluster runs and that these addresses are its nodes'"
"""The hint where nobody said another."""


class ManagerChannel:
    """Managers keep nothing, so any of them will do: the last that answered is asked first, unless it had to ask
    another node. That one is nearer.

    Every request is idempotent by its content, so it is simply sent to the next one. Safe to use from many threads.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        connections: Connections | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`connections`, by default its own, and `pause`: how whoever calls goes to nodes, and waits for so many
        seconds before it tries again."""
        self.addresses = tuple(addresses)
        self.pause = pause
        self.traces: Contexts = {}
        self._roster = Roster(random.sample(self.addresses, len(self.addresses)))
        self._lock = threading.Lock()
        self.connections = connections or Connections()
        forking.register(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self.connections.after_fork()

    def attempt_seconds(self, timeout: float) -> float:
        """How long one manager is waited for, of the `timeout` seconds that a call has."""
        return min(ATTEMPT_SECONDS, timeout / min(ATTEMPTS, len(self.addresses)))

    def call(
        self,
        method: str,
        request: Message,
        response: type[ResponseT],
        *,
        timeout: float,
        attempt_seconds: float | None = None,
        on_repeat: Callable[[], None] | None = None,
    ) -> ResponseT:
        """`on_repeat` runs before every attempt after one that may have been made: it may change the request.

        Raises the final answer, or Unavailable with what was tried and what each manager said last. What is refused for
        its rate is asked again when it may be done, if that is in time.
        """
        if spans.tracer is None:
            return self._call(method, request, response, timeout, attempt_seconds, on_repeat)
        with calling(self.traces, method, request) as trace:
            return self._call(method, request, response, timeout, attempt_seconds, on_repeat, trace)

    def _call(
        self,
        method: str,
        request: Message,
        response: type[ResponseT],
        timeout: float,
        attempt_seconds: float | None,
        on_repeat: Callable[[], None] | None,
        trace: bytes = b"",
    ) -> ResponseT:
        deadline = time.monotonic() + timeout
        attempt_seconds = attempt_seconds or self.attempt_seconds(timeout)
        rounds, attempts = 0, Attempts()
        wrong: dict[str, TxnError] = {}
        while True:
            address = self._choose()
            left = max(0.001, deadline - time.monotonic())
            try:
                answer, led_at = self._attempt(address, method, request, response, min(left, attempt_seconds), trace)
            except (_NoManager, OtherCluster, Unauthenticated) as error:
                wrong[address] = copy.copy(error)  # without its traceback, which holds the frames of handles
                if wrong.keys() >= set(self.addresses):
                    raise self._nobody(method, wrong) from None
                attempts.failed(address, error)
            except LimitReached as error:
                pause = error.again_seconds * random.uniform(1.0, LATER)
                if not pause or time.monotonic() + pause >= deadline:
                    raise
                self.pause(pause)
                continue  # nothing was done: it is no repetition
            except TxnError as error:
                if not error.retriable:
                    raise
                attempts.failed(address, error)
            else:
                with self._lock:
                    self._roster.answered(address)
                    if led_at and random.random() < MOVES:
                        self._roster.prefer(led_at, time.monotonic())
                return answer
            now = time.monotonic()
            pause = 0.0
            if not self._failed(address, now):
                rounds += 1
                pause = RETRIES.pause(rounds, random.random())
            if now + pause >= deadline:
                raise attempts.error(f"{method} was not done within {timeout:g} s", hint=NOBODY)
            if pause:
                self.pause(pause)
            if on_repeat is not None:
                on_repeat()

    def _nobody(self, method: str, wrong: Mapping[str, TxnError]) -> TxnError:
        """None of the addresses is of a manager of this cluster, or none takes this process for who it is."""
        for error in wrong.values():
            if isinstance(error, OtherCluster):
                return InvalidArgument(error.message, hint=error.hint)
            if isinstance(error, Unauthenticated):
                return error
        told = "; ".join(error.message for error in wrong.values())
        return InvalidArgument(
            f"none of {', '.join(self.addresses)} answers {method}: {told}",
            hint="give the addresses of nodes that have the manager role",
        )

    def to(self, address: str, expected: str = "") -> ManagerChannel:
        """One to another address, which shows who it is in the same way; `expected`: as for `check_process`."""
        return ManagerChannel([address], Connections(self.connections.tls, expected))

    @property
    def nearest(self) -> str:
        """The address of the manager that is asked next."""
        return self._choose()

    @property
    def cluster_id(self) -> str:
        """The id of the cluster that is meant: the first that was met. Empty: none was."""
        return self.connections.cluster_id

    def adopt(self, cluster_id: str) -> None:
        """That cluster is meant from now on, unless another one is already."""
        self.connections.adopt(cluster_id)

    def require_open(self) -> None:
        """Raises IllegalState once it is closed."""
        self.connections.require_open()

    def close(self) -> None:
        """What is under way fails; every later call is refused."""
        self.connections.close()

    def _attempt(
        self, address: str, method: str, request: Message, response: type[ResponseT], timeout: float, trace: bytes
    ) -> tuple[ResponseT, str]:
        """The answer, and where the node is that the manager had to ask; empty: it asked none."""
        reply = self.connections.call(address, method, request.SerializeToString(), timeout, trace)
        if reply.HasField("error"):
            raise _meaning(reply.error, address)
        try:
            return response.FromString(reply.payload), reply.led_at
        except DecodeError:
            raise NoAnswer(f"{address}: an answer that does not read") from None

    def _choose(self) -> str:
        with self._lock:
            return self._roster.choose(time.monotonic())

    def _failed(self, address: str, now: float) -> bool:
        with self._lock:
            return self._roster.failed(address, now)


class Roster:
    """The manager to ask next. It has no clock."""

    def __init__(self, addresses: Sequence[str]) -> None:
        """`addresses`: in the order in which they are asked. It is by chance, or all clients of one that ends would
        go to the same one next."""
        self._addresses = tuple(addresses)
        self._turn = 0
        self._bad_until: dict[str, float] = {}

    def choose(self, now: float) -> str:
        """The one that answered last, or the next one if it failed; first those that did not fail lately."""
        rotated = [*self._addresses[self._turn :], *self._addresses[: self._turn]]
        return min(rotated, key=lambda address: max(now, self._bad_until.get(address, now)))

    def answered(self, address: str) -> None:
        self._bad_until.pop(address, None)
        self._turn = self._addresses.index(address)

    def prefer(self, address: str, now: float) -> None:
        """This one is asked next, if it is one of them and has not failed lately."""
        if address in self._addresses and self._bad_until.get(address, now) <= now:
            self._turn = self._addresses.index(address)

    def failed(self, address: str, now: float) -> bool:
        """Whether there is another one to ask at once."""
        self._bad_until[address] = now + BAD_SECONDS
        if self._addresses[self._turn] == address:
            self._turn = (self._turn + 1) % len(self._addresses)
        return any(self._bad_until.get(other, now) <= now for other in self._addresses)


class _NoManager(Unavailable):
    """A node answers there, and has not the role."""


def _meaning(detail: ErrorDetail, address: str) -> TxnError:
    error = from_detail(detail)
    if isinstance(error, Unauthenticated):
        return Unauthenticated(f"{address}: {error.message}", hint=error.hint)
    return _NoManager(f"{address}: {error.message}") if error.hint == NOT_SERVED else error


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
