"""The certificates of a cluster on one machine, below its directory: an authority's, the nodes', and its user's."""

from __future__ import annotations

import re
from pathlib import Path

from txnclient.connecting import default_owner
from txndeploy.node.config import TlsSection
from txnstatus.security.principals import Kind
from txnstatus.security.tls import TlsFiles

CREDENTIALS = "credentials"


def credentials_of(directory: Path) -> Path | None:
    """What clients of the cluster in the directory show; None: it has no TLS."""
    found = directory.absolute() / CREDENTIALS
    return found if found.exists() else None


class LocalCertificates:
    """Leaf certificates are issued whenever the cluster is started: none of them gets old."""

    def __init__(self, cluster_name: str, directory: Path) -> None:
        """Makes the authority, where there is none yet."""
        from txndeploy.local.authority import KEY, Authority  # a cluster without certificates does without its library

        where = directory / "authority"
        is_there = (where / KEY).exists()
        self._authority = Authority.load(where) if is_there else Authority.found(cluster_name, where)
        self._directory = directory
        self.credentials = directory / CREDENTIALS
        """The directory that `txnclient.connect` takes, of whoever runs the cluster."""
        self.user = re.sub(r"[^\w.@-]", "-", default_owner(), flags=re.ASCII)
        """Whoever runs the cluster: an admin of it."""
        self._authority.issue(Kind.USER, self.user, self.credentials)

    def issue(self, node: str) -> TlsSection:
        """A certificate for a node, in its directory, in place of the one that it had."""
        where = self._directory / node / "tls"
        self._authority.issue(Kind.NODE, node, where, hosts=("127.0.0.1", "localhost"))
        files = TlsFiles.within(where)
        return TlsSection(ca=files.authority, certificate=files.certificate, key=files.key)
