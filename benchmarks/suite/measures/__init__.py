"""Measures of ours alone, each a command of the suite. A new one is a module here with a `measure`, and a name in this
list: its options are the function's, and what it yields are the tables that are shown."""

from __future__ import annotations

from benchmarks.suite.measures import (
    checksums,
    doctor,
    floor,
    keyed_appends,
    lock_queue,
    migration,
    plan,
    postgres,
    publication,
    row_writes,
    shell,
    small_appends,
    snapshot_pause,
    status_store,
    stream_batches,
    tls,
    undo,
    work,
)

ALL = (
    work,
    floor,
    status_store,
    snapshot_pause,
    row_writes,
    small_appends,
    keyed_appends,
    lock_queue,
    postgres,
    doctor,
    checksums,
    plan,
    stream_batches,
    publication,
    migration,
    tls,
    undo,
    shell,
)
