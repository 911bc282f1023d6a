"""Commands on the wire: they come back as they were, garbage is refused, and the bytes stay what they are."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.harness.wire_commands import (
    SHARD_GOLDEN,
    STATUS_GOLDEN,
    shard_commands,
    status_commands,
)
from txnparticipant.shard import commands as shard_cmd
from txnstatus.errors import TxnError
from txnstatus.proto import participant_pb2, txn_status_pb2
from txnstatus.status import commands as status_cmd


@pytest.mark.parametrize(("command", "golden"), STATUS_GOLDEN)
def test_the_bytes_of_status_commands_stay(command: status_cmd.Command, golden: str) -> None:
    assert status_cmd.encode(command).hex() == golden
    assert status_cmd.decode(bytes.fromhex(golden)) == command


@pytest.mark.parametrize(("command", "golden"), SHARD_GOLDEN)
def test_the_bytes_of_shard_commands_stay(command: shard_cmd.Command, golden: str) -> None:
    assert shard_cmd.encode(command).hex() == golden
    assert shard_cmd.decode(bytes.fromhex(golden)) == command


def test_every_command_is_here() -> None:
    for message, golden in (
        (txn_status_pb2.StatusCommand, [g for _, g in STATUS_GOLDEN]),
        (participant_pb2.ShardCommand, [g for _, g in SHARD_GOLDEN]),
    ):
        known = {field.name for field in message.DESCRIPTOR.oneofs_by_name["command"].fields}
        assert {message.FromString(bytes.fromhex(g)).WhichOneof("command") for g in golden} == known


# ---- round trips


@settings(deadline=None, max_examples=200)
@given(status_commands)
def test_status_commands_come_back_as_they_were(command: status_cmd.Command) -> None:
    assert status_cmd.decode(status_cmd.encode(command)) == command


@settings(deadline=None, max_examples=200)
@given(shard_commands)
def test_shard_commands_come_back_as_they_were(command: shard_cmd.Command) -> None:
    assert shard_cmd.decode(shard_cmd.encode(command)) == command


# ---- garbage

REFUSALS = (ValueError, DecodeError)


@pytest.mark.parametrize("decode", [status_cmd.decode, shard_cmd.decode], ids=["status", "shard"])
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff" * 10, id="no protobuf"),
        pytest.param(b"\x0a\x7f", id="cut"),
        pytest.param(b"\xc2\x3e\x00", id="a command of a newer release"),
        pytest.param(b"\x0a\x03\x0a\x01\xff", id="no UTF-8"),
    ],
)
def test_what_is_no_command_is_refused(decode: object, data: bytes) -> None:
    assert callable(decode)
    with pytest.raises(REFUSALS):
        decode(data)


def test_a_cause_of_a_newer_release_is_refused() -> None:
    wire = txn_status_pb2.StatusCommand()
    wire.expire.cause.code = "boredom"
    with pytest.raises(ValueError, match="boredom"):
        status_cmd.decode(wire.SerializeToString())


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=40))
def test_any_bytes_are_a_command_or_refused(data: bytes) -> None:
    for decode, encode in ((status_cmd.decode, status_cmd.encode), (shard_cmd.decode, shard_cmd.encode)):
        try:
            command = decode(data)
        except (*REFUSALS, TxnError):
            continue
        assert decode(encode(command)) == command
