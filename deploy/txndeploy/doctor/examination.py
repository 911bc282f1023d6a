"""Examination: asks a cluster all that is judged, looks at its storage, and mends what it is told to."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from txnclient import Client
from txndeploy.doctor import compactions, savepoints, transactions
from txndeploy.doctor.cluster import Groups, Look
from txndeploy.doctor.places import Place, Table, places, shared
from txndeploy.doctor.report import Mending, Report
from txndeploy.doctor.storage import NotSeen, StorageAudit, refusals
from txndeploy.terminal.listings import host_answers
from txnparticipant.shard.audit import Known, from_wire
from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.catalog import from_wire as catalog_from_wire
from txnstatus.errors import Forgotten, InvalidArgument, NotAuthorized, NotFound, TxnError
from txnstatus.findings import Finding, Kind
from txnstatus.limits import MAX_ADOPTED
from txnstatus.names import is_database_name
from txnstatus.proto import admin_pb2, audit_pb2, common_pb2, txn_status_pb2
from txnstatus.rpc.errors import from_detail
from txnstatus.types import TERMINAL, TxnState

NODE_SECONDS = 5.0
PATIENCE_SECONDS = 10.0
"""Time for groups to elect a leader, and replicas to catch up."""
OPEN_PATIENCE_SECONDS = 30.0
"""Time for a shard's leader to ask about what is open there and was never registered (`in_doubt_seconds`), and to
withdraw it; a call of its own to a node that has just fallen silent takes up to 15 s of that."""
PAUSE_SECONDS = 0.5
DIGEST_LOOKS = 3
"""Looks until the replicas of each group were seen at one entry. Each costs every node a pass over all its state."""
DIGEST_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Wishes:
    table: str = ""
    """The one table whose storage is looked at; empty = all."""
    storage: bool = True
    deep: bool = False
    """Whether all data files are read, whole."""
    fix: bool = False
    whole_writes: bool = False
    """Whether directories that hold a whole write are mended, too."""
    stuck_seconds: float = 60.0


class Step(NamedTuple):
    what: str
    done: int = 0
    total: int | None = None


class Examination:
    """One run. It fills the report as it goes."""

    def __init__(self, client: Client, wishes: Wishes) -> None:
        self.report = Report()
        self._client, self.wishes = client, wishes
        self._state: CatalogState
        self._participants: dict[int, list[audit_pb2.AuditedParticipant]] = {}
        """What the shards that answered said, by shard."""

    def run(self) -> Report:
        for _ in self.steps():
            pass
        return self.report

    def steps(self) -> Iterator[Step]:
        """Does the work, and says before each step what it is."""
        try:
            yield Step("nodes and groups")
            self.look_at_groups()
            yield Step("transactions")
            self.look_at_transactions()
            yield Step("compactions")
            self.look_at_compactions()
            yield Step("savepoints")
            self.look_at_savepoints()
            if self.wishes.storage:
                yield Step("storage")
                yield from self.look_at_storage(self.places())
        except TxnError as error:  # nobody answers, whoever asks may not, or there is no such table
            self.report.not_seen.append(error.message)

    def _look_at_catalog(self) -> CatalogState:
        """Raises TxnError when no node answers."""
        answer = self._client.call(
            "txnstatus.Admin/GetCluster", admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse
        )
        self._state = catalog_from_wire(answer.catalog)
        return self._state

    # ---- nodes and groups

    def look_at_groups(self) -> None:
        groups, end = Groups(), time.monotonic() + PATIENCE_SECONDS
        while True:
            state = self._look_at_catalog()
            look = self._look(sorted(state.nodes), NODE_SECONDS)
            found = groups.findings(state, look)
            if not found or time.monotonic() > end:
                break
            time.sleep(PAUSE_SECONDS)
        answering = [node for node, status in look.items() if status]
        for _ in range(DIGEST_LOOKS):
            groups.compare(self._look(answering, DIGEST_SECONDS, digests=True))
            if groups.compared >= state.groups.keys():
                break
        self.report.findings += [*found, *groups.differing()]
        self.report.seen.append(
            f"{len(state.nodes)} nodes, {len(state.groups)} groups, the replicas of {len(groups.compared)} compared"
        )

    def _look(self, nodes: Sequence[str], seconds: float, *, digests: bool = False) -> Look:
        def ask(node: str) -> admin_pb2.GetNodeResponse | None:
            channel = self._client.session.channel.to(self._state.nodes[node].address)
            try:
                request = admin_pb2.GetNodeRequest(digests=digests)
                return channel.call("txnstatus.Admin/GetNode", request, admin_pb2.GetNodeResponse, timeout=seconds)
            except NotAuthorized:
                raise
            except TxnError:
                return None
            finally:
                channel.close()

        with ThreadPoolExecutor(len(self._state.nodes)) as pool:
            return dict(zip(nodes, pool.map(ask, nodes), strict=True))

    # ---- transactions

    def look_at_transactions(self) -> None:
        """The shards first: what has not ended there and is not unfinished then, ended in between, or is dead."""
        for shard in self._state.shards:
            try:
                self._participants[shard] = self._shard(shard)
            except TxnError as error:
                self.report.not_seen.append(f"shard-{shard}, with its tables: {error.message}")
        held = transactions.unfinished([each for found in self._participants.values() for each in found])
        try:
            open_txns = self._unfinished()
        except TxnError as error:
            self.report.not_seen.append(f"transactions: {error.message}")
            return
        self.report.findings += transactions.stuck(
            open_txns,
            held,
            set(self._state.shards) - self._participants.keys(),
            self._silent_hosts(),
            time.time_ns() // 1000,
            self.wishes.stuck_seconds,
        )
        try:
            self.report.findings += self._dead(held, {txn.txn_id for txn in open_txns})
        except TxnError as error:
            self.report.not_seen.append(f"transactions that ended in between: {error.message}")
        self.report.seen.append(f"{len(open_txns)} unfinished transactions")

    def _dead(self, held: transactions.Unfinished, unfinished: set[int]) -> Iterator[Finding]:
        """What is still held at a second look; where it is open, after a while: unregistered work goes by itself."""
        said = {txn_id: outcome for txn_id in held.keys() - unfinished if (outcome := self._outcome(txn_id))}
        if not said:
            return
        shards = [shard for shard, found in self._participants.items() if transactions.unfinished(found).keys() & said]
        end = time.monotonic() + OPEN_PATIENCE_SECONDS
        while True:
            again = transactions.unfinished([each for shard in shards for each in self._shard(shard)])
            left = {txn_id: again[txn_id] for txn_id in sorted(said) if txn_id in again}
            if not transactions.any_open(left) or time.monotonic() > end:
                break
            time.sleep(PAUSE_SECONDS)
        for txn_id, still in left.items():
            yield from transactions.dead(txn_id, said[txn_id], still)

    def _outcome(self, txn_id: int) -> str:
        """How it ended; empty: it has not, or nobody knows."""
        try:
            state = self._client.get(txn_id).state
        except Forgotten:
            return "finished and forgotten"
        except (NotFound, InvalidArgument):
            return "there never was one"
        return state.name if state in TERMINAL else ""

    def _shard(self, shard: int) -> list[audit_pb2.AuditedParticipant]:
        request = audit_pb2.AuditShardRequest(shard=shard)
        found: dict[str, audit_pb2.AuditedParticipant] = {}
        more = True
        while more:
            answer = self._client.call("txnstatus.Audit/AuditShard", request, audit_pb2.AuditShardResponse)
            for each in answer.participants:
                there = found.setdefault(each.info.table_id, each)
                if there is not each:  # a page went on with it
                    there.unfinished.extend(each.unfinished)
            if more := answer.more:
                last = answer.participants[-1]
                request.after_table_id = last.info.table_id
                request.after_txn_id = last.unfinished[-1].txn_id if last.unfinished else 0
        return list(found.values())

    def _unfinished(self) -> list[common_pb2.TxnInfo]:
        request = txn_status_pb2.ListTransactionsRequest(states=[state.name for state in set(TxnState) - TERMINAL])
        found: list[common_pb2.TxnInfo] = []
        while True:
            answer = self._client.call(
                "txnstatus.Admin/ListTransactions", request, txn_status_pb2.ListTransactionsResponse
            )
            found += answer.txns
            if not answer.more:
                return found
            request.ClearField("below")
            request.below.extend(answer.next)

    def _silent_hosts(self) -> set[str]:
        return {
            name
            for name, address in self._state.foreign.items()
            if address and not host_answers(self._client.session.channel, name, address)
        }

    # ---- compactions

    def look_at_compactions(self) -> None:
        now, patience = time.time_ns() // 1000, self.wishes.stuck_seconds
        try:
            self.report.findings += compactions.waiting(self._client.compactions(), now, patience)
        except TxnError as error:
            self.report.not_seen.append(f"compactions: {error.message}")

    def look_at_savepoints(self) -> None:
        patience, warn_mib = self.wishes.stuck_seconds, self._state.options.savepoint_warn_mib
        try:
            found = self._client.savepoints()
        except TxnError as error:
            self.report.not_seen.append(f"savepoints: {error.message}")
            return
        self.report.findings += savepoints.troubling(found, datetime.now(UTC), patience, warn_mib)

    # ---- storage

    def places(self) -> list[Place]:
        """The places to look at. Raises NotFound for a table that is none."""
        tables = [
            Table(shard, each.info.table_id, each.info.name, each.info.location)
            for shard, participants in self._participants.items()
            for each in participants
            if not is_database_name(each.info.name)
        ]
        usable, unusable = places(tables)
        wanted = self.wishes.table
        self.report.not_seen += [line for line in unusable if not wanted or line.startswith(f"{wanted}:")]
        chosen = [place for place in usable if not wanted or wanted in [table.name for table in place.tables]]
        if wanted and not chosen and not self.report.not_seen:
            raise NotFound(f"table {wanted} does not exist")
        return chosen

    def look_at_storage(self, chosen: Sequence[Place]) -> Iterator[Step]:
        audit = StorageAudit(self._known, self._outcome)
        tables = directories = files = size = 0
        for number, place in enumerate(chosen):
            yield Step(place.name, number, len(chosen))
            try:
                seen = audit.look(place)
            except NotFound:
                continue  # it was dropped meanwhile
            except NotSeen as error:
                self.report.not_seen.append(str(error))
            except TxnError as error:
                self.report.not_seen.append(f"{place.name}: {error.message}")
            else:
                self.report.findings += [*shared(place), *seen.findings]
                self._mend(place, seen.findings)
                if self.wishes.deep:
                    yield from self._look_into(place, audit)
                tables += len(place.tables)
                directories, files, size = directories + seen.directories, files + seen.files, size + seen.bytes
        self.report.seen.append(f"{tables} tables, {directories:,} directories, {files:,} files, {size:,} bytes")
        if self.wishes.deep:
            self.report.seen.append(f"all of {audit.files_read:,} data files, {audit.bytes_read:,} bytes")

    def _look_into(self, place: Place, audit: StorageAudit) -> Iterator[Step]:
        for done, total, found in audit.read(place):
            if isinstance(found, Finding):
                self.report.findings.append(found)
            elif found:
                self.report.not_seen.append(found)
            yield Step(f"{place.name}, whole files", done, total)

    def _known(self, table: Table) -> Mapping[str, Known]:
        found: dict[str, Known] = {}
        request = audit_pb2.AuditTableRequest(table_id=table.table_id)
        while True:
            answer = self._client.call("txnstatus.Audit/AuditTable", request, audit_pb2.AuditTableResponse)
            found.update((each.name, from_wire(each)) for each in answer.directories)
            if not answer.more:
                return found
            request.after = answer.directories[-1].name

    def _mend(self, place: Place, found: Sequence[Finding]) -> None:
        """Or only says what it would mend."""
        orphans = {each.what: each for each in found if each.kind in (Kind.ORPHAN, Kind.WHOLE_WRITE)}
        refused = refusals(place, list(orphans))
        for name, finding in orphans.items():
            if finding.kind is Kind.WHOLE_WRITE and self.wishes.fix and not self.wishes.whole_writes:
                refused.setdefault(name, "it may be somebody's; --whole-writes has it removed all the same")
        asked = [name for name in orphans if name not in refused]
        for start in range(0, len(asked), MAX_ADOPTED):
            refused |= self._adopt(place.tables[0], asked[start : start + MAX_ADOPTED])
        for name, finding in orphans.items():
            self.report.mendings[finding] = Mending(self.wishes.fix, refused.get(name, ""))

    def _adopt(self, table: Table, names: Sequence[str]) -> dict[str, str]:
        """Why some are not. What fails is not mended either: it can be asked for again."""
        request = audit_pb2.AdoptDirectoriesRequest(table_id=table.table_id, names=names, only_ask=not self.wishes.fix)
        try:
            answer = self._client.call("txnstatus.Audit/AdoptDirectories", request, audit_pb2.AdoptDirectoriesResponse)
        except TxnError as error:
            return dict.fromkeys(names, error.message)
        results = zip(names, answer.results, strict=True)
        return {name: from_detail(result.error).message for name, result in results if result.HasField("error")}
