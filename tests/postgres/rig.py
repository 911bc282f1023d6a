"""The host of the participant `billing`, as a process of its own, beside a cluster and a PostgreSQL server."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Self

from tests.postgres.server import PostgresServer
from tests.support import FORKS, connect, foreign, wait_until
from txnclient.calls.channel import ManagerChannel
from txndeploy.local.cluster import LocalCluster
from txndeploy.local.network import free_ports
from txndeploy.local.spawning import Spawned
from txnstatus.errors import TxnError
from txnstatus.process import failpoints
from txnstatus.proto import participant_pb2 as pb

NAME = "billing"
READY_SECONDS = 60.0


class Host:
    """Starts with what is armed by `failpoints`, and can be killed at any time."""

    def __init__(
        self, directory: Path, cluster: LocalCluster, server: PostgresServer, name: str = NAME, dsn: str = ""
    ) -> None:
        """`dsn`: of another database than the server's usual one."""
        self.name = name
        self.log = directory / f"{name}.log"
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self._cluster = cluster
        self._dsn = dsn or server.conninfo
        self._process: Spawned | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self, armed: str = "") -> None:
        """Until it answers, the cluster knows where it is, and its database that it is the participant's."""
        command = [sys.executable, "-m", "txndeploy.ctl.cli", "participant", "postgres", "--name", self.name]
        command += ["--dsn", self._dsn, "--listen", self.address, "--join", self._cluster.addresses]
        environment = {**os.environ, failpoints.VARIABLE: armed}
        served, lives = f"{self.name} is served", self._lives_served()
        self._process = FORKS.spawn(command, self.log, environment)
        wait_until(
            lambda: self.ended or (self._lives_served() > lives and self.answers() and self._registered()),
            served,
            READY_SECONDS,
        )

    def _lives_served(self) -> int:
        """How often it has come so far. A cluster knows a host before its database does."""
        return self.log.read_text().count(" is served on ") if self.log.exists() else 0

    def answers(self) -> bool:
        channel = ManagerChannel([self.address])
        try:
            channel.call(
                "txnstatus.Participant/Participate", pb.ParticipateRequest(), pb.ParticipateResponse, timeout=1.0
            )
        except TxnError:
            return False
        finally:
            channel.close()
        return True

    def _registered(self) -> bool:
        with connect(self._cluster) as client:
            return foreign(client).get(self.name) == self.address

    @property
    def ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def wait_ended(self) -> int:
        assert self._process is not None
        return self._process.wait(30)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()
