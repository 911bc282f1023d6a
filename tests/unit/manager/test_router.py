"""Each rpc that clients may call has one way to its leader."""

from __future__ import annotations

from google.protobuf.descriptor import MethodDescriptor

from txnmanager.compactions import Compactions
from txnmanager.granting import Granting
from txnmanager.router import ROUTES
from txnmanager.savepoints import Savepoints
from txnmanager.tables import Tables
from txnmanager.tickets import Tickets
from txnmanager.txn_manager import TxnManager
from txnparticipant.leader.compactions import CompactionService
from txnparticipant.leader.service import ShardService
from txnparticipant.upkeep.audit_service import ShardAudit
from txnstatus.proto import audit_pb2, compaction_pb2, table_pb2, txn_manager_pb2
from txnstatus.rpc.methods import snake
from txnstatus.status.service import StatusService

IN_CODE = (TxnManager, Tables, Granting, Compactions, Savepoints, Tickets)
LEADERS = {
    **dict.fromkeys(txn_manager_pb2.DESCRIPTOR.services_by_name.values(), StatusService),
    **dict.fromkeys(table_pb2.DESCRIPTOR.services_by_name.values(), ShardService),
    **dict.fromkeys(compaction_pb2.DESCRIPTOR.services_by_name.values(), CompactionService),
    **dict.fromkeys(audit_pb2.DESCRIPTOR.services_by_name.values(), ShardAudit),
}
METHODS = [method for service in LEADERS for method in service.methods]
NO_LEADERS = {"BeginTransaction", "Enlist", "GetSnapshot", "IssueTicket"}
"""Methods in which a manager asks leaders for something else."""


def in_code(method: MethodDescriptor) -> bool:
    return any(hasattr(proxy, snake(method.name)) for proxy in IN_CODE)


def test_a_manager_answers_each_method_in_one_way() -> None:
    for method in METHODS:
        assert in_code(method) != (method.full_name in ROUTES), method.full_name
    assert ROUTES.keys() <= {method.full_name for method in METHODS}


def test_a_leader_answers_what_managers_hand_on() -> None:
    for method in METHODS:
        leader = LEADERS[method.containing_service]
        assert hasattr(leader, snake(method.name)) != (method.name in NO_LEADERS), method.full_name
