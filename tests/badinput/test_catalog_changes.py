"""Changes of the catalog with every field missing, out of range, of the wrong type, too much, foreign, and twice.

Some of them, right or nearly right, take a cluster apart, so each kind of change has a cluster of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError

import txnclient
from tests.badinput.wire import mutations
from tests.badinput.world import CALL_SECONDS, FOREIGN, MAX_MESSAGE_CHARACTERS, Answer, World, one_node
from tests.support import wait_until
from txnstatus import features
from txnstatus.catalog.catalog import CATALOG, from_wire
from txnstatus.errors import IllegalState, InternalError, InvalidArgument, NotFound, TxnError
from txnstatus.proto import catalog_pb2 as pb

CHANGE = "txnstatus.Catalog/ChangeCatalog"
SAID_ANEW = "register_node"
"""What a node sees to by itself: it says at once what is right."""
KINDS = [
    field.name for field in pb.CatalogCommand.DESCRIPTOR.oneofs_by_name["command"].fields if field.name != SAID_ANEW
]

FOR_ALL = "set_limit"
"""The kind whose run has the wrong forms of other kinds' fields: they are alike for all."""
EACH_NTH = {"found": 5}
"""Kinds with thousands of wrong forms, of which a run takes some: of each field, which has more, at least one."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with one_node(tmp_path) as running:
        yield running


def right(world: World, kind: str) -> pb.CatalogCommand:
    replacement = pb.CatalogCommand.ReplaceNode(old_node="n1", new_node="n2", address="127.0.0.1:1")
    return {
        "add_range": pb.CatalogCommand(add_range={"after": 0}),
        "add_group": pb.CatalogCommand(add_group={"name": "group-1"}),
        "place_database": pb.CatalogCommand(place_database={"database": "bad", "group": "group-0"}),
        "distrust": pb.CatalogCommand(distrust={"what": "user/spare"}),
        "set_limit": pb.CatalogCommand(set_limit={"identity": "alice", "name": "user_lock_waits", "value": 7}),
        "turn_ticket_key": pb.CatalogCommand(turn_ticket_key={"after": 0, "key": bytes(32)}),
        "drop_range": pb.CatalogCommand(drop_range={"number": 0, "last_commit_ts": 1}),
        "set_option": pb.CatalogCommand(set_option={"name": "keepalive_max_ms", "value": 3_600_000}),
        "replace_node": pb.CatalogCommand(replace_node=replacement),
        "move_replica": pb.CatalogCommand(move_replica={"group": "group-0", "old_node": "n1", "new_node": "n2"}),
        "finish_replacement": pb.CatalogCommand(finish_replacement={}),
        "add_node": pb.CatalogCommand(add_node={"node_id": "n9", "address": "127.0.0.1:1", "roles": ["manager"]}),
        "drain_node": pb.CatalogCommand(drain_node={"node_id": "n1", "drain": "LEADS_NOTHING"}),
        "remove_node": pb.CatalogCommand(remove_node={"node_id": "n1"}),
        "rebalance": pb.CatalogCommand(rebalance={}),
        "migrate_shard": pb.CatalogCommand(migrate_shard={"shard": 0, "group": "group-0"}),
        "split_shard": pb.CatalogCommand(split_shard={"shard": 0, "new_shard": 4}),
        "finish_migration": pb.CatalogCommand(finish_migration={"shard": 0, "number": 1}),
        "found": pb.CatalogCommand(found={"state": catalog(world)}),
        "register_foreign": pb.CatalogCommand(register_foreign={"name": "there", "address": "127.0.0.1:1"}),
        "grant": pb.CatalogCommand(grant={"object": "bad", "identity": "alice", "role": "reader"}),
        "revoke": pb.CatalogCommand(revoke={"object": "bad", "identity": "alice", "role": "reader"}),
        "forget_grants": pb.CatalogCommand(forget_grants={"table": "bad.t", "table_id": "0.0"}),
        "raise_level": pb.CatalogCommand(raise_level={"level": features.OWN.newest}),
        "remove_foreign": pb.CatalogCommand(remove_foreign={"name": FOREIGN}),
        "reserve_place": pb.CatalogCommand(reserve_place={"wanted": reservation(), "ended": ["2"]}),
        "free_place": pb.CatalogCommand(free_place={"number": "1"}),
    }[kind]


def reservation(**differing: object) -> pb.CatalogState.Reservation:
    place = ["file", "", "lake"]
    fields = {"number": "1", "owner": "alice", "table": "bad.apart", "place": place, "leads_to": place, **differing}
    return pb.CatalogState.Reservation(**fields)  # type: ignore[arg-type]


def catalog(world: World) -> pb.CatalogState:
    answer = world.send("txnstatus.Catalog/GetCatalog", pb.GetCatalogRequest().SerializeToString(), group=CATALOG)
    assert answer.response is not None, answer.error
    return pb.CatalogState.FromString(answer.response)


def refusal(what: str, answer: Answer) -> TxnError | None:
    """None: it was carried out, and says what there is now."""
    if answer.response is not None:
        from_wire(pb.CatalogState.FromString(answer.response))
        return None
    error = answer.error
    assert error is not None
    assert not answer.made_by_grpc, f"{what}: no handler answered: {answer.status} {error}"
    assert not isinstance(error, InternalError), f"{what}: {error}"
    assert not error.retriable, f"{what}: it would be sent again and again: {error}"
    assert 10 < len(error.message) < MAX_MESSAGE_CHARACTERS, f"{what}: {error.message[:200]!r}"
    return error


def kind_of(payload: bytes) -> str:
    """What a change is of; empty: it is not to be read, or of no kind."""
    try:
        return pb.CatalogCommand.FromString(payload).WhichOneof("command") or ""
    except DecodeError:
        return ""


def _is_left(kind: str, number: int, what: str, payload: bytes) -> bool:
    about = re.split(r"\W", what, maxsplit=1)[0]
    of_another = about != kind and about in pb.CatalogCommand.DESCRIPTOR.fields_by_name
    return (
        kind_of(payload) not in ("", kind)
        or (of_another and kind != FOR_ALL)
        or (not of_another and number % EACH_NTH.get(kind, 1) > 0)
    )


def _at_rest(world: World) -> pb.CatalogState | None:
    """The catalog, if nothing goes on that changes it by itself."""
    found = catalog(world)
    return None if found.migrations else found


@pytest.mark.parametrize("becomes_others", [False, pytest.param(True, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("kind", KINDS)
def test_wrong_changes(world: World, kind: str, becomes_others: bool) -> None:
    """Whatever is refused has changed nothing; whatever is not, may be sent again; and the cluster still serves.

    `becomes_others`: those that a field of another kind makes changes of that kind, which are most, and alike for all;
    and those that are left.
    """
    for number, (what, payload) in enumerate(mutations(right(world, kind))):
        if _is_left(kind, number, what, payload) is not becomes_others:
            continue
        before = catalog(world)
        if refusal(f"{kind}, {what}", world.send(CHANGE, payload, group=CATALOG)) is not None:
            assert catalog(world) == before, f"{what}: refused, and yet the catalog changed"
        else:
            after = wait_until(lambda: _at_rest(world), "no shard is being split")
            assert refusal(f"{kind}, {what}, again", world.send(CHANGE, payload, group=CATALOG)) is None
            assert catalog(world) == after, f"{what}: the second time it changed something more"
    if kind != "replace_node":  # which has given this node's place away
        with txnclient.connect(world.cluster.addresses, timeout=CALL_SECONDS) as client:
            client.begin().commit()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"set_option": {"name": "no_such_option", "value": 1}}, NotFound),
        ({"set_option": {"name": "", "value": 1}}, NotFound),
        ({"set_option": {"name": "retention_ms", "value": -1}}, InvalidArgument),
        ({"set_option": {"name": "keepalive_min_ms", "value": 2**31}}, InvalidArgument),
        ({"set_option": {"name": "keepalive_max_ms", "value": 0}}, InvalidArgument),
        ({"replace_node": {"old_node": "n7", "new_node": "n9", "address": "127.0.0.1:1"}}, NotFound),
        ({"replace_node": {"old_node": "n1", "new_node": "../n9", "address": "127.0.0.1:1"}}, InvalidArgument),
        ({"replace_node": {"old_node": "n1", "new_node": "n9", "address": "nowhere"}}, InvalidArgument),
        ({"move_replica": {"group": "group-0"}}, IllegalState),
        ({"move_replica": {"group": "group-99"}}, IllegalState),
        ({"move_replica": {"group": "catalog"}}, IllegalState),
        ({"add_node": {"node_id": "../n9", "address": "127.0.0.1:1", "roles": ["status"]}}, InvalidArgument),
        ({"add_node": {"node_id": "n9", "address": "127.0.0.1:1", "roles": ["king"]}}, InvalidArgument),
        ({"add_node": {"node_id": "n9", "address": "nowhere", "roles": ["status"]}}, InvalidArgument),
        ({"drain_node": {"node_id": "n7", "drain": "LEAVES"}}, NotFound),
        ({"drain_node": {"node_id": "n1", "drain": "LEAVES"}}, IllegalState),
        ({"drain_node": {"node_id": "n1", "drain": 7}}, InvalidArgument),
        ({"remove_node": {"node_id": "n1"}}, IllegalState),
        ({"remove_node": {"node_id": "n7"}}, NotFound),
        ({"register_foreign": {"name": "there", "address": "nowhere"}}, InvalidArgument),
        ({"register_foreign": {"name": "../there", "address": "127.0.0.1:1"}}, InvalidArgument),
        ({"remove_foreign": {"name": "there"}}, NotFound),
        ({"add_range": {"after": 7}}, IllegalState),
        ({"add_group": {"name": "group-7"}}, InvalidArgument),
        ({"place_database": {"database": "bad", "group": "group-7"}}, InvalidArgument),
        ({"place_database": {"database": "b.ad", "group": "group-0"}}, InvalidArgument),
        ({"grant": {"object": "b ad.t x.", "identity": "alice", "role": "reader"}}, InvalidArgument),
        ({"grant": {"object": "bad.t", "identity": "alice", "role": "reader"}}, InvalidArgument),
        ({"grant": {"object": "bad", "table_id": "0.0", "identity": "alice", "role": "reader"}}, InvalidArgument),
        ({"grant": {"object": "bad", "identity": "node/n1", "role": "reader"}}, InvalidArgument),
        ({"grant": {"object": "bad", "identity": "alice", "role": "king"}}, InvalidArgument),
        ({"revoke": {"object": "bad", "identity": "", "role": "reader"}}, InvalidArgument),
        ({"distrust": {"what": "node/n1"}}, IllegalState),
        ({"distrust": {"what": "admin/n1"}}, InvalidArgument),
        ({"distrust": {"what": "serial/xyz"}}, InvalidArgument),
        ({"distrust": {"what": ""}}, InvalidArgument),
        ({"set_limit": {"identity": "alice", "name": "retention_ms", "value": 7}}, NotFound),
        ({"set_limit": {"identity": "alice", "name": "", "value": 7}}, NotFound),
        ({"set_limit": {"identity": "node/n1", "name": "user_lock_waits", "value": 7}}, InvalidArgument),
        ({"set_limit": {"identity": "alice", "name": "user_lock_waits", "value": -1}}, InvalidArgument),
        ({"set_limit": {"identity": "alice", "name": "user_lock_waits", "value": 2**31}}, InvalidArgument),
        ({"reserve_place": {}}, InvalidArgument),
        ({"reserve_place": {"wanted": reservation(number="")}}, InvalidArgument),
        ({"reserve_place": {"wanted": reservation(number="x" * 101)}}, InvalidArgument),
        ({"reserve_place": {"wanted": reservation(owner="node/n1")}}, InvalidArgument),
        ({"reserve_place": {"wanted": reservation(table="bad")}}, InvalidArgument),
        ({"reserve_place": {"wanted": reservation(place=["file"])}}, InvalidArgument),
        ({"reserve_place": {"wanted": reservation(leads_to=["file", "", "x" * 5_000])}}, InvalidArgument),
        ({"turn_ticket_key": {"after": 7, "key": bytes(32)}}, IllegalState),
        ({"turn_ticket_key": {"after": 0, "key": b"short"}}, InvalidArgument),
        ({"raise_level": {"level": 0}}, IllegalState),
        ({"raise_level": {"level": features.OWN.newest + 1}}, IllegalState),
        ({"register_node": {"node_id": "n7", "oldest_level": 1, "newest_level": 9}}, NotFound),
        ({"register_node": {"node_id": "n1", "oldest_level": 9, "newest_level": 9}}, IllegalState),
        ({"register_node": {"node_id": "n1"}}, IllegalState),
        ({"drop_range": {"number": 0, "last_commit_ts": 1}}, IllegalState),
        ({"drop_range": {"number": 7, "last_commit_ts": 1}}, IllegalState),
        ({"drop_range": {"number": 0, "last_commit_ts": 2**64 - 1}}, InvalidArgument),
        ({}, InvalidArgument),
    ],
)
def test_what_does_not_exist_or_cannot_be_is_named(
    shared: World, change: dict[str, dict[str, object]], error: type[TxnError]
) -> None:
    before = shared.digest()["catalog"]
    answer = shared.send(CHANGE, pb.CatalogCommand(**change).SerializeToString(), group=CATALOG)  # type: ignore[arg-type]
    assert type(refusal(str(change), answer)) is error
    assert shared.digest()["catalog"] == before


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """For changes that are all refused."""
    with one_node(tmp_path_factory.mktemp("shared")) as running:
        yield running
