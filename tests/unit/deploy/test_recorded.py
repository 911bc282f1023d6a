"""What earlier releases have left on disk is read, and says what it said."""

from __future__ import annotations

import importlib
import json
import pkgutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import message_factory, symbol_database
from google.protobuf.descriptor import MethodDescriptor

from tests.recorded import FRAMES, RECORDED, of_cut, summary
from txndeploy.backup import recovering
from txndeploy.backup.cut import contradictions
from txndeploy.backup.files import Backup
from txnstatus import features, proto
from txnstatus.codec import wholly_known
from txnstatus.proto import rpc_pb2


@pytest.fixture(params=RECORDED, ids=[each.name.removesuffix(".tar.gz") for each in RECORDED])
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    (tmp_path / "data" / "lock").touch()
    return tmp_path


def test_there_are_some() -> None:
    assert len(RECORDED) >= 1


def as_told(now: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """What was said when it was recorded: later summaries say more."""
    tables = {
        table_id: {key: its[key] for key in told["tables"].get(table_id, its)}
        for table_id, its in now["tables"].items()
    }
    return {**{key: now[key] for key in told}, "tables": tables}


def test_the_newest_has_what_the_newest_level_brought() -> None:
    told = []
    for archived in RECORDED:
        with tarfile.open(archived) as archive:
            file = archive.extractfile("summary.json")
            assert file is not None
            told.append(json.loads(file.read()))
    newest = max(told, key=lambda each: each.get("level", features.FIRST))
    assert newest["level"] == features.OWN.newest
    assert newest["nodes"] == {"n1": ["LEADS_NOTHING", str(features.OWN)]}
    assert newest["limits"] == {"bob": {"user_open_transactions": 7}}
    assert newest["reserved"] == [["r1", "ada", "air.apart", "file", "", "mnt", "lake"]]
    (renamed,) = (each for each in newest["tables"].values() if each["name"] == "air.renamed")
    assert (len(renamed["former"]), bool(renamed["made"])) == (1, True)
    assert renamed["delete_sets"]
    assert renamed["compactions"]


def test_frames_are_read(recorded: Path) -> None:
    """Requests and replies, each by its own message, with nothing in them that is not known; written again they are the
    same to a reader."""
    path = recorded / FRAMES
    if not path.exists():
        pytest.skip("the first archive has none")
    methods = set()
    for line in path.read_bytes().splitlines():
        said = json.loads(line)
        method = method_of(said["method"])
        for kind, data in ((method.input_type, said["request"]), (None, said["reply"])):
            message = (message_factory.GetMessageClass(kind) if kind else rpc_pb2.Reply).FromString(bytes.fromhex(data))
            wholly_known(message)
            if isinstance(message, rpc_pb2.Reply) and not message.HasField("error"):
                answer = message_factory.GetMessageClass(method.output_type).FromString(message.payload)
                wholly_known(answer)
        methods.add(said["method"])
    assert len(methods) >= 15


def method_of(name: str) -> MethodDescriptor:
    for each in pkgutil.iter_modules(proto.__path__):
        importlib.import_module(f"{proto.__name__}.{each.name}")
    service, _, method = name.partition("/")
    found = symbol_database.Default().pool.FindServiceByName(service).methods_by_name[method]
    assert isinstance(found, MethodDescriptor)
    return found


def test_journals_and_snapshots_are_read(recorded: Path) -> None:
    told = json.loads((recorded / "summary.json").read_bytes())
    assert {path.name for path in (recorded / "data" / "raft").iterdir()} == {"catalog", "group-0", "group-1"}
    assert any((recorded / "data" / "raft").glob("*/snapshot"))
    with recovering.opened(recorded / "data") as found:
        now = json.loads(json.dumps(summary(found)))
        later = now["options"].keys() - told["options"].keys()  # have their defaults
        now["options"] = {name: now["options"][name] for name in now["options"].keys() - later}
        assert as_told(now, told) == told
        assert not found.torn
        for replica in found.replicas.values():  # what was read is written again, and read
            assert list(replica.machine.snapshot())


def test_backups_are_read(recorded: Path) -> None:
    told = json.loads((recorded / "summary.json").read_bytes())
    backup = Backup(recorded / "backup")
    cut = backup.cut()
    assert list(contradictions(cut)) == []
    assert backup.manifest.cluster_id == told["cluster_id"]
    found = json.loads(json.dumps(of_cut(cut)))
    assert found["tables"].keys() == told["tables"].keys()
    assert found["savepoints"] == told["savepoints"]
    assert found["transactions"].keys() == told["transactions"].keys()
