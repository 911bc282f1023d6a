"""Lists of files of which one is made when somebody asks for it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from txnstatus.lake import bare_files, manifest
from txnstatus.lake.file_lists import Files, by_bareness, bytes_of, has_bare, rows_of, sizes_of
from txnstatus.lake.manifest import ColumnRange, DataFile


def files_of(directory: str, count: int) -> list[DataFile]:
    return [
        DataFile(
            f"{directory}/{each}.parquet", each + 1, 10 * each, f"m={each % 2}", {"m": ColumnRange("1", "2", each)}
        )
        for each in range(count)
    ]


@pytest.fixture
def both(tmp_path: Path) -> tuple[Files, list[DataFile]]:
    """A list of two manifests, a plain list between them, and lists of nothing around; and the files."""
    listed: list[list[DataFile]] = []
    lists = list[manifest.Listed]()
    for number, count in enumerate((5, 3)):
        directory = (tmp_path / "t" / f"delta_{number}_abcdefgh").as_uri()
        listed.append(files_of(directory, count))
        ref = manifest.write(directory, listed[-1], table_id="3.0", txn_id=1, write_id="abcdefgh")
        lists.append(manifest.whole(ref))
    plain = files_of("file:///plain", 2)
    return Files([(), lists[0], plain, [], lists[1]]), [*listed[0], *plain, *listed[1]]


def test_it_is_the_list_that_it_stands_for(both: tuple[Files, list[DataFile]]) -> None:
    files, plain = both
    assert len(files) == len(plain) == 10
    assert list(files) == plain
    assert list(files) == plain, "as often as one likes"
    assert [files[number] for number in range(10)] == plain
    assert [files[number] for number in range(-10, 0)] == plain
    for part in (slice(3, 8), slice(None), slice(-2, None), slice(8, 2, -3), slice(4, 4)):
        assert files[part] == plain[part]
        assert files.parts[0][part] == plain[:5][part]
    for beyond in (10, -11):
        with pytest.raises(IndexError):
            files[beyond]
    assert plain[6] in files
    assert list(reversed(files)) == plain[::-1]


def test_lists_of_the_same_files_are_equal(both: tuple[Files, list[DataFile]]) -> None:
    files, plain = both
    assert files == plain == files
    assert files == tuple(plain) == Files([plain[:4], plain[4:]])
    assert files != plain[:-1]
    assert files != [*plain[:-1], plain[0]]
    assert files != 7
    assert not Files([])
    assert Files([]) == ()
    assert pickle.loads(pickle.dumps(files)) == tuple(plain)


def test_sums_are_those_of_the_files(both: tuple[Files, list[DataFile]]) -> None:
    files, plain = both
    assert rows_of(files) == rows_of(plain) == sum(file.rows for file in plain)
    assert bytes_of(files) == bytes_of(plain) == sum(file.bytes for file in plain)
    assert list(sizes_of(files)) == list(sizes_of(plain)) == [(file.path, file.bytes) for file in plain]


def test_partitions_that_are_all_of_a_manifest_are_no_other_list(both: tuple[Files, list[DataFile]]) -> None:
    listed = both[0].parts[0]
    assert isinstance(listed, manifest.Listed)
    ref = manifest.pb.ManifestRef(path="x", partitions=["m=0", "m=1", "m=2"])
    assert manifest.named(ref, listed) is listed
    ref = manifest.pb.ManifestRef(path="x", partitions=["m=1"])
    assert list(manifest.named(ref, listed)) == both[1][1:5:2]


def test_manifests_say_which_files_are_bare(tmp_path: Path) -> None:
    bare = DataFile("file:///lake/a%20b/x.parquet", 1, 10, "m=7/t=a~2Fb", bare=True)
    null, full = DataFile("file:///lake/y.parquet", 2, 20, "m=__null__/t=__empty__", bare=True), files_of("", 1)[0]
    for number, files in enumerate(([bare, full, null], [full])):
        directory = (tmp_path / "t" / f"delta_{number}_abcdefgh").as_uri()
        ref = manifest.write(directory, files, table_id="3.0", txn_id=1, write_id="abcdefgh")
        listed = manifest.whole(ref)
        assert list(listed) == files == [listed[each] for each in range(len(files))]
        version = json.loads(Path(ref.path.removeprefix("file://")).read_bytes().split(b"\n")[0])["version"]
        assert version == (5 if number == 0 else 4), "releases that know of no bare files refuse those manifests alone"
        assert has_bare(Files([listed])) == (number == 0)
    assert by_bareness([bare, full, null]) == [[full], [bare, null]]
    assert by_bareness([full]) == [[full]]
    assert by_bareness([]) == []
    assert bare_files.texts(bare) == {"m": "7", "t": "a/b"}
    assert bare_files.texts(null) == {"m": None, "t": ""}
    assert bare_files.texts(full) == {}
