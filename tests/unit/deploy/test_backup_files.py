"""A backup's files: what is whole is taken for one, what is changed, cut short or unfinished is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.harness.cutting import STATE
from txndeploy.backup import data, files, manifest, renewing
from txndeploy.backup.data import Copy
from txndeploy.backup.files import Backup
from txndeploy.backup.manifest import GroupFile, Manifest
from txnstatus.catalog.catalog import CATALOG, to_wire
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.errors import AlreadyExists, DataDamaged, InvalidArgument
from txnstatus.raft.journal import Entry
from txnstatus.raft.parts import address
from txnstatus.raft.snapshot import Meta, framed
from txnstatus.status import chunks as status_chunks
from txnstatus.status.records import BeginRequest, TxnRecord
from txnstatus.types import NO_TIMESTAMP, Participant, ParticipantId, TxnId, TxnState

META = Meta(Entry(b"\x01", 6, 2), Entry(b"\x01", 7, 2), ("n1",))
TOLD = Manifest("c.0", "cut", 5, (GroupFile("catalog", "catalog.snapshot", 3, "a" * 64),))


def write(directory: Path) -> None:
    with files.new_directory(directory) as new:
        said = files.put(new, CATALOG, framed(CATALOG, META, [to_wire(STATE).SerializeToString()]))
        listed = files.put_list(new, [Copy("file:///t/f", 1, "data/0/0")], 0)
        files.seal(new, Manifest("c.0", "cut", 5, (said,), listed))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write(tmp_path / "backup")
    backup = Backup(tmp_path / "backup")
    assert backup.groups == [CATALOG]
    assert backup.meta(CATALOG) == META
    assert renewing.catalog_of(backup.chunks(CATALOG)) == STATE
    assert [path.name for path in tmp_path.iterdir()] == ["backup"]


@pytest.mark.parametrize("there", [True, False])
def test_no_backup_takes_the_place_of_a_link(tmp_path: Path, there: bool) -> None:
    """It failed at its end, with what the system says of a rename."""
    place = tmp_path / "elsewhere"
    if there:
        place.mkdir()
    (tmp_path / "backup").symlink_to(place)
    with pytest.raises(AlreadyExists, match="backup is a link: name the place to which it leads"):
        write(tmp_path / "backup")


def test_files_of_tables_are_copied_and_put_back(tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    tables.mkdir()
    copies = []
    for number in range(3):
        (tables / f"f {number}").write_bytes(b"x" * number)
        copies.append(Copy((tables / f"f {number}").as_uri(), number, f"data/0/{number}"))
    with files.new_directory(tmp_path / "backup") as new:
        copies = data.copy_out(copies, new, lambda _: None)
        files.put_list(new, copies, 0)
    assert data.decode((tmp_path / "backup" / data.LIST).read_bytes()) == copies
    assert data.put_back(copies, tmp_path / "backup", lambda _: None) == 0, "all are there"
    (tables / "f 2").unlink()
    assert data.put_back(copies, tmp_path / "backup", lambda _: None) == 1
    assert (tables / "f 2").read_bytes() == b"xx"
    (tables / "f 2").unlink()
    (tmp_path / "backup" / "data" / "0" / "2").write_bytes(b"xy")
    with pytest.raises(InvalidArgument, match="is not what was copied"):
        data.put_back(copies, tmp_path / "backup", lambda _: None)
    with pytest.raises(DataDamaged, match="has 1 bytes where 2"):
        data.copy_out([Copy((tables / "f 1").as_uri(), 2, "data/0/0")], tmp_path, lambda _: None)
    with pytest.raises(InvalidArgument, match="no copy of a backup"):
        data.decode(b'{"uri": "file:///x", "bytes": 1, "file": "../x", "crc32": 1}')


def test_every_changed_byte_is_found(tmp_path: Path) -> None:
    write(tmp_path / "backup")
    for path in sorted((tmp_path / "backup").iterdir()):
        whole = path.read_bytes()
        for at in range(0, len(whole), 7):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
            with pytest.raises(InvalidArgument):
                Backup(tmp_path / "backup")
        for length in (0, 1, len(whole) - 1):
            path.write_bytes(whole[:length])
            with pytest.raises(InvalidArgument):
                Backup(tmp_path / "backup")
        path.write_bytes(whole)
    Backup(tmp_path / "backup")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    write(tmp_path / "backup")
    (tmp_path / "backup" / "catalog.snapshot").unlink()
    with pytest.raises(InvalidArgument, match=r"catalog\.snapshot"):
        Backup(tmp_path / "backup")
    with pytest.raises(InvalidArgument, match="is no backup"):
        Backup(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 2}, "format 2"),
        ({"groups": []}, "has no catalog"),
        ({"groups": [{"group": "../x"}]}, "does not say"),
        ({"groups": 5}, "does not say"),
        (
            {"groups": [{"group": "../x", "file": "../x.snapshot", "bytes": 1, "sha256": "a" * 64}]},
            "is no file of group",
        ),
    ],
)
def test_a_manifest_of_others_is_refused(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    write(tmp_path / "backup")
    path = tmp_path / "backup" / manifest.NAME
    document = {**json.loads(path.read_bytes()), **changes}
    del document["sha256"]
    path.write_text(json.dumps({**document, "sha256": manifest._digest(document)}))
    with pytest.raises(InvalidArgument, match=said):
        Backup(tmp_path / "backup")


def test_nothing_is_left_of_what_fails_and_nothing_is_overwritten(tmp_path: Path) -> None:
    def write_in_vain() -> None:
        with files.new_directory(tmp_path / "backup") as new:
            (new / "some").write_bytes(b"")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_in_vain()
    assert list(tmp_path.iterdir()) == []
    write(tmp_path / "backup")
    with pytest.raises(AlreadyExists):
        write(tmp_path / "backup")
    assert [path.name for path in tmp_path.iterdir()] == ["backup"]


# ---- what it becomes


def record(state: TxnState, *participants: str) -> TxnRecord:
    named = {ParticipantId(each): Participant(ParticipantId(each), each) for each in participants}
    return TxnRecord(
        TxnId(7), "ada", "", 60_000, 1, 1, BeginRequest("r", TxnId(7), 1), state, NO_TIMESTAMP, None, named
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (record(TxnState.OPEN), TxnState.OPEN),
        (record(TxnState.OPEN, "0.0"), TxnState.OPEN),
        (record(TxnState.COMMIT_IN_PROGRESS, "0.0"), TxnState.OPEN),
        (record(TxnState.FINALIZE_IN_PROGRESS, "0.0"), TxnState.FINALIZE_IN_PROGRESS),
        (record(TxnState.ABORT_IN_PROGRESS, "0.0"), TxnState.ABORT_IN_PROGRESS),
    ],
)
def test_what_was_not_decided_is_open_and_expires(before: TxnRecord, after: TxnState) -> None:
    chunk = address("status-0") + status_chunks.encode(status_chunks.Unfinished((before,)))
    header = address("") + b"header"
    shard = address("shard-0") + b"whatever"
    same, changed, untouched = renewing.chunks("group-0", [header, chunk, shard], STATE)
    assert (same, untouched) == (header, shard)
    found = status_chunks.decode(changed[len(address("status-0")) :])
    assert isinstance(found, status_chunks.Unfinished)
    (became,) = found.records
    assert became.state is after
    assert became.keepalive_millis == (renewing.KEEPALIVE_MILLIS if after is TxnState.OPEN else before.keepalive_millis)


def test_the_catalog_names_the_new_nodes() -> None:
    nodes = {name: NodeInfo(f"h:{number}", ("status", "participant")) for number, name in enumerate(("a", "b", "c"))}
    renewed = renewing.catalog(STATE, nodes, replication=3, cluster_id="other.1")
    assert renewed.nodes == nodes
    assert renewed.cluster_id == "other.1"
    assert renewed.version > STATE.version
    assert renewed.parts == STATE.parts
    assert renewed.groups.keys() == STATE.groups.keys()
    assert all(sorted(members) == ["a", "b", "c"] for members in renewed.groups.values())
    with pytest.raises(InvalidArgument, match="role"):
        renewing.catalog(STATE, {"a": NodeInfo("h:1", ("manager",))}, replication=1, cluster_id="other.1")
