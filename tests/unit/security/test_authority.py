"""Who may call what: every call, by every role in every place, as on record; and faults in the table are found."""

from __future__ import annotations

import asyncio
import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tests.unit.security.matrix import TABLE, lines, requests, rights
from txndeploy.node.roles import SERVICES
from txnstatus import roles
from txnstatus.errors import NotAuthorized
from txnstatus.proto import table_pb2
from txnstatus.roles import CLUSTER, Granted, Holder, Rights, Role
from txnstatus.rpc.server import Registry
from txnstatus.security import authority
from txnstatus.security.authority import CALLS, Need
from txnstatus.security.principals import Kind, Principal

RECORD = Path(__file__).parents[2] / "fixtures" / "authority.txt"
REWRITE = "REWRITE_AUTHORITY"
ALL = {f"{service.full_name}/{method.name}": method for service in SERVICES.values() for method in service.methods}
PROCESSES = {
    "txnstatus.Admin/MoveReplica",
    "txnstatus.Admin/ReadPart",
    "txnstatus.Catalog/ChangeCatalog",
    "txnstatus.Catalog/GetCatalog",
    "txnstatus.CommitCounter/CountCommits",
    "txnstatus.CutHolder/HoldGroup",
    "txnstatus.CutHolder/ReadCut",
    "txnstatus.CutHolder/TakeCut",
    "txnstatus.Keeper/KeepOverwritten",
    "txnstatus.Participant/Participate",
    "txnstatus.SavepointHolder/DropSavepoint",
    "txnstatus.SavepointHolder/HoldSavepoint",
    "txnstatus.TxnStatus/BeginInRange",
    "txnstatus.TxnStatus/GetOutcomes",
    "txnstatus.TxnStatus/RaiseFloor",
    "txnstatus.TxnStatus/RegisterParticipants",
}
"""Calls that no user has any business with."""
ADA, NODE = Principal("air", Kind.USER, "ada"), Principal("air", Kind.NODE, "n1")


def differences() -> list[str]:
    diff = difflib.unified_diff(RECORD.read_text().splitlines(), list(lines()), lineterm="", n=0)
    return [line for line in diff if line[:2] not in ("--", "++", "@@")]


def test_every_method_of_the_wire_is_in_the_table_or_the_processes() -> None:
    assert CALLS.keys() | PROCESSES == ALL.keys()
    assert not CALLS.keys() & PROCESSES


def test_every_call_by_every_role_in_every_place_is_as_recorded() -> None:
    """A change of who may call what is a reviewed diff: REWRITE_AUTHORITY=1 records it."""
    if os.environ.get(REWRITE):
        RECORD.write_text("\n".join(lines()) + "\n")
    assert not (diff := differences()), "\n".join(diff)


@pytest.mark.parametrize("method", CALLS)
def test_every_call_is_refused_or_reaches_its_handler_where_it_is_dispatched(method: str) -> None:
    """For each role, by the registry of a node, as calls of both protocols come to it."""
    answer = GetMessageClass(ALL[method].output_type)()

    async def handler(_request: Message) -> Message:
        return answer

    registry = Registry()
    registry.add_method(ALL[method], handler)
    for request in requests(method).values():
        for role in (None, *Role):
            for place in (TABLE, "air", CLUSTER, "air.legs"):
                registry.access.rights = rights(role, place)
                payload = request.SerializeToString()
                if authority.missing(registry.access.rights, "ada", method, request) is None:
                    asyncio.run(registry.call(method, payload, caller=ADA))
                else:
                    with pytest.raises(NotAuthorized, match=f"ada may not call {method.removeprefix('txnstatus.')}"):
                        registry.read(method, payload, caller=ADA)
                registry.read(method, payload, caller=NODE)
                registry.read(method, payload, caller=None)


@pytest.mark.parametrize("method", [*sorted(PROCESSES), "txnstatus.Admin/Nothing", ""])
def test_what_the_table_does_not_have_is_nobodys(method: str) -> None:
    everything = Rights((), ["ada"])
    assert authority.missing(everything, "ada", method, table_pb2.ScanRequest()) == "a process of the cluster"


@pytest.mark.parametrize("method", CALLS)
def test_whoever_has_no_role_is_answered_about_nothing_but_his_own(method: str) -> None:
    nobody = Rights()
    for variant, request in requests(method).items():
        lacks = authority.missing(nobody, "ada", method, request)
        assert (lacks is None) == ((variant == "" and not CALLS[method]) or (method, variant) in OWN), (method, variant)


OWN = {
    ("txnstatus.TxnManager/CommitTransaction", ""),
    ("txnstatus.TxnManager/AbortTransaction", ""),
    ("txnstatus.Savepoints/ReleaseSavepoint", ""),
}


def test_a_request_that_names_many_objects_needs_the_role_on_each() -> None:
    method = "txnstatus.Savepoints/CreateSavepoint"
    (request,) = (each for name, each in requests(method).items() if name == "of tables")
    both = type(request)(tables=[TABLE, "ops.legs"])
    held = Rights([Granted(TABLE, "0.0", (Holder("ada", (Role.WRITER,)),))])
    assert authority.missing(held, "ada", method, request) is None
    assert authority.missing(held, "ada", method, both) == "writer or operator on table ops.legs"


def test_a_refusal_is_the_same_for_what_is_there_and_what_is_not() -> None:
    """The decision sees names alone."""
    held = Rights([Granted("air.there", "0.0", (Holder("bob", (Role.READER,)),))])
    texts = set()
    for name in ("air.there", "air.nowhere"):
        with pytest.raises(NotAuthorized) as told:
            authority.check(held, "ada", "txnstatus.Table/Scan", table_pb2.ScanRequest(table=name))
        texts.add(str(told.value).replace(name, "NAME"))
    assert len(texts) == 1


@pytest.mark.parametrize("name", ["", ".", "air.", ".flights", "air.flights.x", "a" * 100_000, "@", "/", "\0"])
def test_the_decision_is_total(name: str) -> None:
    for held in (Rights(), rights(Role.READER, "air"), Rights((), ["ada"])):
        request = table_pb2.ScanRequest(table=name)
        lacks = authority.missing(held, "ada", "txnstatus.Table/Scan", request)
        assert lacks is None or len(lacks) < 400


# ---- planted faults


def _changed(method: str, change: Callable[[Need], Need | None]) -> Mapping[str, Sequence[Need]]:
    full = f"txnstatus.{method}"
    needs = tuple(new for need in CALLS[full] if (new := change(need)) is not None)
    assert needs != tuple(CALLS[full])
    return {**CALLS, full: needs}


FAULTS: Mapping[str, Mapping[str, Sequence[Need]]] = {
    "whoever has any role reads": _changed("Table/Scan", lambda _: Need((), "*")),
    "writers drop tables": _changed("Table/DropTable", lambda need: replace(need, roles=(Role.WRITER,))),
    "readers add files": _changed("Table/AddFiles", lambda need: replace(need, roles=(Role.READER, Role.WRITER))),
    "what a commit carries is not looked at": _changed("TxnManager/CommitTransaction", lambda _: None),
    "what a begin carries is not looked at": _changed(
        "TxnManager/BeginTransaction", lambda need: None if need.where.startswith("first") else need
    ),
    "anybody aborts as an operator": _changed("TxnManager/AbortTransaction", lambda _: None),
    "owners make admins": _changed("Admin/Grant", lambda need: replace(need, roles=(Role.OWNER,))),
    "owners take admins away": _changed("Admin/Revoke", lambda need: replace(need, when="") if need.when else need),
    "operators of a table set options": _changed("Admin/SetOption", lambda need: replace(need, where="*")),
    "tables are made by writers of another": _changed(
        "Table/CreateTable", lambda need: replace(need, where="*", in_database=False)
    ),
    "a savepoint of all needs nothing": _changed("Savepoints/CreateSavepoint", lambda need: replace(need, where="*")),
    "any worker is given anything": _changed("Compactions/LeaseCompaction", lambda need: replace(need, where="*")),
    "readers of a table read the timeline": _changed("Timeline/ListTimeline", lambda need: replace(need, where="*")),
    "locks of writers are for readers": _changed(
        "Table/Lock", lambda need: replace(need, roles=(Role.READER,)) if Role.WRITER in need.roles else need
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_table_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authority, "_COMPILED", authority.compiled(FAULTS[fault]))
    assert differences()


@pytest.mark.parametrize(
    ("role", "more"),
    [(Role.OPERATOR, Role.READER), (Role.READER, Role.WRITER), (Role.WRITER, Role.OWNER), (Role.OWNER, Role.OPERATOR)],
)
def test_a_role_that_implies_too_much_is_found(role: Role, more: Role, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(roles._IMPLIED, role, roles._IMPLIED[role] | more.bit)
    assert differences()


def test_what_is_granted_holds_for_what_is_below_and_for_nothing_else() -> None:
    on_database = rights(Role.READER, "air")
    assert all(on_database.on("ada", name) == Role.READER.implied for name in ("air", "air.flights", "air.x.y"))
    assert not any(on_database.on("ada", name) for name in ("", "airports", "airports.gates", "ai", "ai.r", ".air"))
    assert not any(on_database.on(name, "air") for name in ("", "bob", "Ada", "ada "))
    on_table = rights(Role.OWNER, "air.flights")
    assert not any(on_table.on("ada", name) for name in ("", "air", "air.flight", "air.flights2", "flights"))
    assert on_table.sees("ada", "air")
    assert not on_table.sees("ada", "air.legs")
    assert on_table.anywhere("ada") == Role.OWNER.implied
    assert not on_table.anywhere("bob")


def test_an_admin_of_the_configuration_is_one_whatever_is_granted() -> None:
    held = Rights([Granted(CLUSTER, "", (Holder("ada", (Role.READER,)),))], ["ada"])
    assert held.on("ada", "any.thing") == Role.ADMIN.implied
