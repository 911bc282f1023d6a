"""What the console shows, as documents: each is asked of the cluster by a client, as `txnctl` does, with the same keys.

Each is bounded, whatever there is in the cluster: `more` says that there is more than is shown.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from txnclient import Client, DataDamaged, Forgotten, NotFound, Snapshot, TxnState, Unavailable
from txnclient.info import TableInfo
from txndeploy.console import steps, story, waits
from txndeploy.terminal import listings, moves, past
from txndeploy.terminal.output import Listing
from txnstatus.measures import Measures
from txnstatus.types import TERMINAL, AbortCode

MOST = 200
"""Rows of a listing."""
MOST_TABLES = 50
"""Tables on one page: of each the manifests are read."""
LOOKED_THROUGH = 2_000
"""Transactions that are looked through, the newest first."""
LATELY = timedelta(hours=1)
SLOWEST = 20

Document = Mapping[str, Any]
Ask = Callable[[Client, Mapping[str, str]], Document]
"""Asks for a document. The words are what the page's address says beside the path. Raises TxnError, OSError."""


def cluster(client: Client, _words: Mapping[str, str]) -> Document:
    """`groups`, `moves` and `options` as `txnctl status`, `txnctl rebalance --dry-run` and `txnctl config list` have
    them; `nodes`: whether each answers, and whether it is drained."""
    state = listings.catalog(client)
    groups = listings.groups(client, state)
    silent = {row["node"] for row in groups.rows if row["role"] == listings.SILENT}
    nodes = [
        {
            "node": name,
            "address": info.address,
            "roles": list(info.roles),
            "answers": name not in silent,
            "drain": moves.DRAINED[info.drain],
        }
        for name, info in sorted(state.nodes.items())
    ]
    under_way = moves.moves(state).document()
    options = listings.options(state).document()
    return {"id": state.cluster_id, "nodes": nodes, **groups.document(), **under_way, **options}


def transactions(client: Client, _words: Mapping[str, str]) -> Document:
    """Transactions that have not ended, as `txnctl txn list` has them."""
    found = client.transactions(set(TxnState) - TERMINAL, limit=MOST + 1)
    return listings.transactions(found[:MOST], more=len(found) > MOST).document()


def transaction(client: Client, words: Mapping[str, str]) -> Document:
    """One as `txnctl txn show` has it, its `explanation` as `txnctl explain` has it, and its `story`."""
    txn_id = int(words["id"])
    try:
        found, taking_part = client.get(txn_id), client.participants(txn_id)
    except Forgotten:
        told = client.past(txn_id)
        row, events = {**past.row(told), "participants": []}, story.of_past(told)
    else:
        row = {**listings.txn_row(found), "participants": listings.participants(taking_part).document()["participants"]}
        events = story.of_known(found, taking_part, _locks_of(client, txn_id, found.state, found.participants))
    explained = client.explain(txn_id)
    return {
        "transaction": row,
        "explanation": dataclasses.asdict(explained),
        "story": [dataclasses.asdict(event) for event in events],
    }


def locks(client: Client, _words: Mapping[str, str]) -> Document:
    """`locks` as `txnctl locks --extended` has them, and `waits`: who waits for whom, from those that wait for none."""
    found = client.locks(extended=True)
    shown = dataclasses.replace(listings.locks(found[:MOST], extended=True), more=len(found) > MOST)
    return {**shown.document(), "waits": [dataclasses.asdict(each) for each in waits.forest(found, MOST)]}


def tables(client: Client, words: Mapping[str, str]) -> Document:
    """`tables` from the one on whose name is not below `from`, and `compactions` as `txnctl compactions` has them."""
    infos = sorted(client.tables(), key=lambda info: info.name)
    infos = [info for info in infos if info.name >= words.get("from", "")]
    with client.snapshot() as snapshot:
        rows = [_table(snapshot, info) for info in islice(infos, MOST_TABLES)]
    compactions = listings.compactions(client.compactions()[:MOST]).document()
    following = infos[MOST_TABLES].name if len(infos) > MOST_TABLES else None
    return {"tables": rows, "next": following, **compactions}


def conflicts(client: Client, _words: Mapping[str, str]) -> Document:
    """`conflicts`: transactions that lost, of those that began within the last hour, as `txnctl txn list` has them."""
    found = client.transactions([TxnState.ABORTED], since=datetime.now(UTC) - LATELY, limit=LOOKED_THROUGH)
    lost = [each for each in found if each.cause is not None and each.cause.code is AbortCode.CONFLICT]
    rows = [
        {**listings.txn_row(each), "winner": each.cause.winner, "conflicts": list(each.cause.objects)}
        for each in lost[:MOST]
        if each.cause is not None
    ]
    return {"conflicts": rows, "more": len(lost) > MOST or len(found) == LOOKED_THROUGH}


def slow(measures: Measures) -> Ask:
    """`steps` of this node, since it was started; and `slowest`: transactions that took longest, of the last hour."""

    def ask(client: Client, _words: Mapping[str, str]) -> Document:
        found = client.transactions(TERMINAL, since=datetime.now(UTC) - LATELY, limit=LOOKED_THROUGH)
        found = sorted(found, key=lambda each: each.begin_micros - each.last_transition_micros)
        slowest: Listing = listings.transactions(found[:SLOWEST])
        return {
            "steps": [dataclasses.asdict(each) for each in steps.of(measures)],
            "slowest": slowest.document()["transactions"],
        }

    return ask


def _locks_of(client: Client, txn_id: int, state: TxnState, names: tuple[str, ...]) -> list[Any]:
    """Locks that it holds or waits for, where it may have some, as far as tables answer: the explanation says who does
    not."""
    found = dict[Any, None]()  # a database's are those of its tables, too
    if state in TERMINAL:
        return []
    with contextlib.suppress(Unavailable):
        for name in names:
            if not name.startswith("@"):
                found |= dict.fromkeys(lock for lock in client.locks(name) if lock.txn_id == txn_id)
    return list(found)


def _table(snapshot: Snapshot, info: TableInfo) -> Document:
    """A table, its size, and what is wrong with it; its sizes are unknown where it cannot be read."""
    row: dict[str, Any] = {"name": info.name, "location": info.location, "conflict_strategy": info.conflicts}
    try:
        found = snapshot.table_files(info.name)
    except (DataDamaged, NotFound) as error:
        return {**row, "rows": None, "files": None, "bytes": None, "row_changes": None, "damage": error.message}
    size = sum(file.bytes for file in found.files)
    counts = {"rows": found.rows, "files": len(found.files), "bytes": size, "row_changes": found.changes is not None}
    return {**row, **counts, "damage": None}
