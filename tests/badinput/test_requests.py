"""Every RPC with every field missing, out of range, of the wrong type, too much, foreign, and twice.

A clear error of the error table, or success where it is legal; never INTERNAL, never a hang, never a node that ends;
and whoever is refused has changed nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import grpc
import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tests.badinput.wire import mutations
from tests.badinput.world import MAX_MESSAGE_CHARACTERS, OWNER, Answer, World, full_name, methods
from txnstatus.errors import InternalError, NotAuthorized
from txnstatus.proto import common_pb2

LEFT_OUT = {
    "txnstatus.Catalog/ChangeCatalog": "takes a cluster apart: test_catalog_changes.py has one for each change",
    "txnstatus.Admin/RemoveForeign": "is a change of the catalog, too",
    "txnstatus.Foreign/Participate": "is served by no node, but by the host of a foreign participant",
}
"""Left out, and why."""
NEEDS_MORE_NODES = {"txnstatus.Admin/ReplaceNode", "txnstatus.Admin/MoveReplica"}
"""Here they are wrong whatever they say."""
METHODS = {full_name(method): method for method in methods() if full_name(method) not in LEFT_OUT}
EACH = pytest.mark.parametrize("name", METHODS)


def check(what: str, answer: Answer) -> None:
    if answer.response is not None:
        response = GetMessageClass(METHODS[what.split(",")[0]].output_type).FromString(answer.response)
        assert "INTERNAL" not in set(_codes(response)), f"{what}: {response}"
    if answer.error is None:
        return
    assert not answer.made_by_grpc, f"{what}: no handler answered: {answer.status} {answer.error}"
    assert not isinstance(answer.error, InternalError), f"{what}: {answer.error}"
    wrong_node = re.search(r"has no replica of|does not lead", answer.error.message)
    assert not answer.error.retriable or wrong_node, f"{what}: it would be sent again and again: {answer.error}"
    assert 10 < len(answer.error.message) < MAX_MESSAGE_CHARACTERS, f"{what}: {answer.error.message[:200]!r}"
    assert re.search(r"[a-z]{3}", answer.error.message), f"{what}: no sentence: {answer.error}"


def _codes(message: Message) -> Iterator[str]:
    """The codes of all errors inside a response: batches are answered part by part."""
    if isinstance(message, common_pb2.ErrorDetail):
        yield message.code
    for field, value in message.ListFields():
        if field.message_type and not field.message_type.GetOptions().map_entry:
            for part in value if field.is_repeated else (value,):
                yield from _codes(part)


def test_every_service_is_here() -> None:
    assert {name.split("/")[0] for name in METHODS} >= {
        f"txnstatus.{service}" for service in ("Admin", "Participant", "Table", "TxnManager", "TxnStatus")
    }
    assert len(METHODS) >= 30


@EACH
def test_a_right_request_is_answered_and_twice_is_as_good_as_once(world: World, name: str) -> None:
    """Else the tests below would test nothing."""
    payload = world.request(METHODS[name]).SerializeToString()
    if name in NEEDS_MORE_NODES:
        check(name, world.send(name, payload))
        return
    first = world.send(name, payload)
    assert first.error is None, f"{name}: {first.error}"
    before = world.quiet()
    second = world.send(name, payload)
    assert second.error is None, f"the same request again: {second.error}"
    assert world.quiet() == before


@EACH
def test_wrong_fields(world: World, name: str) -> None:
    method = METHODS[name]
    cases = dict(mutations(world.request(method)))
    refused = set()
    for what in list(cases):
        answer = world.send(name, cases[what])
        check(f"{name}, {what}", answer)
        if answer.error is not None:
            refused.add(what)
        else:
            cases = dict(mutations(world.request(method)))  # that one is used up
    # Once more, and only what is refused.
    cases = dict(mutations(world.request(method)))
    before = world.quiet()
    for what in refused:
        assert world.send(name, cases[what]).error is not None, f"{name}, {what}: refused, and then not"
    assert world.quiet() == before, f"{name}: refused, and yet the state changed, by one of {sorted(refused)}"


def _owned(message: Message) -> Message | None:
    """The part of a request that names a transaction and its owner."""
    names = message.DESCRIPTOR.fields_by_name
    if "owner" in names and ("txn_id" in names or "txn_ids" in names):
        return message
    for field, value in message.ListFields():
        if field.message_type and not field.is_repeated and (found := _owned(value)) is not None:
            return found
    return None


def _names_an_owner(message: Descriptor) -> bool:
    names = message.fields_by_name
    parts = (field.message_type for field in message.fields if field.message_type and not field.is_repeated)
    return ("owner" in names and ("txn_id" in names or "txn_ids" in names)) or any(map(_names_an_owner, parts))


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if _names_an_owner(method.input_type)])
def test_a_foreign_owner_changes_nothing(world: World, name: str) -> None:
    request = world.request(METHODS[name])
    owned = _owned(request)
    assert owned is not None, "a right request names all of it"
    before = world.quiet()
    for owner in ("", "mallory", OWNER.upper(), OWNER + " ", OWNER + "\0"):
        owned.owner = owner
        answer = world.send(name, request.SerializeToString())
        if "txn_ids" in owned.DESCRIPTOR.fields_by_name:
            assert answer.error is None, "answered id by id"
            assert b"NOT_AUTHORIZED" in (answer.response or b"")
        else:
            assert isinstance(answer.error, NotAuthorized), f"{owner!r}: {answer.error}"
    assert world.quiet() == before


def test_a_message_that_is_too_large(world: World) -> None:
    """gRPC itself refuses it; the node goes on."""
    before = world.quiet()
    for name in ("txnstatus.TxnManager/BeginTransaction", "txnstatus.Participant/Participate"):
        answer = world.send(name, bytes(65 << 20), timeout=60)
        assert answer.status is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert world.quiet() == before


def test_a_method_that_is_not_there(world: World) -> None:
    for name in ("txnstatus.TxnManager/DropEverything", "txnstatus.Nobody/Home", "/", "txnstatus.TxnManager/"):
        assert world.send(name, b"").status is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("shard", [7, 2**32 - 1])
def test_a_shard_that_is_not_here(world: World, shard: int) -> None:
    requests = {
        name: world.request(method) for name, method in METHODS.items() if "shard" in method.input_type.fields_by_name
    }
    assert len(requests) >= 7
    before = world.quiet()
    for name, request in requests.items():
        request.shard = shard
        answer = world.send(name, request.SerializeToString())
        assert answer.error is not None, name
        assert str(shard) in answer.error.message
        assert not isinstance(answer.error, InternalError)
    assert world.quiet() == before
