"""Every wrong form of a message, by reflection: for each field, what is missing, out of range, of the wrong type or too
much, as bytes on the wire. A new field or message is covered as soon as it is in a .proto file.
"""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

Case = tuple[str, bytes]
"""A description of what is wrong, and the whole message."""

VARINT, FIXED64, LEN, FIXED32 = 0, 1, 2, 5
MANY = 100_000
"""How often a field comes that comes too often: more than any request may have."""
HUGE = 1 << 20
LITTLE = 7
SMALL = (0, 1, 2, LITTLE, 99)
"""The small numbers that wrong fields are given: as an id, they may be somebody's."""

_VARINTS = {
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_BOOL: (0, 1),
    FieldDescriptor.TYPE_ENUM: (-(2**31), 2**31 - 1),
}
_FIXED = {FieldDescriptor.TYPE_FIXED64: 8, FieldDescriptor.TYPE_FIXED32: 4}
TEXTS = {
    "empty": b"",
    "a blank": b" ",
    "NUL": b"\0",
    "NUL inside": b"a\0b",
    "upwards": b"../../etc/passwd",
    "right to left": "\u202eevil\u2066".encode(),
    "not a character": "\ufffe\uffff".encode(),
    "beyond the BMP": "\U0001f4a9\U0010ffff".encode(),
    "a lone combining mark": "\u0301".encode(),
    "a newline": b"a\nb",
    "a quote": b"a'\"`;--",
    "long": b"x" * 1_000,
    "huge": b"x" * HUGE,
    "no UTF-8": b"\xff\xfe",
    "a surrogate": b"\xed\xa0\x80",
}


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, wire_type: int) -> bytes:
    return varint(number << 3 | wire_type)


def sized(number: int, payload: bytes) -> bytes:
    return tag(number, LEN) + varint(len(payload)) + payload


def mutations(message: Message, many: int = MANY) -> Iterator[Case]:
    """All wrong forms of a message that is right. `many`: how often its repeated fields come."""
    valid = message.SerializeToString()
    yield "nothing at all", b""
    yield "garbage", b"\xff" * 64
    yield "cut short", valid[: len(valid) // 2]
    yield "an unknown field", valid + sized(2_000, b"from the future")
    yield "an unknown group", valid + tag(2_001, 3) + tag(2_001, 4)
    for field in message.DESCRIPTOR.fields:
        yield from field_mutations(message, field, many)


def field_mutations(message: Message, field: FieldDescriptor, many: int = MANY) -> Iterator[Case]:
    rest = type(message)()
    rest.CopyFrom(message)
    rest.ClearField(field.name)
    base = rest.SerializeToString()
    yield f"{field.name}: missing", base
    for name, raw in _wrong_types(field):
        yield f"{field.name}: {name}", base + raw
    values = list(_values(message, field, many))
    for name, raw in values:
        yield f"{field.name}{name}", base + raw
    if field.is_repeated:
        one = values[0][1] if values else b""
        yield f"{field.name}: {many} times", base + one * many
    elif values:
        yield f"{field.name}: twice", base + values[0][1] + values[-1][1]


def _values(message: Message, field: FieldDescriptor, many: int) -> Iterator[Case]:
    """As the field itself on the wire, tag and all; the first is small."""
    number = field.number
    if field.type in _VARINTS:
        low, high = _VARINTS[field.type]
        declared = {value.number for value in field.enum_type.values} if field.enum_type else set()
        for value in sorted({*SMALL, low, low + 1, high - 1, high} | declared, key=abs):
            yield f" = {value}", tag(number, VARINT) + varint(value)
        yield " = 2**64 - 1", tag(number, VARINT) + varint(-1)
    elif field.type in _FIXED:
        size = _FIXED[field.type]
        for value in (0, 1, 2 ** (8 * size - 1), 2 ** (8 * size) - 1):
            wire_type = FIXED64 if size == 8 else FIXED32
            yield f" = {value}", tag(number, wire_type) + value.to_bytes(size, "little")
    elif field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
        for name, text in TEXTS.items():
            yield f" = {name}", sized(number, text)
    elif field.type == FieldDescriptor.TYPE_MESSAGE and not field.message_type.GetOptions().map_entry:
        inner = _part(message, field)
        yield " = an empty one", sized(number, b"")
        for name, payload in mutations(inner, many):
            yield f".{name}", sized(number, payload)


def _part(message: Message, field: FieldDescriptor) -> Message:
    value = getattr(message, field.name)
    if not field.is_repeated:
        return value  # type: ignore[no-any-return]
    return value[0] if value else value.add()  # type: ignore[no-any-return]


def _wrong_types(field: FieldDescriptor) -> Iterator[Case]:
    number = field.number
    yield "as a varint", tag(number, VARINT) + varint(LITTLE)
    yield "as 64 bits", tag(number, FIXED64) + bytes(8)
    yield "as 32 bits", tag(number, FIXED32) + bytes(4)
    yield "as bytes", sized(number, b"\xff\xff\xff")
    yield "longer than what follows", tag(number, LEN) + varint(1_000_000)
    yield "a varint without end", tag(number, VARINT) + b"\xff" * 11
    yield "an unknown wire type", tag(number, 7)
