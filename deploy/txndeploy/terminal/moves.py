"""What nodes are to have no more, and which replicas are on their way, as people are shown it."""

from __future__ import annotations

from collections.abc import Sequence

from txndeploy.terminal.output import Field, Listing
from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.nodes import Drain
from txnstatus.catalog.placement import Move

DRAINED = {Drain.SERVES: None, Drain.LEADS_NOTHING: "drained", Drain.LEAVES: "leaving"}


def moves(state: CatalogState, planned: Sequence[Move] = ()) -> Listing:
    """Replicas that are on their way from one node to another, and `planned` ones."""
    fields = (
        Field("group", "group", whole=True),
        Field("from_node", "from"),
        Field("to_node", "to"),
        Field("state", "state", lambda word: {"under way": "green"}.get(word, "yellow"), whole=True),
    )
    under_way = {group: state.move_of(group) for group in state.groups}
    rows = [
        {"group": move.group, "from_node": move.old_node or None, "to_node": move.new_node or None, "state": word}
        for word, found in (
            ("under way", [move for move in state.moves if move is under_way[move.group]]),
            ("waits", [move for move in state.moves if move is not under_way[move.group]]),
            ("planned", planned),
        )
        for move in found
    ]
    return Listing("moves", fields, rows)
