"""Values of logs and snapshots as a newer version writes them: with fields that this one does not know."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from txnparticipant.rows.memrowset import RowBatch
from txnparticipant.shard import commands as shard_cmd
from txnstatus.replicated import Stored, decoder
from txnstatus.status import commands as status_cmd
from txnstatus.types import NO_TIMESTAMP, TxnId

EMPTY = (0, "", False, None, [], b"")
BEGIN = status_cmd.BeginTxns("r1", 1, "ada", "", 1_000, 0)
ROWS = shard_cmd.WriteRows(TxnId(7), "1.1", "ada", NO_TIMESTAMP, 0, RowBatch("w1", False, b"", (), b""))


def array(value: Stored) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value))


@pytest.mark.parametrize("later", EMPTY, ids=repr)
def test_a_field_of_later_that_is_empty_is_left_out(later: object) -> None:
    """What the level did not bring yet: nodes of the version before are in the cluster, and go on."""
    assert status_cmd.decode(msgspec.msgpack.encode([*array(BEGIN), later])) == BEGIN
    *begins, batch, began, registers = array(ROWS)
    data = msgspec.msgpack.encode([*begins, [*batch, later], began, registers, later])
    assert shard_cmd.decode(data) == ROWS


def test_a_field_of_later_that_says_something_is_refused() -> None:
    """It was passed over, and this replica would have come to another state than those that know it."""
    with pytest.raises(ValueError, match=r"a BeginTxns of .* fields, which has"):
        status_cmd.decode(msgspec.msgpack.encode([*array(BEGIN), 1]))
    *begins, batch, began, registers = array(ROWS)
    with pytest.raises(ValueError, match=r"a RowBatch of .* fields, which has"):
        shard_cmd.decode(msgspec.msgpack.encode([*begins, [*batch, "x"], began, registers]))


def test_a_command_of_later_is_refused() -> None:
    with pytest.raises(ValueError, match="Invalid value 99"):
        status_cmd.decode(msgspec.msgpack.encode([99, 1]))


def test_fields_of_before_have_their_defaults() -> None:
    class Begun(Stored, tag=1):
        name: str
        later: int = 0

    read = decoder(Begun)
    assert read(msgspec.msgpack.encode([1, "x"])) == Begun("x")
    with pytest.raises(ValueError, match="at least length 2"):
        read(msgspec.msgpack.encode([1]))
