"""What is recorded: nothing of it is changed unseen, nothing is done without it, no crash or full disk spoils it."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from google.protobuf.message import Message
from typer.testing import CliRunner

from txndeploy.ctl import commands
from txnstatus.errors import NotAuthorized, NotFound, Unavailable
from txnstatus.proto import admin_pb2, backup_pb2, table_pb2, txn_manager_pb2
from txnstatus.rpc.recording import Recording
from txnstatus.rpc.server import Registry
from txnstatus.security import trail_files
from txnstatus.security.access import Access
from txnstatus.security.authority import CALLS
from txnstatus.security.deeds import RECORDED
from txnstatus.security.principals import Kind, Principal
from txnstatus.security.trail_files import REFUSALS_PER_HOUR, SAME_SECONDS, TrailFiles, files, lines
from txnstatus.trail import START, Deed, Link, TrailBroken, line, read, split, verified

ADA, EVE = Principal("air", Kind.USER, "ada"), Principal("air", Kind.USER, "eve")
SECOND = 1_000_000


def deed(number: int) -> Deed:
    return Deed("ada", "Admin/SetOption", {"name": "retention_ms", "value": str(number)}, "asked")


def written(count: int) -> list[bytes]:
    texts, link = list[bytes](), START
    for number in range(count):
        text, link = line(link, number * SECOND, "n1", deed(number))
        texts.append(text.removesuffix(b"\n"))
    return texts


def holds(texts: Sequence[bytes], after: Link | None = START) -> Link | None:
    """The last link; None: they do not follow from each other."""
    link = after
    try:
        for _, last in verified(texts, after):
            link = last
    except TrailBroken:
        return None
    return link


# ---- the chain


def test_lines_follow_from_each_other_also_from_the_middle_on() -> None:
    texts = written(5)
    assert holds(texts) == holds(texts[2:], None) == Link(5, holds(texts).digest)  # type: ignore[union-attr]
    assert [read(text)["n"] for text in texts] == [1, 2, 3, 4, 5]


def test_every_bit_that_is_flipped_and_every_line_that_is_moved_shows() -> None:
    """In all lines but the last one, for which one has to have kept its hash."""
    texts, last = written(4), holds(written(4))
    for number, text in enumerate(texts):
        for bit in range(8 * len(text)):
            flipped = bytearray(text)
            flipped[bit // 8] ^= 1 << bit % 8
            changed = [*texts[:number], bytes(flipped), *texts[number + 1 :]]
            assert holds(changed) != last, (number, bit)
            assert number == 3 or holds(changed) is None
    for order in itertools.permutations(texts):
        assert (holds(order) == last) == (list(order) == texts)
    for left_out in range(3):
        assert holds(texts[:left_out] + texts[left_out + 1 :]) is None
    assert holds([*texts[:2], texts[1], *texts[2:]]) is None
    assert holds(texts[:3]) not in (None, last), "what was cut off shows by the last hash alone"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[]",
        b'{"n":1}',
        b'{"n":1,"before":""}',
        written(1)[0].replace(b'"n":1', b'"n":"1"'),
        written(1)[0].replace(b'"n":1', b'"n":true'),
        re.sub(rb'"who":"[^"]*"', b'"who":7', written(1)[0]),
        re.sub(rb'"what":{[^}]*}', b'"what":[]', written(1)[0]),
        b"[" * 100_000,
        b"\xff",
        b"null",
    ],
)
def test_what_is_no_line_is_refused(text: bytes) -> None:
    with pytest.raises(TrailBroken, match="is no line"):
        read(text)


# ---- the files


class Trail:
    """Files in a directory, by a clock that stands still."""

    def __init__(self, directory: Path, blocking: ThreadPoolExecutor) -> None:
        self.directory, self.blocking, self.micros = directory, blocking, 0

    def open(self) -> TrailFiles:
        return TrailFiles(self.directory, "n1", lambda: self.micros, self.blocking)

    def told(self) -> list[dict[str, object]]:
        found = [dict(each) for each, _ in verified(lines(self.directory))]
        assert holds(list(lines(self.directory)), None) is not None
        return found


@pytest.fixture
def trail(tmp_path: Path) -> Iterator[Trail]:
    with ThreadPoolExecutor(1) as blocking:
        yield Trail(tmp_path / "trail", blocking)


async def record(opened: TrailFiles, *deeds: Deed) -> list[object]:
    heard = [asyncio.get_running_loop().create_future() for _ in deeds]
    for each, told in zip(deeds, heard, strict=True):
        opened.record(each, told.set_result)
    return list(await asyncio.gather(*heard))


def test_what_is_recorded_is_there_after_a_restart(trail: Trail) -> None:
    async def life(number: int) -> None:
        opened = trail.open()
        assert await record(opened, *(deed(number + each) for each in range(3))) == [None] * 3
        await opened.close()

    for number in (0, 10):
        asyncio.run(life(number))
    assert [each["did"] for each in trail.told()] == ["start", *["Admin/SetOption"] * 3] * 2
    assert [each["n"] for each in trail.told()] == list(range(1, 9))


@pytest.mark.parametrize("torn", [b"{", b'{"n":5,"before":', b"\0" * 100, "whole without its end"])
def test_a_line_that_was_not_ended_is_cut_off_and_that_is_recorded(trail: Trail, torn: bytes | str) -> None:
    asyncio.run(trail.open().close())
    (path,) = files(trail.directory)
    whole = path.read_bytes()
    cut = torn if isinstance(torn, bytes) else line(START, 0, "n1", deed(1))[0][:-1]
    path.write_bytes(whole + cut)
    assert split(path.read_bytes())[1] == len(cut)
    asyncio.run(trail.open().close())
    assert [each["what"] for each in trail.told()] == [{}, {"cut off": f"{len(cut)} bytes"}]
    assert path.read_bytes().startswith(whole)


def test_a_file_that_was_not_begun_is_none(trail: Trail, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(trail.open().close())
    (trail.directory / "trail-000000000009.jsonl").write_bytes(b"{")
    asyncio.run(trail.open().close())
    assert [each["n"] for each in trail.told()] == [1, 2]


def test_a_line_that_was_changed_is_found_at_the_start(trail: Trail) -> None:
    asyncio.run(trail.open().close())
    asyncio.run(trail.open().close())
    (path,) = files(trail.directory)
    path.write_bytes(path.read_bytes().replace(b"node/n1", b"node/n2", 1))
    with pytest.raises(TrailBroken, match="line 1 is not the one that line 2 was written after"):
        trail.open()


def test_files_follow_each_other_and_the_oldest_go(trail: Trail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trail_files, "FILE_BYTES", 1_000)
    monkeypatch.setattr(trail_files, "FILES", 3)

    async def fill() -> None:
        opened = trail.open()
        for number in range(40):
            await record(opened, deed(number))
        await opened.close()

    asyncio.run(fill())
    assert len(files(trail.directory)) == 3
    told = trail.told()
    assert told[0]["n"] not in (1, 41)
    assert told[-1]["n"] == 41
    assert all(file.stat().st_size <= 1_000 for file in files(trail.directory))


def full(after: int) -> Callable[[int, bytes], int]:
    """A disk that has room for so many bytes more."""
    left, write = [after], os.write

    def limited(file: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = write(file, bytes(data)[: left[0]])
        left[0] -= done
        return done

    return limited


@pytest.mark.parametrize("room", [0, 1, 100, 150])
def test_without_room_nothing_is_recorded_and_with_room_it_is_again(
    trail: Trail, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        opened = trail.open()
        with monkeypatch.context() as patch:
            patch.setattr(trail_files.os, "write", full(room))
            (refusal,) = await record(opened, deed(1))
        assert isinstance(refusal, Unavailable)
        assert "nothing was done" in refusal.hint
        assert await record(opened, deed(2)) == [None]
        await opened.close()

    asyncio.run(run())
    assert [each["what"] for each in trail.told()] == [{}, {"name": "retention_ms", "value": "2"}]


def test_after_a_sync_that_failed_nothing_is_recorded_any_more(trail: Trail, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_file: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def run() -> None:
        opened = trail.open()
        with monkeypatch.context() as patch:
            patch.setattr(trail_files.os, "fsync", fails)
            (refusal,) = await record(opened, deed(1))
        assert isinstance(refusal, Unavailable)
        (again,) = await record(opened, deed(2))
        assert isinstance(again, Unavailable)
        assert "a sync has failed" in again.message
        await opened.close()

    asyncio.run(run())


def test_of_many_refusals_some_are_recorded_and_the_others_counted(trail: Trail) -> None:
    """A node that was removed, and left to run, had ten lines a second: in five days they were all that there was."""

    async def run() -> None:
        opened = trail.open()
        for _ in range(SAME_SECONDS * 10):
            opened.refused("", "login", "node/n1 is revoked")
            trail.micros += SECOND // 10
        opened.refused("", "login", "node/n1 is revoked")
        for number in range(REFUSALS_PER_HOUR + 5):
            opened.refused("eve", "Table/DropTable", f"eve may not drop air.t{number}")
        trail.micros += 3600 * SECOND
        opened.refused("", "login", "nobody knows")
        opened.refused("", "login", "node/n1 is revoked")
        await opened.close()

    asyncio.run(run())
    refused = [each["what"] for each in trail.told() if each["outcome"] == "refused"]
    assert refused[:2] == [
        {"why": "node/n1 is revoked"},
        {"why": "node/n1 is revoked", "more of it before": str(SAME_SECONDS * 10 - 1)},
    ]
    assert len(refused) == REFUSALS_PER_HOUR + 2
    assert refused[-2:] == [{"why": "nobody knows", "others before": "7"}, {"why": "node/n1 is revoked"}]


# ---- calls


class Service:
    """Sets options that there are, and aborts everything."""

    def __init__(self) -> None:
        self.did: list[str] = []

    async def set_option(self, request: admin_pb2.SetOptionRequest) -> admin_pb2.SetOptionResponse:
        if request.name == "none":
            raise NotFound("no option 'none'")
        self.did.append(request.name)
        return admin_pb2.SetOptionResponse()

    async def abort_transaction(
        self, _request: txn_manager_pb2.AbortTransactionRequest
    ) -> txn_manager_pb2.AbortTransactionResponse:
        return txn_manager_pb2.AbortTransactionResponse()


def test_calls_are_recorded_before_and_after_or_not_done(trail: Trail, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service()

    async def ask(registry: Registry, method: str, request: Message, caller: Principal | None) -> None:
        await registry.call(f"txnstatus.{method}", request.SerializeToString(), caller=caller)

    async def run() -> None:
        opened = trail.open()
        registry = Registry()
        registry.access, registry.recording = Access(["ada"]), Recording(opened)
        for pb, name in ((admin_pb2, "Admin"), (txn_manager_pb2, "TxnManager")):
            registry.add(pb.DESCRIPTOR.services_by_name[name], service)
        option = admin_pb2.SetOptionRequest(name="some", value=7)
        await ask(registry, "Admin/SetOption", option, ADA)
        with pytest.raises(NotFound):
            await ask(registry, "Admin/SetOption", admin_pb2.SetOptionRequest(name="none"), ADA)
        with pytest.raises(NotAuthorized):
            await ask(registry, "Admin/SetOption", option, EVE)
        await ask(registry, "Admin/SetOption", option, None)
        abort = txn_manager_pb2.AbortTransactionRequest(txn_id=5, reason="in the way")
        await ask(registry, "TxnManager/AbortTransaction", abort, ADA)
        abort.as_operator = True
        await ask(registry, "TxnManager/AbortTransaction", abort, ADA)
        with monkeypatch.context() as patch:
            patch.setattr(trail_files.os, "write", full(0))
            with pytest.raises(Unavailable, match="cannot record what it is to do"):
                await ask(registry, "Admin/SetOption", admin_pb2.SetOptionRequest(name="unseen"), ADA)
        await opened.close()

    asyncio.run(run())
    assert service.did == ["some", "some"], "what could not be recorded was not done"
    told = [(each["who"], each["did"], each["outcome"]) for each in trail.told() if each["did"] != "start"]
    assert told == [
        ("ada", "Admin/SetOption", "asked"),
        ("ada", "Admin/SetOption", "done"),
        ("ada", "Admin/SetOption", "asked"),
        ("ada", "Admin/SetOption", "NOT_FOUND"),
        ("eve", "Admin/SetOption", "refused"),
        ("ada", "TxnManager/AbortTransaction", "asked"),
        ("ada", "TxnManager/AbortTransaction", "done"),
    ]
    assert trail.told()[1]["what"] == {"name": "some", "value": "7"}


def test_what_is_recorded_is_what_users_call() -> None:
    assert RECORDED.keys() <= CALLS.keys()
    looking = {f"txnstatus.Admin/{name}" for name in ("GetCluster", "GetNode", "ListTransactions", "ShowGrants")}
    theirs = {method for method in CALLS if method.startswith(("txnstatus.Admin/", "txnstatus.Backups/"))}
    assert theirs - looking == {method for method in RECORDED if method in theirs}
    assert RECORDED["txnstatus.Backups/CutCluster"](backup_pb2.CutClusterRequest()) == {}, "it is recorded"
    assert RECORDED["txnstatus.Backups/ReadCut"](backup_pb2.ReadCutRequest()) is None, "one backup has many"
    assert RECORDED["txnstatus.Table/DropTable"](table_pb2.DropTableRequest(table="a.t", txn_id=3)) == {
        "table": "a.t",
        "txn_id": "3",
    }


def test_txnctl_shows_and_verifies(trail: Trail) -> None:
    async def run() -> None:
        opened = trail.open()
        await record(opened, deed(1), Deed("bob\x1b[31m", "Admin/Grant", {"role": "admin"}, "done"))
        await opened.close()

    def ctl(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(commands.app, ["audit", *arguments])
        assert result.exit_code == code, result.output
        return result.output

    asyncio.run(run())
    where = str(trail.directory)
    assert "Admin/SetOption" in ctl("show", where)
    assert "\x1b[31m" not in ctl("show", where)
    (shown,) = json.loads(ctl("show", where, "--did", "Admin/Grant", "--json"))["audit"]
    assert shown["what"] == {"role": "admin"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{6}Z", shown["at"]), "as all listings have times"
    told = ctl("verify", where)
    known = told.split("The last one is ")[1].split()[0]
    assert "3 lines follow" in told
    ctl("verify", where, "--known", known)
    (path,) = files(trail.directory)
    whole = path.read_bytes()
    path.write_bytes(b"\n".join(whole.split(b"\n")[:2]) + b"\n")
    ctl("verify", where)
    assert "cut off" in ctl("verify", where, "--known", known, code=1)
    path.write_bytes(whole.replace(b"ada", b"eve"))
    assert "was changed" in ctl("verify", where, code=1)
    assert "no trail" in ctl("verify", str(trail.directory.parent), code=1)
