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

from tests.badinput.ways import EACH, METHODS, MOVE, WAYS, WRONG_HERE
from tests.badinput.wire import mutations
from tests.badinput.world import MAX_MESSAGE_CHARACTERS, OWNER, Answer, World
from tests.support import rest_in_campaigns
from txnstatus.errors import InternalError, InvalidArgument, NotAuthorized, NotFound, Unavailable
from txnstatus.proto import audit_pb2, common_pb2

ONE_EACH = {
    *{name: (name, kind) for name, kind in WAYS}.values(),
    *{name.split("/")[0]: (name, kind) for name, kind in WAYS if not kind}.values(),
}
"""Each method, by the last who answers it: where a node and a leader do, the leader, who looks at all of it.
And a method of each service by the node, which decodes and passes on all of them alike."""
EACH_NTH = 2
"""Wrong forms of a request, of which a field has several: each run of the tests takes every second one."""
ENDED = "is not taken"
"""What the error says by which a compaction ends: a worker whose output is wrong has failed."""


def check(what: str, answer: Answer) -> None:
    if answer.response is not None:
        response = GetMessageClass(METHODS[what.split(",")[0]].output_type).FromString(answer.response)
        assert "INTERNAL" not in set(_codes(response)), f"{what}: {response}"
    if answer.error is None:
        return
    assert not answer.made_by_grpc, f"{what}: no handler answered: {answer.status} {answer.error}"
    assert not isinstance(answer.error, InternalError), f"{what}: {answer.error}"
    elsewhere = re.search(
        r"has no replica of|does not lead|the catalog of n1 does not know ", answer.error.message, re.DOTALL
    )
    assert not answer.error.retriable or elsewhere, f"{what}: it would be sent again and again: {answer.error}"
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
    assert {name for name, _ in WAYS} == METHODS.keys()
    assert len(METHODS) >= 30
    assert len(WAYS) >= 40


@EACH
def test_a_right_request_is_answered_and_twice_is_as_good_as_once(world: World, name: str, kind: str) -> None:
    """Else the tests below would test nothing."""
    payload, group = world.request(METHODS[name]).SerializeToString(), world.group(kind)
    if name in WRONG_HERE:
        check(name, world.send(name, payload, group=group))
        return
    first = world.send(name, payload, group=group)
    assert first.error is None, f"{name}: {first.error}"
    before = world.quiet()
    second = world.send(name, payload, group=group)
    assert second.error is None, f"the same request again: {second.error}"
    assert world.quiet() == before


@pytest.mark.parametrize("each_nth", rest_in_campaigns([EACH_NTH, 1], [EACH_NTH]))
@pytest.mark.parametrize("way", rest_in_campaigns(WAYS, ONE_EACH), ids=" ".join)
def test_wrong_fields(world: World, way: tuple[str, str], each_nth: int) -> None:
    name, kind = way
    method = METHODS[name]
    cases = dict(mutations(world.request(method)))
    refused = []
    for what in list(cases)[len(name) % each_nth :: each_nth]:
        answer = world.send(name, cases[what], group=world.group(kind))
        check(f"{name}, {what}", answer)
        if answer.error is None or ENDED in answer.error.message:
            cases = dict(mutations(world.request(method)))  # that one is used up
        else:
            refused.append(what)
    # Once more, and only what is refused.
    cases = dict(mutations(world.request(method)))
    before = world.quiet()
    for what in refused:
        again = world.send(name, cases[what], group=world.group(kind))
        assert again.error is not None, f"{name}, {what}: refused, and then not"
    assert world.quiet() == before, f"{name}: refused, and yet the state changed, by one of {refused}"


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


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, kind in WAYS if _names_an_owner(METHODS[name].input_type)]
)
def test_a_foreign_owner_changes_nothing(world: World, name: str, kind: str) -> None:
    request = world.request(METHODS[name])
    owned = _owned(request)
    assert owned is not None, "a right request names all of it"
    before = world.quiet()
    for owner in ("", "mallory", OWNER.upper(), OWNER + " ", OWNER + "\0"):
        owned.owner = owner
        answer = world.send(name, request.SerializeToString(), group=world.group(kind))
        if "txn_ids" in owned.DESCRIPTOR.fields_by_name:
            assert answer.error is None, "answered id by id"
            assert b"NOT_AUTHORIZED" in (answer.response or b"")
        else:
            assert isinstance(answer.error, NotAuthorized), f"{owner!r}: {answer.error}"
    assert world.quiet() == before


def test_right_requests_go_where_their_transactions_are(world: World) -> None:
    """Pins: once a right request had filled the first range, those after it named one that knew nothing of theirs."""
    world.open_txn()
    world.fill_range()
    name = "txnstatus.TxnManager/AbortTransaction"
    request = world.request(METHODS[name]).SerializeToString()
    assert world.send(name, request, group=world.group("range")).error is None


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


@pytest.mark.parametrize("group", ["shard-7", "status-4294967295", "nobody", "x" * 1_000])
def test_a_group_that_is_not_here(world: World, group: str) -> None:
    requests = {name: world.request(method).SerializeToString() for name, method in METHODS.items()}
    before = world.quiet()
    for name, payload in requests.items():
        answer = world.send(name, payload, group=group)
        assert answer.error is not None, name
        assert group[:100] in answer.error.message
        assert isinstance(answer.error, Unavailable), "the caller's catalog may be older than the node's, or newer"
    assert world.quiet() == before


@pytest.mark.parametrize(
    ("rpc", "field", "pattern"), [("CreateTable", "name", "bad.other{}"), ("Lock", "table", "other{}")]
)
def test_what_another_shard_keeps_is_not_made_here(world: World, rpc: str, field: str, pattern: str) -> None:
    """A table, or a lock on a database, that its own shard knows nothing of would be there for nobody."""
    name = f"txnstatus.Table/{rpc}"
    request = world.request(METHODS[name])
    elsewhere = next(other for other in map(pattern.format, range(100)) if not world.keeps(other))
    setattr(request, field, elsewhere)
    before = world.quiet()
    answer = world.send(name, request.SerializeToString(), group=world.group("shard"))
    assert isinstance(answer.error, InvalidArgument), answer
    assert f"{elsewhere} is kept by shard-" in answer.error.message
    assert world.quiet() == before


def test_a_group_that_has_no_such_method(world: World) -> None:
    """What the node answers by itself, or another kind of group."""
    requests = {name: world.request(METHODS[name]).SerializeToString() for name in METHODS.keys() - {MOVE}}
    answered = {(name, world.group(kind)) for name, kind in WAYS}
    before = world.quiet()
    for name, payload in requests.items():
        for group in map(world.group, ("range", "shard", "catalog")):
            if (name, group) not in answered:
                answer = world.send(name, payload, group=group)
                assert isinstance(answer.error, InvalidArgument), f"{name} of {group}: {answer.error}"
    assert world.quiet() == before


def test_what_only_leaders_answer_needs_a_group(world: World) -> None:
    requests = {name: world.request(METHODS[name]) for name in METHODS if (name, "") not in WAYS}
    before = world.quiet()
    for name, request in requests.items():
        answer = world.send(name, request.SerializeToString())
        assert isinstance(answer.error, InvalidArgument), f"{name}: {answer.error}"
    assert world.quiet() == before


@pytest.mark.parametrize("shard", [7, 2**32 - 1])
def test_a_shard_that_there_is_not(world: World, shard: int) -> None:
    requests = {
        "txnstatus.Audit/AuditShard": audit_pb2.AuditShardRequest(shard=shard),
        "txnstatus.Audit/AuditTable": audit_pb2.AuditTableRequest(table_id=f"{shard}.1"),
        "txnstatus.Audit/AdoptDirectories": audit_pb2.AdoptDirectoriesRequest(table_id=f"{shard}.1", names=["x"]),
    }
    before = world.quiet()
    for name, request in requests.items():
        answer = world.send(name, request.SerializeToString())
        assert isinstance(answer.error, NotFound), f"{name}: {answer.error}"
        assert str(shard) in answer.error.message
    assert world.quiet() == before
