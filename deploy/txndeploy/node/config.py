"""A node's configuration file (TOML): what it says, its rules, and its defaults."""

from __future__ import annotations

import tomllib
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from txndeploy.errors import ConfigError
from txndeploy.logs import Level, LogFormat
from txnparticipant.leader.service import ShardSettings
from txnstatus import features
from txnstatus.catalog.catalog import ADDRESS_PATTERN, NODE_ID_PATTERN, CatalogState
from txnstatus.catalog.founding import initial
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.catalog.options import Options
from txnstatus.errors import InvalidArgument
from txnstatus.lake import locations
from txnstatus.limits import MAX_REQUEST_BYTES
from txnstatus.names import is_database_name
from txnstatus.raft.settings import RaftSettings
from txnstatus.rpc.guests import UNFINISHED_BYTES
from txnstatus.security.tls import Tls, TlsFiles
from txnstatus.types import ConflictStrategy

if TYPE_CHECKING:
    from txnstatus.security.jwts import Jwts

NodeId = Annotated[str, Field(pattern=NODE_ID_PATTERN)]
Address = Annotated[str, Field(pattern=ADDRESS_PATTERN)]
Identity = Annotated[str, Field(pattern=r"^[^\s/]{1,200}$")]
StrategyName = Annotated[str, Field(pattern="^[a-z][a-z0-9-]{0,63}$")]
StrategyTarget = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]


_DEFAULTS = Options()
_RAFT = RaftSettings()


class Role(StrEnum):
    STATUS = "status"
    PARTICIPANT = "participant"
    MANAGER = "manager"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NodeEntry(_Section):
    address: Address
    roles: tuple[Role, ...] = tuple(Role)


class TlsSection(_Section):
    """PEM files. A change is noticed at the next connection."""

    ca: Path
    """Certificates of those whose signature counts."""
    certificate: Path
    """The node's, which names `spiffe://CLUSTER_NAME/node/NODE_ID`."""
    key: Path

    def open(self) -> Tls:
        """Raises InvalidArgument."""
        return Tls(TlsFiles(self.ca, self.certificate, self.key))


class JwtSection(_Section):
    """The issuer whose JSON Web Tokens count, in place of users' certificates."""

    issuer: str = Field(min_length=1)
    audience: str = Field(min_length=1)
    keys: Path
    """The issuer's public key or certificate (PEM), or its set of keys (JWKS). A change is noticed."""
    algorithms: tuple[str, ...] = Field(min_length=1)
    leeway_seconds: float = Field(30.0, ge=0, le=600)
    claim: str = Field("sub", min_length=1)
    """The claim that has the user's name."""

    def open(self) -> Jwts:
        """Raises InvalidArgument."""
        from txnstatus.security.jwts import Issuer, Jwts  # whoever wants none does without the library

        return Jwts(Issuer(**self.model_dump()))


class RaftSection(_Section):
    heartbeat_seconds: float = Field(_RAFT.heartbeat_seconds, gt=0)
    promise_seconds: float = Field(_RAFT.promise_seconds, gt=0)
    election_min_seconds: float = Field(_RAFT.election_min_seconds, gt=0)
    election_max_seconds: float = Field(_RAFT.election_max_seconds, gt=0)
    snapshot_entries: int = Field(20_000, ge=10)
    snapshot_bytes: int = Field(64 << 20, ge=1 << 20)
    segment_bytes: int = Field(16 << 20, ge=4_096)

    @model_validator(mode="after")
    def _related(self) -> Self:
        self.settings()
        return self

    def settings(self) -> RaftSettings:
        """Raises ValueError when the times do not fit together."""
        return RaftSettings(
            heartbeat_seconds=self.heartbeat_seconds,
            promise_seconds=self.promise_seconds,
            election_min_seconds=self.election_min_seconds,
            election_max_seconds=self.election_max_seconds,
            snapshot_entries=self.snapshot_entries,
            snapshot_bytes=self.snapshot_bytes,
            segment_bytes=self.segment_bytes,
        )


class TxnSection(_Section):
    """What a new cluster begins with. Those that are options are changed later with `txnctl config set`."""

    keepalive_default_ms: int = _DEFAULTS.keepalive_default_ms
    keepalive_min_ms: int = _DEFAULTS.keepalive_min_ms
    keepalive_max_ms: int = _DEFAULTS.keepalive_max_ms
    staleness_interval_ms: int = _DEFAULTS.staleness_interval_ms
    retention_ms: int = _DEFAULTS.retention_ms
    max_lifetime_ms: int = _DEFAULTS.max_lifetime_ms
    max_open_transactions: int = _DEFAULTS.max_open_transactions
    snapshot_retention_seconds: int = _DEFAULTS.snapshot_retention_seconds
    savepoint_warn_mib: int = _DEFAULTS.savepoint_warn_mib
    strict_locking_mode: int = _DEFAULTS.strict_locking_mode
    compact_delta_num: int = _DEFAULTS.compact_delta_num
    compact_delta_pct: int = _DEFAULTS.compact_delta_pct
    compact_failures: int = _DEFAULTS.compact_failures
    compact_lease_ms: int = _DEFAULTS.compact_lease_ms
    compact_wait_ms: int = _DEFAULTS.compact_wait_ms
    compact_file_bytes: int = _DEFAULTS.compact_file_bytes
    user_open_transactions: int = _DEFAULTS.user_open_transactions
    user_connections: int = _DEFAULTS.user_connections
    user_begins_per_second: int = _DEFAULTS.user_begins_per_second
    user_calls_mib: int = _DEFAULTS.user_calls_mib
    user_lock_waits: int = _DEFAULTS.user_lock_waits
    user_reads_per_second: int = _DEFAULTS.user_reads_per_second
    range_span: int = Field(1_000_000, ge=1, le=1_000_000_000)
    """Transaction ids in one status range; for the life of the cluster."""
    zombie_grace_seconds: float = Field(60.0, ge=0)
    snapshot_lease_seconds: float = Field(30.0, ge=1, le=3600)
    """What a snapshot reads is kept for so long after its program was last heard."""
    row_flush_bytes: int = Field(4 << 20, ge=1_000)
    in_doubt_seconds: float = Field(3.0, ge=0.1)
    """A participant that is prepared for longer asks for the outcome itself."""

    def shard_settings(self) -> ShardSettings:
        return ShardSettings(
            self.zombie_grace_seconds, self.snapshot_lease_seconds, self.in_doubt_seconds, self.row_flush_bytes
        )

    @model_validator(mode="after")
    def _related(self) -> Self:
        self.options()
        return self

    def options(self) -> Options:
        """Raises ValueError."""
        try:
            return Options.checked({name: getattr(self, name) for name, _, _ in _DEFAULTS.items()})
        except InvalidArgument as error:
            raise ValueError(error.message) from error


class NodeConfig(_Section):
    cluster_name: NodeId
    node_id: NodeId
    data_dir: Path
    warehouse: str
    """URI under which tables are kept that do not name a location of their own; all nodes and clients reach it."""
    table_roots: tuple[str, ...] = ()
    """URIs under which tables may be that name one, besides the warehouse; the same on every node."""
    database_roots: dict[str, tuple[str, ...]] = {}
    """URIs under which tables of a database may be that name a location, in place of `table_roots`: nobody else's are
    there. Likewise."""
    participant_shards: int = Field(4, ge=1, le=1024)
    groups: int = Field(1, ge=1, le=64)
    """Raft groups that a new cluster's shards are spread over; each has a status range of its own, too."""
    replication: int = Field(3, ge=1, le=7)
    log_level: Level = Level.INFO
    """The least that the log tells; SIGHUP has the node read this again, and `log_levels`."""
    log_levels: dict[str, Level] = {}
    """Levels of single loggers, and of those below them: "txnstatus.raft" = "DEBUG"."""
    log_format: LogFormat = LogFormat.TEXT
    trace_endpoint: str = ""
    """Where spans go: a collector that takes OTLP over HTTP, http://127.0.0.1:4318. Empty: as OTEL_* variables say."""
    joins: bool = False
    """Whether this node is to take a dead one's place (`txnctl node replace`); the cluster is the other `nodes`."""
    nodes: dict[NodeId, NodeEntry]
    """The same on every node."""
    reach: dict[NodeId, Address] = {}
    """Where this node reaches others, if not at their addresses: through a proxy, or another network."""
    grpc_address: Address | None = None
    """Where this node serves gRPC, too; without one it does not."""
    http_address: Address | None = None
    """Where this node serves metrics, and says whether it lives and serves; without one it does not."""
    http_open: bool = False
    """Whether metrics are for those, too, who show no certificate, where there is TLS. Probes are for all."""
    max_connections: int | None = Field(None, ge=1)
    """Connections from clients at one time; without, as many as the limit of open files allows, 10,000 at most."""
    max_unfinished_bytes: int = Field(UNFINISHED_BYTES, ge=MAX_REQUEST_BYTES)
    """Bytes of what clients have begun to send, and not ended."""
    conflict_strategies: dict[StrategyName, StrategyTarget] = {}
    """Strategies of one's own by name, each as "module:attribute". The same on every node."""
    tls: TlsSection | None = None
    """TLS on every connection."""
    admins: tuple[Identity, ...] = ()
    """Users who are admins of the cluster whatever is granted, and grant the first roles. The same on every node."""
    jwt: JwtSection | None = None
    """Users who show a token in place of a certificate."""
    secrets: Path | None = None
    """The hashed secrets of users who show one in place of a certificate. A change is noticed."""
    insecure: bool = False
    """Whether the node is to go without: whoever reaches its ports may do anything, so they are on loopback."""
    raft: RaftSection = RaftSection()
    txn: TxnSection = TxnSection()

    @field_validator("warehouse")
    @classmethod
    def _is_uri(cls, value: str) -> str:
        if "://" not in value:
            raise ValueError(f"warehouse {value!r} is not a URI such as file:///data/warehouse")
        return _location(value)

    @field_validator("trace_endpoint")
    @classmethod
    def _is_http(cls, value: str) -> str:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError(f"trace_endpoint {value!r} is no URL such as http://127.0.0.1:4318")
        return value

    @field_validator("table_roots")
    @classmethod
    def _are_locations(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(_location, values))

    @field_validator("database_roots")
    @classmethod
    def _are_databases(cls, values: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        if (wrong := next((name for name in values if not is_database_name(name)), None)) is not None:
            raise ValueError(f"{wrong!r} is no name of a database")
        return {name: tuple(map(_location, roots)) for name, roots in values.items()}

    @field_validator("conflict_strategies")
    @classmethod
    def _are_new(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if name in frozenset(ConflictStrategy):
                raise ValueError(f"{name!r} comes with the service: give your own strategy another name")
        return value

    @field_validator("replication")
    @classmethod
    def _is_odd(cls, value: int) -> int:
        if value % 2 == 0:
            raise ValueError(f"replication {value} is even: it costs a replica and survives no more than {value - 1}")
        return value

    @model_validator(mode="after")
    def _related(self) -> Self:
        if self.node_id not in self.nodes:
            raise ValueError(f"node_id {self.node_id!r} is not among [nodes]: {', '.join(self.nodes)}")
        for role in (Role.STATUS, Role.PARTICIPANT):
            if not self.with_role(role):
                raise ValueError(f"no node has the role {role}")
        addresses = [entry.address for entry in self.nodes.values()]
        if len(set(addresses)) != len(addresses):
            raise ValueError("two nodes have the same address")
        warehouse = locations.parse(self.warehouse)
        for database, roots in self.database_roots.items():
            if around := next((root for root in roots if warehouse.is_within(locations.parse(root))), None):
                raise ValueError(f"the warehouse is in {around}, a root of database {database}: it is nobody else's")
        if self.insecure and self.tls is not None:
            raise ValueError("insecure = true with [tls]: say one of them")
        if self.grpc_address in addresses:
            raise ValueError(f"grpc_address {self.grpc_address} is a node's address: gRPC has a port of its own")
        if self.http_address is not None and self.http_address in (*addresses, self.grpc_address):
            raise ValueError(f"http_address {self.http_address} is another port of a node: HTTP has one of its own")
        return self

    @property
    def levels(self) -> dict[str, Level]:
        """Logger → level; "" is the one of all."""
        return {"": self.log_level, **self.log_levels}

    @property
    def roots(self) -> locations.Roots:
        return locations.Roots(self.table_roots, self.database_roots)

    def with_role(self, role: Role) -> list[str]:
        return [node for node, entry in self.nodes.items() if role in entry.roles]

    def initial_catalog(self, level: int = features.OWN.newest) -> CatalogState:
        """What the catalog of a new cluster of these nodes says; a node that joins one later is not in it.

        `level`: the newest that this program does.
        """
        founders = {node: entry for node, entry in self.nodes.items() if not (self.joins and node == self.node_id)}
        return initial(
            {node: NodeInfo(entry.address, tuple(entry.roles)) for node, entry in founders.items()},
            participant_shards=self.participant_shards,
            replication=self.replication,
            range_span=self.txn.range_span,
            groups=self.groups,
            options=self.txn.options(),
            level=level,
        )


def _location(uri: str) -> str:
    """Raises ValueError."""
    try:
        locations.parse(uri)
    except InvalidArgument as error:
        raise ValueError(error.message) from error
    return uri


def load(path: Path) -> NodeConfig:
    """Raises ConfigError."""
    try:
        return NodeConfig.model_validate(tomllib.loads(path.read_text()))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    except ValidationError as error:
        raise ConfigError(f"{path} cannot be used:\n{_explain(error)}") from error


def dump(config: NodeConfig) -> str:
    """The configuration as TOML that `load` reads."""
    return tomli_w.dumps(config.model_dump(mode="json", exclude_none=True))


def _explain(error: ValidationError) -> str:
    lines = []
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"]) or "the file"
        message = item["msg"].removeprefix("Value error, ")
        given = "" if item["type"] in ("missing", "value_error") else f" (it is {item['input']!r})"
        lines.append(f"  {where}: {message}{given}")
    return "\n".join(lines)
