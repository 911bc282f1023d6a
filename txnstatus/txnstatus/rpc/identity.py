"""Which cluster a connection is for: what each side says of itself, and what becomes of those that are not of one.

A cluster's id is drawn when it is founded, so a cluster that is founded anew, at the same addresses and under the same
name, is another one. Whoever knows the id of the cluster that it means says so first on every connection.
"""

from __future__ import annotations

from txnstatus.errors import InvalidArgument, Unavailable

MAX_NAMED = 120
"""Characters of what somebody takes for a cluster's id that an error repeats."""


class OtherCluster(InvalidArgument):
    """What is at the address is of another cluster than the one that is meant."""


def check_cluster(meant: str, own: str, where: str = "this") -> None:
    """`meant`: the id of the cluster that somebody means; empty: whichever it is. `own`: the one that there is.

    Raises OtherCluster, naming both; Unavailable where `own` is not known yet.
    """
    if not meant or meant == own:
        return
    if not own:
        raise Unavailable(f"{where} is a node that does not know yet of which cluster it is")
    raise OtherCluster(
        f"{where} is cluster {own!r}; cluster {meant[:MAX_NAMED]!r} is meant",
        hint="that one was founded elsewhere, or before this one: nothing of it is here; connect anew, and begin anew",
    )
