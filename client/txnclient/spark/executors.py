"""Work that is no query, done in Spark's executors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from txnstatus.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PartT = TypeVar("PartT")
DoneT = TypeVar("DoneT")


def in_executors(spark: SparkSession, work: Callable[[PartT], DoneT], parts: Sequence[PartT]) -> list[DoneT]:
    """What comes of each part, each a task of its own, which Spark may run more than once.

    Raises InvalidArgument for a session that has no executors to give, as those of Spark Connect.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise InvalidArgument("a session of Spark Connect runs queries alone: use a classic one, or none")
    return spark.sparkContext.parallelize(parts, max(1, len(parts))).map(work).collect()
