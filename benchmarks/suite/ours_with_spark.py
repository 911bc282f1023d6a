"""A cluster of ours beside a process with a Spark session, which takes its turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.suite.model import Settings
from benchmarks.suite.ours import OurCluster
from benchmarks.suite.processes import needs_modules
from benchmarks.suite.turns.spark import SparkProcess, Turns


class OurSpark(OurCluster):
    """What the process does in a turn, `turns` says."""

    def __init__(self, settings: Settings, turns: Turns) -> None:
        super().__init__(settings)
        self._turns = turns
        self._spark: SparkProcess | None = None

    def missing(self) -> str | None:
        return super().missing() or needs_modules("pyspark")

    def start(self, directory: Path) -> None:
        super().start(directory)
        self._spark = SparkProcess(self.cluster.addresses, directory, self._turns)

    def stop(self) -> None:
        if self._spark is not None:
            self._spark.stop()
            self._spark = None
        super().stop()

    @property
    def spark(self) -> SparkProcess:
        assert self._spark is not None, "it was not started"
        return self._spark

    def pids(self) -> Mapping[str, Sequence[int]]:
        return {**super().pids(), "spark": [self.spark.pid]}
