"""Tickets for tests: a cluster's keys, and a ticket by one of them."""

from __future__ import annotations

from txnstatus.limits import TICKET_KEY_BYTES
from txnstatus.security.bearers import Bearers
from txnstatus.security.principals import Scope
from txnstatus.security.tickets import Ticket
from txnstatus.types import TxnId

CLUSTER_ID = "air.1"
KEY = b"2" * TICKET_KEY_BYTES
KEYS = {1: b"1" * TICKET_KEY_BYTES, 2: KEY}
NOW = 1_800_000_000.0
SCOPE = Scope(TxnId(7), ("air.flights", "air.seats"), appends_only=True)
TICKET = Ticket(CLUSTER_ID, "alice", SCOPE, int(NOW) + 3600)


class Clock:
    """The wall clock of bearers, which the test sets."""

    def __init__(self) -> None:
        self.seconds = NOW

    def micros(self) -> int:
        return int(self.seconds * 1e6)


def bearers(clock: Clock) -> Bearers:
    return Bearers(lambda: CLUSTER_ID, lambda: KEYS, clock.micros)
