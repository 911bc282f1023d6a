"""What a node tells Prometheus of itself. Every name is in docs/operations.md, with what it means.

A leader tells what it leads, so a sum over nodes counts nothing twice. What is counted begins anew with the process.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from txndeploy import logs
from txndeploy.node.chronicler import Chronicler
from txndeploy.node.roles import Roles
from txnparticipant.leader.service import ShardService
from txnstatus.measures import Durations, Measures
from txnstatus.rpc.listener import Listener
from txnstatus.security.tls import Tls
from txnstatus.status.service import StatusService

PREFIX = "txnstatus_"


class Families(Collector):
    """What was gathered once, to be written out."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def families(roles: Roles, measures: Measures, listener: Listener, chronicler: Chronicler) -> Iterator[Metric]:
    """What the node has to say now. To be asked on its loop; the families are nobody else's."""
    yield from _transactions(roles, measures)
    yield from _steps(measures)
    yield from _groups(roles)
    yield from _snapshots(roles)
    yield from _shards(roles)
    yield from _process(roles, listener)
    yield certificates(listener.tls)
    late = HistogramMetricFamily(PREFIX + "loop_lateness_seconds", "How late the event loop was", labels=[])
    late.add_metric([], _buckets(measures.lateness), measures.lateness.seconds)
    yield late
    yield _gauge(
        "timeline_unwritten", "Transactions that have ended and are not written down yet", chronicler.unwritten
    )


def _transactions(roles: Roles, measures: Measures) -> Iterator[Metric]:
    unfinished = _gauges("unfinished_transactions", "Transactions that have not ended", "range")
    ending = _gauges("ending_transactions", "Of these, such as are being committed or aborted", "range")
    longest = _gauges("longest_ending_seconds", "How long one of these has been at it", "range")
    for part, service in roles.led_services():
        if isinstance(service, StatusService):
            unfinished.add_metric([part], len(service.table.unfinished))
            ending.add_metric([part], service.manager.ending_count)
            longest.add_metric([part], service.manager.longest_ending(time.time_ns() // 1000))
    yield from (unfinished, ending, longest)
    yield CounterMetricFamily(PREFIX + "begun_transactions", "Transactions that began here", value=measures.begun)
    ended = CounterMetricFamily(
        PREFIX + "ended_transactions",
        "Transactions that ended here, by state, and by the cause of an abort: a conflict, say",
        labels=["state", "cause"],
    )
    for (state, cause), count in measures.ended.items():
        ended.add_metric([state, cause], count)
    yield ended


def _steps(measures: Measures) -> Iterator[Metric]:
    calls = {method: durations for method, durations in measures.calls.items() if durations.count}
    yield _histogram("call_seconds", "Calls, from when one came until its answer left, waiting included", calls)
    refusals = CounterMetricFamily(
        PREFIX + "refused_calls", "Calls that were answered with an error, by its code", labels=["method", "code"]
    )
    for (method, code), count in measures.refusals.items():
        refusals.add_metric([method, code], count)
    yield refusals
    steps = {"sync": measures.syncs, "replication": measures.replications}
    yield _histogram("log_seconds", "A write of the log with its sync; commands until they had applied", steps, "step")


def _groups(roles: Roles) -> Iterator[Metric]:
    """Each replica's own, whoever leads."""
    replicas = roles.replicas.items()
    for name, meaning, value in (
        ("leads", "1 where this replica leads and is ready", lambda group: group.is_ready),
        ("knows_leader", "1 where it knows who leads", lambda group: bool(group.leader)),
        ("term", "Its Raft term", lambda group: group.term),
        ("committed_index", "The last entry that it knows to be committed", lambda group: group.commit_index),
        ("applied_index", "The last entry that it has applied", lambda group: group.applied_index),
        ("log_bytes", "Bytes of its log on disk", lambda group: group.journal.bytes),
        ("stands_still", "1 where its disk is full", lambda group: bool(group.no_room)),
    ):
        family = _gauges(f"replica_{name}", meaning, "group")
        for group, replica in replicas:
            family.add_metric([group], float(value(replica)))
        yield family


def _snapshots(roles: Roles) -> Iterator[Metric]:
    """Each replica's own, of its log: what it has written itself, since the process began."""
    written = CounterMetricFamily(PREFIX + "replica_snapshots", "Snapshots that it has written", labels=["group"])
    seconds = _gauges("replica_snapshot_seconds", "How long the last of these took", "group")
    size = _gauges("replica_snapshot_bytes", "Its size", "group")
    age = _gauges("replica_snapshot_age_seconds", "Time since then; without one, since the replica was opened", "group")
    for group, replica in roles.replicas.items():
        found = replica.compaction
        written.add_metric([group], found.completed)
        seconds.add_metric([group], found.seconds)
        size.add_metric([group], found.bytes)
        age.add_metric([group], found.age)
    yield from (written, seconds, size, age)


def _shards(roles: Roles) -> Iterator[Metric]:
    shards = {part: service.figures() for part, service in roles.led_services() if isinstance(service, ShardService)}
    for name, meaning, field in (
        ("tables", "Tables, with dropped ones that are not forgotten", "tables"),
        ("table_transactions", "Transactions that have not ended on a table, once for each table", "unfinished"),
        ("row_bytes", "Bytes of committed rows in memory that wait to be flushed", "row_bytes"),
        ("lock_waiters", "Transactions that wait for a lock of a table, once for each table", "lock_waiters"),
        ("open_compactions", "Compactions that are wanted or worked at", "compactions"),
        ("uncleaned_transactions", "Ended ones with directories that are to be removed, by table", "to_clean"),
    ):
        family = _gauges(name, meaning, "shard")
        for part, figures in shards.items():
            family.add_metric([part], getattr(figures, field))
        yield family


def _process(roles: Roles, listener: Listener) -> Iterator[Metric]:
    connections = _gauges("connections", "Connections, by who is at their other end", "kind")
    most = _gauges("connections_limit", "How many there may be", "kind")
    for kind, (count, limit) in listener.guests.counts().items():
        connections.add_metric([kind], count)
        most.add_metric([kind], limit)
    yield from (connections, most)
    told = CounterMetricFamily(
        PREFIX + "log_lines", "Warnings and errors that the log has told", labels=["logger", "level"]
    )
    for (logger, level), count in logs.TOLD.counts.items():
        told.add_metric([logger, level], count)
    yield told
    yield _gauge("clients_bytes", "Bytes of clients' calls that wait or run", roles.registry.clients_bytes)
    yield _gauge("unfinished_frame_bytes", "Bytes of what was begun to be sent", listener.guests.unfinished_bytes)
    yield _gauge("longest_pause_seconds", "The event loop's, of the last ten to twenty seconds", roles.longest_pause)
    yield _gauge("feature_level", "The cluster's feature level, as this node has heard of it", roles.catalog.level)
    options = _gauges("option", "The cluster's options, as this node has heard of them", "name")
    for name, value, _ in roles.catalog.options.items():
        options.add_metric([name], value)
    yield options


def certificates(tls: Tls | None) -> Metric:
    """Until when those hold that are in the node's files now."""
    family = _gauges("certificate_expires_timestamp_seconds", "Until when it holds, as Unix time", "of")
    if tls is not None:
        expires = tls.contexts().expires
        family.add_metric(["node"], expires.own)
        family.add_metric(["authority"], expires.authority)
    return family


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, meaning, value=value)


def _gauges(name: str, meaning: str, label: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, meaning, labels=[label])


def _histogram(name: str, meaning: str, all_of: Mapping[str, Durations], label: str = "method") -> Metric:
    family = HistogramMetricFamily(PREFIX + name, meaning, labels=[label])
    for key, durations in all_of.items():
        family.add_metric([key], _buckets(durations), durations.seconds)
    return family


def _buckets(durations: Durations) -> list[tuple[str, float]]:
    return [("+Inf" if bound == float("inf") else repr(bound), count) for bound, count in durations.cumulative()]
