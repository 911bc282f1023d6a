"""pysyncobj's message dicts to protobuf and back. What is not listed here does not reach pysyncobj.

The other kinds of RaftMessage are ours alone (`elections`, `transfer`); pysyncobj's own way of sending snapshots has no
wire form.
"""

from __future__ import annotations

from typing import Any

from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft.journal import Entry

Message = dict[str, Any]
"""A message as pysyncobj makes and takes it, plus what our adapter adds: `sent`, `last_index`, `echo`, `transfer`."""


def encode(group: str, message: Message, term: int) -> pb.RaftMessage:
    """`term` is the sender's, for the messages in which pysyncobj does not say it."""
    wire = pb.RaftMessage(group=group, term=message.get("term", term))
    match message["type"]:
        case "request_vote":
            wire.request_vote.last_log_index = message["last_log_index"]
            wire.request_vote.last_log_term = message["last_log_term"]
            wire.request_vote.leadership_transfer = message["transfer"]
        case "response_vote":
            wire.response_vote.SetInParent()
        case "append_entries":
            wire.append_entries.commit_index = message["commit_index"]
            wire.append_entries.prev_log_index = message["prevLogIdx"]
            wire.append_entries.prev_log_term = message["prevLogTerm"]
            wire.append_entries.sent_micros = message["sent"]
            wire.append_entries.last_index = message["last_index"]
            for command, index, entry_term in message["entries"]:
                wire.append_entries.entries.add(index=index, term=entry_term, command=command)
        case "next_node_idx":
            wire.append_reply.next_index = message["next_node_idx"]
            wire.append_reply.reset = message["reset"]
            wire.append_reply.success = message["success"]
            wire.append_reply.echo_micros = message["echo"]
        case "timeout_now":
            wire.timeout_now.SetInParent()
        case unknown:
            raise ValueError(f"no wire form for a Raft message of type {unknown!r}")
    return wire


def decode(wire: pb.RaftMessage) -> Message:
    """Raises ValueError for a message of no known kind."""
    match wire.WhichOneof("body"):
        case "request_vote":
            vote = wire.request_vote
            return {
                "type": "request_vote",
                "term": wire.term,
                "last_log_index": vote.last_log_index,
                "last_log_term": vote.last_log_term,
                "transfer": vote.leadership_transfer,
            }
        case "response_vote":
            return {"type": "response_vote", "term": wire.term}
        case "append_entries":
            append = wire.append_entries
            return {
                "type": "append_entries",
                "term": wire.term,
                "commit_index": append.commit_index,
                "prevLogIdx": append.prev_log_index,
                "prevLogTerm": append.prev_log_term,
                "entries": [Entry(e.command, e.index, e.term) for e in append.entries],
                "sent": append.sent_micros,
                "last_index": append.last_index,
            }
        case "append_reply":
            reply = wire.append_reply
            return {
                "type": "next_node_idx",
                "term": wire.term,
                "next_node_idx": reply.next_index,
                "reset": reply.reset,
                "success": reply.success,
                "echo": reply.echo_micros,
            }
        case "timeout_now":
            return {"type": "timeout_now", "term": wire.term}
        case unknown:
            raise ValueError(f"a Raft message of kind {unknown!r}, which this release does not know")
