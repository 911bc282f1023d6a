"""`client.optimize`: the same rows in another order, and it gives way to whoever else writes."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.support import rows, visible
from txnclient import Client, InvalidArgument, Unavailable
from txnclient.client.optimizing import zordered

NewTable = Callable[..., str]


def test_rows_are_sorted_and_stay_what_they_are(client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, note string")
    for ids in ([5, 1, 9], [4, 8], [7]):
        client.write(rows(*ids), table)
    client.delete_where(table, "id = 8")
    client.optimize(table, sort_by=["ID"])
    with client.snapshot() as snapshot:
        assert snapshot.to_arrow(table)["id"].to_pylist() == [1, 4, 5, 7, 9]
        assert len(snapshot.files(table).files) == 1


def test_one_partition_alone(client: Client, new_table: NewTable) -> None:
    table = new_table("month int, id bigint", partition_by=["month"])
    for _ in range(2):
        client.write(pa.table({"month": pa.array([2, 1, 2, 1], pa.int32()), "id": [4, 3, 2, 1]}), table)
    client.optimize(table, sort_by=["id"], partition={"month": 2})
    with client.snapshot() as snapshot:
        files = snapshot.files(table)
        assert sorted(file.partition for file in files.files) == ["month=1", "month=1", "month=2"]
        assert files.within("month=2").to_arrow()["id"].to_pylist() == [2, 2, 4, 4]
    client.optimize(table, zorder=["id", "month"])
    with client.snapshot() as snapshot:
        assert len(snapshot.files(table).files) == 2
        assert snapshot.to_arrow(table).num_rows == 8


def test_it_gives_way_to_one_who_has_begun_to_write(client: Client, new_table: NewTable) -> None:
    table = new_table()
    client.write(rows(2, 1), table)
    other = client.begin()
    other.delete_where(table, "id = 2")
    with pytest.raises(Unavailable, match=f"transaction {other.id}"):
        client.optimize(table, sort_by=["id"], timeout=0)
    done = threading.Thread(target=client.optimize, args=(table,), kwargs={"sort_by": ["id"]})
    done.start()
    other.commit()
    done.join(60)
    assert not done.is_alive()
    assert visible(client, table) == [[1]]


def test_what_cannot_be_ordered_by_is_named(client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, many array<int>")
    with pytest.raises(InvalidArgument, match="sort_by or zorder"):
        client.optimize(table)
    with pytest.raises(InvalidArgument, match="'other' is not a column"):
        client.optimize(table, sort_by=["other"])
    with pytest.raises(InvalidArgument, match="array<int>: rows have no order"):
        client.optimize(table, zorder=["id", "many"])
    keyed = new_table("id bigint", primary_key=["id"])
    with pytest.raises(InvalidArgument, match="primary key"):
        client.optimize(keyed, sort_by=["id"])


def test_parts_in_zorder_are_narrow_by_each_column() -> None:
    random = np.random.default_rng(1)
    found = pa.table({"x": random.permutation(4096), "y": random.permutation(4096), "s": ["a"] * 4095 + [None]})
    ordered = found.take(zordered(found, ["x", "y"]))
    assert sorted(ordered["x"].to_pylist()) == list(range(4096))
    widths = {
        name: np.mean(
            [
                pc.max(part[name]).as_py() - pc.min(part[name]).as_py()
                for part in (ordered[at : at + 256] for at in range(0, 4096, 256))
            ]
        )
        for name in ("x", "y")
    }
    assert max(widths.values()) < 0.4 * 4096
    assert zordered(found, ["s", "x"]).to_pylist() != zordered(found, ["s"]).to_pylist()
    assert zordered(found.slice(0, 0), ["x", "y"]).to_pylist() == []
