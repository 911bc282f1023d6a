"""A shard whose leader is asked, as the status leader asks it; where it is compacted, its answers depend on that."""

from __future__ import annotations

from tests.unit.harness.leader.rows import TABLE_ID, Shard
from txnstatus.proto import participant_pb2
from txnstatus.rpc.errors import from_detail
from txnstatus.types import ParticipantOpType


class Asked(Shard):
    """What was compacted since a transaction began is said again when it prepares."""

    def ask(self, kind: ParticipantOpType, txn_id: int, commit_ts: int = 0) -> None:
        """What the status leader asks. Raises the refusal."""
        op = participant_pb2.ParticipantOp(
            txn_id=txn_id, table_id=TABLE_ID, type=kind.value, commit_timestamp=commit_ts
        )
        answer = self.run(self.service.participate(participant_pb2.ParticipateRequest(ops=[op])))
        self.shard.check_invariants()
        if answer.results[0].HasField("error"):
            raise from_detail(answer.results[0].error)

    def prepare(self, txn_id: int) -> None:
        self.ask(ParticipantOpType.BEGIN_COMMIT, txn_id)
