"""What may be decoded in one go: a little of anything, and much only where it is one piece.

Decoding holds up the event loop. A mebibyte takes 25 ms at most, whatever it says. Sixteen of tiny fields take most of
a second; sixteen that are one field of bytes, a copy.
"""

from __future__ import annotations

MAX_FIELDS = 32
"""Fields in what is longer: more than any of our messages has, where nothing in it is repeated."""
LENGTH_DELIMITED = 2
_FIXED = {1: 8, 5: 4}
"""Wire type → bytes of its values."""


def is_plain(data: bytes, at: int = 0, most: int = MAX_FIELDS) -> bool:
    """Whether the message that begins `at` has few fields. Takes as long as that, however long they are."""
    for _ in range(most):
        if at >= len(data):
            return at == len(data)
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == LENGTH_DELIMITED:
            length, at = _varint(data, at)
            at += length
        elif kind == 0:
            _, at = _varint(data, at)
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            return False
    return at == len(data)


def is_one_call(frame: bytes) -> bool:
    """Whether the frame of calls holds one, and in that one no field is there many times."""
    _, start = _varint(frame, 0)
    length, start = _varint(frame, start)
    return start + length == len(frame) and frame[:1] == b"\x0a" and is_plain(frame, start)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number, and where it ends: beyond the data, if that does not hold all of it."""
    number = shift = 0
    for byte in data[at : at + 10]:
        number |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if byte < 0x80:
            return number, at
    return 0, len(data) + 1
