"""The socket over which Spark's JVM asks, and the errors that go back through it."""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from txnclient.sparksql import bridge, failures
from txnstatus.errors import (
    CommitUnknown,
    Conflict,
    IllegalState,
    InvalidArgument,
    NotAuthorized,
    TxnError,
    Unavailable,
)

Serve = Callable[[bridge.Answers], tuple[str, bridge.Address]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    catalogs = list[str]()

    def serve(answers: bridge.Answers) -> tuple[str, bridge.Address]:
        catalogs.append(uuid.uuid4().hex)
        return catalogs[-1], bridge.serve(catalogs[-1], answers)

    yield serve
    for catalog in catalogs:
        bridge.stop(catalog)


def send(address: bridge.Address, line: bytes) -> dict[str, Any]:
    with socket.create_connection(("127.0.0.1", address.port), timeout=20) as connection:
        connection.sendall(line)
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile() as answers:
            found: dict[str, Any] = json.loads(answers.readline())
            return found


def call(address: bridge.Address, catalog: str, request: Any, token: str | None = None) -> dict[str, Any]:
    told = {"token": address.token if token is None else token, "catalog": catalog, "method": "m", "request": request}
    return send(address, json.dumps(told).encode() + b"\n")


class Java:
    """A Java exception, as py4j shows it."""

    def __init__(
        self, kind: str, message: str | None, cause: Java | None = None, suppressed: tuple[Java, ...] = ()
    ) -> None:
        self.kind, self.message, self.cause, self.suppressed = kind, message, cause, suppressed

    def getClass(self) -> Java:  # noqa: N802
        return self

    def getName(self) -> str:  # noqa: N802
        return self.kind

    def getMessage(self) -> str | None:  # noqa: N802
        return self.message

    def getSuppressed(self) -> tuple[Java, ...]:  # noqa: N802
        return self.suppressed

    def getCause(self) -> Java | None:  # noqa: N802
        return self.cause


def found_in(java: Java) -> Exception | None:
    return failures.find(failures.java_causes(java))


def found(error: dict[str, Any]) -> Exception | None:
    """What is raised where Java wraps the error once more."""
    ours = Java("txnstatus.spark.PythonError", f"[{error['ticket']}] {error['kind']}: {error['message']}")
    return found_in(Java("org.apache.spark.SparkException", None, ours))


def test_calls_are_answered_by_their_catalog(serve: Serve) -> None:
    one, address = serve(lambda method, request: [method, request, 1])
    other, same = serve(lambda method, request: "grö ße\n")
    assert address == same, "a process has one server"
    assert call(address, one, {"a": [1]}) == {"answer": ["m", {"a": [1]}, 1]}
    assert call(address, other, {}) == {"answer": "grö ße\n"}


def test_an_error_is_the_same_one_on_the_other_side(serve: Serve) -> None:
    raised = Conflict("rows 1, 2 were changed", hint="again")

    def refuse(method: str, request: dict[str, Any]) -> Any:
        raise raised

    catalog, address = serve(refuse)
    error = call(address, catalog, {})["error"]
    assert (error["kind"], error["code"]) == ("Conflict", "CONFLICT")
    assert found(error) is raised
    assert found_in(Java("org.apache.spark.SparkException", f"[{error['ticket']}]")) is None
    told = Java("txnstatus.spark.PythonError", f"[{error['ticket']}] Conflict: rows")
    lost = Java("java.io.FileNotFoundException", "the directory is gone", suppressed=(told,))
    assert found_in(Java("org.apache.spark.SparkException", None, lost)) is raised, "as it was given up, it was told"
    assert found_in(Java("txnstatus.spark.PythonError", f"[{'0' * 32}] of another process")) is None


def test_what_begins_in_the_jvm_has_its_code_in_its_text() -> None:
    day = Java("java.lang.IllegalStateException", "[txnstatus INVALID_ARGUMENT] column 'day':\nno day")
    failed = found_in(Java("org.apache.spark.SparkException", "Job aborted due to ...", day))
    assert type(failed) is InvalidArgument
    assert failed.message == "column 'day':\nno day"
    again = Java("java.lang.IllegalStateException", "[txnstatus UNAVAILABLE] no answer to abort")
    silent = Java("java.lang.IllegalStateException", "[txnstatus COMMIT_UNKNOWN] no answer", suppressed=(again,))
    assert type(found_in(Java("org.apache.spark.SparkException", None, silent))) is CommitUnknown
    over = Conflict("it is over")
    told = Java("txnstatus.spark.PythonError", f"[{failures.keep(over)}] Conflict: it is over")
    ended = Java("java.lang.IllegalStateException", "[txnstatus COMMIT_UNKNOWN] no answer", suppressed=(told,))
    assert found_in(ended) is over, "as the statement was given up, the outcome was told"
    for other in ("[txnstatus WHATEVER] x", "of [txnstatus UNAVAILABLE] x", None):
        assert found_in(Java("java.lang.IllegalStateException", other)) is None


def test_a_server_of_spark_connect_tells_of_causes_or_no_more_than_a_text() -> None:
    raised = Conflict("rows 1, 2 were changed")
    text = f"[{failures.keep(raised)}] Conflict: rows 1, 2 were changed"
    wrapped = SimpleNamespace(error_type_hierarchy=["org.apache.spark.SparkException"], message="Writing job failed.")
    ours = SimpleNamespace(error_type_hierarchy=["txnstatus.spark.PythonError"], message=text)
    for said, errors in (("Writing job failed.", [wrapped, ours]), (f"(txnstatus.spark.PythonError) {text}", None)):
        details = errors and SimpleNamespace(errors=errors)
        assert failures.find(failures.connect_causes(said, details)) is raised
    silent = SimpleNamespace(error_type_hierarchy=[], message="[txnstatus UNAVAILABLE] no answer to hello")
    told = failures.find(failures.connect_causes("no answer", SimpleNamespace(errors=[wrapped, silent])))
    assert type(told) is Unavailable
    assert failures.find(failures.connect_causes(f"somebody prints {text}", None)) is None


@pytest.mark.parametrize(
    ("change", "kind"),
    [({"token": "guessed"}, NotAuthorized), ({"catalog": "gone"}, IllegalState), ({"token": "ü"}, NotAuthorized)],
)
def test_who_may_not_ask_is_told(serve: Serve, change: dict[str, str], kind: type[TxnError]) -> None:
    catalog, address = serve(lambda method, request: "secret")
    answer = call(address, change.get("catalog", catalog), {}, change.get("token"))
    assert "answer" not in answer
    assert type(found(answer["error"])) is kind


def test_what_is_no_call_is_answered_with_an_error(serve: Serve) -> None:
    _, address = serve(lambda method, request: "secret")
    for line in (b"", b"GET / HTTP/1.1\r\n", b"[]\n", b'{"token": 1}\n'):
        assert "ticket" in send(address, line)["error"]


def test_a_catalog_that_is_stopped_is_not_served(serve: Serve) -> None:
    catalog, address = serve(lambda method, request: 1)
    assert bridge.is_served(catalog)
    bridge.stop(catalog)
    assert not bridge.is_served(catalog)
    assert call(address, catalog, {})["error"]["code"] == "ILLEGAL_STATE"


def test_errors_are_kept_for_a_time_only() -> None:
    tickets = [failures.keep(ValueError(str(number))) for number in range(failures.KEPT + 1)]
    gone, kept = (found_in(Java("txnstatus.spark.PythonError", f"[{ticket}] ValueError")) for ticket in tickets[:2])
    assert gone is None
    assert str(kept) == "1"
