"""First writes that a begin carries, as a manager looks at them."""

from __future__ import annotations

import pytest

from txnmanager import first_writes
from txnstatus.errors import InvalidArgument
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import txn_manager_pb2 as pb

FLIGHTS, KEYED = (
    common.TableInfo(table_id="0.0", name="air.flights", location="file:///w/flights"),
    common.TableInfo(
        table_id="1.0", name="air.keyed", location="file:///w/keyed", schema=common.TableSchema(primary_key=["id"])
    ),
)
WRITES = {"air.flights": "write0001", "air.keyed": "write0002"}


def asked(writes: dict[str, str], count: int = 1) -> pb.BeginTransactionRequest:
    carried = [pb.FirstWrite(table=table, write_id=write_id) for table, write_id in writes.items()]
    return pb.BeginTransactionRequest(request_id="r", owner="me", count=count, first_writes=carried)


@pytest.mark.parametrize(
    "request_",
    [
        asked({"air.flights": "write0001"}, count=2),
        asked({"flights": "write0001"}),
        asked({"air.flights": "../up"}),
        asked({f"air.t{number}": "write0001" for number in range(101)}),
        pb.BeginTransactionRequest(first_writes=2 * [pb.FirstWrite(table="air.flights", write_id="write0001")]),
    ],
)
def test_what_no_begin_can_carry_is_refused(request_: pb.BeginTransactionRequest) -> None:
    with pytest.raises(InvalidArgument):
        first_writes.checked(request_)


def test_a_table_with_a_key_takes_part_and_has_no_directory_yet() -> None:
    request = asked(WRITES)
    first_writes.checked(request)
    wanted = first_writes.participants(request, [FLIGHTS, KEYED])
    assert [(each.participant_id, each.name, each.first_write) for each in wanted] == [
        ("0.0", "air.flights", "write0001"),
        ("1.0", "air.keyed", ""),
    ]
    begun = pb.BeginTransactionResponse(txn_ids=[7], participants=wanted)
    (opened,) = first_writes.opened(wanted, [FLIGHTS, KEYED], begun)
    assert (opened.table, opened.directory) == (FLIGHTS, "file:///w/flights/delta_7_write0001")


@pytest.mark.parametrize(
    "recorded",
    [
        [],
        [common.ParticipantInfo(participant_id="0.0", first_write="write0009")],
        [common.ParticipantInfo(participant_id="0.3", first_write="write0001")],
    ],
)
def test_what_the_transaction_did_not_begin_with_is_not_open(recorded: list[common.ParticipantInfo]) -> None:
    """Another call with the request id began it; or the table was dropped and made anew between two attempts."""
    wanted = first_writes.participants(asked({"air.flights": "write0001"}), [FLIGHTS])
    begun = pb.BeginTransactionResponse(txn_ids=[7], participants=recorded)
    assert first_writes.opened(wanted, [FLIGHTS], begun) == []
