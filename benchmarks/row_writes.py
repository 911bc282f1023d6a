"""What row writes cost: requests of one transaction each, on a table that has rows in files, over three node processes.

python benchmarks/row_writes.py --rows 1000000 --batch 10000
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import txnclient
from txndeploy.local.cluster import LocalCluster

TABLE = "bench.rows"


def table_of(ids: range) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "value": pa.array(ids, pa.int64())})


def milliseconds(step: Callable[[], object]) -> float:
    begin = time.perf_counter()
    step()
    return (time.perf_counter() - begin) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="in files")
    parser.add_argument("--batch", type=int, default=10_000, help="rows in a request, up to 10,000")
    parser.add_argument("--times", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, LocalCluster(Path(directory)) as cluster:
        client = txnclient.connect(cluster.addresses)
        client.create_table(TABLE, "id bigint, value bigint", primary_key=["id"])
        with client.transaction() as txn:
            txn.write(table_of(range(options.rows)), TABLE)
        print(f"{options.batch} rows a request, {options.rows} rows in files; the request alone, then its commit")
        print("  insert: keys above all others; the others: keys spread over the table, new ones each time")
        new, offset, stride = options.rows, 0, options.rows // options.batch
        for change in ("upsert", "insert", "insert_ignore", "update"):
            written, committed = [], []
            for _ in range(options.times):
                spread = range(offset, options.rows, stride)[: options.batch]
                rows = table_of(range(new, new + options.batch) if change == "insert" else spread)
                new, offset = new + options.batch, (offset + 1) % stride
                txn = client.begin()
                _ = txn.snapshot
                written.append(milliseconds(lambda c=change, t=txn, r=rows: getattr(t, c)(TABLE, r)))  # type: ignore[misc]
                committed.append(milliseconds(txn.commit))
            for what, times in ((change, written), ("commit", committed)):
                print(f"  {what:14} median {statistics.median(times):7.1f} ms, {min(times):.1f} to {max(times):.1f}")
        print(f"  {'to_arrow':14} {milliseconds(lambda: client.snapshot().to_arrow(TABLE)):7.1f} ms")
        client.close()


if __name__ == "__main__":
    main()
