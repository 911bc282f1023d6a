"""Foreign participants: what they are called, and how a system that prepares keeps to the protocol.

A foreign participant is a system that is none of the cluster's tables. Its id is `@NAME`, which no table's is, and no
database's.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping

from txnstatus.errors import InvalidArgument
from txnstatus.types import DECIDED_ABORT, DECIDED_COMMIT, ParticipantId, ParticipantOpType, TxnId, TxnState

FOREIGN_NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"
MAX_IDENTITY_CHARACTERS = 200
_MARK = "@"


def check_foreign_name(name: str) -> str:
    """Raises InvalidArgument."""
    if not re.fullmatch(FOREIGN_NAME_PATTERN, name):
        raise InvalidArgument(
            f"{name[:100]!r} is no name of a foreign participant: letters, digits, _ and -, 63 at most, "
            "beginning with a letter or a digit"
        )
    return name


def check_identity(identity: str) -> str:
    """Raises InvalidArgument."""
    if len(identity) > MAX_IDENTITY_CHARACTERS or not identity.isprintable():
        raise InvalidArgument(
            f"{identity[:100]!r} cannot name a system: at most {MAX_IDENTITY_CHARACTERS} characters, all printable"
        )
    return identity


def foreign_id(name: str) -> ParticipantId:
    """Raises InvalidArgument."""
    return ParticipantId(_MARK + check_foreign_name(name))


def foreign_name(participant_id: str) -> str | None:
    """None: it is a table's id, or a database's."""
    return participant_id[len(_MARK) :] if is_foreign(participant_id) else None


def is_foreign(name: str) -> bool:
    """Whether a participant of this name, or id, is a foreign one."""
    return name.startswith(_MARK)


# ---- what a participant that prepares may be asked


class Standing(enum.StrEnum):
    """What such a system holds of one transaction."""

    ABSENT = "nothing"
    """Never prepared, or discarded."""
    PREPARED = "prepared"
    PUBLISHED = "published"


class Act(enum.StrEnum):
    PUBLISH = "publish"
    DISCARD = "discard"
    ALREADY = "already applied"
    ILLEGAL = "illegal"


ACTS: Mapping[tuple[Standing, ParticipantOpType], Act] = {
    # Its work was never prepared, or was rolled back: a commit would lose it.
    (Standing.ABSENT, ParticipantOpType.BEGIN_COMMIT): Act.ILLEGAL,
    (Standing.PREPARED, ParticipantOpType.BEGIN_COMMIT): Act.ALREADY,
    # Nothing is published before all have agreed: late, and nobody waits for the answer; or of another cluster.
    (Standing.PUBLISHED, ParticipantOpType.BEGIN_COMMIT): Act.ILLEGAL,
    (Standing.ABSENT, ParticipantOpType.FINALIZE_COMMIT): Act.ILLEGAL,
    (Standing.PREPARED, ParticipantOpType.FINALIZE_COMMIT): Act.PUBLISH,
    (Standing.PUBLISHED, ParticipantOpType.FINALIZE_COMMIT): Act.ALREADY,
    (Standing.ABSENT, ParticipantOpType.ABORT_TXN): Act.ALREADY,
    (Standing.PREPARED, ParticipantOpType.ABORT_TXN): Act.DISCARD,
    (Standing.PUBLISHED, ParticipantOpType.ABORT_TXN): Act.ILLEGAL,
}
"""The program itself prepares, before it asks for the commit; so BEGIN_COMMIT only finds out whether it has."""


# ---- what becomes of prepared work that nobody tells the outcome of


class Verdict(enum.StrEnum):
    WAIT = "wait"
    PUBLISH = "publish"
    DISCARD = "discard"


def verdict(state: TxnState, *, takes_part: bool) -> Verdict:
    """By what the status table says. Work that the transaction does not know of is no part of it, however it ends."""
    if state in DECIDED_COMMIT:
        return Verdict.PUBLISH if takes_part else Verdict.DISCARD
    return Verdict.DISCARD if state in DECIDED_ABORT else Verdict.WAIT


# ---- PostgreSQL: the names that a program and the participant's host share


LEDGER = "txnstatus.ledger"
"""A row for each published transaction, inserted by the transaction itself: there exactly if it is published."""
IDENTITY = "txnstatus.identity"
"""One row: what this database is called by those who must not take another for it, also when it is renamed or moved."""
HOSTED = "txnstatus.participants"
"""The participants that this database is, by their hosts."""
_GID_START = "txnstatus"


def gid(cluster_id: str, name: str, txn_id: TxnId) -> str:
    """The name of the prepared transaction; unlike any other's in the whole server."""
    return f"{_gid_prefix(cluster_id, name)}{txn_id}"


def txn_of_gid(text: str, cluster_id: str, name: str) -> TxnId | None:
    """None: it is not this participant's."""
    prefix = _gid_prefix(cluster_id, name)
    number = text.removeprefix(prefix)
    return TxnId(int(number)) if text.startswith(prefix) and re.fullmatch("[0-9]{1,19}", number) else None


def _gid_prefix(cluster_id: str, name: str) -> str:
    return f"{_GID_START}:{cluster_id}:{name}:"
