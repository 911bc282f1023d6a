"""What must hold once everything has healed and come to rest: judged with every outcome known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from tests.sim.judges.facts import Read
from tests.sim.judges.ledger import NEVER, Ledger, Txn, Write
from tests.sim.judges.watch import GroupHistory, WatchedGroup, parts
from tests.sim.world.cluster import Cluster
from tests.sim.world.warehouse import Warehouse
from txnparticipant.leader.machine import ShardMachine
from txnparticipant.shard.audit import directories, findings
from txnstatus.catalog.catalog import CATALOG
from txnstatus.catalog.service import CatalogMachine
from txnstatus.findings import Finding, Kind, Severity
from txnstatus.raft.machine import StateMachine
from txnstatus.status.machine import StatusMachine
from txnstatus.types import TxnId

Violation = Callable[[str, str], None]


def unrest(groups: dict[str, GroupHistory], cluster: Cluster) -> str:
    """Why the world is not at rest yet; empty = it is."""
    catalogs = [machine.roles.catalog for machine in cluster.living if machine.roles is not None]
    if len(catalogs) < len(cluster.living) or len({catalog.version for catalog in catalogs}) != 1:
        return f"the nodes have catalogs of versions {[catalog.version for catalog in catalogs]}"
    if left := [name for name, machine in cluster.machines.items() if machine.gone and name in catalogs[0].nodes]:
        return f"{left} are dead for ever, and have their places"
    if left := [machine.name for machine in cluster.living if machine.leaves]:
        return f"{left} have their places, and others are to take them"
    if left := [*catalogs[0].migrations]:
        return f"{left} are on their way to other groups"
    for name, members in catalogs[0].groups.items():
        history = groups.get(name)
        live = [group for process, group in history.groups.values() if process.alive] if history else []
        if history is None or len(live) != len(members):
            return f"{name} has {len(live)} replicas"
        if sum(group.is_ready for group in live) != 1:
            return f"{name} has no leader"
        if {group.watched.applied for group in live} != {len(history.commands)}:
            return f"the replicas of {name} are apart: {[group.watched.applied for group in live]}"
        for part, machine in parts(name, live[0].watched.inner):
            if busy := _busy(machine):
                return f"{part}: {busy}"
    return ""


def _busy(machine: StateMachine) -> str:
    if isinstance(machine, StatusMachine) and machine.table.unfinished:
        return f"unfinished: {[(txn.txn_id, txn.state.name) for txn in machine.table.unfinished]}"
    if isinstance(machine, ShardMachine):
        for table in machine.shard.tables():
            if table.unfinished or table.uncleaned:
                return f"{table.name} has unfinished {list(table.unfinished)}, uncleaned {list(table.uncleaned)}"
            if working := [each for each in table.compactions.open.values() if each.worker]:
                return f"{table.name} has compactions that are worked at: {working}"
            if claims := [*table.rows.flushing, *table.rows.given_up]:
                return f"{table.name} has flushes {claims} that came to nothing"
    return ""


def options(cluster: Cluster, groups: dict[str, GroupHistory], violation: Violation) -> None:
    """Every node has the options that the catalog's replicas have."""
    replicas = [group.watched.inner for process, group in groups[CATALOG].groups.values() if process.alive]
    replicated = [machine.catalog.state.options for machine in replicas if isinstance(machine, CatalogMachine)]
    heard = [machine.roles.catalog.options for machine in cluster.living if machine.roles is not None]
    if len(set(replicated + heard)) != 1:
        violation("options agree", f"the catalog has {replicated}, the nodes have {heard}")


def held_savepoints(groups: dict[str, GroupHistory]) -> dict[str, set[str]]:
    """Ids of the savepoints that each shard holds, once all replicas are alike."""
    return {
        part: {each.savepoint_id for each in machine.shard.savepoints()}
        for history in groups.values()
        for process, group in history.groups.values()
        if process.alive
        for part, machine in parts(history.name, group.watched.inner)
        if isinstance(machine, ShardMachine)
    }


def final(
    groups: dict[str, GroupHistory], ledger: Ledger, warehouse: Warehouse, grace_seconds: float, violation: Violation
) -> None:
    for history in groups.values():
        for process, group in history.groups.values():
            if process.alive:
                _replica(group, ledger, violation)
    for txn in ledger.txns.values():
        if txn.told_commit_ts is not None and (not txn.committed or txn.commit_ts != txn.told_commit_ts):
            violation("3 acknowledged commits last", f"told {txn.told_commit_ts}, is {txn}")
        if txn.told_aborted and txn.committed:
            violation("1 states", f"told aborted, is {txn}")
    _reads(ledger, violation)
    _conflicts(ledger, violation)
    _files(groups, ledger, warehouse, grace_seconds, violation)


def _replica(group: WatchedGroup, ledger: Ledger, violation: Violation) -> None:
    group.watched.digest()
    for part, machine in parts(group.group, group.watched.inner):
        _part(f"{part} on {group.node_id}", machine, ledger, violation)


def _part(where: str, machine: StateMachine, ledger: Ledger, violation: Violation) -> None:
    if isinstance(machine, StatusMachine):
        machine.table.check_invariants()
        table = machine.table
        for txn in ledger.txns.values():
            if txn.told_commit_ts is None or not table.first_txn_id <= txn.txn_id < table.end_txn_id:
                continue
            record = table.find(TxnId(txn.txn_id))
            lost = txn.txn_id >= table.next_txn_id if record is None else record.commit_ts != txn.told_commit_ts
            if lost:
                violation("3 acknowledged commits last", f"{where}: told {txn.told_commit_ts}, has {record}")
    elif isinstance(machine, ShardMachine):
        machine.shard.check_invariants()


# ---- reads


def _reads(ledger: Ledger, violation: Violation) -> None:
    by_table: defaultdict[str, list[Write]] = defaultdict(list)
    by_manifest: dict[str, Write] = {}
    for txn in ledger.txns.values():
        for write in txn.writes:
            by_table[write.table].append(write)
            by_manifest[write.manifest] = write
    seen = {manifest for read in ledger.reads for manifest in read.manifests}
    for read in ledger.reads:
        for manifest in read.manifests:
            write = by_manifest[manifest]
            txn = ledger.txns[write.txn_id]
            if not txn.committed or txn.commit_ts > read.timestamp:
                violation("4 atomic", f"a scan of {read.table} at {read.timestamp} shows {manifest} of {txn}")
        for write in by_table[read.table]:
            _judge(write, read, ledger, seen, violation)


def _judge(write: Write, read: Read, ledger: Ledger, seen: set[str], violation: Violation) -> None:
    """Whether the write must, may or must not be in what was read."""
    txn = ledger.txns[write.txn_id]
    if not txn.committed or txn.commit_ts > read.timestamp:
        return  # judged by what is shown
    replacers = list(_replacers(write, txn, read, ledger))
    shown = write.manifest in read.manifests
    is_part = write.manifest in seen or write in ledger.visible_writes(txn)
    if is_part and not shown and not replacers:
        violation("4 atomic", f"a scan of {read.table} at {read.timestamp} lacks {write.manifest} of {txn}")
    if shown and True in replacers:
        violation("4 atomic", f"a scan of {read.table} at {read.timestamp} shows {write.manifest}, which is replaced")


def _replacers(write: Write, txn: Txn, read: Read, ledger: Ledger) -> Iterator[bool]:
    """True for each overwrite that surely removed the write for this reader, False for each that may have."""
    for other in ledger.txns.values():
        if not other.committed or other.commit_ts > read.timestamp:
            continue
        for overwrite in other.writes:
            if not overwrite.overwrite or overwrite.table != write.table or overwrite is write:
                continue
            if other is txn:
                if overwrite.acked_at > write.asked_at:
                    yield write.acked_at < overwrite.asked_at and overwrite in ledger.visible_writes(other)
            elif txn.decided_at < overwrite.asked_at:
                # Decided before it was asked for: it replaces this one, if it took effect at all.
                yield overwrite in ledger.visible_writes(other)
            elif txn.decided_at < overwrite.acked_at:
                yield False


def _conflicts(ledger: Ledger, violation: Violation) -> None:
    """7: of two overwrites that were both added while neither was decided, one commits at most."""
    overwrites: defaultdict[str, list[tuple[Write, Txn]]] = defaultdict(list)
    first_commit: dict[str, float] = {}
    for txn in ledger.txns.values():
        for write in ledger.visible_writes(txn) if txn.committed else ():
            first_commit[write.table] = min(txn.decided_at, first_commit.get(write.table, NEVER))
            if write.overwrite:
                overwrites[write.table].append((write, txn))
    for table, found in overwrites.items():
        for number, (write, txn) in enumerate(found):
            for other_write, other in found[number + 1 :]:
                both_saw = first_commit[table] < min(write.asked_at, other_write.asked_at)
                undecided = max(write.acked_at, other_write.acked_at) < min(txn.decided_at, other.decided_at)
                if other is not txn and both_saw and undecided:
                    violation("7 conflicts", f"{txn.txn_id} and {other.txn_id} both overwrote {table}")


# ---- files


def _files(
    groups: dict[str, GroupHistory], ledger: Ledger, warehouse: Warehouse, grace_seconds: float, violation: Violation
) -> None:
    """10: what is on storage is referenced or about to go (nothing is unfinished by now), and what is, is there."""
    locations = set()
    for history in groups.values():
        # What is old enough goes also now; a replica may not have heard of that yet.
        live = [group.watched for process, group in history.groups.values() if process.alive]
        newest = max(live, key=lambda watched: watched.applied).inner if live else None
        machines = [machine for _, machine in parts(history.name, newest)] if newest else []
        for machine in machines:
            for table in machine.shard.tables() if isinstance(machine, ShardMachine) else ():
                locations.add(table.location)
                listing = warehouse.listing(table.location)
                for found in findings(table.name, table.location, dict(directories(table)), listing, {}):
                    if is_amiss(found, table.location, ledger, warehouse, grace_seconds):
                        violation("10 files", f"{found.where}, {found.what}: {found.kind.label}: {found.story}")
    for directory in warehouse.directories:
        if directory.rpartition("/")[0] not in locations:
            violation("10 files", f"{directory} is in no table's place")


def is_amiss(found: Finding, location: str, ledger: Ledger, warehouse: Warehouse, grace_seconds: float) -> bool:
    """Whoever still writes when the grace is over leaves what nobody will look for, until somebody examines."""
    if found.kind not in (Kind.ORPHAN, Kind.WHOLE_WRITE):
        return found.kind.severity is not Severity.NOTE
    directory = f"{location}/{found.what}"
    late = ledger.over_since(directory) + grace_seconds * 0.9
    return any(written_at < late for written_at in warehouse.directories.get(directory, {}).values())
