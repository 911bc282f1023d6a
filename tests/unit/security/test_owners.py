"""Whose a request is: what a certificate says, whatever the request does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from txndeploy.node.roles import SERVICES
from txnstatus.errors import NotAuthorized
from txnstatus.proto import table_pb2
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.owners import check_call, claim
from txnstatus.security.principals import Kind, Principal

ALICE = Principal("air", Kind.USER, "alice")
REQUESTS = [method.input_type for service in SERVICES.values() for method in service.methods]


def filled(message: Message, owner: str) -> Message:
    """The request with something in every field of it that is a message, and this owner."""
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None:
            inner = getattr(message, field.name)
            if field.is_repeated and not field.message_type.GetOptions().map_entry:
                for _ in range(2):
                    filled(inner.add(), owner)
            elif not field.is_repeated:
                inner.SetInParent()
                filled(inner, owner)
        elif field.name == "owner":
            setattr(message, field.name, owner)
    return message


def owners(message: Message) -> Iterator[str]:
    for field, inside in message.ListFields():
        if field.name == "owner":
            yield inside
        elif field.message_type is not None:
            for each in inside if field.is_repeated else [inside]:
                if isinstance(each, Message):
                    yield from owners(each)


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.name)
def test_no_request_keeps_the_owner_that_it_says(kind) -> None:  # type: ignore[no-untyped-def]
    request = filled(GetMessageClass(kind)(), "mallory")
    told = list(owners(request))
    claim(request, ALICE)
    assert list(owners(request)) == ["alice"] * len(told)


def test_what_a_commit_carries_is_its_owners() -> None:
    write = table_pb2.AddFilesRequest(txn_id=4, owner="mallory")
    request = pb.CommitTransactionRequest(txn_id=4, owner="mallory", last_writes=[write, write])
    claim(request, ALICE)
    assert list(owners(request)) == ["alice"] * 3
    empty = pb.GetTransactionStateRequest(txn_id=4)
    claim(empty, ALICE)
    assert empty == pb.GetTransactionStateRequest(txn_id=4)


@pytest.mark.parametrize(
    ("caller", "group", "only_processes", "may"),
    [
        (ALICE, "", False, True),
        (ALICE, "shard-0", False, False),
        (ALICE, "", True, False),
        (Principal("air", Kind.NODE, "n1"), "shard-0", False, True),
        (Principal("air", Kind.HOST, "billing"), "", True, True),
    ],
)
def test_replicas_and_hosts_answer_processes_only(
    caller: Principal, group: str, only_processes: bool, may: bool
) -> None:
    if may:
        check_call(caller, "txnstatus.Table/AddFiles", group, only_processes=only_processes)
        return
    with pytest.raises(NotAuthorized, match=r"user alice of cluster air may not call txnstatus\.Table/AddFiles of"):
        check_call(caller, "txnstatus.Table/AddFiles", group, only_processes=only_processes)
