"""What earlier releases have left on disk is read, and says what it said."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.recorded import RECORDED, of_cut, summary
from txndeploy.backup import recovering
from txndeploy.backup.cut import contradictions
from txndeploy.backup.files import Backup


@pytest.fixture(params=RECORDED, ids=[each.name.removesuffix(".tar.gz") for each in RECORDED])
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    (tmp_path / "data" / "lock").touch()
    return tmp_path


def test_there_are_some() -> None:
    assert len(RECORDED) >= 1


def test_journals_and_snapshots_are_read(recorded: Path) -> None:
    told = json.loads((recorded / "summary.json").read_bytes())
    assert {path.name for path in (recorded / "data" / "raft").iterdir()} == {"catalog", "group-0", "group-1"}
    assert any((recorded / "data" / "raft").glob("*/snapshot"))
    with recovering.opened(recorded / "data") as found:
        now = json.loads(json.dumps(summary(found)))
        later = now["options"].keys() - told["options"].keys()  # have their defaults
        assert {**now, "options": {name: now["options"][name] for name in now["options"].keys() - later}} == told
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
