"""What one call may carry, and how long one may wait: the caps that callers and handlers agree on.

A call with more would hold up everybody else's on the same event loop. Caps of a part's own memory are beside it.
"""

from __future__ import annotations

from txnstatus.errors import InvalidArgument

MAX_WAIT_SECONDS = 2.0
"""A handler waits this long at most; whoever wants to wait longer asks again."""
MAX_LOCK_WAIT_SECONDS = 15.0
"""A manager asks for a lock again and again for this long; its callers may, too."""

MAX_REQUEST_BYTES = 16 << 20
"""Bytes of a request, where it is one that carries rows."""
MAX_PLAIN_REQUEST_BYTES = 1 << 20
"""Bytes of any other request."""

MAX_BEGIN_COUNT = 1_000
MAX_FIRST_WRITES = 100
"""First writes that a begin carries."""
TICKET_KEY_BYTES = 32
KEPT_TICKET_KEYS = 2
"""Keys that count: the newest, and the one before, by which tickets may be signed that still hold."""
MAX_TICKET_TABLES = 50
"""Tables that a ticket names."""
MAX_TICKET_BYTES = 12 << 10
"""Bytes of a ticket: whoever shows it does so at each connection."""
MAX_LAST_WRITES = 100
"""Last writes that a commit carries."""
MAX_LAST_WRITE_BYTES = 256 << 10
"""Bytes of them all: they are part of one entry."""
MAX_KEEP_ALIVE_IDS = 1_000
MAX_OPS_PER_CALL = 1_000
"""Operations or registrations of participants: each is a proposal to the group's log."""
MAX_LISTED = 1_000
"""Transactions in one answer."""
MAX_PAGE_BYTES = 256 << 10
"""Bytes of tables in one answer, if there is more than one."""
MAX_LEASES_PER_CALL = 1_000
MAX_SAVEPOINT_TABLES = 1_000
"""Tables that one savepoint names; of all tables none is named."""
MAX_TXN_SAVEPOINTS = 100
"""Savepoints that a transaction has at once."""
MAX_VOID = 1_000
"""Writes and rollbacks that have failed, of which a rollback to a savepoint tells."""
MAX_ADOPTED = 1_000
"""Directories that one call gives to a table's cleaner."""
MAX_LOCK_PARTITIONS = 1_000
MAX_FROM_WRITES = 10_000
"""Staged writes that one call adds."""
MAX_PARTITION_VALUES = 10_000
"""Values in the names of the partitions that one transaction adds to in a table, and in those that it overwrites."""
MAX_OUTCOMES = 10_000
"""Transactions of which one call asks for the outcome."""
MAX_STATES = 100
"""Most states that a listing names."""

MAX_CLAIMED_KEYS = 10_000
"""Keys of one write's files that are named one by one; of more only their range is."""
MAX_CLAIMED_BYTES = 256_000
"""Bytes of such keys."""
MAX_KEY_BOUND_BYTES = 1_000
"""Bytes of a bound of a range of keys."""

MAX_DELETED_FILES = 1_000
"""Files of which one write deletes rows; a statement that has more makes several writes."""
MAX_DELETED_BYTES = 256_000
"""Bytes of the bitmaps that tell which."""
MAX_COLUMN_RANGES = 32
"""Columns of which a write says between which values they are."""
MAX_FILE_NAME_BYTES = 1_000
"""Bytes of a file's path below its table's location."""

MAX_LABEL_CHARACTERS = 256
"""Characters of a label, an owner or a request id."""
MAX_LEASE_ID_CHARACTERS = 64
MAX_CUT_ID_CHARACTERS = 64
MAX_REASON_CHARACTERS = 4_096
"""Characters of the reason for an abort."""


def check_length(what: str, text: str, most: int) -> None:
    """Raises InvalidArgument for more characters than are possible."""
    if len(text) > most:
        raise InvalidArgument(f"{what} of {len(text)} characters: {most} are possible")


def check_count(count: int, what: str, most: int) -> None:
    """Raises InvalidArgument for more than a call may carry."""
    if count > most:
        raise InvalidArgument(f"{count} {what} in one call: {most} are possible")
