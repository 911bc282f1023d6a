"""Subtle faults in how groups replicate and change their members, and in foreign participants, put in on purpose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.sim.planted.faults import Seams
from txnparticipant.foreign.host import ForeignHost
from txnstatus.catalog.catalog import CatalogState
from txnstatus.foreign import Verdict
from txnstatus.proto import participant_pb2, raft_pb2
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.elections import Elections
from txnstatus.raft.group import RaftGroup
from txnstatus.raft.journal import Entry, Journal
from txnstatus.raft.members import Configurations, Members
from txnstatus.types import DECIDED_COMMIT, ParticipantOpType, TxnId, TxnState

GROUP = "txnstatus.raft.group:RaftGroup"
ELECTIONS = "txnstatus.raft.elections:Elections"


def members_not_committed_are_in_the_snapshot() -> Seams:
    def at(self: Configurations, _index: int) -> Members:
        return self.current

    return [("txnstatus.raft.members:Configurations.at", at)]


def cut_members_stay() -> Seams:
    return [("txnstatus.raft.members:Configurations.cut", lambda *_: None)]


def an_installed_snapshot_says_nothing_of_members() -> Seams:
    rebase = Configurations.rebase

    def kept(self: Configurations, index: int, members: Members) -> None:
        rebase(self, index, self.current or members)

    return [("txnstatus.raft.members:Configurations.rebase", kept)]


def two_changes_of_members_at_once() -> Seams:
    def change(self: RaftGroup, add: str = "", remove: str = "") -> Any:
        from txnstatus.raft.proposals import Proposal

        new = tuple(member for member in self.members if member != remove)
        new = (*new, add) if add and add not in new else new
        if not self.is_ready or self.node_id not in new:
            self.hand_over()
            raise self.not_the_leader()
        proposal = Proposal((), members=new)
        self._proposals.add(proposal)
        return proposal

    return [(f"{GROUP}.change_members", change)]


def who_is_to_go_is_taken_for_gone() -> Seams:
    return [("txndeploy.node.replicas:ReplicaAdmin._check_committed", lambda *_: None)]


def votes_leave_before_their_sync() -> Seams:
    return _early("response_vote")


def acknowledgements_leave_before_their_sync() -> Seams:
    return _early("append_reply")


def _early(kind: str) -> Seams:
    take_early, take_late, sync = RaftGroup.take_early, RaftGroup.take_late, RaftDriver._sync

    def early(self: RaftGroup) -> Any:
        first = [each for each in self._late if each[1].WhichOneof("body") == kind]
        self._late = [each for each in self._late if each[1].WhichOneof("body") != kind]
        return [*take_early(self), *first]

    async def send_first(self: RaftDriver) -> None:
        self._send(self.group.take_early())
        await sync(self)

    return [
        (f"{GROUP}.take_early", early),
        (f"{GROUP}.take_late", take_late),
        ("txnstatus.raft.driver:RaftDriver._sync", send_first),
    ]


def one_that_is_alone_does_not_wait_for_its_sync() -> Seams:
    return [("txnstatus.raft.journal:Journal.has_synced", lambda *_: True)]


def votes_while_a_leader_is_near() -> Seams:
    return [(f"{ELECTIONS}._leader_is_near", lambda _self: False)]


def a_lease_from_when_answers_arrive() -> Seams:
    answered = Elections.answered

    def now(self: Elections, peer: str, _echo: int) -> None:
        answered(self, peer, int(self._monotonic() * 1e6))

    return [(f"{ELECTIONS}.answered", now)]


def a_lease_outlives_a_hand_over() -> Seams:
    def has_lease(self: Elections) -> bool:
        window = self._settings.promise_seconds * (1 - self._settings.max_clock_drift)
        return self._answered_since() > int((self._monotonic() - window) * 1e6)

    return [(f"{ELECTIONS}.has_lease", has_lease)]


def who_hands_over_goes_on_proposing() -> Seams:
    return [(f"{ELECTIONS}.handing_over", property(lambda _self: False))]


def whoever_once_led_names_a_successor() -> Seams:
    receive = RaftGroup._receive_message

    def obey(self: RaftGroup, sender: str, message: Any) -> None:
        if message["type"] == "timeout_now":
            self.elections.taking_over = self.elections.may_campaign
        else:
            receive(self, sender, message)

    return [(f"{GROUP}._receive_message", obey)]


def ready_before_its_own_entry() -> Seams:
    return [(f"{GROUP}.is_ready", property(lambda self: self.is_leader))]


def answers_of_another_term_count() -> Seams:
    receive = RaftGroup.receive

    def any_term(self: RaftGroup, sender: str, wire: raft_pb2.RaftMessage) -> None:
        if wire.WhichOneof("body") in ("append_reply", "response_vote"):
            wire.term = self.term
        receive(self, sender, wire)

    return [(f"{GROUP}.receive", any_term)]


def what_is_cut_off_comes_back_from_the_disk() -> Seams:
    add = Journal.add

    def silent(self: Journal, command: bytes, idx: int, term: int) -> None:
        add(self, command, idx, term)
        kept = [record for record in self._unsynced.records if record.WhichOneof("record") != "truncate_from"]
        del self._unsynced.records[:]
        self._unsynced.records.extend(kept)

    return [("txnstatus.raft.journal:Journal.add", silent)]


def whoever_is_in_the_suffix_stays() -> Seams:
    """An entry is taken for the one that is here if its index is the same, whatever its term."""
    add = Journal.add

    def same(self: Journal, command: bytes, idx: int, term: int) -> None:
        if self._suffix and self._suffix[0].idx == idx and idx > self.applied_index:
            self._entries.append(Entry(self._suffix.pop(0).command, idx, term))
            return
        add(self, command, idx, term)

    return [("txnstatus.raft.journal:Journal.add", same)]


def caught_up_with_the_first_word() -> Seams:
    def led_by(self: Elections, _last_index: int) -> None:
        if self._journal.abstaining:
            self._journal.abstaining = False

    return [(f"{ELECTIONS}.led_by", led_by)]


def whose_place_is_taken_is_asked_no_more() -> Seams:
    def replicas(self: CatalogState, group: str) -> tuple[str, ...]:
        under_way = self.replacement
        members = self.groups.get(group, ())
        if under_way is None or under_way.old_node not in members:
            return members
        return tuple(under_way.new_node if member == under_way.old_node else member for member in members)

    return [("txnstatus.catalog.catalog:CatalogState.replicas", replicas)]


# ---- foreign participants


def a_host_agrees_to_anything() -> Seams:
    perform = ForeignHost._perform

    async def agree(self: ForeignHost, op: participant_pb2.ParticipantOp) -> None:
        if op.type != ParticipantOpType.BEGIN_COMMIT:
            await perform(self, op)

    return [("txnparticipant.foreign.host:ForeignHost._perform", agree)]


def in_doubt_is_discarded() -> Seams:
    """While the transaction is undecided, too."""

    def verdict(state: TxnState, *, takes_part: bool) -> Verdict:
        return Verdict.PUBLISH if state in DECIDED_COMMIT and takes_part else Verdict.DISCARD

    return [("txnparticipant.upkeep.in_doubt:verdict", verdict)]


def nobody_asks_about_what_is_in_doubt() -> Seams:
    async def idle(*_: object) -> None:
        pass

    return [("txnparticipant.upkeep.in_doubt:InDoubt.resolve", idle)]


def a_hosts_failure_counts_as_done() -> Seams:
    perform = ForeignHost._perform

    async def pretend(self: ForeignHost, op: participant_pb2.ParticipantOp) -> None:
        if op.type == ParticipantOpType.FINALIZE_COMMIT and TxnId(op.txn_id) in self._busy:
            return
        try:
            await perform(self, op)
        except Exception:
            if op.type == ParticipantOpType.BEGIN_COMMIT:
                raise

    return [("txnparticipant.foreign.host:ForeignHost._perform", pretend)]


RAFT: Mapping[str, Callable[[], Seams]] = {
    "members not committed are in the snapshot": members_not_committed_are_in_the_snapshot,
    "cut members stay": cut_members_stay,
    "an installed snapshot says nothing of members": an_installed_snapshot_says_nothing_of_members,
    "two changes of members at once": two_changes_of_members_at_once,
    "who is to go is taken for gone": who_is_to_go_is_taken_for_gone,
    "votes leave before their sync": votes_leave_before_their_sync,
    "acknowledgements leave before their sync": acknowledgements_leave_before_their_sync,
    "one that is alone does not wait for its sync": one_that_is_alone_does_not_wait_for_its_sync,
    "votes while a leader is near": votes_while_a_leader_is_near,
    "a lease from when answers arrive": a_lease_from_when_answers_arrive,
    "a lease outlives a hand-over": a_lease_outlives_a_hand_over,
    "who hands over goes on proposing": who_hands_over_goes_on_proposing,
    "whoever once led names a successor": whoever_once_led_names_a_successor,
    "ready before its own entry": ready_before_its_own_entry,
    "answers of another term count": answers_of_another_term_count,
    "what is cut off comes back from the disk": what_is_cut_off_comes_back_from_the_disk,
    "whoever is in the suffix stays": whoever_is_in_the_suffix_stays,
    "caught up with the first word": caught_up_with_the_first_word,
    "whose place is taken is asked no more": whose_place_is_taken_is_asked_no_more,
    "a host agrees to anything": a_host_agrees_to_anything,
    "in doubt is discarded": in_doubt_is_discarded,
    "nobody asks about what is in doubt": nobody_asks_about_what_is_in_doubt,
    "a host's failure counts as done": a_hosts_failure_counts_as_done,
}
