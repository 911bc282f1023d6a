"""Ordinary entries of the log: a batch of commands, each behind its length. pysyncobj would pickle them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

_REGULAR = b"\x00"
"""The first byte of them, pysyncobj's: 1 = a new leader's no-op; see `members` for another one."""
_LENGTH = struct.Struct("<I")


def entry_of(commands: Sequence[bytes]) -> bytes:
    return _REGULAR + b"".join([part for command in commands for part in (_LENGTH.pack(len(command)), command)])


def is_commands(entry: bytes) -> bool:
    """Whether it is an ordinary one."""
    return entry[:1] == _REGULAR


def commands_of(entry: bytes) -> Sequence[bytes]:
    """The commands in an ordinary entry."""
    commands, start, size, length_of = [], len(_REGULAR), len(entry), _LENGTH.unpack_from
    while start < size:
        end = start + _LENGTH.size + length_of(entry, start)[0]
        commands.append(entry[start + _LENGTH.size : end])
        start = end
    return commands
