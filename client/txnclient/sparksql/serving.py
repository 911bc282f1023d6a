"""The catalog for a Spark driver that is another process: `spark-sql`, a server of Spark Connect, programs in Scala."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from txnclient.client.client import Client
from txnclient.sparksql import bridge
from txnclient.sparksql.attaching import EXTENSIONS, build, check_name, jar, settings
from txnclient.sparksql.sessions import Sessions
from txnclient.sparksql.tables import Tables
from txnstatus.errors import IllegalState, InvalidArgument

END_SECONDS = 30.0
"""Longest time for a driver to end by itself when it was told to."""


@contextlib.contextmanager
def served(client: Client, *, name: str = "txn") -> Iterator[Mapping[str, str]]:
    """The settings of a session of a driver on this machine, for which this process answers within the block.

    Whoever knows the token in them reads and writes as this client. Each of the driver's sessions has the catalog.

    Raises InvalidArgument for a name that is none, IllegalState without the jar, Unavailable where no node answers.
    """
    check_name(name)
    if not Path(jar()).is_file():
        raise IllegalState(f"the catalog's jar is not there: {jar()}", hint="install txnstatus again")
    client.last_commit()
    catalog_id = uuid.uuid4().hex
    jar_says = build()
    sessions = Sessions(lambda session: Tables(client, jar_says, lambda: {name: sessions.of(session)}))
    address = bridge.serve(catalog_id, sessions.answer)
    try:
        yield {"spark.jars": jar(), "spark.sql.extensions": EXTENSIONS, **settings(name, catalog_id, address)}
    finally:
        bridge.stop(catalog_id)
        sessions.leave()


def run(client: Client, command: Sequence[str], *, name: str = "txn") -> int:
    """Runs a command of Spark's whose first word takes `--properties-file`, and returns its exit code when it ends.

    What it has left open is no longer kept alive then: transactions expire, and what its plans read may be removed.
    Raises as `served`, and InvalidArgument for a command that cannot be run, or that names such a file itself.
    """
    if not command or any(each.partition("=")[0] == "--properties-file" for each in command):
        raise InvalidArgument(f"{' '.join(command)!r}: expected a command of Spark's without --properties-file")
    with served(client, name=name) as settings, tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "txn.properties"
        file.touch(0o600)
        file.write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
        first, *rest = command
        try:
            driver = subprocess.Popen([first, "--properties-file", str(file), *rest])
        except OSError as error:
            raise InvalidArgument(
                f"{first!r} cannot be run: {error}", hint="its path, or its name on the PATH"
            ) from error
        try:
            return driver.wait()
        finally:
            _end(driver)


def _end(driver: subprocess.Popen[bytes]) -> None:
    if driver.poll() is not None:
        return
    driver.terminate()
    try:
        driver.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        driver.kill()
        driver.wait()
