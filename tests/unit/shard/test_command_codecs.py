"""Commands in the log: they come back as they were, garbage is refused, and the bytes stay what they are."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
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
from txnstatus.status import commands as status_cmd


@pytest.mark.parametrize(("command", "golden"), STATUS_GOLDEN)
def test_the_bytes_of_status_commands_stay(command: status_cmd.Command, golden: str) -> None:
    assert status_cmd.encode(command).hex() == golden
    assert status_cmd.decode(bytes.fromhex(golden)) == command


@pytest.mark.parametrize(("command", "golden"), SHARD_GOLDEN)
def test_the_bytes_of_shard_commands_stay(command: shard_cmd.Command, golden: str) -> None:
    assert shard_cmd.encode(command).hex() == golden
    assert shard_cmd.decode(bytes.fromhex(golden)) == command


@pytest.mark.parametrize(
    ("union", "golden"),
    [(status_cmd.Command, STATUS_GOLDEN), (shard_cmd.Command, SHARD_GOLDEN)],
    ids=["status", "shard"],
)
def test_every_command_is_here(union: Any, golden: list[tuple[object, str]]) -> None:
    assert {type(command) for command, _ in golden} == set(get_args(union))


@pytest.mark.parametrize(
    ("decode", "golden"),
    [(status_cmd.decode, STATUS_GOLDEN), (shard_cmd.decode, SHARD_GOLDEN)],
    ids=["status", "shard"],
)
def test_a_command_of_a_release_with_fewer_or_more_fields(decode: Any, golden: list[tuple[Any, str]]) -> None:
    """Fields are only appended: what is not there yet is what it was before; what is not known is left out if empty."""
    for command, data in golden:
        words = msgspec.msgpack.decode(bytes.fromhex(data))
        assert decode(msgspec.msgpack.encode([*words, 0])) == command
        with pytest.raises(ValueError, match="in this version"):
            decode(msgspec.msgpack.encode([*words, "of a later release"]))
        kind = type(command)
        needed = kind.__struct_fields__[: len(kind.__struct_fields__) - len(kind.__struct_defaults__)]
        earlier = decode(msgspec.msgpack.encode(words[: 1 + len(needed)]))
        assert earlier == kind(*(getattr(command, name) for name in needed))


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


@pytest.mark.parametrize("decode", [status_cmd.decode, shard_cmd.decode], ids=["status", "shard"])
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff" * 10, id="no array"),
        pytest.param(b"\x95\x02\x07", id="cut"),
        pytest.param(b"\x92\xcd\x03\xe8\x00", id="a command of a newer release"),
        pytest.param(b"\x94\x0a\x07\xa1\xff\x90", id="no UTF-8"),
        pytest.param(b"\x93\x04\x07\xa1a", id="text for a number"),
    ],
)
def test_what_is_no_command_is_refused(decode: object, data: bytes) -> None:
    assert callable(decode)
    with pytest.raises(ValueError):  # noqa: PT011
        decode(data)


def test_a_cause_of_a_newer_release_is_refused() -> None:
    cause = {"code": "boredom", "message": "", "by": ""}
    with pytest.raises(ValueError, match="boredom"):
        status_cmd.decode(msgspec.msgpack.encode([7, 1, cause, 5]))


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=40))
def test_any_bytes_are_a_command_or_refused(data: bytes) -> None:
    for decode, encode in ((status_cmd.decode, status_cmd.encode), (shard_cmd.decode, shard_cmd.encode)):
        try:
            command = decode(data)
        except (ValueError, TxnError):
            continue
        assert decode(encode(command)) == command
