"""Takes a backup of a cluster that serves: a cut of all groups, read from their leaders into files."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from txnclient import Client
from txndeploy.backup import data, files
from txndeploy.backup.cut import contradictions
from txndeploy.backup.files import Backup
from txndeploy.backup.manifest import Manifest
from txnstatus.errors import IllegalState, SnapshotTooOld, TxnError
from txnstatus.process.failpoints import failpoint
from txnstatus.proto import backup_pb2 as pb

SHARE = 3
"""Times that what is overwritten is kept anew while the time of one lasts."""


def take(
    client: Client, directory: Path, tell: Callable[[str], None] = lambda _: None, *, with_data: bool = False
) -> Manifest:
    """All that was acknowledged before this call is in it, and of no transaction a part.

    `with_data`: the tables' files are in it, too, read from where this process reaches them.

    Raises AlreadyExists where the directory is not free, IllegalState for a cut that contradicts itself, OSError, and
    what calls raise; then nothing is left.
    """
    with files.new_directory(directory) as unfinished, Keeper(client):
        tell("all groups are held for a moment")
        cut = client.call("txnstatus.Backups/CutCluster", pb.CutClusterRequest(), pb.CutClusterResponse)
        taken = time.time_ns() // 1_000
        written = []
        for number, group in enumerate(cut.groups, start=1):
            tell(f"reading {group.group}, {number} of {len(cut.groups)}")
            written.append(files.put(unfinished, group.group, _pieces(client, cut.cut_id, group)))
            failpoint("backup.between_groups")
        tell("reading it back")
        manifest = Manifest(cut.cluster_id, cut.cut_id, taken, tuple(written))
        state = Backup(unfinished, manifest).cut()
        for story in contradictions(state):
            raise IllegalState(f"the cut contradicts itself, a fault of the service: {story}")
        if with_data:
            copies, elsewhere = data.wanted(state)
            copies = data.copy_out(copies, unfinished, tell)
            manifest = replace(manifest, data=files.put_list(unfinished, copies, elsewhere))
        files.seal(unfinished, manifest)
    return manifest


def _pieces(client: Client, cut_id: str, group: pb.GroupCut) -> Iterator[bytes]:
    request, answer = pb.ReadCutRequest(cut_id=cut_id, group=group.group, node_id=group.node_id), pb.ReadCutResponse()
    while not answer.is_last:
        answer = client.call("txnstatus.Backups/ReadCut", request, pb.ReadCutResponse)
        yield answer.data
        request.piece += 1


class Keeper:
    """While it is entered, no shard gives what was overwritten to be removed: files that the cut names stay.

    Leaving it raises SnapshotTooOld where that was not certain all the time.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ended = threading.Event()
        self._failure: TxnError | None = None
        self._thread = threading.Thread(target=self._renew, name="keeps-overwritten", daemon=True)
        self._until = self._pause = 0.0

    def __enter__(self) -> None:
        self._keep()
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        if kind is None and self._failure is not None:
            raise SnapshotTooOld(f"what was overwritten may be gone: {self._failure.message}")

    def _keep(self) -> None:
        asked = time.monotonic()
        request = pb.KeepOverwrittenRequest()
        answer = self._client.call("txnstatus.Backups/KeepOverwritten", request, pb.KeepOverwrittenResponse)
        self._until, self._pause = asked + answer.millis / 1_000, answer.millis / 1_000 / SHARE

    def _renew(self) -> None:
        while not self._ended.wait(self._pause):
            try:
                self._keep()
            except TxnError as error:
                if time.monotonic() > self._until:
                    self._failure = error
                    return
