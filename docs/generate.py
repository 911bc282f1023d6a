"""Writes the generated parts of the documents: the tables that drive the code, and its rooms.

python docs/generate.py            # rewrite what stands between the markers
python docs/generate.py --check    # only say whether that would change anything; exit code 1 if so
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path

from google.protobuf.descriptor import ServiceDescriptor

import txnstatus.proto
from txnparticipant.locks.locks import Mode
from txnparticipant.locks.statements import TARGET_MODE
from txnparticipant.shard import commands as participant_cmd
from txnparticipant.shard import transitions as participant
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.versions.mvcc import Manifest
from txnstatus.errors import ERROR_CLASSES, IllegalState
from txnstatus.foreign import ACTS, Act, Standing
from txnstatus.replicated import Rejected
from txnstatus.schema import Column, Schema
from txnstatus.security.authority import CALLS, Need
from txnstatus.status import transitions as status
from txnstatus.status.records import BeginRequest, TxnRecord, illegal
from txnstatus.types import ParticipantOpType, ParticipantState, Statement, Timestamp, TxnId

ROOT = Path(__file__).parent.parent
MARKED = re.compile(r"(<!-- begin: (?P<name>[\w-]+) -->\n).*?(<!-- end: (?P=name) -->)", re.DOTALL)

MODE_NAMES = {Mode.S: "S", Mode.SHARED_WRITE: "shared-write", Mode.X: "X"}

PROTOS = (
    "txn_manager",
    "table",
    "txn_savepoint",
    "savepoint",
    "timeline",
    "compaction",
    "audit",
    "backup",
    "admin",
    "txn_status",
    "participant",
    "catalog",
)
"""Files with services, what clients call first."""


PACKAGES = (
    "client/txnclient",
    "client/pyspark_txn",
    "manager/txnmanager",
    "txnstatus/txnstatus",
    "participant/txnparticipant",
    "deploy/txndeploy",
)
"""Folders of packages, in the order in which a transaction comes to them."""
ROOM_COLUMN = 30


def rooms() -> Iterator[str]:
    """The packages and their rooms, each with the first sentence of its docstring."""
    yield "```text"
    for number, package in enumerate(PACKAGES):
        if number:
            yield ""
        yield _room(f"{package}/", ROOT / package)
        for room in sorted((ROOT / package).glob("*/__init__.py")):
            yield _room(f"  {room.parent.name}/", room.parent)
    yield "```"


def _room(name: str, folder: Path) -> str:
    about = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    return f"{name:{ROOM_COLUMN}}{about.splitlines()[0].partition('. ')[0].rstrip('.')}"


def status_table() -> Iterator[str]:
    yield from _row("operation", *(state.name for state in status.TABLE_COLUMNS))
    yield from _rule(1 + len(status.TABLE_COLUMNS))
    for op, outcomes in status.transitions_by_op():
        cells = []
        for state, outcome in zip(status.TABLE_COLUMNS, outcomes, strict=True):
            if outcome is status.Stay.ILLEGAL:
                record = TxnRecord(TxnId(0), "", "", 0, 0, 0, BeginRequest("", TxnId(0), 1), state)
                cells.append(_illegal(illegal(record, op).code))
            else:
                cells.append(outcome.value if isinstance(outcome, status.Stay) else f"**{outcome.name}**")
        yield from _row(op.value, *cells)


def participant_table() -> Iterator[str]:
    yield from _row("operation", *(state.name if state else "no record" for state in participant.TABLE_COLUMNS))
    yield from _rule(1 + len(participant.TABLE_COLUMNS))
    for op in participant.Op:
        cells = []
        for state in participant.TABLE_COLUMNS:
            outcome = participant.TRANSITIONS[state, op]
            if outcome is participant.Stay.ILLEGAL:
                cells.append(_illegal(_participant_refusal(state, op)))
            else:
                cells.append(outcome.value if isinstance(outcome, participant.Stay) else f"**{outcome.name}**")
        yield from _row(op.value, *cells)


def _participant_refusal(state: ParticipantState | None, op: participant.Op) -> str:
    """The code of the error with which a shard refuses the operation in this state: it is brought there and asked."""
    shard = ParticipantShard(0)
    shard.apply(participant_cmd.CreateTable("db.t", Schema((Column("a", "bigint"),)), "file:///t", "request"))
    txn, table, ts = TxnId(0), shard.table("db.t").table_id, Timestamp(1)
    commands: Mapping[participant.Op, participant_cmd.TxnCommand] = {
        participant.Op.FIRST_WRITE: participant_cmd.OpenWrite(txn, table, "", "w", begins=True),
        participant.Op.WRITE: participant_cmd.AddFiles(txn, table, "", "w", Manifest("", 0, 0, 0, 0, 0)),
        participant.Op.BEGIN_COMMIT: participant_cmd.BeginCommit(txn, table, ts),
        participant.Op.FINALIZE_COMMIT: participant_cmd.FinalizeCommit(txn, table, ts),
        participant.Op.ABORT_TXN: participant_cmd.AbortTxn(txn, table),
    }
    way: Mapping[ParticipantState | None, tuple[participant.Op, ...]] = {
        None: (),
        ParticipantState.OPEN: (participant.Op.FIRST_WRITE,),
        ParticipantState.COMMIT_IN_PROGRESS: (participant.Op.FIRST_WRITE, participant.Op.BEGIN_COMMIT),
        ParticipantState.COMMITTED: (
            participant.Op.FIRST_WRITE,
            participant.Op.BEGIN_COMMIT,
            participant.Op.FINALIZE_COMMIT,
        ),
        ParticipantState.ABORTED: (participant.Op.FIRST_WRITE, participant.Op.ABORT_TXN),
    }
    for step in way[state]:
        shard.apply(commands[step])
    refusal = shard.apply(commands[op])
    assert isinstance(refusal, Rejected), f"{op} in {state} is illegal by the table, and was done"
    return refusal.error.code


def foreign_table() -> Iterator[str]:
    yield from _row("operation", *(f"{standing} there" for standing in Standing))
    yield from _rule(1 + len(Standing))
    for op in (ParticipantOpType.BEGIN_COMMIT, ParticipantOpType.FINALIZE_COMMIT, ParticipantOpType.ABORT_TXN):
        acts = [ACTS[standing, op] for standing in Standing]
        yield from _row(op.name, *(_illegal(IllegalState.code) if act is Act.ILLEGAL else act.value for act in acts))


def statements() -> Iterator[str]:
    yield from _row("statement", "mode of what it names")
    yield from _rule(2)
    for statement in Statement:
        yield from _row(f"`{statement}`", MODE_NAMES[TARGET_MODE[statement]])


def errors() -> Iterator[str]:
    yield from _row("code", "class", "gRPC status", "retriable", "what the caller does next")
    yield from _rule(5)
    for kind in ERROR_CLASSES:
        does = (kind.__doc__ or "").splitlines()[0]
        yield from _row(
            f"`{kind.code}`", f"`{kind.__name__}`", kind.grpc_status, "yes" if kind.retriable else "no", does
        )


def authority() -> Iterator[str]:
    yield from _row("call", "needs")
    yield from _rule(2)
    for method, needs in CALLS.items():
        told = [_need(need) for need in needs] or ["a certificate: it is about the caller's own"]
        yield from _row(f"`{method.removeprefix('txnstatus.')}`", "; ".join(told))


def _need(need: Need) -> str:
    roles = " or ".join(f"**{role}**" for role in need.roles) or "any role"
    if need.where == "*":
        return f"{roles} on anything"
    place = f"`{need.where}`" if need.where else "the cluster"
    if need.in_database:
        place = f"the database of {place}"
    unnamed = "" if need.even_unnamed or not need.where else ", where it names one"
    return f"{roles} on {place}{unnamed}{f', if {need.when}' if need.when else ''}"


def services() -> Iterator[str]:
    texts = {file.stem: file.read_text() for file in Path(txnstatus.proto.__path__[0]).glob("*.proto")}
    having = {proto for proto, text in texts.items() if re.search("^service ", text, re.MULTILINE)}
    assert having == set(PROTOS), f"services are in {sorted(having)}; PROTOS says in which order they come"
    for number, proto in enumerate(PROTOS):
        descriptor = import_module(f"txnstatus.proto.{proto}_pb2").DESCRIPTOR
        comments = _comments(texts[proto])
        for service in descriptor.services_by_name.values():
            if number:
                yield ""
            yield from _service(service, proto, comments)


def _service(service: ServiceDescriptor, proto: str, comments: Mapping[str, str]) -> Iterator[str]:
    about = comments.get(service.name) or comments[""]
    yield f"`{service.full_name}` ([{proto}.proto](../txnstatus/txnstatus/proto/{proto}.proto)): {about}"
    yield ""
    for method in service.methods:
        about = comments.get(method.name, "")
        yield f"- `{method.name}`{': ' if about else ''}{about}"


def _comments(proto: str) -> dict[str, str]:
    """What stands above the file, each service and each rpc."""
    found: dict[str, str] = {}
    pending: list[str] = []
    for line in map(str.strip, proto.splitlines()):
        if line.startswith("//"):
            pending.append(line.removeprefix("//").strip())
            continue
        if line.startswith("syntax"):
            found[""] = " ".join(pending)
        elif named := re.match(r"(?:service|rpc) (\w+)", line):
            found[named.group(1)] = " ".join(pending)
        pending = []
    return found


def _illegal(code: str) -> str:
    return f"illegal: {code}"


def _row(*cells: str) -> Iterator[str]:
    yield f"| {' | '.join(cells)} |"


def _rule(columns: int) -> Iterator[str]:
    yield f"|{'---|' * columns}"


PAGES: Mapping[str, Mapping[str, Callable[[], Iterable[str]]]] = {
    "architecture.md": {"rooms": rooms},
    "protocol.md": {
        "status-table": status_table,
        "participant-table": participant_table,
        "foreign-table": foreign_table,
        "statements": statements,
        "errors": errors,
        "services": services,
    },
    "security.md": {"authority": authority},
}
"""The pages, each with its generated parts."""


def generated(name: str, page: str) -> str:
    """The page with its generated parts made anew. Raises ValueError unless it has each part's markers once."""
    parts = PAGES[name]
    names = [match["name"] for match in MARKED.finditer(page)]
    if sorted(names) != sorted(parts):
        raise ValueError(f"{name} has markers for {names}; expected {list(parts)}")

    def fill(match: re.Match[str]) -> str:
        body = "\n".join(parts[match["name"]]())
        return f"{match[1]}\n{body}\n\n{match[3]}"

    return MARKED.sub(fill, page)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Writes the generated parts of the documents.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is stale")
    parser.add_argument("--pages", type=Path, default=ROOT / "docs", help="the folder of the pages")
    options = parser.parse_args(arguments)
    stale = False
    for name in PAGES:
        page = options.pages / name
        before = page.read_text()
        after = generated(name, before)
        if after == before:
            continue
        stale = True
        if options.check:
            print(f"{page} is stale: run `python docs/generate.py` and commit the result", file=sys.stderr)
        else:
            page.write_text(after)
    return int(stale and options.check)


if __name__ == "__main__":
    raise SystemExit(main())
