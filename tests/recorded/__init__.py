"""Data of nodes as releases have left it, which every later one has to read; and the program that records it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from txndeploy.backup.cut import Cut
from txndeploy.backup.recovering import Found
from txnstatus.catalog.service import CatalogMachine
from txnstatus.raft.parts import Parts

HERE = Path(__file__).parent
FRAMES = "frames.jsonl"
"""The file of an archive with what a program and a node said to each other; the first archive has none."""
RECORDED = sorted(HERE.glob("*.tar.gz"))


def summary(found: Found) -> dict[str, Any]:
    """What a node has, in words that outlive the form in which it is written."""
    machines = {group: replica.machine for group, replica in found.replicas.items()}
    catalog = next(each.catalog.state for each in machines.values() if isinstance(each, CatalogMachine))
    return {
        "cluster_id": found.cluster_id,
        "members": {group: list(replica.meta.members) for group, replica in found.replicas.items()},
        "last": {group: replica.meta.last.idx for group, replica in found.replicas.items()},
        **of_cut(Cut(catalog, {group: each for group, each in machines.items() if isinstance(each, Parts)})),
    }


def of_cut(cut: Cut) -> dict[str, Any]:
    """The transactions, tables and savepoints of all groups, and what the catalog says."""
    state = cut.catalog
    txns = [record for table in cut.ranges() for record in table.records()]
    tables = [table for shard in cut.shards() for table in shard.tables() if not table.is_database]
    return {
        "parts": dict(state.parts),
        "placements": dict(state.placements),
        "options": {name: value for name, value, _ in state.options.items()},
        "level": state.level,
        "reserved": [[each.number, each.owner, each.table, *each.leads_to] for each in state.reserved],
        "limits": {user: dict(limits) for user, limits in state.limits.items()},
        "nodes": {
            node: [info.drain.name, str(info.levels)] for node, info in sorted(state.nodes.items()) if info.levels
        },
        "transactions": {
            record.txn_id: [record.state.name, record.owner, record.label, record.commit_ts] for record in txns
        },
        "tables": {
            table.table_id: {
                "name": table.name,
                "columns": [[column.name, column.type] for column in table.schema.columns],
                "key": list(table.schema.primary_key),
                "dropped": table.dropped is not None,
                "former": sorted(each.was for each in table.former.renames),
                "made": table.made,
                "delete_sets": sorted(table.deletes.all),
                "compactions": sorted(table.compactions.switched),
                "file_sets": [[each.write_id, each.commit_ts, each.replaced_ts] for each in table.file_sets.values()],
                "row_sets": {txn_id: rows.commit_ts for txn_id, rows in table.rows.unflushed.items()},
                "txns": {txn_id: txn.state.name for txn_id, txn in table.txns.items()},
                "locks": [claim.lock.object for txn_id in table.txns for claim in table.locks.held_by(txn_id)],
            }
            for table in tables
        },
        "savepoints": sorted({each.name for shard in cut.shards() for each in shard.savepoints()}),
    }
