"""Makes the directory of a new cluster's node of a backup. Nothing runs meanwhile; the node is started afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from txndeploy.backup import files, renewing
from txndeploy.backup.cut import Cut, contradictions
from txndeploy.backup.files import Backup
from txndeploy.node.config import NodeConfig
from txndeploy.node.machines import group_machine
from txnparticipant.leader.machine import ShardMachine
from txnparticipant.shard import commands
from txnstatus import features
from txnstatus.catalog.catalog import CATALOG, CatalogState, shard_group, to_wire
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.founding import name_in
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.errors import InvalidArgument
from txnstatus.process.durable import make_directory
from txnstatus.raft.journal import Entry, Journal
from txnstatus.raft.parts import address, opening
from txnstatus.raft.snapshot import Meta, Writer
from txnstatus.types import HybridClock


def restore(
    backup: Backup,
    config: NodeConfig,
    cluster_id: str,
    tell: Callable[[str], None] = lambda _: None,
    *,
    torn: bool = False,
) -> Sequence[str]:
    """Makes `data_dir`, with a replica of each group that the node is to have; returns their names.

    `cluster_id`: the new cluster's, the same for all of its nodes. `torn`: also of a backup that contradicts itself.
    Raises InvalidArgument where the configuration does not fit the backup, or that contradicts itself; AlreadyExists
    where `data_dir` is there; OSError.
    """
    tell("checking what is in the backup")
    cut = backup.cut()
    if not torn and (story := next(contradictions(cut), "")):
        raise InvalidArgument(f"{backup.directory} is of no one moment: {story}")
    state = _renewed(cut.catalog, config, cluster_id)
    next_ids = cut.unknown_ids()
    mine = {group: members for group, members in state.groups.items() if config.node_id in members}
    with files.new_directory(config.data_dir) as directory:
        for group, members in mine.items():
            tell(f"making a replica of {group}")
            meta, cut_chunks = _of_backup(backup, group, replace(cut, catalog=state))
            chunks = renewing.chunks(group, cut_chunks, state, next_ids)
            meta = meta._replace(members=members)
            _replica(group, meta, chunks, directory / "raft" / group, config.raft.segment_bytes)
        (directory / CATALOG).write_bytes(to_wire(state).SerializeToString())
    return sorted(mine)


def _renewed(state: CatalogState, config: NodeConfig, cluster_id: str) -> CatalogState:
    """Raises InvalidArgument."""
    if (refusal := features.refusal("this version", features.OWN, state.level)) is not None:
        raise InvalidArgument(refusal)
    if config.joins:
        raise InvalidArgument(
            "joins = true is for a node of a cluster that runs: the nodes of a new one found it together"
        )
    if name_in(cluster_id) != config.cluster_name:
        raise InvalidArgument(f"cluster id {cluster_id!r:.100} is of no cluster called {config.cluster_name}")
    for name, had, given in (
        ("participant_shards", state.participant_shards, config.participant_shards),
        ("range_span", state.range_span, config.txn.range_span),
    ):
        if had != given:
            raise InvalidArgument(
                f"{name} is {given}, and {had} in the backup: it stays as it is for the life of tables"
            )
    nodes = {node: NodeInfo(entry.address, tuple(entry.roles)) for node, entry in config.nodes.items()}
    return renewing.catalog(state, nodes, replication=config.replication, cluster_id=cluster_id)


def _of_backup(backup: Backup, group: str, cut: Cut) -> tuple[Meta, Iterable[bytes]]:
    """What the backup has of a group. One that is not in it, as where all its replicas were lost, begins with its
    parts, and nothing in them but where tables are that others keep, and that it would have by their names or ids."""
    if group in backup.groups:
        return backup.meta(group), backup.chunks(group)
    machine = group_machine(lambda: cut.catalog.range_span, HybridClock(lambda: 0))
    parts, cluster = cut.catalog.parts_of(group), ClusterMap(cut.catalog)
    machine.apply([opening(part) for part in parts])
    for keeper in cut.shards():
        for name in sorted(table.name for table in keeper.tables()):
            if (part := shard_group(cluster.shard_by_hash(name))) in parts:
                machine.apply([address(part) + commands.encode(commands.PlaceTable(name, keeper.shard))])
        for lost in machine.machines.values():
            if isinstance(lost, ShardMachine):
                lost.shard.gave_once(keeper, keeper.came)
    return Meta(Entry(b"", 1, 1), Entry(b"", 2, 1), ()), machine.snapshot()


def _replica(group: str, meta: Meta, chunks: Iterable[bytes], directory: Path, segment_bytes: int) -> None:
    """A journal with the cut's last entries, in their term, and the snapshot from which it goes on."""
    disk = files.DISK
    make_directory(directory)
    journal = Journal(disk, directory / "journal", group, 0, segment_bytes)
    journal.setCurrentTerm(meta.last.term, None)
    journal.add(*meta.previous)
    journal.add(*meta.last)
    journal.sync()
    journal.close()
    writer = Writer(disk, directory / "snapshot", group, meta)
    writer.write(chunks)
    writer.finish()
