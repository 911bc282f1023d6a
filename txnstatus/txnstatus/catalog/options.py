"""Options that may change while the cluster runs: their names, rules and defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from txnstatus.errors import InvalidArgument, NotFound

MAX_VALUE = 2**31 - 1


def _option(default: int, minimum: int, meaning: str, maximum: int = MAX_VALUE) -> Any:
    return field(default=default, metadata={"minimum": minimum, "maximum": maximum, "meaning": meaning})


@dataclass(frozen=True, slots=True)
class Options:
    """Times whose names do not say otherwise are in milliseconds. Names follow Kudu's flags, and Hive's options."""

    keepalive_default_ms: int = _option(30_000, 100, "keep-alive interval of a begin that asks for none")
    keepalive_min_ms: int = _option(1_000, 100, "the shortest a begin may ask for")
    keepalive_max_ms: int = _option(3_600_000, 100, "the longest a begin may ask for")
    staleness_interval_ms: int = _option(1_000, 0, "how often silent transactions are looked for; 0 = never")
    retention_ms: int = _option(3_600_000, 0, "how long the record of a finished transaction is kept")
    max_lifetime_ms: int = _option(0, 0, "an open transaction older than this is aborted; 0 = no limit")
    max_open_transactions: int = _option(100_000, 0, "unfinished transactions in one status range; 0 = no limit")
    snapshot_retention_seconds: int = _option(3_600, 1, "how long what was overwritten can be read")
    savepoint_warn_mib: int = _option(
        102_400, 1, "MiB that one savepoint keeps from which on txnctl doctor warns of it"
    )
    strict_locking_mode: int = _option(
        1, 0, "1: an auto-commit insert locks in X where conflicts are settled by locks; 0: in S, as others", maximum=1
    )
    compact_delta_num: int = _option(10, 2, "small writes to a partition that are merged by themselves")
    compact_delta_pct: int = _option(
        10, 1, "percent of a partition's rows that are deleted, or of its large files that the small ones add up to"
    )
    compact_failures: int = _option(2, 1, "compactions of a partition that fail in a row until only requests begin any")
    compact_lease_ms: int = _option(30_000, 100, "how long a compaction is kept for a worker that is silent")
    compact_wait_ms: int = _option(
        600_000, 0, "how long a compaction waits for a worker that takes one of its size, before any other one has it"
    )
    compact_file_bytes: int = _option(128 << 20, 1 << 10, "bytes of the files that compactions write")
    user_open_transactions: int = _option(0, 0, "unfinished transactions of one user in one status range; 0 = no limit")
    user_connections: int = _option(0, 0, "connections of one user to one node; 0 = no limit, as for the next ones")
    user_begins_per_second: int = _option(0, 0, "transactions that one user begins at one node in a second")
    user_calls_mib: int = _option(0, 0, "MiB of one user's calls that one node answers at one time")
    user_lock_waits: int = _option(0, 0, "locks for which one user waits at one node at one time")
    user_reads_per_second: int = _option(0, 0, "calls of one user in a second that only ask one node")

    def with_value(self, name: str, value: int) -> Options:
        """Raises NotFound for an unknown name, InvalidArgument for a value out of bounds."""
        return Options.checked({**{known: old for known, old, _ in self.items()}, name: value})

    @staticmethod
    def checked(values: Mapping[str, int]) -> Options:
        """Raises NotFound for an unknown name, InvalidArgument for values that are out of bounds or do not fit."""
        known = {each.name: each for each in fields(Options)}
        for name, value in values.items():
            if name not in known:
                raise NotFound(f"no option {name!r}; there are {', '.join(known)}")
            minimum, maximum = known[name].metadata["minimum"], known[name].metadata["maximum"]
            if not minimum <= value <= maximum:
                raise InvalidArgument(f"{name} = {value} is out of range: {minimum} to {maximum} are possible")
        options = Options(**values)
        if not options.keepalive_min_ms <= options.keepalive_default_ms <= options.keepalive_max_ms:
            raise InvalidArgument(
                f"keepalive_default_ms {options.keepalive_default_ms} must lie between keepalive_min_ms "
                f"{options.keepalive_min_ms} and keepalive_max_ms {options.keepalive_max_ms}"
            )
        return options

    def keepalive(self, asked: int) -> int:
        """The interval of a begin that asks for `asked` ms; 0 asks for the default. Raises InvalidArgument."""
        if asked == 0:
            return self.keepalive_default_ms
        if not self.keepalive_min_ms <= asked <= self.keepalive_max_ms:
            raise InvalidArgument(
                f"keep-alive interval {asked} ms is out of range: "
                f"{self.keepalive_min_ms} to {self.keepalive_max_ms} ms are possible here"
            )
        return asked

    def items(self) -> Iterator[tuple[str, int, str]]:
        """Name, value, meaning."""
        for each in fields(self):
            yield each.name, getattr(self, each.name), each.metadata["meaning"]


OF_USERS = tuple(each.name for each in fields(Options) if each.name.startswith("user_"))
"""Options that limit what one user takes: each user may have values of his own."""
