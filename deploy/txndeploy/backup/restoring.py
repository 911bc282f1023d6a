"""Makes the directory of a new cluster's node of a backup. Nothing runs meanwhile; the node is started afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from txndeploy.backup import files, renewing
from txndeploy.backup.cut import contradictions
from txndeploy.backup.files import Backup
from txndeploy.node.config import NodeConfig
from txnstatus import features
from txnstatus.catalog.catalog import CATALOG, CatalogState, name_in, to_wire
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.errors import InvalidArgument
from txnstatus.process.durable import make_directory
from txnstatus.raft.journal import Journal
from txnstatus.raft.members import Members
from txnstatus.raft.snapshot import Writer


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
    mine = {group: members for group, members in state.groups.items() if config.node_id in members}
    with files.new_directory(config.data_dir) as directory:
        for group, members in mine.items():
            tell(f"making a replica of {group}")
            _replica(backup, group, members, directory / "raft" / group, state, config.raft.segment_bytes)
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


def _replica(
    backup: Backup, group: str, members: Members, directory: Path, state: CatalogState, segment_bytes: int
) -> None:
    """A journal with the cut's last entries, in their term, and the snapshot from which it goes on."""
    meta, disk = backup.meta(group), files.DISK
    make_directory(directory)
    journal = Journal(disk, directory / "journal", group, 0, segment_bytes)
    journal.setCurrentTerm(meta.last.term, None)
    journal.add(*meta.previous)
    journal.add(*meta.last)
    journal.sync()
    journal.close()
    writer = Writer(disk, directory / "snapshot", group, meta._replace(members=members))
    writer.write(renewing.chunks(group, backup.chunks(group), state))
    writer.finish()
