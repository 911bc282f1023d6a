from txnstatus.proto import catalog_pb2 as _catalog_pb2
from txnstatus.proto import txn_status_pb2 as _txn_status_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetClusterRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetClusterResponse(_message.Message):
    __slots__ = ("catalog", "ticket_key", "limits_of")
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    TICKET_KEY_FIELD_NUMBER: _ClassVar[int]
    LIMITS_OF_FIELD_NUMBER: _ClassVar[int]
    catalog: _catalog_pb2.CatalogState
    ticket_key: int
    limits_of: str
    def __init__(self, catalog: _Optional[_Union[_catalog_pb2.CatalogState, _Mapping]] = ..., ticket_key: _Optional[int] = ..., limits_of: _Optional[str] = ...) -> None: ...

class SetLogLevelRequest(_message.Message):
    __slots__ = ("logger", "level")
    LOGGER_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    logger: str
    level: str
    def __init__(self, logger: _Optional[str] = ..., level: _Optional[str] = ...) -> None: ...

class SetLogLevelResponse(_message.Message):
    __slots__ = ("levels",)
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    levels: _containers.RepeatedCompositeFieldContainer[LogLevel]
    def __init__(self, levels: _Optional[_Iterable[_Union[LogLevel, _Mapping]]] = ...) -> None: ...

class LogLevel(_message.Message):
    __slots__ = ("logger", "level")
    LOGGER_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    logger: str
    level: str
    def __init__(self, logger: _Optional[str] = ..., level: _Optional[str] = ...) -> None: ...

class SetOptionRequest(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: int
    def __init__(self, name: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...

class SetOptionResponse(_message.Message):
    __slots__ = ("catalog",)
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    catalog: _catalog_pb2.CatalogState
    def __init__(self, catalog: _Optional[_Union[_catalog_pb2.CatalogState, _Mapping]] = ...) -> None: ...

class ReplaceNodeRequest(_message.Message):
    __slots__ = ("old_node", "new_node", "address")
    OLD_NODE_FIELD_NUMBER: _ClassVar[int]
    NEW_NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    old_node: str
    new_node: str
    address: str
    def __init__(self, old_node: _Optional[str] = ..., new_node: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class ReplaceNodeResponse(_message.Message):
    __slots__ = ("catalog",)
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    catalog: _catalog_pb2.CatalogState
    def __init__(self, catalog: _Optional[_Union[_catalog_pb2.CatalogState, _Mapping]] = ...) -> None: ...

class AddNodeRequest(_message.Message):
    __slots__ = ("node_id", "address", "roles")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    address: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node_id: _Optional[str] = ..., address: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ...) -> None: ...

class AddNodeResponse(_message.Message):
    __slots__ = ("catalog",)
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    catalog: _catalog_pb2.CatalogState
    def __init__(self, catalog: _Optional[_Union[_catalog_pb2.CatalogState, _Mapping]] = ...) -> None: ...

class DrainNodeRequest(_message.Message):
    __slots__ = ("node_id", "drain")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    drain: _catalog_pb2.CatalogState.Drain
    def __init__(self, node_id: _Optional[str] = ..., drain: _Optional[_Union[_catalog_pb2.CatalogState.Drain, str]] = ...) -> None: ...

class DrainNodeResponse(_message.Message):
    __slots__ = ("catalog",)
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    catalog: _catalog_pb2.CatalogState
    def __init__(self, catalog: _Optional[_Union[_catalog_pb2.CatalogState, _Mapping]] = ...) -> None: ...

class RemoveNodeRequest(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    def __init__(self, node_id: _Optional[str] = ...) -> None: ...

class RemoveNodeResponse(_message.Message):
    __slots__ = ("catalog",)
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    catalog: _catalog_pb2.CatalogState
    def __init__(self, catalog: _Optional[_Union[_catalog_pb2.CatalogState, _Mapping]] = ...) -> None: ...

class RebalanceRequest(_message.Message):
    __slots__ = ("stops",)
    STOPS_FIELD_NUMBER: _ClassVar[int]
    stops: bool
    def __init__(self, stops: _Optional[bool] = ...) -> None: ...

class RebalanceResponse(_message.Message):
    __slots__ = ("catalog",)
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    catalog: _catalog_pb2.CatalogState
    def __init__(self, catalog: _Optional[_Union[_catalog_pb2.CatalogState, _Mapping]] = ...) -> None: ...

class MigrateShardRequest(_message.Message):
    __slots__ = ("shard", "group")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    shard: int
    group: str
    def __init__(self, shard: _Optional[int] = ..., group: _Optional[str] = ...) -> None: ...

class MigrateShardResponse(_message.Message):
    __slots__ = ("catalog",)
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    catalog: _catalog_pb2.CatalogState
    def __init__(self, catalog: _Optional[_Union[_catalog_pb2.CatalogState, _Mapping]] = ...) -> None: ...

class SplitShardRequest(_message.Message):
    __slots__ = ("shard", "new_shard")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    NEW_SHARD_FIELD_NUMBER: _ClassVar[int]
    shard: int
    new_shard: int
    def __init__(self, shard: _Optional[int] = ..., new_shard: _Optional[int] = ...) -> None: ...

class SplitShardResponse(_message.Message):
    __slots__ = ("catalog",)
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    catalog: _catalog_pb2.CatalogState
    def __init__(self, catalog: _Optional[_Union[_catalog_pb2.CatalogState, _Mapping]] = ...) -> None: ...

class AddGroupRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class AddGroupResponse(_message.Message):
    __slots__ = ("catalog",)
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    catalog: _catalog_pb2.CatalogState
    def __init__(self, catalog: _Optional[_Union[_catalog_pb2.CatalogState, _Mapping]] = ...) -> None: ...

class PlaceDatabaseRequest(_message.Message):
    __slots__ = ("database", "group")
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    database: str
    group: str
    def __init__(self, database: _Optional[str] = ..., group: _Optional[str] = ...) -> None: ...

class PlaceDatabaseResponse(_message.Message):
    __slots__ = ("catalog",)
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    catalog: _catalog_pb2.CatalogState
    def __init__(self, catalog: _Optional[_Union[_catalog_pb2.CatalogState, _Mapping]] = ...) -> None: ...

class RemoveForeignRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RemoveForeignResponse(_message.Message):
    __slots__ = ("catalog",)
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    catalog: _catalog_pb2.CatalogState
    def __init__(self, catalog: _Optional[_Union[_catalog_pb2.CatalogState, _Mapping]] = ...) -> None: ...

class GrantRequest(_message.Message):
    __slots__ = ("object", "identity", "role")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    object: str
    identity: str
    role: str
    def __init__(self, object: _Optional[str] = ..., identity: _Optional[str] = ..., role: _Optional[str] = ...) -> None: ...

class GrantResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RevokeRequest(_message.Message):
    __slots__ = ("object", "identity", "role")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    object: str
    identity: str
    role: str
    def __init__(self, object: _Optional[str] = ..., identity: _Optional[str] = ..., role: _Optional[str] = ...) -> None: ...

class RevokeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ShowGrantsRequest(_message.Message):
    __slots__ = ("identity", "object")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    identity: str
    object: str
    def __init__(self, identity: _Optional[str] = ..., object: _Optional[str] = ...) -> None: ...

class ShowGrantsResponse(_message.Message):
    __slots__ = ("grants",)
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    grants: _containers.RepeatedCompositeFieldContainer[GrantInfo]
    def __init__(self, grants: _Optional[_Iterable[_Union[GrantInfo, _Mapping]]] = ...) -> None: ...

class GrantInfo(_message.Message):
    __slots__ = ("object", "identity", "role")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    object: str
    identity: str
    role: str
    def __init__(self, object: _Optional[str] = ..., identity: _Optional[str] = ..., role: _Optional[str] = ...) -> None: ...

class DistrustRequest(_message.Message):
    __slots__ = ("what", "restores")
    WHAT_FIELD_NUMBER: _ClassVar[int]
    RESTORES_FIELD_NUMBER: _ClassVar[int]
    what: str
    restores: bool
    def __init__(self, what: _Optional[str] = ..., restores: _Optional[bool] = ...) -> None: ...

class DistrustResponse(_message.Message):
    __slots__ = ("catalog",)
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    catalog: _catalog_pb2.CatalogState
    def __init__(self, catalog: _Optional[_Union[_catalog_pb2.CatalogState, _Mapping]] = ...) -> None: ...

class SetLimitRequest(_message.Message):
    __slots__ = ("identity", "name", "value", "restores")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    RESTORES_FIELD_NUMBER: _ClassVar[int]
    identity: str
    name: str
    value: int
    restores: bool
    def __init__(self, identity: _Optional[str] = ..., name: _Optional[str] = ..., value: _Optional[int] = ..., restores: _Optional[bool] = ...) -> None: ...

class SetLimitResponse(_message.Message):
    __slots__ = ("catalog",)
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    catalog: _catalog_pb2.CatalogState
    def __init__(self, catalog: _Optional[_Union[_catalog_pb2.CatalogState, _Mapping]] = ...) -> None: ...

class TurnTicketKeyRequest(_message.Message):
    __slots__ = ("after",)
    AFTER_FIELD_NUMBER: _ClassVar[int]
    after: int
    def __init__(self, after: _Optional[int] = ...) -> None: ...

class TurnTicketKeyResponse(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

class RaiseLevelRequest(_message.Message):
    __slots__ = ("level", "only_ask")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    ONLY_ASK_FIELD_NUMBER: _ClassVar[int]
    level: int
    only_ask: bool
    def __init__(self, level: _Optional[int] = ..., only_ask: _Optional[bool] = ...) -> None: ...

class RaiseLevelResponse(_message.Message):
    __slots__ = ("level", "nodes")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    level: int
    nodes: _containers.RepeatedCompositeFieldContainer[NodeVersion]
    def __init__(self, level: _Optional[int] = ..., nodes: _Optional[_Iterable[_Union[NodeVersion, _Mapping]]] = ...) -> None: ...

class NodeVersion(_message.Message):
    __slots__ = ("node_id", "version", "oldest_level", "newest_level", "answers")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OLDEST_LEVEL_FIELD_NUMBER: _ClassVar[int]
    NEWEST_LEVEL_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    version: str
    oldest_level: int
    newest_level: int
    answers: bool
    def __init__(self, node_id: _Optional[str] = ..., version: _Optional[str] = ..., oldest_level: _Optional[int] = ..., newest_level: _Optional[int] = ..., answers: _Optional[bool] = ...) -> None: ...

class MoveReplicaRequest(_message.Message):
    __slots__ = ("old_node", "new_node")
    OLD_NODE_FIELD_NUMBER: _ClassVar[int]
    NEW_NODE_FIELD_NUMBER: _ClassVar[int]
    old_node: str
    new_node: str
    def __init__(self, old_node: _Optional[str] = ..., new_node: _Optional[str] = ...) -> None: ...

class MoveReplicaResponse(_message.Message):
    __slots__ = ("members",)
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, members: _Optional[_Iterable[str]] = ...) -> None: ...

class ReadPartRequest(_message.Message):
    __slots__ = ("part", "number", "chunk")
    PART_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    part: str
    number: int
    chunk: int
    def __init__(self, part: _Optional[str] = ..., number: _Optional[int] = ..., chunk: _Optional[int] = ...) -> None: ...

class ReadPartResponse(_message.Message):
    __slots__ = ("data", "is_last", "goes_on")
    DATA_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    GOES_ON_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    is_last: bool
    goes_on: bool
    def __init__(self, data: _Optional[bytes] = ..., is_last: _Optional[bool] = ..., goes_on: _Optional[bool] = ...) -> None: ...

class GetNodeRequest(_message.Message):
    __slots__ = ("digests",)
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    digests: bool
    def __init__(self, digests: _Optional[bool] = ...) -> None: ...

class GetNodeResponse(_message.Message):
    __slots__ = ("node_id", "incarnation", "groups", "longest_pause_seconds", "version", "oldest_level", "newest_level")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    LONGEST_PAUSE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OLDEST_LEVEL_FIELD_NUMBER: _ClassVar[int]
    NEWEST_LEVEL_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    incarnation: int
    groups: _containers.RepeatedCompositeFieldContainer[GroupStatus]
    longest_pause_seconds: float
    version: str
    oldest_level: int
    newest_level: int
    def __init__(self, node_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., groups: _Optional[_Iterable[_Union[GroupStatus, _Mapping]]] = ..., longest_pause_seconds: _Optional[float] = ..., version: _Optional[str] = ..., oldest_level: _Optional[int] = ..., newest_level: _Optional[int] = ...) -> None: ...

class GroupStatus(_message.Message):
    __slots__ = ("group", "leader", "leader_id", "term", "commit_index", "applied_index", "digest", "members", "parts", "takeover")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    APPLIED_INDEX_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    TAKEOVER_FIELD_NUMBER: _ClassVar[int]
    group: str
    leader: bool
    leader_id: str
    term: int
    commit_index: int
    applied_index: int
    digest: bytes
    members: _containers.RepeatedScalarFieldContainer[str]
    parts: _containers.RepeatedScalarFieldContainer[str]
    takeover: Takeover
    def __init__(self, group: _Optional[str] = ..., leader: _Optional[bool] = ..., leader_id: _Optional[str] = ..., term: _Optional[int] = ..., commit_index: _Optional[int] = ..., applied_index: _Optional[int] = ..., digest: _Optional[bytes] = ..., members: _Optional[_Iterable[str]] = ..., parts: _Optional[_Iterable[str]] = ..., takeover: _Optional[_Union[Takeover, _Mapping]] = ...) -> None: ...

class Takeover(_message.Message):
    __slots__ = ("silence_seconds", "election_seconds", "catching_up_seconds")
    SILENCE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    ELECTION_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CATCHING_UP_SECONDS_FIELD_NUMBER: _ClassVar[int]
    silence_seconds: float
    election_seconds: float
    catching_up_seconds: float
    def __init__(self, silence_seconds: _Optional[float] = ..., election_seconds: _Optional[float] = ..., catching_up_seconds: _Optional[float] = ...) -> None: ...
