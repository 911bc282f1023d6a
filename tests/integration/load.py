"""Programs that write all the time, while something is done to their cluster."""

from __future__ import annotations

from tests.support import connect, rows, visible, wait_until
from txnclient import TxnError
from txndeploy.local.cluster import LocalCluster
from txndeploy.local.programs import Programs

WRITERS = 4


class Load(Programs):
    """Programs that commit one transaction after the other, each with a row in a table of its own."""

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__(WRITERS)
        self._cluster = cluster
        self.committed: list[list[int]] = [[] for _ in range(WRITERS)]
        self.failed: list[TxnError] = []

    def run(self, writer: int) -> None:
        with connect(self._cluster) as client:
            number = 0
            while not self.ended.is_set():
                number += 1
                try:
                    txn = client.begin()
                    txn.write(rows(number), table_of(writer))
                    txn.commit()
                except TxnError as error:
                    self.failed.append(error)
                else:
                    self.committed[writer].append(number)

    def goes_on(self) -> None:
        """Returns when every program has committed a transaction that it began after this."""
        before = [len(committed) for committed in self.committed]

        def more() -> bool:
            return all(len(now) > then + 1 for now, then in zip(self.committed, before, strict=True))

        wait_until(more, "all go on")

    def check_nothing_is_lost(self) -> None:
        with connect(self._cluster) as client:
            seen = visible(client, *map(table_of, range(WRITERS)))
        assert seen == self.committed


def table_of(writer: int) -> str:
    return f"load.t{writer}"
