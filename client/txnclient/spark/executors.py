"""Work that is no query, done in Spark's executors."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

from txnstatus.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PartT = TypeVar("PartT")
DoneT = TypeVar("DoneT")


LOOK_SECONDS = 0.5
"""Time between two looks whether the work is still wanted."""


def in_executors(
    spark: SparkSession,
    work: Callable[[PartT], DoneT],
    parts: Sequence[PartT],
    wanted: Callable[[], object] = lambda: None,
) -> list[DoneT]:
    """What comes of each part, each a task of its own, which Spark may run more than once.

    `wanted`: is called meanwhile; what it raises ends the job. Raises InvalidArgument for a session that has no
    executors to give, as those of Spark Connect.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise InvalidArgument("a session of Spark Connect runs queries alone: use a classic one, or none")
    from pyspark import inheritable_thread_target

    context, group = spark.sparkContext, f"txnstatus-{uuid.uuid4().hex}"

    @inheritable_thread_target(spark)
    def job() -> list[DoneT]:
        context.setJobGroup(group, "txnstatus", interruptOnCancel=True)
        return context.parallelize(parts, max(1, len(parts))).map(work).collect()

    with ThreadPoolExecutor(1, "spark-job") as thread:
        running: Future[list[DoneT]] = thread.submit(job)
        try:
            while not wait([running], LOOK_SECONDS).done:
                wanted()
        except BaseException:
            context.cancelJobGroup(group)
            raise
        return running.result()
