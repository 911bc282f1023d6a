"""Blocks in which all statements of a Spark session are of one transaction: `Transaction.spark`."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from txnclient.outcome import CommitReceipt
from txnclient.snapshot import Snapshot
from txnclient.transaction.statements import Statements
from txnstatus.errors import IllegalState, TxnAborted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from txnclient.write.files import Opened

_ID = re.compile(r"spark\.sql\.catalog\.(\w+)\.id")


def given_up(why: str) -> str:
    """What a transaction fails of as Spark gives a statement up; `why`: empty where Spark does not say."""
    return f"Spark has given the statement up{': ' * bool(why)}{why}"


class Catalog(Protocol):
    """The tables of a cluster as Spark has them in a session."""

    block: Block | None
    """The block in which the session's statements run, be it of a transaction of this cluster or of another one."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def last_commit(self) -> CommitReceipt | None:
        """The receipt of the last statement that was a transaction of its own and has committed."""
        ...

    def names(self) -> list[str]:
        """The names of its tables."""
        ...


class Sessions(Protocol):
    """A catalog as the session has it to which it is attached, and as copies of that have it."""

    def of(self, session: str | None) -> Catalog:
        """By Spark's id of the session; None: the one to which it is attached."""
        ...


CATALOGS: dict[str, Sessions] = {}
"""The catalogs of this process, by their ids."""
_lock = threading.Lock()
"""Held while a block begins, and while one ends."""
_running: list[Block] = []


class Block:
    """One transaction for all statements of a session, of any of its threads: one at a time uses it."""

    def __init__(self, txn: Statements) -> None:
        self.txn = txn
        self._lock = threading.RLock()
        self._open = 0
        """The number of statements that write."""
        self._is_over = False

    def __repr__(self) -> str:
        return f"transaction {self.txn.handle.id}"

    @property
    def cluster_id(self) -> str:
        return self.txn.handle.session.cluster_id

    def snapshot(self) -> Snapshot:
        with self._lock:
            self.require()
            return self.txn.handle.snapshot

    def require(self) -> None:
        """Raises IllegalState for what was planned in it and runs when it is over, or why nothing more can be done."""
        if self._is_over:
            raise IllegalState(
                f"this was made within {self!r}, whose block has ended: what it would read is nobody's any more",
                txn_id=self.txn.handle.id,
                hint="run DataFrames within the block; make them again after it",
            )
        self.txn.handle.require_open("no statement runs in it any more")

    @contextmanager
    def using(self) -> Iterator[Statements]:
        """For what is done at once."""
        with self._lock:
            self.require()
            yield self.txn

    @contextmanager
    def alone(self) -> Iterator[Statements]:
        """For what concerns all that was done in it, also after a statement that failed.

        Raises IllegalState while a statement of another thread writes.
        """
        with self._lock:
            if self._open:
                raise IllegalState(
                    f"{self._open} statements still write in {self!r}",
                    txn_id=self.txn.handle.id,
                    hint="wait for the threads that run them",
                )
            yield self.txn

    @contextmanager
    def opening(self, _label: str, _table: str) -> Iterator[Statements]:
        with self.using() as txn:
            yield txn
            self._open += 1

    @contextmanager
    def ending(self, _: Statements, opened: Opened) -> Iterator[None]:
        with self._lock:
            self._open -= 1
            self.require()
            with self.txn.writing_to(opened.table):
                yield

    def give_up(self, _: Statements, opened: Opened, why: str) -> None:
        """Raises why the block or the transaction is over, if that is what the statement fails of."""
        with self._lock:
            self._open -= 1
            self.require()
            self.txn.require_not_aborted()
            with suppress(TxnAborted), self.txn.writing_to(opened.table):
                raise TxnAborted(given_up(why), txn_id=self.txn.handle.id)

    def fail(self, what: str, why: str) -> None:
        """Nothing of it may be seen: some statements of what it was to do are done, and others will not be."""
        with self._lock, suppress(TxnAborted), self.txn.working(what):
            raise TxnAborted(why or "it has failed", txn_id=self.txn.handle.id)

    def end(self) -> int:
        """Nothing comes into it any more. Returns how many statements still write."""
        with self._lock:
            self._is_over = True
            return self._open


def session_id(spark: SparkSession) -> str | None:
    """Spark's id of the session; None: its server has one that it does not tell."""
    from txnclient.spark.alive_rows import has_jvm  # which needs PySpark, as this function does

    return str(spark._jsparkSession.sessionUUID()) if has_jvm(spark) else None


def attached(spark: SparkSession, session: str | None = None) -> dict[str, Catalog]:
    """The catalogs that are attached to the session, by their names. `session`: the id of a copy that is meant."""
    found: dict[str, Catalog] = {}
    session = session or session_id(spark)
    for key, catalog_id in spark.conf.getAll.items():
        if (named := _ID.fullmatch(key)) and (catalog := CATALOGS.get(catalog_id)):
            found[named[1]] = catalog.of(session)
    return found


def require_none(spark: SparkSession) -> None:
    """Raises IllegalState within a block of the session's."""
    for each in attached(spark).values():
        if each.block is not None:
            raise IllegalState(f"the session's statements are part of {each.block!r}", hint="leave its block first")


@contextmanager
def within(txn: Statements, spark: SparkSession) -> Iterator[None]:
    """As `Transaction.spark` says."""
    catalogs = attached(spark)
    block = begin(txn, catalogs)
    try:
        _forget_cached(spark, catalogs)
        yield
    finally:
        try:
            end(block, catalogs)
        finally:
            _forget_cached(spark, catalogs)


def run(txn: Statements, spark: SparkSession, script: str, args: Mapping[str, Any] | None) -> DataFrame:
    """As `Transaction.sql` says."""
    with within(txn, spark):
        return spark.sql(f"BEGIN ATOMIC\n{script}\nEND", dict(args or {}) or None)


def begin(txn: Statements, catalogs: Mapping[str, Catalog]) -> Block:
    """From now on statements of the session with these catalogs are the transaction's. Nothing may be cached of them.

    Raises IllegalState where the session, or the transaction, has a block already, and where none is of its cluster.
    """
    block = Block(txn)
    with _lock:
        if not any(each.cluster_id == block.cluster_id for each in catalogs.values()):
            raise IllegalState(
                f"no catalog of cluster {block.cluster_id!r} is attached to the session",
                hint="txnclient.sparksql.attach(spark, client)",
            )
        for each in catalogs.values():
            if each.block is not None:
                both = [f"{one!r} of cluster {one.cluster_id!r}" for one in (each.block, block)]
                raise IllegalState(
                    f"the session's statements are part of {both[0]}, and cannot be of {both[1]} as well",
                    hint="a session's statements are in one transaction, of one cluster; leave its block first",
                )
        if any(each.txn is txn for each in _running):
            raise IllegalState(f"{block!r} has another session's statements already", hint="leave that block first")
        for each in catalogs.values():
            each.block = block
        _running.append(block)
    return block


def end(block: Block, catalogs: Mapping[str, Catalog]) -> None:
    """Raises IllegalState where a statement still writes in it: then it may not commit."""
    with _lock:
        for each in catalogs.values():
            each.block = None
        _running.remove(block)
        still_writing = block.end()
    if still_writing:
        raise IllegalState(
            f"{still_writing} statements still write in {block!r}, and its block ends",
            txn_id=block.txn.handle.id,
            hint="wait for the threads that run them",
        )


def _forget_cached(spark: SparkSession, catalogs: Mapping[str, Catalog]) -> None:
    """Uncaches what depends on the catalogs' tables: Spark shows a cached table by its name, whatever time it is of.

    Of a server of Spark Connect, which says nothing of what is cached, the whole cache.
    """
    from txnclient.spark.alive_rows import has_jvm  # which needs PySpark, as this function does

    if not has_jvm(spark):
        spark.catalog.clearCache()
        return
    java: Any = spark._jsparkSession
    manager = java.sharedState().cacheManager()
    if manager.isEmpty():
        return
    sequence: Any = spark._jvm.org.apache.spark.api.python.PythonUtils.toSeq  # type: ignore[union-attr]
    # From Spark 4.1 on it is also said whether to wait.
    how = (True,) if spark.version.startswith("4.0.") else (True, False)
    for name, each in catalogs.items():
        for table in each.names():
            manager.uncacheTableOrView(java, sequence([name, *table.split(".", 1)]), *how)
