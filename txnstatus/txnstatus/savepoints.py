"""What a savepoint may be called, and for how long it may be kept."""

from __future__ import annotations

from txnstatus.errors import InvalidArgument
from txnstatus.limits import MAX_LABEL_CHARACTERS, MAX_SAVEPOINT_TABLES, check_count, check_length
from txnstatus.proto import savepoint_pb2 as pb

MAX_NAME_CHARACTERS = 128


def check_name(name: str) -> str:
    """Raises InvalidArgument."""
    if not 0 < len(name) <= MAX_NAME_CHARACTERS or not name.isprintable() or name != name.strip():
        raise InvalidArgument(
            f"savepoint name {name[:MAX_NAME_CHARACTERS]!r}: 1 to {MAX_NAME_CHARACTERS} printable characters are "
            "possible, without spaces around them"
        )
    return name


def check_request(request: pb.CreateSavepointRequest) -> None:
    """Raises InvalidArgument."""
    check_name(request.name)
    if not request.savepoint_id:
        raise InvalidArgument("a savepoint needs an id")
    check_length("savepoint id", request.savepoint_id, MAX_LABEL_CHARACTERS)
    if not request.owner:
        raise InvalidArgument("a savepoint needs an owner")
    check_length("owner", request.owner, MAX_LABEL_CHARACTERS)
    check_count(len(request.tables), "tables", MAX_SAVEPOINT_TABLES)
