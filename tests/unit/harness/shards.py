"""A shard with one table, and what tests of shards do with it; `ok` checks its invariants after every step."""

from __future__ import annotations

from zlib import crc32

from tests.unit.harness.beginning import begin_txn
from txnparticipant.shard import commands as cmd
from txnparticipant.shard import views
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.records import TableTxn
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnparticipant.versions.mvcc import KeyClaim, Manifest, visible
from txnstatus.errors import TxnError
from txnstatus.replicated import Rejected
from txnstatus.schema import Column, Schema
from txnstatus.types import NO_TIMESTAMP, ParticipantState, Timestamp, TxnId

OWNER, OTHER = "ada", "bob"
TABLE = "3.0"
NAME = "air.flights"
TXN = TxnId(7)
WRITE = "write0001"
PREPARE, COMMIT = Timestamp(100), Timestamp(150)

OPEN, CIP = ParticipantState.OPEN, ParticipantState.COMMIT_IN_PROGRESS
COMMITTED, ABORTED = ParticipantState.COMMITTED, ParticipantState.ABORTED
STATES = (None, OPEN, CIP, COMMITTED, ABORTED)


def manifest(name: str, rows: int = 10) -> Manifest:
    return Manifest(f"file:///lake/{name}/_manifest.json", 200, 12345, 1, rows, rows * 8)


def ok(shard: ParticipantShard, *commands: cmd.Command) -> ShardApplied:
    """The last answer."""
    for command in commands:
        outcome = shard.apply(command)
        shard.check_invariants()
        assert isinstance(outcome, ShardApplied), outcome
    return outcome


def refused(shard: ParticipantShard, command: cmd.Command) -> TxnError:
    """The refusal; it must not have changed a byte."""
    before = shard.snapshot()
    outcome = shard.apply(command)
    assert isinstance(outcome, Rejected), outcome
    assert shard.snapshot() == before
    return outcome.error


def create(name: str, request_id: str = "request-1", location: str = "file:///lake/air/flights") -> cmd.CreateTable:
    columns = Column("id", "bigint"), Column("day", "date")
    return cmd.CreateTable(name, Schema(columns, primary_key=("id",)), location, request_id)


def new_shard() -> ParticipantShard:
    shard = ParticipantShard(3)
    assert ok(shard, create(NAME)).table_id == TABLE
    return shard


def opened(txn_id: TxnId = TXN, write_id: str = WRITE, owner: str = OWNER) -> cmd.OpenWrite:
    return cmd.OpenWrite(txn_id, TABLE, owner, write_id)


def first(txn_id: TxnId = TXN, write_id: str = WRITE) -> cmd.OpenWrite:
    return cmd.OpenWrite(txn_id, TABLE, OWNER, write_id, begins=True)


def added(
    txn_id: TxnId = TXN,
    write_id: str = WRITE,
    *,
    overwrite: bool = False,
    from_writes: tuple[str, ...] = (),
    rows: int = 10,
    base: int = 0,
    claim: KeyClaim | None = None,
) -> cmd.AddFiles:
    """An overwrite replaces what a reader at `base` sees. By default its keys are nobody else's."""
    base_ts = Timestamp(base) if overwrite else NO_TIMESTAMP
    overwrites, listed = ("",) if overwrite else (), manifest(write_id, rows)
    claim = claim or claim_of(f"-{crc32(write_id.encode())}{txn_id:04}")
    return cmd.AddFiles(txn_id, TABLE, OWNER, write_id, listed, overwrites, base_ts, from_writes, claim)


def claim_of(*keys: str, snapshot: int = 0) -> KeyClaim:
    return KeyClaim(Timestamp(snapshot), tuple(key.encode() for key in keys))


def begun(shard: ParticipantShard, txn: int) -> TxnId:
    txn_id = TxnId(txn)
    ok(shard, begin_txn(txn_id, TABLE, OWNER))
    return txn_id


def wrote(shard: ParticipantShard, txn_id: TxnId, write_id: str, *, overwrite: bool = False) -> None:
    """An overwrite is based on all that is committed by now."""
    ok(shard, opened(txn_id, write_id))
    base = max((record.commit_ts for record in table_of(shard).txns.values()), default=0)
    ok(shard, added(txn_id, write_id, overwrite=overwrite, base=base))


def prepare(shard: ParticipantShard, txn_id: TxnId, ts: int = PREPARE) -> None:
    ok(shard, cmd.BeginCommit(txn_id, TABLE, Timestamp(ts)))


def finalize(shard: ParticipantShard, txn_id: TxnId, ts: int = COMMIT) -> None:
    ok(shard, cmd.FinalizeCommit(txn_id, TABLE, Timestamp(ts)))


def abort(shard: ParticipantShard, txn_id: TxnId) -> None:
    ok(shard, cmd.AbortTxn(txn_id, TABLE))


def committed(shard: ParticipantShard, txn: int, write_id: str, ts: int, *, overwrite: bool = False) -> TxnId:
    """A transaction with one write, prepared and committed at `ts`."""
    txn_id = begun(shard, txn)
    wrote(shard, txn_id, write_id, overwrite=overwrite)
    prepare(shard, txn_id, ts)
    finalize(shard, txn_id, ts)
    return txn_id


def table_of(shard: ParticipantShard) -> TableState:
    return shard.table(NAME)


def record_of(shard: ParticipantShard, txn_id: TxnId = TXN) -> TableTxn:
    return table_of(shard).txns[txn_id]


def seen(shard: ParticipantShard, ts: int, outcomes: dict[TxnId, Timestamp] | None = None) -> list[str]:
    """The writes that a reader at `ts` sees."""
    table = table_of(shard)
    manifests = visible(table.file_sets.values(), views.prepared(table), outcomes or {}, Timestamp(ts))
    return [m.path.split("/")[-2] for m in manifests]


def to_clean(shard: ParticipantShard) -> dict[TxnId, list[str]]:
    return {txn_id: list(write_ids) for _, txn_id, write_ids in shard.to_clean()}


def shard_with_txn_in(state: ParticipantState | None) -> ParticipantShard:
    shard = new_shard()
    if state is None:
        return shard
    begun(shard, TXN)
    wrote(shard, TXN, WRITE)
    if state is ABORTED:
        abort(shard, TXN)
    if state in (CIP, COMMITTED):
        prepare(shard, TXN)
    if state is COMMITTED:
        finalize(shard, TXN)
    assert record_of(shard).state is state
    return shard
