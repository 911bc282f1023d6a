"""`txnctl log-level` goes on past nodes that do not do as they are told, and names them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from txndeploy.ctl import commands
from txnstatus.errors import InvalidArgument, TxnError, Unauthenticated, Unavailable
from txnstatus.proto import admin_pb2 as pb

ERRORS: dict[str, TxnError] = {"n1": Unauthenticated("n1 is not known"), "n2": Unavailable("n2 is away")}


class Channel:
    def __init__(self, node: str, errors: dict[str, TxnError]) -> None:
        self._error = errors.get(node)

    def call(self, *_: Any, **__: Any) -> pb.SetLogLevelResponse:
        if self._error is not None:
            raise self._error
        return pb.SetLogLevelResponse(levels=[{"logger": "", "level": "DEBUG"}])

    def close(self) -> None:
        pass


def said(monkeypatch: pytest.MonkeyPatch, errors: dict[str, TxnError]) -> Any:
    @contextlib.contextmanager
    def connect(*_: Any, **__: Any) -> Iterator[Any]:
        channel = SimpleNamespace(to=lambda address, _name: Channel(address, errors))
        yield SimpleNamespace(session=SimpleNamespace(channel=channel))

    nodes = {node: SimpleNamespace(address=node) for node in ("n1", "n2", "n3")}
    monkeypatch.setattr("txnclient.connect", connect)
    monkeypatch.setattr("txndeploy.terminal.listings.catalog", lambda _client: SimpleNamespace(nodes=nodes))
    return CliRunner().invoke(commands.app, ["log-level", "DEBUG", "--cluster", "h:1", "--json"])


def test_each_node_is_told_whatever_another_one_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that refused the connection ended it, and those behind it in the alphabet kept their levels."""
    ran = said(monkeypatch, ERRORS)
    assert ran.exit_code == 1
    assert '"node": "n3"' in ran.stdout
    assert "n1 did not do it: n1 is not known" in ran.stderr
    assert "n2 did not answer: n2 is away" in ran.stderr


def test_what_no_node_takes_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = InvalidArgument("there is no level 'DEBUG'")
    ran = said(monkeypatch, dict.fromkeys(("n1", "n2", "n3"), wrong))
    assert ran.exit_code == 1
    assert ran.stderr.count("there is no level") == 1
