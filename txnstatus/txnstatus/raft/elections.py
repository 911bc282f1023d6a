"""Who may lead: the leader's lease, the pre-vote, and the votes that a replica must not give.

The lease. A replica does not vote for promise_seconds after it heard from a leader, or after it started. A leader that
got answers from a majority within that time, less the clock's drift, knows that there is no other. The lease runs from
when the answered message was sent, so delays only shorten it.

The pre-vote (Raft thesis, 9.6). Before it begins a term, a replica asks whether it would be elected. One that was cut
off is refused as long as the others hear from a leader, and so returns without an election. Whoever is asked and has
more in its log asks, too, at once: it does not matter whose time-out ends first. Of two that ask at one time the one
that is further along goes first, or else the one that comes first in the group's order: votes are not split.

When to ask. A leader that is silent may have paused: its followers wait for an election time-out. Where the connection
to it has ended, its process has most likely ended, too, for a paused one keeps it. Then they ask as soon as their
promises are over, one after the other; if it was the connection alone, whoever still hears the leader refuses. And they
ask again where an election came to nothing, its votes split or too late: until one leads, or the connection is back.

Abstaining. A replica that starts with an empty directory as a member may have had one before: what it promised and
acknowledged then is forgotten. Until it has caught up with a leader it does not vote, except to found the group. And it
is silent at first: a leader that was deposed with its help would take its answers for a majority, and go on.

Draining. A member that is drained, for maintenance, hands over as soon as another one has all that is committed. It
lets one time-out more than others pass before it asks for votes: it leads only where nobody else can.

Founding. A group that is new has only empty logs. A candidate with one begins a term if most members have never had
another log, for certain; or if all members grant it their pre-vote, so that nobody has anything to lose.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Set

from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft.journal import Journal
from txnstatus.raft.members import Members
from txnstatus.raft.replica import Replica
from txnstatus.raft.settings import RaftSettings
from txnstatus.values import value

log = logging.getLogger(__name__)

EMPTY_LOG = (0, 1)
"""Term and index of the last entry of a log that has only the first one."""


@value
class Takeover:
    """How long it took until another one led, by the new leader's clock, in seconds."""

    silence: float
    """Time from when it last heard from a leader, or led, until it began an election; 0: the leader had asked it to, or
    there was none before."""
    election: float
    """Time from then until it was elected."""
    catching_up: float
    """Time from then until it had applied all that was committed before, and its services were ready."""


class Elections:
    def __init__(
        self,
        node_id: str,
        settings: RaftSettings,
        journal: Journal,
        replica: Replica,
        monotonic: Callable[[], float],
        send: Callable[[str, pb.RaftMessage], None],
    ) -> None:
        self._node_id = node_id
        self._settings = settings
        self._journal = journal
        self._replica = replica
        self._monotonic = monotonic
        self._send = send
        self._connected: set[str] = set()
        self._is_new = self._last == EMPTY_LOG and self.term == 0
        # A lease may rest on a promise that was made before the start, unless this replica is new.
        self._heard_leader_at = float("-inf") if self._is_new else monotonic()
        self._led_at = float("-inf")
        self._last_leader = ""
        """Whom this replica heard lead last; empty = nobody since it led itself."""
        self._seen_term = self.term
        self._term_began_at = float("-inf")
        self._sent: dict[str, int] = {}
        self._echoes: dict[str, int] = {}
        self._majority_echo: tuple[Members, float] | None = None
        """The members, and the latest echo that a majority of them has reached; None: to be found anew."""
        self._grants: dict[str, bool] = {}
        """Members that would vote for this replica; True = abstains otherwise."""
        self._asked_at = float("-inf")
        self._yielded_term = -1
        """The term for which this replica has let another one go first: once, for that one may not hear the answers."""
        self._turn_seconds = settings.heartbeat_seconds / 2
        """Time for which whoever comes later in the group's order waits for those before, and until one asks again."""
        self._granted: dict[str, int] = {}
        """The term for which a candidate was last told that it would get this replica's vote."""
        silence = settings.election_max_seconds * (1 + 2 * settings.max_clock_drift)
        self._silent_until = monotonic() + silence if journal.abstaining else float("-inf")
        self.founded = self._is_new and len(self.members) == 1
        """Whether this replica helped to elect the group's first leader, since it was opened."""
        self._asked_term = -1
        self._handed_over_term = -1
        self._handed_over_at = float("-inf")
        self._asked_successor_at = float("-inf")
        self.successor = ""
        """The member that was asked to lead in this replica's place; empty = none."""
        self._catch_up_to: int | None = None
        self.taking_over = False
        """Whether this replica begins an election because its leader has asked it to, in this cycle."""
        self.asked_over_term = -1
        """The term whose leader has asked it, in this cycle: where a later one has begun, promises hold."""
        self.drained: Set[str] = frozenset()
        """Members that lead nothing where another one can."""
        self._has_waited = False
        """Whether this replica has let a time-out pass, so that others lead, since it last heard from a leader."""
        self._silence = 0.0
        self._campaigned_at = self._elected_at = float("-inf")
        self._elected_term = -1

    @property
    def term(self) -> int:
        return int(self._replica.raftCurrentTerm)

    @property
    def members(self) -> tuple[str, ...]:
        return self._journal.members.current

    @property
    def _last(self) -> tuple[int, int]:
        entry = self._journal[-1]
        return entry.term, entry.idx

    def _is_majority(self, nodes: set[str]) -> bool:
        """Whether these and this one are most of the members."""
        members = self.members
        return 2 * sum([member in nodes or member == self._node_id for member in members]) > len(members)

    # ---- the lease

    def heard_leader(self, leader: str, sent: int) -> None:
        self._heard_leader_at = self._monotonic()
        self._last_leader = leader
        self._sent[leader] = sent
        self._asked_term = -1
        self._has_waited = False

    def echo_for(self, leader: str) -> int:
        """What an answer to the leader carries: when it sent what is answered, by its own clock."""
        return self._sent.get(leader, 0)

    def answered(self, peer: str, echo: int) -> None:
        if echo > self._echoes.get(peer, -1):
            self._echoes[peer] = echo
            self._majority_echo = None

    def _answered_since(self) -> float:
        """The latest time at or after which a majority was sent what it has answered, in microseconds; this replica
        answers itself at any time."""
        members = self._journal.members.current
        if self._majority_echo is None or self._majority_echo[0] is not members:
            echoes = [
                float("inf") if member == self._node_id else self._echoes.get(member, float("-inf"))
                for member in members
            ]
            self._majority_echo = members, sorted(echoes, reverse=True)[len(members) // 2] if members else float("-inf")
        return self._majority_echo[1]

    def is_old_news(self, wire: pb.RaftMessage, commit_index: int) -> bool:
        """Whether it is an acknowledgement, of entries and at a time that a majority has acknowledged: every second
        message that a leader gets."""
        reply = wire.append_reply
        if wire.WhichOneof("body") != "append_reply" or wire.term != self.term or not reply.success or reply.reset:
            return False
        return reply.next_index <= commit_index + 1 and self._answered_since() >= reply.echo_micros

    def has_lease(self) -> bool:
        """Whether no other leader can exist yet; asked of a leader that has applied its own no-op."""
        if self._handed_over_term == self.term:
            return False
        window = self._settings.promise_seconds * (1 - self._settings.max_clock_drift)
        return self._answered_since() > int((self._monotonic() - window) * 1e6)

    def hand_over(self) -> None:
        """Ends the lease of this term for good, and looks for a successor."""
        if self._handed_over_term != self.term:
            self._handed_over_term = self.term
            self._handed_over_at = self._monotonic()
            self._asked_successor_at = float("-inf")
            self.successor = ""

    @property
    def handing_over(self) -> bool:
        return self._replica.leading and self._handed_over_term == self.term

    def press_on(self) -> None:
        """Asks a follower that has everything to take over, again and again; in vain, this leader gives up leading."""
        now = self._monotonic()
        if now - self._handed_over_at > self._settings.election_max_seconds:
            self._replica.step_down()
        elif now - self._asked_successor_at >= self._settings.heartbeat_seconds and self._replica.ask_successor(
            self.drained
        ):
            self._asked_successor_at = now

    @property
    def gives_way(self) -> bool:
        """Whether this replica leads, and another one could."""
        leads = self._replica.leading and self._handed_over_term != self.term
        return leads and self._is_drained and self._replica.has_successor(self.drained)

    @property
    def _is_drained(self) -> bool:
        return self._node_id in self.drained

    def _leader_is_near(self) -> bool:
        if self._replica.leading:
            return self.has_lease()
        return self._monotonic() - self._heard_leader_at < self._settings.promise_seconds

    # ---- campaigning

    @property
    def may_campaign(self) -> bool:
        return self._node_id in self.members and (not self._journal.abstaining or self._last == EMPTY_LOG)

    def connected(self, peer: str) -> None:
        self._connected.add(peer)
        # Nobody has ever led a new group, so its first member need not wait.
        if self._is_new and self.term == 0 and self.members[:1] == (self._node_id,):
            self._ask()

    def disconnected(self, peer: str) -> None:
        self._connected.discard(peer)

    @property
    def has_company(self) -> bool:
        """Whether another member is connected, who could lead."""
        return not self._connected.isdisjoint(set(self.members) - {self._node_id})

    def should_campaign(self) -> bool:
        """Asked once a tick: whether this replica begins an election in it."""
        self.taking_over = self.asked_over_term == self.term
        if self._seen_term != self.term:
            self._seen_term, self._term_began_at = self.term, self._monotonic()
        campaigns = self._should_campaign()
        if campaigns:
            self._campaigned_at = self._monotonic()
            led_until = max(self._heard_leader_at, self._led_at)
            knew_one = not self.taking_over and led_until > float("-inf")
            self._silence = self._campaigned_at - led_until if knew_one else 0.0
        return campaigns

    def _should_campaign(self) -> bool:
        if self.taking_over:
            return self.may_campaign and not self._journal.abstaining
        if self._replica.leading:
            return False
        alone = self.members == (self._node_id,)
        if self._replica.election_due or alone or self._monotonic() >= self._turn_comes_at:
            if self._last == EMPTY_LOG and self._asked_term == self.term + 1:
                missing = set(self.members) - self._grants.keys() - {self._node_id}
                log.info("%s: new, and waits for %s to begin", self._journal.directory, ", ".join(sorted(missing)))
            self._replica.postpone_election()
            if alone or self._has_waited or not self._is_drained:
                self._ask()
            self._has_waited = True
        won = self._asked_term == self.term + 1 and self._would_win()
        if won:
            self._asked_term = -1
        return won and self.may_campaign

    @property
    def _turn_comes_at(self) -> float:
        """When this replica asks for another leader, as the connection to the one that it had has ended; infinite: it
        has not."""
        lost = self._replica.leader_id or self._last_leader
        if lost in ("", self._node_id) or lost in self._connected or not self.may_campaign or self._is_drained:
            return float("inf")
        before = sum(1 for other in self._replica.order if other != lost and self._goes_before(other))
        promised_until = self._heard_leader_at + self._settings.promise_seconds
        turn_comes_at = max(promised_until + before * self._turn_seconds, self._asked_at + self._turn_seconds)
        if self._replica.leader_id:
            return turn_comes_at
        # An election is under way, or has come to nothing: who is elected in it has a heartbeat's time to say so.
        return max(turn_comes_at, self._term_began_at + self._settings.heartbeat_seconds + before * self._turn_seconds)

    def idle_seconds(self) -> float:
        """Until this replica asks by itself for another leader."""
        return float("inf") if self._replica.leading else self._turn_comes_at - self._monotonic()

    def _would_win(self) -> bool:
        if self._last != EMPTY_LOG:
            return self._is_majority(set(self._grants))
        grants = {**self._grants, self._node_id: self._journal.abstaining}
        never_had_more = {node for node, abstains in grants.items() if not abstains}
        return set(self.members) <= grants.keys() or 2 * len(never_had_more & set(self.members)) > len(self.members)

    def _ask(self) -> None:
        if not self.may_campaign:
            return
        self._grants.clear()
        self._asked_at = self._monotonic()
        self._asked_term = self.term + 1
        term, index = self._last
        request = pb.RaftMessage.PreVote(last_log_index=index, last_log_term=term)
        for peer in self.members:
            if peer != self._node_id:
                self._send(peer, pb.RaftMessage(term=self._asked_term, pre_vote=request))

    def asked(self, sender: str, term: int, request: pb.RaftMessage.PreVote) -> None:
        """Answers a pre-vote; that promises nothing."""
        last, near = (request.last_log_term, request.last_log_index), self._leader_is_near()
        granted = term > self.term and not near and last >= self._last and self.may_vote(sender, last)
        if granted:
            self._granted[sender] = term
            goes_first = last > self._last or self._goes_before(sender)
            if goes_first and self._asked_term == term and self._yielded_term != term:
                self._asked_term, self._yielded_term = -1, term
        elif last < self._last and not near and not self._replica.leading and self._may_ask_again:
            self._ask()
        reply = pb.RaftMessage.PreVoteReply(granted=granted, abstaining=self._journal.abstaining)
        self._send(sender, pb.RaftMessage(term=term if granted else self.term, pre_vote_reply=reply))

    @property
    def _may_ask_again(self) -> bool:
        return self._monotonic() >= self._asked_at + self._turn_seconds

    def _goes_before(self, other: str) -> bool:
        """Whether another member comes before this one in the group's order."""
        order = self._replica.order
        return other in order and order.index(other) < order.index(self._node_id)

    def granted(self, sender: str, term: int, *, abstaining: bool) -> None:
        if term == self._asked_term:
            self._grants[sender] = abstaining

    def leads(self) -> None:
        """Said in every tick in which this replica leads."""
        self.took_part()
        self._last_leader = ""
        self._led_at = self._monotonic()
        if self._elected_term != self.term:
            self._elected_term, self._elected_at = self.term, self._monotonic()
            self.successor = ""

    @property
    def ready_leader(self) -> str:
        """The leader, once it is ready, as far as this replica has heard; empty = none is known.

        Until it is, it refuses whoever asks it.
        """
        return self._replica.leader_id if self._replica.knows_ready else ""

    def takeover(self) -> Takeover:
        """Asked of a leader that is ready since now."""
        elected_at = self._elected_at
        return Takeover(self._silence, elected_at - self._campaigned_at, self._monotonic() - elected_at)

    # ---- voting

    def refuses_vote(self, sender: str, request: dict[str, object]) -> bool:
        """Whether a vote request must not even be looked at."""
        if not request["transfer"] and self._leader_is_near():
            return True  # a leader that this node heard from may hold a lease on its promise not to vote
        if self._journal.abstaining and self._granted.get(sender) != request["term"]:
            return True  # whoever found that the group is new has asked this replica before
        last = request["last_log_term"], request["last_log_index"]
        return not self.may_vote(sender, last)  # type: ignore[arg-type]

    def may_vote(self, candidate: str, last: tuple[int, int]) -> bool:
        """`last` is term and index of the candidate's last entry."""
        if self._journal.abstaining and last != EMPTY_LOG:
            return False
        # One that is no member here was removed, or is to be added by entries that have not come here yet. In the
        # second case its log is ahead; and to refuse it then could leave a group without a leader for good.
        return candidate in self.members or last > self._last

    def took_part(self) -> None:
        """This replica helped to elect a leader. One that abstains does so only where the group is new: nobody can have
        forgotten it."""
        if self._journal.abstaining:
            self._journal.abstaining = False
            self.founded = True

    def may_hear(self, leader: str, term: int) -> bool:
        """Whether this replica may answer the leader yet."""
        if self._journal.abstaining and self._granted.get(leader) == term:
            self.took_part()  # it was asked before this term began, with an empty log: the term founded the group
        return not self._journal.abstaining or self._monotonic() >= self._silent_until

    def led_by(self, last_index: int) -> None:
        """A leader has said where its log ends."""
        if self._journal.abstaining and self._catch_up_to is None:
            self._catch_up_to = last_index

    def acknowledged(self, index: int) -> None:
        """This replica's log is the leader's up to here."""
        if self._catch_up_to is not None and index >= self._catch_up_to:
            self._catch_up_to = None
            self._journal.abstaining = False
