"""What is no request at all: raw bytes on the port, broken frames, peers that do not belong."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable

import pytest

from tests.badinput.world import World
from txnstatus.proto import raft_pb2, rpc_pb2
from txnstatus.raft.transport import PROTOCOL
from txnstatus.rpc.connection import MAX_FRAME_BYTES, OPENING, Purpose

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
        pytest.param(OPENING[:2], id="half an opening"),
        pytest.param(OPENING + b"?" + bytes(100), id="an opening for nothing"),
        pytest.param(OPENING + b"C", id="calls, and none comes"),
        pytest.param(OPENING + b"C" + struct.pack(">I", 1_000) + b"half", id="half a frame"),
        pytest.param(OPENING + b"C" + struct.pack(">I", MAX_FRAME_BYTES + 1), id="a frame that is too long"),
        pytest.param(OPENING + b"R" + struct.pack(">I", 0), id="an empty frame"),
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


def _talk(
    world: World, purpose: Purpose, *frames: bytes, until: Callable[[list[bytes]], bool] = lambda _: False
) -> list[bytes]:
    """The frames that came back until the node ended the connection, or enough came."""
    host, port = world.cluster.addresses.split(":")
    received: list[bytes] = []
    with socket.create_connection((host, int(port)), SECONDS) as connection:
        connection.settimeout(SECONDS)
        connection.sendall(OPENING + purpose.value + b"".join(struct.pack(">I", len(each)) + each for each in frames))
        stream = connection.makefile("rb")
        while not until(received) and (length := stream.read(4)):
            received.append(stream.read(struct.unpack(">I", length)[0]))
    return received


def _hello(**changes: object) -> bytes:
    fields = {"cluster_name": "local", "node_id": "n2", "incarnation": 1, "protocol": PROTOCOL, **changes}
    return raft_pb2.RaftFrame(hello=raft_pb2.Hello(**fields)).SerializeToString()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hello", "says"),
    [
        (_hello(cluster_name="elsewhere"), "'elsewhere'"),
        (_hello(cluster_name=""), "cluster"),
        (_hello(cluster_id="local.0123"), "'local.0123'"),
        (_hello(protocol=PROTOCOL + 1), f"protocol {PROTOCOL + 1}"),
        (_hello(protocol=PROTOCOL - 1), f"protocol {PROTOCOL - 1}"),
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
    answers = _talk(world, Purpose.RAFT, hello, raft_pb2.RaftFrame(messages=[vote]).SerializeToString())
    assert [says in raft_pb2.RaftFrame.FromString(answer).refusal for answer in answers] == [True] * bool(says)
    assert world.quiet() == before


def test_a_raft_peer_that_says_nothing_is_left(world: World) -> None:
    before = world.quiet()
    assert _talk(world, Purpose.RAFT) == []
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
                        id=7, method="txnstatus.TxnManager/CommitTransaction", payload=b"\xff", timeout_millis=1_000
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
    replies: dict[int, rpc_pb2.Reply] = {}

    def enough(answers: list[bytes]) -> bool:
        for answer in answers:
            replies.update({reply.id: reply for reply in rpc_pb2.Frame.FromString(answer).replies})
        return 8 in replies and len(replies) == 1 + len(codes)

    _talk(world, Purpose.CALLS, frame.SerializeToString(), good.SerializeToString(), until=enough)
    assert [reply.error.code for reply in replies.values() if reply.id == 7] == codes
    assert not replies[8].HasField("error"), "the connection goes on"


def test_garbage_in_a_frame_ends_that_connection_only(world: World) -> None:
    before = world.quiet()
    for purpose in Purpose:
        assert _talk(world, purpose, b"\xff" * 100) == []
    assert world.quiet() == before
