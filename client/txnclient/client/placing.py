"""Placing: which groups there are, and which of them new tables are in."""

from __future__ import annotations

from txnclient.calls.requests import build
from txnclient.session import Session
from txnstatus.proto import admin_pb2 as pb


class Placing:
    """What a `Client` does about groups."""

    session: Session

    def place_database(self, database: str, group: str | None) -> None:
        """Has tables of a database that are made from now on be in a group, if they do not say otherwise themselves.

        None: the hashes of their names say where, as for any database. Tables that are there stay where they are.

        Raises InvalidArgument, naming the groups that there are.
        """
        request = build(pb.PlaceDatabaseRequest, database=database, group=group or "")
        self.session.call("txnstatus.Admin/PlaceDatabase", request, pb.PlaceDatabaseResponse)

    def placements(self) -> dict[str, str]:
        """Database → the group that its new tables are in, of all that were placed by `place_database`."""
        found = self.session.call("txnstatus.Admin/GetCluster", pb.GetClusterRequest(), pb.GetClusterResponse)
        return {each.database: each.group for each in found.catalog.placements}

    def add_group(self) -> str:
        """Adds a group, on the nodes that there are; returns its name when tables can be placed in it.

        What there is stays where it is. Raises IllegalState while a node is replaced.
        """
        found = self.session.call("txnstatus.Admin/GetCluster", pb.GetClusterRequest(), pb.GetClusterResponse)
        name = f"group-{len(found.catalog.groups) - 1}"  # the next one: the catalog's own is among them
        self.session.call("txnstatus.Admin/AddGroup", build(pb.AddGroupRequest, name=name), pb.AddGroupResponse)
        return name
