"""What the plans of Spark's that have run tell of their scans."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def metrics(frame: DataFrame) -> list[dict[str, int]]:
    """What the scans of a plan that has run tell of their files."""
    plan = frame._jdf.queryExecution().executedPlan()
    plan = plan.executedPlan() if "AdaptiveSparkPlan" in plan.getClass().getName() else plan
    waiting, found = [plan], []
    while waiting:
        node = waiting.pop()
        if "QueryStage" in node.getClass().getName():
            waiting.append(node.plan())
        if node.metrics().contains("filesRead"):
            found.append({
                name: node.metrics().apply(name).value() for name in ("filesRead", "filesSkipped", "rowsDeleted")
            })  # fmt: skip
        waiting.extend(node.children().apply(n) for n in range(node.children().size()))
    return found


def shown(spark: SparkSession) -> list[dict[str, str]]:
    """What Spark's UI tells of the scans of a plan that has run last: it adds up what tasks have told by itself."""
    store = spark._jsparkSession.sharedState().statusStore()
    last = store.executionsList(int(store.executionsCount()) - 1, 1).apply(0)
    values, nodes = store.executionMetrics(last.executionId()), store.planGraph(last.executionId()).allNodes()
    found = []
    for at in range(nodes.size()):
        told = [nodes.apply(at).metrics().apply(n) for n in range(nodes.apply(at).metrics().size())]
        if nodes.apply(at).name().startswith("BatchScan"):
            found.append({each.name(): values.get(each.accumulatorId()).get() for each in told})
    return found
