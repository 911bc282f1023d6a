"""The manifests of a scan: read in parallel, and kept."""

from __future__ import annotations

from collections.abc import Sequence

from txnstatus.lake import manifest
from txnstatus.lake.kept import Kept
from txnstatus.lake.manifest import DataFile, Listed
from txnstatus.proto import table_pb2 as pb

KEPT_BYTES = 64 << 20
"""Bytes of manifests, as written, whose content is kept by a process; in memory it takes about as much."""

_kept = Kept[pb.ManifestRef, Listed](manifest.whole, KEPT_BYTES)


def read(refs: Sequence[pb.ManifestRef]) -> list[Sequence[DataFile]]:
    """The files of each, in those partitions that it names, or all. Raises what `manifest.read` raises."""
    return [manifest.named(ref, files) for ref, files in zip(refs, _kept.read(refs), strict=True)]
