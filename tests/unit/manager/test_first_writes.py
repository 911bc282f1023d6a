"""First writes that a begin carries, as a manager looks at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from txnmanager import first_writes
from txnmanager.keepers import Keepers
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import InvalidArgument, NotFound, TxnError, Unavailable
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.calls import Call

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
    before = pb.BeginTransactionResponse(txn_ids=[7], begun_before=True, participants=wanted)
    for begun in (pb.BeginTransactionResponse(txn_ids=[7]), before):
        first_writes.add_opened(begun, wanted, [FLIGHTS, KEYED])
        (opened,) = begun.first_writes
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
    begun = pb.BeginTransactionResponse(txn_ids=[7], begun_before=True, participants=recorded)
    first_writes.add_opened(begun, wanted, [FLIGHTS])
    assert not begun.first_writes


class Leaders:
    """Leaders of shards, which answer when the test has them. The first letter of a table's name is its shard."""

    def __init__(self) -> None:
        self.cluster = self
        self.asked: list[tuple[str, list[Call]]] = []

    def shard_of_table(self, name: str) -> int:
        return ord(name[0])

    def ask_leader(self, group: str, _method: str, calls: Sequence[Call], *_rest: object) -> None:
        self.asked.append((group, list(calls)))

    def looked_up(self, *names: str) -> list[Any]:
        """What is told of the tables; it may come later."""
        told: list[Any] = []
        first_writes.look_up(Keepers(cast(TxnSystemClient, self)), names, 9.0, told.append)
        return told


def info(name: str) -> table_pb.GetTableResponse:
    return table_pb.GetTableResponse(table=common.TableInfo(name=name))


def test_tables_are_asked_for_together_by_shard_and_told_in_their_order_once_all_are_known() -> None:
    leaders = Leaders()
    told = leaders.looked_up("a.1", "b.1", "a.2")
    assert [(group, [call.request.name for call in calls]) for group, calls in leaders.asked] == [
        ("shard-97", ["a.1", "a.2"]),
        ("shard-98", ["b.1"]),
    ]
    assert {call.answer_by for _, calls in leaders.asked for call in calls} == {9.0}
    for _, calls in reversed(leaders.asked):
        for call in reversed(calls):
            assert not told
            call.tell(info(call.request.name))
    assert [[table.name for table in found] for found in told] == [["a.1", "b.1", "a.2"]]


@pytest.mark.parametrize("error", [NotFound("no such table"), Unavailable("nobody leads")])
def test_the_first_table_that_is_not_to_be_had_is_told_and_nothing_after_that(error: TxnError) -> None:
    leaders = Leaders()
    told = leaders.looked_up("a.1", "b.1")
    (_, (first,)), (_, (second,)) = leaders.asked
    second.tell(error)
    assert told == [error]
    first.tell(info("a.1"))
    assert told == [error]
