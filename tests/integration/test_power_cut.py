"""All nodes lose power at once: only what was synced is there afterwards. Nothing acknowledged may be missing.

The data lies on an ext4 file system in a file, which the kernel shuts down without writing its log back (the ioctl
that file-system tests use): after mounting it again, unsynced bytes and names are gone.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import SCHEMA, commit_until_known, connect, fast_cluster, rows, settled, visible, wait_until
from txnclient import TxnState
from txndeploy.local_cluster import LocalCluster

CUTS = 4
EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
MEGABYTES = 128
TABLES = ("t.one", "t.two")


class Disk:
    """A file system that can lose power."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._image = path.with_suffix(".img")
        path.mkdir()
        with self._image.open("wb") as file:
            file.truncate(MEGABYTES << 20)
        _run("mkfs.ext4", "-q", "-F", self._image)
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-o", "loop", self._image, self.path)

    def cut(self) -> None:
        fd = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def back(self) -> None:
        _run("umount", self.path)
        self._mount()

    def close(self) -> None:
        _run("umount", self.path)


def _run(*arguments: str | Path) -> None:
    subprocess.run(arguments, check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("needs root and mkfs.ext4: it mounts a file system of its own")
    try:
        made = Disk(tmp_path / "disk")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"cannot mount a file system here: {error.stderr.decode().strip()}")
    yield made
    made.close()


def test_nothing_acknowledged_is_lost_when_all_lose_power(disk: Disk) -> None:
    """Also the data files: the tables lie on the disk that loses power."""
    expected: list[int] = []
    cluster = fast_cluster(disk.path / "cluster")
    try:
        cluster.start()
        with connect(cluster) as client:
            for table in TABLES:
                client.create_table(table, SCHEMA)
        for cut in range(CUTS):
            with connect(cluster) as client:
                for number in range(5):
                    row = 10 * cut + number
                    txn = client.begin(label="acknowledged")
                    for table in TABLES:
                        txn.write(rows(row), table)
                    commit_until_known(txn)
                    expected.append(row)
                open_one = client.begin(label="open at the cut")
                open_one.write(rows(-1), TABLES[0])
            disk.cut()
            _lose(cluster)
            disk.back()
            cluster.start()
            with connect(cluster) as client:
                assert visible(client, *TABLES) == [expected, expected]
                assert client.get(open_one.id).state in (TxnState.OPEN, TxnState.ABORTED)
        wait_until(lambda: settled(cluster), "all replicas hold the same state")
    finally:
        cluster.stop()


def _lose(cluster: LocalCluster) -> None:
    for node in cluster.configs:
        if cluster.running(node):
            cluster.kill(node)
