"""Compactions of one table: those that are wanted or under way, those that readers see, and how the last ones ended.

A compaction replaces file sets of one partition, its inputs, by at most one, its output, with the same rows. Of a table
with a primary key it is of all partitions, and has row changes as inputs, too. Whoever reads below the timestamp of the
switch goes on to see the inputs. So these are kept as overwritten files are, and with them how their rows became the
outputs'.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from txnparticipant.versions.mvcc import LineageRef
from txnstatus.proto import compaction_pb2 as pb
from txnstatus.types import NO_TIMESTAMP, Timestamp
from txnstatus.values import value

KEPT_PER_STATE = 10
"""Compactions of one table that are kept once they are over, of each way to end."""


class Kind(enum.IntEnum):
    MINOR = pb.COMPACTION_MINOR
    MAJOR = pb.COMPACTION_MAJOR


class State(enum.IntEnum):
    INITIATED = pb.COMPACTION_INITIATED
    WORKING = pb.COMPACTION_WORKING
    SUCCEEDED = pb.COMPACTION_SUCCEEDED
    FAILED = pb.COMPACTION_FAILED
    ATTEMPTED = pb.COMPACTION_ATTEMPTED


def compaction_id(kind: Kind, at: Timestamp) -> str:
    """It names a directory, and says when the compaction was opened."""
    return f"{kind.name.lower()}{at:016x}"


@value
class Compaction:
    """One that is wanted; with a worker, one that is under way."""

    compaction_id: str
    kind: Kind
    partition: str
    requested: bool
    opened: Timestamp
    worker: str = ""
    lease_id: str = ""
    as_of: Timestamp = NO_TIMESTAMP
    """The timestamp at which it reads its inputs: rows that are deleted by then are not in its output."""
    inputs: tuple[str, ...] = ()
    """Ids of file sets."""
    input_bytes: int = 0
    """Bytes that it reads, about: those that were there when it was opened; of its inputs, once a worker has it."""

    @property
    def state(self) -> State:
        return State.WORKING if self.worker else State.INITIATED


@value
class Switched:
    """One that readers see, as long as there are readers who see its inputs."""

    compaction_id: str
    switch_ts: Timestamp
    lineage: LineageRef
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    """Ids of file sets: one in each partition, or none where no row was left."""
    as_of: Timestamp = NO_TIMESTAMP
    """The timestamp up to which row changes are folded in, where the table has a primary key."""


@value
class Ended:
    """How one ended."""

    compaction: Compaction
    state: State
    ended: Timestamp
    switched: Timestamp = NO_TIMESTAMP
    input_rows: int = 0
    output_rows: int = 0
    output_files: int = 0
    reason: str = ""


@value
class Failures:
    """How many compactions of a partition have failed, one after the other."""

    partition: str
    count: int
    told_off: bool = False
    """Whether it was said since the last one that too many have."""


@dataclass(slots=True)
class Compactions:
    """The compactions of one table."""

    open: dict[str, Compaction] = field(default_factory=dict)
    switched: dict[str, Switched] = field(default_factory=dict)
    """Compactions by id, in the order of their timestamps."""
    ended: list[Ended] = field(default_factory=list)
    failures: dict[str, Failures] = field(default_factory=dict)
    _replaced: dict[str, str] = field(default_factory=dict)
    """File set → the compaction of `switched` that has replaced it."""

    def of(self, partition: str) -> Compaction | None:
        """The one of a partition that is open."""
        return next((each for each in self.open.values() if each.partition == partition), None)

    def failed(self, partition: str) -> int:
        """How many compactions of the partition have failed since one succeeded, or was asked for."""
        found = self.failures.get(partition)
        return found.count if found else 0

    def done(self, wanted: str) -> Timestamp:
        """When it was switched; 0 = it is not known to be."""
        known = (each.switched for each in self.ended if each.compaction.compaction_id == wanted)
        return self.switched[wanted].switch_ts if wanted in self.switched else next(known, NO_TIMESTAMP)

    def is_given_up(self, wanted: str, lease_id: str) -> bool:
        """Whether it came to nothing while it was of this lease; also where nobody knows of it any more."""
        if wanted in self.open or self.done(wanted):
            return False
        ended = (each.compaction for each in self.ended if each.compaction.compaction_id == wanted)
        return all(each.lease_id == lease_id for each in ended)

    def is_told_off(self, partition: str) -> bool:
        """Whether it was said that the partition is not compacted any more, since too many have failed."""
        found = self.failures.get(partition)
        return found is not None and found.told_off

    def add(self, wanted: Compaction) -> None:
        self.open[wanted.compaction_id] = wanted
        if wanted.requested:
            self.failures.pop(wanted.partition, None)

    def claim(
        self, wanted: str, worker: str, lease_id: str, as_of: Timestamp, inputs: tuple[str, ...], input_bytes: int
    ) -> None:
        self.open[wanted] = replace(
            self.open[wanted], worker=worker, lease_id=lease_id, as_of=as_of, inputs=inputs, input_bytes=input_bytes
        )

    def end(self, how: Ended) -> None:
        """Takes it out of those that are open."""
        partition = how.compaction.partition
        self.open.pop(how.compaction.compaction_id, None)
        if how.state is State.SUCCEEDED:
            self.failures.pop(partition, None)
        elif how.state is State.FAILED:
            self.failures[partition] = Failures(partition, self.failed(partition) + 1)
        elif not how.compaction.worker and partition in self.failures:
            self.failures[partition] = replace(self.failures[partition], told_off=True)
        self.ended.append(how)
        alike = [each for each in self.ended if each.state is how.state]
        if len(alike) > KEPT_PER_STATE:
            self.ended.remove(alike[0])

    def drop(self, at: Timestamp) -> list[str]:
        """The table is dropped. Returns the ids of those that were open."""
        ids = list(self.open)
        for id_ in ids:
            self.end(Ended(self.open[id_], State.ATTEMPTED, at, reason="the table was dropped"))
        return ids

    def switch(self, done: Switched) -> None:
        self.switched[done.compaction_id] = done
        self._replaced.update(dict.fromkeys(done.inputs, done.compaction_id))

    def retire(self, up_to: Timestamp) -> list[Switched]:
        """Takes out those whose inputs go with everything that was replaced at or below the timestamp."""
        gone = [each for each in self.switched.values() if each.switch_ts <= up_to]
        for each in gone:
            del self.switched[each.compaction_id]
            for file_set in each.inputs:
                del self._replaced[file_set]
        return gone

    def replacing(self, file_sets: Iterable[str], clears_as_of: Timestamp | None = None) -> Iterator[Switched]:
        """Compactions that have replaced some of these, in the order of their timestamps.

        `clears_as_of`: with those that have folded row changes in of which none is left to who reads at this timestamp.
        """
        ids = {self._replaced[each] for each in file_sets if each in self._replaced} if self._replaced else set()
        if clears_as_of is not None:
            ids.update(
                each.compaction_id for each in self.switched.values() if each.as_of and each.switch_ts > clears_as_of
            )
        yield from sorted((self.switched[each] for each in ids), key=lambda each: each.switch_ts)

    def folds(self, above: Timestamp, at: Timestamp) -> Iterator[Timestamp]:
        """When row changes were folded in: above the first and at or below the second."""
        yield from (each.switch_ts for each in self.switched.values() if each.as_of and above < each.switch_ts <= at)

    def between(self, above: Timestamp, at: Timestamp) -> Iterator[LineageRef]:
        """The lineages of what switched above the first and at or below the second."""
        yield from (each.lineage for each in self.switched.values() if above < each.switch_ts <= at)

    def check_invariants(self, file_sets: Mapping[str, object]) -> None:
        """Raises AssertionError."""
        expected = {id_: each.compaction_id for each in self.switched.values() for id_ in each.inputs}
        assert self._replaced == expected, "the index of what was compacted"
        assert expected.keys() <= file_sets.keys(), "inputs of a switched compaction are gone"
        times = [each.switch_ts for each in self.switched.values()]
        assert times == sorted(times), "the order of the switches"
        partitions = [each.partition for each in self.open.values()]
        assert len(set(partitions)) == len(partitions), f"two compactions of a partition at once: {self.open}"
