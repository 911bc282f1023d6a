"""A transaction as what Spark's own SQL runs in."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from txnclient import blocks
from txnclient.statements import Statements

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class InSpark(Statements):
    """Statements of a session of Spark's are the transaction's, as long as it says so."""

    def spark(self, session: SparkSession) -> AbstractContextManager[None]:
        """Within the block all statements of Spark's own SQL in the session are of this transaction: docs/sql.md.

        Raises IllegalState for a session to which no catalog of the cluster is attached, where the session or the
        transaction has such a block already, and, as it ends, where a statement of another thread still writes.
        """
        return blocks.within(self, session)

    def sql(self, spark: SparkSession, script: str, args: Mapping[str, Any] | None = None) -> DataFrame:
        """Runs statements of Spark's own SQL, with `;` between them, as part of this transaction: docs/sql.md.

        Returns the rows of the last one. `args`: values of the parameters in it, `:name`. Raises as `spark`, and what a
        statement raises; then the transaction can only be aborted.
        """
        return blocks.run(self, spark, script, args)
