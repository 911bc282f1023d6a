"""What is no request at all: raw bytes on the port, broken streams, peers that do not belong."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator

import grpc
import pytest

from tests.badinput.world import World
from txnstatus.proto import raft_pb2, rpc_pb2

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SECONDS = 10.0


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


@pytest.mark.parametrize(
    "junk",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", id="HTTP/1"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), id="TLS"),
        pytest.param(os.urandom(1 << 16), id="random"),
        pytest.param(PREFACE, id="only the preface"),
        pytest.param(PREFACE + b"\xff" * 1_000, id="garbage frames"),
        pytest.param(PREFACE + _frame(4, 0, 0, b"\x00"), id="settings of one byte"),
        pytest.param(PREFACE + _frame(4, 0, 0, b"") + _frame(1, 4, 1, os.urandom(200)), id="garbage headers"),
        pytest.param(PREFACE + _frame(4, 0, 0, b"") + _frame(0, 0, 99, b"data"), id="data on no stream"),
        pytest.param(PREFACE + b"\xff\xff\xff\x00\x00" + bytes(5), id="a frame longer than all"),
    ],
)
def test_raw_bytes_harm_nobody(world: World, junk: bytes) -> None:
    """Half-open connections stay while the node is asked; then they go without a farewell."""
    before = world.quiet()
    host, port = world.cluster.addresses.split(":")
    connections = [socket.create_connection((host, int(port)), SECONDS) for _ in range(5)]
    try:
        for connection in connections:
            connection.sendall(junk)
        assert world.quiet() == before
    finally:
        for connection in connections:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
    assert world.quiet() == before


def _stream(world: World, method: str, *frames: bytes) -> tuple[list[bytes], grpc.RpcError | None]:
    """What came back until the stream ended, or as much came as was sent."""
    call = world.channel.stream_stream(f"/{method}")

    def send() -> Iterator[bytes]:
        yield from frames

    received: list[bytes] = []
    try:
        for answer in call(send(), timeout=SECONDS):
            received.append(answer)
    except grpc.RpcError as error:
        return received, error
    return received, None


def _hello(**changes: object) -> bytes:
    fields: dict[str, object] = {"cluster_id": "local", "node_id": "n2", "incarnation": 1, "protocol": 1, **changes}
    return raft_pb2.RaftFrame(hello=raft_pb2.Hello(**fields)).SerializeToString()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hello", "says"),
    [
        (_hello(cluster_id="elsewhere"), "'elsewhere'"),
        (_hello(cluster_id=""), "cluster"),
        (_hello(protocol=99), "protocol 99"),
        (_hello(node_id="n99"), "'n99'"),
        (_hello(node_id="n1"), "'n1'"),
        (_hello(node_id=""), "''"),
        (_hello(node_id="x" * 100_000), "xxx"),
        (b"", "hello"),
        (raft_pb2.RaftFrame(messages=[raft_pb2.RaftMessage(group="status-0", term=99)]).SerializeToString(), "hello"),
        (b"\xff" * 30, ""),
    ],
)
def test_a_raft_peer_that_does_not_belong_is_refused(world: World, hello: bytes, says: str) -> None:
    """And what it says of terms and votes counts for nothing."""
    before = world.quiet()
    vote = raft_pb2.RaftMessage(group="status-0", term=10_000, append_entries={"commit_index": 10_000})
    _, error = _stream(world, "txnstatus.Raft/Exchange", hello, raft_pb2.RaftFrame(messages=[vote]).SerializeToString())
    assert error is not None
    assert isinstance(error, grpc.Call)
    assert error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED
    assert says in (error.details() or "")
    assert world.quiet() == before


def test_a_raft_stream_that_ends_before_its_hello(world: World) -> None:
    before = world.quiet()
    _stream(world, "txnstatus.Raft/Exchange")
    assert world.quiet() == before


@pytest.mark.parametrize(
    ("frame", "codes"),
    [
        (rpc_pb2.Frame(), []),
        (rpc_pb2.Frame(calls=[rpc_pb2.Call(id=7, timeout_millis=1_000)]), ["INVALID_ARGUMENT"]),
        (rpc_pb2.Frame(calls=[rpc_pb2.Call(id=7, method="nobody/home", timeout_millis=1_000)]), ["INVALID_ARGUMENT"]),
        (
            rpc_pb2.Frame(
                calls=[
                    rpc_pb2.Call(
                        id=7, method="txnstatus.TxnStatus/CommitTransaction", payload=b"\xff", timeout_millis=1_000
                    )
                ]
            ),
            ["INVALID_ARGUMENT"],
        ),
        (rpc_pb2.Frame(replies=[rpc_pb2.Reply(id=7, payload=b"nobody asked")]), []),
    ],
    ids=["empty", "no method", "unknown method", "garbage", "a reply"],
)
def test_frames_that_make_no_sense(world: World, frame: rpc_pb2.Frame, codes: list[str]) -> None:
    good = rpc_pb2.Frame(calls=[rpc_pb2.Call(id=8, method="txnstatus.Admin/GetNode", timeout_millis=10_000)])
    call = world.channel.stream_stream("/txnstatus.Mux/Connect")
    frames = iter([frame.SerializeToString(), good.SerializeToString()])
    replies: dict[int, rpc_pb2.Reply] = {}
    answers = call(_and_wait(frames), timeout=SECONDS)
    for answer in answers:
        replies.update({reply.id: reply for reply in rpc_pb2.Frame.FromString(answer).replies})
        if 8 in replies and len(replies) == 1 + len(codes):
            break
    answers.cancel()
    assert [reply.error.code for reply in replies.values() if reply.id == 7] == codes
    assert not replies[8].HasField("error"), "the stream goes on"


def _and_wait(frames: Iterator[bytes]) -> Iterator[bytes]:
    """The requesting side stays open until the call is cancelled."""
    yield from frames
    threading.Event().wait(SECONDS)


def test_garbage_on_the_frames_of_a_stream_ends_that_stream_only(world: World) -> None:
    before = world.quiet()
    for method in ("txnstatus.Mux/Connect", "txnstatus.Raft/Exchange"):
        _, error = _stream(world, method, b"\xff" * 100)
        assert error is None or error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED  # type: ignore[attr-defined]
    assert world.quiet() == before
