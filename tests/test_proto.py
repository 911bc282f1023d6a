"""The formats of the wire and of logs: generated code is fresh; every number and place is on record, so that changing
one is a reviewed diff."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from google.protobuf import descriptor_pb2 as d
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FileDescriptor
from msgspec import inspect

from txnparticipant.shard import commands as shard_cmd
from txnstatus import features
from txnstatus.catalog import commands as catalog_cmd
from txnstatus.catalog.options import Options
from txnstatus.proto import catalog_pb2, participant_pb2, raft_pb2
from txnstatus.status import chunks
from txnstatus.status import commands as status_cmd

ROOT = Path(__file__).parent.parent
PROTO = ROOT / "txnstatus" / "txnstatus" / "proto"
WIRE = Path(__file__).parent / "fixtures" / "wire.txt"
LEVELS = WIRE.parent / "levels"
REWRITE = "REWRITE_WIRE"

HOW = f"""
The wire format and what tests/fixtures/wire.txt records of it differ (- recorded, + now):

{{diff}}

Nodes of two releases talk to each other during an upgrade, and journals and snapshots outlive a release. So:
  a new field or message        fine: give it a number that was never used
  a field that is gone          leave its number and its name behind as `reserved`
  another number or type        do not: add a new field beside the old one
What logs and snapshots have (`Stored`) goes by the order of its fields, as they are numbered there:
  a new field                   fine: at the end, with what it is in older values as its default
  a new command                 fine: give it a number that was never used
If that is what you did, record it:  {REWRITE}=1 python -m pytest {{test}}
"""


# ---- generated code


def test_generated_code_is_fresh(tmp_path: Path) -> None:
    command = _make_proto_command(tmp_path)
    subprocess.run(command, cwd=ROOT, check=True)
    fresh = {file.name: file.read_text() for file in (tmp_path / "txnstatus" / "proto").iterdir()}
    kept = {file.name: file.read_text() for file in PROTO.glob("*_pb2.py*")}
    assert len(fresh) == 2 * len(list(PROTO.glob("*.proto"))), f"not everything was generated: {sorted(fresh)}"
    stale = sorted(name for name in fresh.keys() | kept.keys() if fresh.get(name) != kept.get(name))
    assert not stale, f"run `make proto` and commit the result; stale, missing or left over: {', '.join(stale)}"


def _make_proto_command(out: Path) -> list[str]:
    """The Makefile's own command, with this interpreter, into another directory."""
    (recipe,) = re.findall(r"^\t(.*grpc_tools\.protoc.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    words = shlex.split(
        recipe.replace("$(BIN)/python", sys.executable).replace("$(PROTO)", PROTO.relative_to(ROOT).as_posix())
    )
    words = [re.sub(r"^(--\w+_out)=txnstatus$", rf"\1={out}", word) for word in words]
    assert sum(word.endswith(f"_out={out}") for word in words) == 2, f"unexpected: {words}"
    protos = sorted(file.relative_to(ROOT).as_posix() for file in PROTO.glob("*.proto"))
    return [*(word for word in words if not word.endswith("*.proto")), *protos]


# ---- numbers


def test_wire_format_is_as_recorded() -> None:
    now = sorted([*(line for file in _files() for line in _lines(file)), *_stored()])
    assert len(set(now)) == len(now), "two things have one name"
    if os.environ.get(REWRITE):
        WIRE.write_text("\n".join(now) + "\n")
    recorded = WIRE.read_text().splitlines()
    diff = [
        line for line in difflib.unified_diff(recorded, now, lineterm="", n=0) if line[:2] not in ("--", "++", "@@")
    ]
    assert not diff, HOW.format(diff="\n".join(diff), test="tests/test_proto.py")


def test_numbers_have_no_gaps() -> None:
    """Until 0.1.0 what is gone leaves no hole. This test goes with that release: from then on it leaves `reserved`."""
    numbers: dict[str, list[int]] = {}
    for file in _files():
        for line in _lines(file):
            if found := re.match(r"([\w.]+)\.\w+ = (\d+)", line):
                numbers.setdefault(found[1], []).append(int(found[2]))
    gaps = [name for name, its in numbers.items() if [n - its[0] for n in its] != [*range(len(its))] or its[0] > 1]
    assert not gaps, f"number these from the first field to the last: {', '.join(gaps)}"


def _files() -> Iterator[d.FileDescriptorProto]:
    for file in sorted(PROTO.glob("*.proto")):
        descriptor: FileDescriptor = import_module(f"txnstatus.proto.{file.stem}_pb2").DESCRIPTOR
        wire = d.FileDescriptorProto()
        descriptor.CopyToProto(wire)
        yield wire


def _lines(file: d.FileDescriptorProto) -> Iterator[str]:
    prefix = f"{file.package}." if file.package else ""
    for message in file.message_type:
        yield from _message(message, "", prefix)
    for enum in file.enum_type:
        yield from _enum(enum, "")
    for service in file.service:
        for method in service.method:
            request = "stream " * method.client_streaming + _short(method.input_type, prefix)
            response = "stream " * method.server_streaming + _short(method.output_type, prefix)
            yield f"{service.name}/{method.name} = {request} -> {response}"


def _message(message: d.DescriptorProto, outer: str, prefix: str) -> Iterator[str]:
    name = f"{outer}{message.name}"
    for field in message.field:
        yield f"{name}.{field.name} = {field.number} {_type(message, field, prefix)}"
    for reserved in message.reserved_range:
        yield f"{name} reserved {reserved.start} to {reserved.end - 1}"
    for reserved_name in message.reserved_name:
        yield f"{name} reserved {reserved_name}"
    if not message.field:
        yield f"{name} empty"
    for nested in message.nested_type:
        yield from _message(nested, f"{name}.", prefix)
    for enum in message.enum_type:
        yield from _enum(enum, f"{name}.")


def _enum(enum: d.EnumDescriptorProto, outer: str) -> Iterator[str]:
    for value in enum.value:
        yield f"{outer}{enum.name}.{value.name} = {value.number}"


def _type(message: d.DescriptorProto, field: d.FieldDescriptorProto, prefix: str) -> str:
    name = _short(field.type_name, prefix) or d.FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    if field.label == d.FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {name}"
    if field.proto3_optional:
        return f"optional {name}"
    if field.HasField("oneof_index"):
        return f"{name} in oneof {message.oneof_decl[field.oneof_index].name}"
    return name


def _stored() -> set[str]:
    """The commands of logs and the chunks of snapshots, and the values in them."""
    lines: set[str] = set()
    for log, union in (("status", status_cmd.Command), ("shard", shard_cmd.Command), ("status snapshot", chunks.Chunk)):
        kinds = inspect.multi_type_info(get_args(union))
        lines.update(f"{log} {kind.tag} = {kind.cls.__name__}" for kind in kinds)  # type: ignore[attr-defined]
        for kind in kinds:
            lines.update(_fields(kind, f"{log} "))
    return lines


def _fields(kind: Any, where: str = "stored ") -> Iterator[str]:
    """Fields of an array by their places, of a map by their names."""
    is_map = isinstance(kind, inspect.DataclassType)
    for number, field in enumerate(getattr(kind, "fields", ()), 1):
        place = "by name" if is_map else number
        what = f"{_word(field.type)}{'' if field.required else ' or nothing'}"
        yield f"{where}{_word(kind)}.{field.name} = {place} {what}"
        yield from _fields(field.type)
    if isinstance(kind, inspect.EnumType):
        yield from (f"{where}{_word(kind)}.{member.name} = {member.value}" for member in kind.cls)
    for inner in (*getattr(kind, "types", ()), *([kind.item_type] if hasattr(kind, "item_type") else ())):
        yield from _fields(inner)


def _word(kind: Any) -> str:
    if hasattr(kind, "item_type"):
        return f"repeated {_word(kind.item_type)}"
    if hasattr(kind, "types"):
        return " or ".join(map(_word, kind.types))
    return kind.cls.__name__ if hasattr(kind, "cls") else type(kind).__name__.removesuffix("Type").lower()


def _short(type_name: str, prefix: str) -> str:
    return type_name.removeprefix(".").removeprefix(prefix)


# ---- feature levels

HOW_LEVELS = f"""
What is in journals and snapshots, and what tests/fixtures/levels records of it by feature level, differ (+ now):

{{diff}}

Nodes of the version before stop at what they do not know, or pass over it. So what is new comes with a level that they
do not do: record it by  {REWRITE}=1 python -m pytest {{test}}  which puts it into the newest level's file. Where that
level is released, add one first. Commands, their fields and options have their level in txnstatus/features.py.
"""
DURABLE = (
    *(catalog_pb2.CatalogCommand, catalog_pb2.CatalogState, participant_pb2.ShardSnapshot),
    *(raft_pb2.PartsSnapshot, raft_pb2.SnapshotHeader, raft_pb2.SnapshotEnd),
    *(raft_pb2.SegmentHeader, raft_pb2.JournalBatch, raft_pb2.Members),
)
"""What is written as messages; with all that is in them."""


def test_what_is_written_is_recorded_by_level() -> None:
    now, recorded = set(_durable()), _by_level()
    new = sorted(now - set().union(*recorded.values()))
    if os.environ.get(REWRITE) and new:
        newest = recorded[features.OWN.newest] | set(new)
        (LEVELS / f"{features.OWN.newest}.txt").write_text("\n".join(sorted(newest)) + "\n")
        recorded = _by_level()
    differ = [f"+{line}" for line in sorted(now - set().union(*recorded.values()))]
    differ += [f"-{line}" for line in sorted(set().union(*recorded.values()) - now)]
    assert not differ, HOW_LEVELS.format(diff="\n".join(differ), test="tests/test_proto.py")
    assert sum(map(len, recorded.values())) == len(now), "something came with two levels"


def test_every_command_has_the_level_that_brought_it() -> None:
    logs = {"catalog": catalog_cmd.Command, "status": status_cmd.Command, "shard": shard_cmd.Command}
    kinds = {(log, kind.__name__) for log, union in logs.items() for kind in get_args(union)}
    listed = [(log, kind) for log, levels in features.COMMANDS.items() for each in levels.values() for kind in each]
    assert len(listed) == len(set(listed))
    assert set(listed) == kinds
    # The way to the second level: only who knows it is asked to go there.
    brought = {kind: 2 if kind == ("catalog", "RaiseLevel") else _level(*kind) for kind in kinds}
    by_level = _by_level()
    for (log, kind), level in sorted(brought.items()):
        (first,) = (each for each, lines in by_level.items() if any(_declares(log, kind, line) for line in lines))
        assert first == level, f"{log}.{kind} came with level {first}, and has level {level} in features.COMMANDS"
        for later, lines in by_level.items():
            for field in (name for line in lines if later > first and (name := _field_of(log, kind, line))):
                assert features.FIELDS.get(f"{log}.{kind}.{field}") == later, f"{log}.{kind}.{field} needs {later}"


def test_every_option_has_the_level_that_brought_it() -> None:
    for level, lines in _by_level().items():
        for line in lines:
            if line.startswith("option "):
                assert features.OPTIONS.get(line.removeprefix("option "), features.FIRST) == level, line


def _level(log: str, kind: str) -> int:
    (level,) = (level for level, kinds in features.COMMANDS[log].items() if kind in kinds)
    return level


def _declares(log: str, kind: str, line: str) -> bool:
    if log == "catalog":
        return bool(re.fullmatch(rf"CatalogCommand\.\w+ = \d+ CatalogCommand\.{kind} in oneof command", line))
    return bool(re.fullmatch(rf"{log} \d+ = {kind}", line))


def _field_of(log: str, kind: str, line: str) -> str | None:
    found = re.match(rf"(?:CatalogCommand\.|{log} ){kind}\.(\w+) = ", line)
    return found[1] if found else None


def _by_level() -> dict[int, set[str]]:
    return {int(path.stem): set(path.read_text().splitlines()) for path in sorted(LEVELS.glob("*.txt"))}


def _durable() -> Iterator[str]:
    """Lines as in wire.txt, of what is in journals and snapshots; and the options, which commands name."""
    yield from _stored()
    yield from (f"option {name}" for name, _, _ in Options().items())
    found: dict[str, Descriptor | EnumDescriptor] = {}
    left: list[Descriptor | EnumDescriptor] = [message.DESCRIPTOR for message in DURABLE]
    while left:
        descriptor = left.pop()
        if descriptor.full_name in found:
            continue
        found[descriptor.full_name] = descriptor
        if isinstance(descriptor, Descriptor):
            left += [inner for field in descriptor.fields if (inner := field.message_type or field.enum_type)]
    names = sorted(name.removeprefix("txnstatus.") for name in found)
    lines = [line for file in _files() for line in _lines(file)]
    for line in lines:
        if any(re.match(rf"{re.escape(name)}(?:\.\w+ = | empty)", line) for name in names):
            yield line
