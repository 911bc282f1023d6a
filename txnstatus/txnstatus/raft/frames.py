"""Frames: how journals and snapshots are cut into pieces that can be checked one by one.

A frame is a header (kind, length, CRC-32 of the payload, CRC-32 of the header itself) and a payload.
"""

from __future__ import annotations

import struct
import zlib

_HEADER = struct.Struct("<4sIII")
HEADER_BYTES = _HEADER.size

BATCH = b"TXJ1"
SEGMENT = b"TXJH"
SEAL = b"TXJS"
SNAPSHOT = b"TXSH"
CHUNK = b"TXS1"
END = b"TXSE"
NAMES = b"TXN1"
KINDS = frozenset((BATCH, SEGMENT, SEAL, SNAPSHOT, CHUNK, END, NAMES))


def frame(kind: bytes, payload: bytes) -> bytes:
    body = struct.pack("<4sII", kind, len(payload), zlib.crc32(payload))
    return body + struct.pack("<I", zlib.crc32(body)) + payload


def read_header(header: bytes) -> tuple[bytes, int, int] | None:
    """Kind, length and CRC of the payload; None = these bytes are no header."""
    if len(header) != HEADER_BYTES:
        return None
    kind, length, payload_crc, header_crc = _HEADER.unpack(header)
    if kind not in KINDS or zlib.crc32(header[:-4]) != header_crc:
        return None
    return kind, length, payload_crc


def read_frame(data: bytes, offset: int = 0) -> tuple[bytes, bytes] | None:
    """Kind and payload; None = there is no whole frame."""
    header = read_header(data[offset : offset + HEADER_BYTES])
    if header is None:
        return None
    kind, length, payload_crc = header
    payload = data[offset + HEADER_BYTES : offset + HEADER_BYTES + length]
    if len(payload) != length or zlib.crc32(payload) != payload_crc:
        return None
    return kind, payload


def find_frame(data: bytes, start: int) -> int | None:
    """Where the next whole frame begins."""
    while (start := data.find(b"TX", start)) != -1:
        if read_frame(data, start) is not None:
            return start
        start += 1
    return None
