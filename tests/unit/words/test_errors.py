"""The one error table: both ways over the wire, and through a pickle."""

from __future__ import annotations

import pickle

import grpc
import pytest

from txnstatus import errors
from txnstatus.errors import (
    CLASS_BY_CODE,
    ERROR_CLASSES,
    Conflict,
    InternalError,
    NotTheLeader,
    TxnAborted,
    TxnError,
    Unavailable,
)
from txnstatus.proto import common_pb2 as common
from txnstatus.rpc.errors import from_detail, to_detail
from txnstatus.types import AbortCause, AbortCode, TxnId

CAUSE = AbortCause(AbortCode.CONFLICT, "t was overwritten", "air.t", TxnId(5), ("air.t", "air.u"))
EVERY = pytest.mark.parametrize("kind", ERROR_CLASSES)


def example(kind: type[TxnError], *, full: bool = True) -> TxnError:
    if not full:
        return kind("it went wrong")
    if issubclass(kind, TxnAborted):
        return kind("it went wrong", txn_id=TxnId(7), hint="try this", cause=CAUSE)
    return kind("it went wrong", txn_id=TxnId(7), hint="try this")


def fields(error: TxnError) -> tuple[object, ...]:
    return type(error), error.message, error.txn_id, error.hint, getattr(error, "cause", None), error.args


def test_every_class_is_in_the_table() -> None:
    declared = {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, TxnError) and kind is not TxnError
    }
    assert declared == set(ERROR_CLASSES)
    assert len(ERROR_CLASSES) == len(CLASS_BY_CODE), "two classes share a code"


@EVERY
def test_every_class_has_a_grpc_status_and_a_hint_of_what_to_do(kind: type[TxnError]) -> None:
    assert kind.grpc_status in grpc.StatusCode.__members__
    assert kind.__doc__
    assert CLASS_BY_CODE[kind.code] is kind


@EVERY
@pytest.mark.parametrize("full", [True, False])
def test_every_error_comes_over_the_wire_as_it_was(kind: type[TxnError], full: bool) -> None:
    error = example(kind, full=full)
    wire = common.ErrorDetail.FromString(to_detail(error).SerializeToString())
    assert fields(from_detail(wire)) == fields(error)


@EVERY
@pytest.mark.parametrize("full", [True, False])
def test_every_error_comes_out_of_a_pickle_as_it_was(kind: type[TxnError], full: bool) -> None:
    error = example(kind, full=full)
    again = pickle.loads(pickle.dumps(error))
    assert fields(again) == fields(error)
    assert str(again) == str(error)


def test_transaction_zero_is_a_transaction() -> None:
    assert from_detail(to_detail(errors.NotFound("x", txn_id=TxnId(0)))).txn_id == 0
    winner = AbortCause(AbortCode.CONFLICT, "m", "b", TxnId(0))
    answer = from_detail(to_detail(Conflict("x", cause=winner)))
    assert isinstance(answer, Conflict)
    assert answer.winner == 0


def test_an_error_of_a_newer_release_names_its_code() -> None:
    error = from_detail(common.ErrorDetail(code="QUOTA", message="too much", hint="less", txn_id=3))
    assert (type(error), error.message, error.hint, error.txn_id) == (InternalError, "QUOTA: too much", "less", 3)


def test_what_a_reader_of_an_aborted_transaction_can_ask() -> None:
    error = Conflict("lost", cause=CAUSE)
    assert (error.reason, error.by, error.winner, error.objects) == (
        "t was overwritten",
        "air.t",
        5,
        ("air.t", "air.u"),
    )
    bare = Conflict("lost")
    assert (bare.reason, bare.by, bare.winner, bare.objects) == ("", "", None, ())


def test_the_hint_is_part_of_what_is_printed() -> None:
    assert str(TxnError("it failed", hint="do this")) == "it failed\n  what to do: do this"
    assert str(TxnError("it failed")) == "it failed"
    assert NotTheLeader("not me", hint="n2").leader == "n2"


@EVERY
def test_only_what_is_unavailable_may_be_sent_again(kind: type[TxnError]) -> None:
    assert kind.retriable == issubclass(kind, Unavailable)
