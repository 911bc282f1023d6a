"""Speaking: SQL that a client is given, with a session of Spark's or without one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, overload

from txnclient.session import Conversation, Session
from txnclient.transaction.beginning import begin
from txnstatus.errors import InvalidArgument

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class Speaking:
    """What a `Client` does with SQL."""

    session: Session

    @overload
    def sql(self, script: str, args: Mapping[str, Any] | None = None, /, *, label: str = "") -> pa.Table: ...
    @overload
    def sql(
        self, spark: SparkSession, script: str, args: Mapping[str, Any] | None = None, /, *, label: str = ""
    ) -> DataFrame: ...
    def sql(self, first: Any, second: Any = None, args: Any = None, /, *, label: str = "") -> Any:
        """Statements of SQL, with `;` between them: docs/sql.md. Several are one transaction, all of it or nothing.

        `client.sql(spark, script)`: Spark's own SQL, whatever Spark can; returns the last one's rows as a DataFrame.

        `client.sql(script)`: without Spark, by sqlglot and DuckDB, which needs `txnstatus[sql]`; returns them as a
        pyarrow Table. One statement may also be a control statement, or make, alter or drop a table.

        A last argument has the values of parameters, `:name`. Raises as `Transaction.sql`, and as its commit.
        """
        if isinstance(first, str):
            _require_one(second, args)
            return self.session.engine.alone(self, first, second, label)
        (txn,), _ = begin(self.session, 1, label, 0, uuid.uuid4().hex)
        with txn:
            return txn.sql(first, second, args)

    def sql_session(self, label: str = "") -> AbstractContextManager[Conversation]:
        """Statements of SQL one after the other, without Spark: between BEGIN and COMMIT they are one transaction.

        `with client.sql_session() as session: session.sql("BEGIN"); ...`: what is not committed at its end is rolled
        back. `label`: of transactions that it begins by itself. Needs `txnstatus[sql]`.
        """
        return self.session.engine.session(self, label)


def _require_one(second: object, args: object) -> None:
    """Raises InvalidArgument for arguments that are meant for Spark."""
    if args is not None or not isinstance(second, Mapping | None):
        raise InvalidArgument(
            f"sql(script, args): args are values by the names of parameters, not {second!r:.100}",
            hint="with Spark the session comes first: client.sql(spark, script, args)",
        )
