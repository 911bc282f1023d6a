"""A transaction as what Spark's own SQL runs in."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, overload

from txnclient.transaction import blocks
from txnclient.transaction.statements import Statements
from txnstatus.errors import InvalidArgument

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class InSpark(Statements):
    """Statements of a session of Spark's are the transaction's, as long as it says so."""

    def spark(self, session: SparkSession) -> AbstractContextManager[None]:
        """Within the block all statements of Spark's own SQL in the session are of this transaction: docs/sql.md.

        Raises IllegalState for a session to which no catalog of the cluster is attached, where the session or the
        transaction has such a block already, and, as it ends, where a statement of another thread still writes.
        """
        return blocks.within(self, session)

    @overload
    def sql(self, script: str, args: Mapping[str, Any] | None = None, /) -> pa.Table: ...
    @overload
    def sql(self, spark: SparkSession, script: str, args: Mapping[str, Any] | None = None, /) -> DataFrame: ...
    def sql(self, first: Any, second: Any = None, args: Any = None, /) -> Any:
        """Runs statements of SQL, with `;` between them, as part of this transaction: docs/sql.md.

        `txn.sql(spark, script)` is Spark's own SQL, and returns the last one's rows as a DataFrame. `txn.sql(script)`
        goes without Spark, needs `txnstatus[sql]`, and returns them as a pyarrow Table. A last argument has the values
        of parameters, `:name`. Raises as `spark`, and what a statement raises; then the transaction can only be
        aborted.
        """
        if isinstance(first, str):
            return self.handle.session.engine.within(self, first, second)
        if not isinstance(second, str):
            raise InvalidArgument(f"SQL is text: sql(script) or sql(spark, script), not {type(first).__name__}")
        if not isinstance(args, Mapping | None):
            raise InvalidArgument(f"args are values by the names of parameters, not {type(args).__name__}")
        self._require_session(first)
        return blocks.run(self, first, second, args)
