"""Page headers of Parquet files, which no checksum covers, against the footer, which says what they must add up to.

The headers are Thrift's compact protocol; no library that reads Parquet shows them.
"""

from __future__ import annotations

from typing import Any

HEADER_BYTES = 64 << 10
"""Most bytes of one header: it may hold statistics, with two values of the column."""
UNCOMPRESSED_SIZE, COMPRESSED_SIZE, DATA_PAGE, DATA_PAGE_V2 = 2, 3, 5, 8
"""Fields of a header; those of a data page hold the number of its values in their first field."""
_BOOLEANS, _BYTE, _INTEGERS, _DOUBLE, _BINARY, _LISTS, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12

Fields = dict[int, Any]
"""Number of a field → an integer, a struct's fields, or None for what is of no interest here."""


def start(chunk: Any) -> int:
    """The position of a column chunk's first page."""
    return min(int(at) for at in (chunk.dictionary_page_offset, chunk.data_page_offset) if at)


def fault(source: Any, chunk: Any) -> str:
    """What is wrong with the headers in a column chunk of the file; empty: nothing is."""
    at = start(chunk)
    end = at + chunk.total_compressed_size
    uncompressed = values = 0
    try:
        while at < end:
            header, length = read(source.read_at(min(HEADER_BYTES, end - at), at))
            uncompressed += length + header[UNCOMPRESSED_SIZE]
            values += sum(header[kind][1] for kind in (DATA_PAGE, DATA_PAGE_V2) if kind in header)
            at += length + header[COMPRESSED_SIZE]
    except (IndexError, KeyError, TypeError, ValueError):
        return f"column {chunk.path_in_schema}: the page header at {at} does not read"
    if (at, uncompressed, values) != (end, chunk.total_uncompressed_size, chunk.num_values):
        return f"column {chunk.path_in_schema}: its page headers and the footer differ"
    return ""


def read(data: bytes) -> tuple[Fields, int]:
    """The fields of a header, and its length. Raises IndexError, ValueError."""
    reader = _Reader(data)
    return reader.struct(), reader.at


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self) -> Fields:
        found: Fields = {}
        number = 0
        while head := self._byte():
            delta, kind = head >> 4, head & 15
            number = number + delta if delta else self._integer()
            found[number] = self._value(kind)
        return found

    def _value(self, kind: int) -> Any:
        if kind in _BOOLEANS:
            return None
        if kind in _INTEGERS:
            return self._integer()
        if kind == _STRUCT:
            return self.struct()
        if kind in _LISTS:
            head = self._byte()
            for _ in range(head >> 4 if head >> 4 < 15 else self._varint()):
                self._value(_BYTE if head & 15 in _BOOLEANS else head & 15)
            return None
        if kind not in (_BYTE, _DOUBLE, _BINARY):
            raise ValueError(f"type {kind}")
        self._skip({_BYTE: 1, _DOUBLE: 8}.get(kind) or self._varint())
        return None

    def _skip(self, length: int) -> None:
        if length > len(self.data) - self.at:
            raise ValueError("a value is longer than the header can be")
        self.at += length

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
