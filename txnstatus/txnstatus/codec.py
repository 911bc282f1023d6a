"""Codecs: how values become messages and come back, derived at import from the fields of both.

A value's fields are named as in its message; import fails where one has a field that the other lacks. A field's type
says how it goes:

    int, str, bool, bytes, an enum     as it is
    a dataclass or a named tuple       a message; by its own `to_wire` and `from_wire`, if it has them
    X | None                           left out for None
    tuple[X, ...], list[X]             repeated
    Mapping[K, X]                      the values, repeated; each one's key is its own first field
    tuple[A, B]                        a message of two fields

Two functions for each kind of value are written out as source, a line a field, and compiled: every command of every
transaction comes here on every replica, and a loop over the fields takes a fifth longer before it converts anything.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, Generic, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

V = TypeVar("V")
M = TypeVar("M", bound=Message)
Fill = Callable[[Any, Any], None]
Read = Callable[[Any], Any]


def wholly_known(message: M) -> M:
    """The message. Raises ValueError where it has fields, at any depth, that this version does not know."""
    size = message.ByteSize()
    message.DiscardUnknownFields()
    if unknown := size - message.ByteSize():
        raise ValueError(f"{unknown} bytes of a {message.DESCRIPTOR.name} are of a newer version")
    return message


class Codec(Generic[V, M]):
    """The wire form of one kind of values."""

    def __init__(self, kind: type[V], message: type[M]) -> None:
        self._message = message
        hashable: Any = kind  # mypy takes a type for something that may not be
        self._fill, read = _derived(hashable, message.DESCRIPTOR)
        self.from_wire: Callable[[M], V] = read

    def to_wire(self, value: V) -> M:
        wire = self._message()
        self._fill(wire, value)
        return wire


class CommandCodec(Generic[V, M]):
    """The wire form of commands: a message with a oneof `command`, whose fields are named as the kinds are."""

    def __init__(self, message: type[M], kinds: Iterable[type]) -> None:
        self._message = message
        self._fills: dict[type, Fill] = {}
        self._reads: dict[str | None, Read] = {}
        for kind in kinds:
            name = re.sub("(?<=.)([A-Z])", r"_\1", kind.__name__).lower()
            descriptor = message.DESCRIPTOR.fields_by_name[name].message_type
            assert descriptor is not None
            self._fills[kind], self._reads[name] = _derived(kind, descriptor, f".{name}")
        unknown = {field.name for field in message.DESCRIPTOR.oneofs_by_name["command"].fields} - self._reads.keys()
        if unknown:
            raise TypeError(f"{message.DESCRIPTOR.full_name}: no command is sent as {', '.join(sorted(unknown))}")

    def encode(self, command: V) -> bytes:
        wire = self._message()
        self._fills[type(command)](wire, command)
        return wire.SerializeToString()

    def decode(self, data: bytes) -> V:
        """Raises ValueError on bytes that are no command of this version."""
        return self.from_wire(self._message.FromString(data))

    def to_wire(self, command: V) -> M:
        wire = self._message()
        self._fills[type(command)](wire, command)
        return wire

    def from_wire(self, wire: M) -> V:
        """Raises ValueError for a command that is none of this version, or has more than those have."""
        name = wire.WhichOneof("command")
        if name is None:
            raise ValueError(f"no {self._message.DESCRIPTOR.name} of this version in {wire.ByteSize()} bytes")
        command: V = self._reads[name](wholly_known(wire))
        return command


@functools.cache
def _derived(kind: type, descriptor: Descriptor, below: str = "") -> tuple[Fill, Read]:
    """What fills a message with a value, and what reads it from one. `below`: the field of both arguments' message."""
    hints = typing.get_type_hints(kind)
    names = _names(kind)
    if differ := set(names) ^ {field.name for field in descriptor.fields}:
        raise TypeError(f"{kind.__name__} and {descriptor.full_name} differ in {', '.join(sorted(differ))}")
    source = _Source({"kind": kind})
    fill, read, whole = [f"m = wire{below}"], list[str](), True
    for name in names:
        field = descriptor.fields_by_name[name]
        lines = list(source.fill(hints[name], field, f"v.{name}"))
        whole = whole and lines != [f"m.{name} = v.{name}"]
        fill += lines
        read.append(source.read(hints[name], field))
    if whole:
        fill.append("m.SetInParent()")  # where nothing was set, it would not be there at all
    text = (
        "\n    ".join(["def fill(wire, v):", *fill])
        + f"\ndef read(wire):\n    m = wire{below}\n    return kind({', '.join(read)})\n"
    )
    exec(compile(text, f"<codec of {kind.__name__}>", "exec"), source.names)
    return source.names["fill"], source.names["read"]


class _Source:
    """Writes the lines for the fields of one kind of value: `m` is the message, `v` the value."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        """Names that the lines refer to."""

    def fill(self, hint: Any, field: FieldDescriptor, value: str) -> Iterator[str]:
        kind, place = typing.get_origin(hint), f"m.{field.name}"
        if NoneType in typing.get_args(hint):
            yield f"if {value} is not None:"
            (inner,) = set(typing.get_args(hint)) - {NoneType}
            yield from (f"    {line}" for line in self.fill(inner, field, value))
        elif field.is_repeated:
            values = f"{value}.values()" if kind in (dict, Mapping) else value
            if field.message_type is None:
                yield f"{place}.extend({values})"
            else:
                yield f"for each in {values}:"
                yield f"    {self._fill_message(_item(hint), field, f'{place}.add()', 'each')}"
        elif field.message_type is not None:
            yield self._fill_message(hint, field, place, value)
        else:
            yield f"{place} = {value}"

    def _fill_message(self, hint: Any, field: FieldDescriptor, place: str, value: str) -> str:
        descriptor = field.message_type
        assert descriptor is not None
        if typing.get_origin(hint) is tuple:
            first, second = (each.name for each in descriptor.fields)
            return f"part = {place}; part.{first}, part.{second} = {value}"
        if hasattr(hint, "to_wire"):
            return f"{place}.CopyFrom({value}.to_wire())"
        self.names[f"fill_{field.name}"], _ = _derived(hint, descriptor)
        return f"fill_{field.name}({place}, {value})"

    def read(self, hint: Any, field: FieldDescriptor) -> str:
        kind, place = typing.get_origin(hint), f"m.{field.name}"
        if NoneType in typing.get_args(hint):
            (inner,) = set(typing.get_args(hint)) - {NoneType}
            return f"{self._read_one(inner, field, place)} if m.HasField({field.name!r}) else None"
        if not field.is_repeated:
            return self._read_one(hint, field, place)
        item = self._read_one(_item(hint), field, "each")
        if kind in (dict, Mapping):
            key = _names(_item(hint))[0]
            return f"{{each.{key}: {item} for each in {place}}}"
        return f"{kind.__name__}({place if item == 'each' else f'[{item} for each in {place}]'})"

    def _read_one(self, hint: Any, field: FieldDescriptor, place: str) -> str:
        descriptor = field.message_type
        if descriptor is None:
            if not (isinstance(hint, type) and issubclass(hint, enum.Enum)):
                return place
            self.names[hint.__name__] = hint
            return f"{hint.__name__}({place})"
        if typing.get_origin(hint) is tuple:
            first, second = (each.name for each in descriptor.fields)
            return f"({place}.{first}, {place}.{second})"
        if hasattr(hint, "from_wire"):
            self.names[f"read_{field.name}"] = hint.from_wire
        else:
            _, self.names[f"read_{field.name}"] = _derived(hint, descriptor)
        return f"read_{field.name}({place})"


def _names(kind: Any) -> Sequence[str]:
    """The fields that make a value; the others follow from them."""
    if issubclass(kind, tuple):
        return tuple(kind._fields)
    if hasattr(kind, "__struct_fields__"):  # msgspec's, which clients do without
        return tuple(kind.__struct_fields__)
    return [each.name for each in dataclasses.fields(kind) if each.init]


def _item(hint: Any) -> Any:
    """The type of what a tuple, a list or the values of a mapping are."""
    arguments = typing.get_args(hint)
    return arguments[1] if typing.get_origin(hint) in (dict, Mapping) else arguments[0]
