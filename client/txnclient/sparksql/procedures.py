"""What Spark asks of control statements, which its parser has refused, and of procedures, which CALL runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from txnclient.control import procedures, statements
from txnclient.control.session import SqlSession
from txnclient.control.words import Session, Words
from txnclient.sparksql.bridge import Request


def answers(session: SqlSession) -> Mapping[str, Callable[[Request], Any]]:
    """Method → what answers it."""

    def run(request: Request) -> Any:
        return procedures.run(request["procedure"], session, request["arguments"], request["session"])

    def statement(request: Request) -> Any:
        catalogs = session.catalogs()
        block = next((each.block for each in catalogs.values() if each.block is not None), None)
        meant = [name for name, each in catalogs.items() if block is None or each.cluster_id == block.cluster_id]
        where = Session(meant, request["catalog"], request["namespace"])
        return statements.called(Words(request["text"], request["words"], request["ends"], where))

    def names(_: Request) -> list[list[str]]:
        return [[name, *table.split(".", 1)] for name, each in session.catalogs().items() for table in each.names()]

    return {
        "statement": statement,
        "procedures": lambda _: list(procedures.PROCEDURES),
        "describe": lambda request: procedures.described(request["procedure"]),
        "procedure": run,
        "names": names,
        "closed": lambda request: session.closed(request["session"]),
        "bye": lambda request: session.gone(request["session"]),
    }
