from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetCatalogRequest(_message.Message):
    __slots__ = ("known_version", "wait_millis")
    KNOWN_VERSION_FIELD_NUMBER: _ClassVar[int]
    WAIT_MILLIS_FIELD_NUMBER: _ClassVar[int]
    known_version: int
    wait_millis: int
    def __init__(self, known_version: _Optional[int] = ..., wait_millis: _Optional[int] = ...) -> None: ...

class CatalogState(_message.Message):
    __slots__ = ("format", "version", "range_span", "nodes", "groups", "next_range", "floor", "options", "replacement", "replication", "participant_shards", "foreign", "cluster_id", "joined", "placements", "grants", "ticket_keys", "is_public", "revoked", "limited", "level", "moves", "reserved", "migrations", "origins")
    class Drain(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SERVES: _ClassVar[CatalogState.Drain]
        LEADS_NOTHING: _ClassVar[CatalogState.Drain]
        LEAVES: _ClassVar[CatalogState.Drain]
    SERVES: CatalogState.Drain
    LEADS_NOTHING: CatalogState.Drain
    LEAVES: CatalogState.Drain
    class Node(_message.Message):
        __slots__ = ("node_id", "address", "roles", "version", "oldest_level", "newest_level", "drain")
        NODE_ID_FIELD_NUMBER: _ClassVar[int]
        ADDRESS_FIELD_NUMBER: _ClassVar[int]
        ROLES_FIELD_NUMBER: _ClassVar[int]
        VERSION_FIELD_NUMBER: _ClassVar[int]
        OLDEST_LEVEL_FIELD_NUMBER: _ClassVar[int]
        NEWEST_LEVEL_FIELD_NUMBER: _ClassVar[int]
        DRAIN_FIELD_NUMBER: _ClassVar[int]
        node_id: str
        address: str
        roles: _containers.RepeatedScalarFieldContainer[str]
        version: str
        oldest_level: int
        newest_level: int
        drain: CatalogState.Drain
        def __init__(self, node_id: _Optional[str] = ..., address: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ..., version: _Optional[str] = ..., oldest_level: _Optional[int] = ..., newest_level: _Optional[int] = ..., drain: _Optional[_Union[CatalogState.Drain, str]] = ...) -> None: ...
    class Group(_message.Message):
        __slots__ = ("name", "members", "parts")
        NAME_FIELD_NUMBER: _ClassVar[int]
        MEMBERS_FIELD_NUMBER: _ClassVar[int]
        PARTS_FIELD_NUMBER: _ClassVar[int]
        name: str
        members: _containers.RepeatedScalarFieldContainer[str]
        parts: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, name: _Optional[str] = ..., members: _Optional[_Iterable[str]] = ..., parts: _Optional[_Iterable[str]] = ...) -> None: ...
    class Joined(_message.Message):
        __slots__ = ("group", "after_range")
        GROUP_FIELD_NUMBER: _ClassVar[int]
        AFTER_RANGE_FIELD_NUMBER: _ClassVar[int]
        group: str
        after_range: int
        def __init__(self, group: _Optional[str] = ..., after_range: _Optional[int] = ...) -> None: ...
    class Placement(_message.Message):
        __slots__ = ("database", "group")
        DATABASE_FIELD_NUMBER: _ClassVar[int]
        GROUP_FIELD_NUMBER: _ClassVar[int]
        database: str
        group: str
        def __init__(self, database: _Optional[str] = ..., group: _Optional[str] = ...) -> None: ...
    class Granted(_message.Message):
        __slots__ = ("object", "table_id", "holders")
        OBJECT_FIELD_NUMBER: _ClassVar[int]
        TABLE_ID_FIELD_NUMBER: _ClassVar[int]
        HOLDERS_FIELD_NUMBER: _ClassVar[int]
        object: str
        table_id: str
        holders: _containers.RepeatedCompositeFieldContainer[CatalogState.Holder]
        def __init__(self, object: _Optional[str] = ..., table_id: _Optional[str] = ..., holders: _Optional[_Iterable[_Union[CatalogState.Holder, _Mapping]]] = ...) -> None: ...
    class Holder(_message.Message):
        __slots__ = ("identity", "roles")
        IDENTITY_FIELD_NUMBER: _ClassVar[int]
        ROLES_FIELD_NUMBER: _ClassVar[int]
        identity: str
        roles: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, identity: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ...) -> None: ...
    class TicketKey(_message.Message):
        __slots__ = ("number", "key")
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        KEY_FIELD_NUMBER: _ClassVar[int]
        number: int
        key: bytes
        def __init__(self, number: _Optional[int] = ..., key: _Optional[bytes] = ...) -> None: ...
    class Option(_message.Message):
        __slots__ = ("name", "value")
        NAME_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        name: str
        value: int
        def __init__(self, name: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class Limited(_message.Message):
        __slots__ = ("identity", "limits")
        IDENTITY_FIELD_NUMBER: _ClassVar[int]
        LIMITS_FIELD_NUMBER: _ClassVar[int]
        identity: str
        limits: _containers.RepeatedCompositeFieldContainer[CatalogState.Option]
        def __init__(self, identity: _Optional[str] = ..., limits: _Optional[_Iterable[_Union[CatalogState.Option, _Mapping]]] = ...) -> None: ...
    class Foreign(_message.Message):
        __slots__ = ("name", "address", "identity")
        NAME_FIELD_NUMBER: _ClassVar[int]
        ADDRESS_FIELD_NUMBER: _ClassVar[int]
        IDENTITY_FIELD_NUMBER: _ClassVar[int]
        name: str
        address: str
        identity: str
        def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., identity: _Optional[str] = ...) -> None: ...
    class Replacement(_message.Message):
        __slots__ = ("old_node", "new_node")
        OLD_NODE_FIELD_NUMBER: _ClassVar[int]
        NEW_NODE_FIELD_NUMBER: _ClassVar[int]
        old_node: str
        new_node: str
        def __init__(self, old_node: _Optional[str] = ..., new_node: _Optional[str] = ...) -> None: ...
    class Move(_message.Message):
        __slots__ = ("group", "old_node", "new_node")
        GROUP_FIELD_NUMBER: _ClassVar[int]
        OLD_NODE_FIELD_NUMBER: _ClassVar[int]
        NEW_NODE_FIELD_NUMBER: _ClassVar[int]
        group: str
        old_node: str
        new_node: str
        def __init__(self, group: _Optional[str] = ..., old_node: _Optional[str] = ..., new_node: _Optional[str] = ...) -> None: ...
    class Reservation(_message.Message):
        __slots__ = ("number", "owner", "table", "place", "leads_to")
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        OWNER_FIELD_NUMBER: _ClassVar[int]
        TABLE_FIELD_NUMBER: _ClassVar[int]
        PLACE_FIELD_NUMBER: _ClassVar[int]
        LEADS_TO_FIELD_NUMBER: _ClassVar[int]
        number: str
        owner: str
        table: str
        place: _containers.RepeatedScalarFieldContainer[str]
        leads_to: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, number: _Optional[str] = ..., owner: _Optional[str] = ..., table: _Optional[str] = ..., place: _Optional[_Iterable[str]] = ..., leads_to: _Optional[_Iterable[str]] = ...) -> None: ...
    class Migration(_message.Message):
        __slots__ = ("shard", "group", "number", "new_shard")
        SHARD_FIELD_NUMBER: _ClassVar[int]
        GROUP_FIELD_NUMBER: _ClassVar[int]
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        NEW_SHARD_FIELD_NUMBER: _ClassVar[int]
        shard: int
        group: str
        number: int
        new_shard: int
        def __init__(self, shard: _Optional[int] = ..., group: _Optional[str] = ..., number: _Optional[int] = ..., new_shard: _Optional[int] = ...) -> None: ...
    class Origin(_message.Message):
        __slots__ = ("shard", "of")
        SHARD_FIELD_NUMBER: _ClassVar[int]
        OF_FIELD_NUMBER: _ClassVar[int]
        shard: int
        of: int
        def __init__(self, shard: _Optional[int] = ..., of: _Optional[int] = ...) -> None: ...
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RANGE_SPAN_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    NEXT_RANGE_FIELD_NUMBER: _ClassVar[int]
    FLOOR_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    REPLACEMENT_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANT_SHARDS_FIELD_NUMBER: _ClassVar[int]
    FOREIGN_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    JOINED_FIELD_NUMBER: _ClassVar[int]
    PLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    TICKET_KEYS_FIELD_NUMBER: _ClassVar[int]
    IS_PUBLIC_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    LIMITED_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    MIGRATIONS_FIELD_NUMBER: _ClassVar[int]
    ORIGINS_FIELD_NUMBER: _ClassVar[int]
    format: int
    version: int
    range_span: int
    nodes: _containers.RepeatedCompositeFieldContainer[CatalogState.Node]
    groups: _containers.RepeatedCompositeFieldContainer[CatalogState.Group]
    next_range: int
    floor: int
    options: _containers.RepeatedCompositeFieldContainer[CatalogState.Option]
    replacement: CatalogState.Replacement
    replication: int
    participant_shards: int
    foreign: _containers.RepeatedCompositeFieldContainer[CatalogState.Foreign]
    cluster_id: str
    joined: _containers.RepeatedCompositeFieldContainer[CatalogState.Joined]
    placements: _containers.RepeatedCompositeFieldContainer[CatalogState.Placement]
    grants: _containers.RepeatedCompositeFieldContainer[CatalogState.Granted]
    ticket_keys: _containers.RepeatedCompositeFieldContainer[CatalogState.TicketKey]
    is_public: bool
    revoked: _containers.RepeatedScalarFieldContainer[str]
    limited: _containers.RepeatedCompositeFieldContainer[CatalogState.Limited]
    level: int
    moves: _containers.RepeatedCompositeFieldContainer[CatalogState.Move]
    reserved: _containers.RepeatedCompositeFieldContainer[CatalogState.Reservation]
    migrations: _containers.RepeatedCompositeFieldContainer[CatalogState.Migration]
    origins: _containers.RepeatedCompositeFieldContainer[CatalogState.Origin]
    def __init__(self, format: _Optional[int] = ..., version: _Optional[int] = ..., range_span: _Optional[int] = ..., nodes: _Optional[_Iterable[_Union[CatalogState.Node, _Mapping]]] = ..., groups: _Optional[_Iterable[_Union[CatalogState.Group, _Mapping]]] = ..., next_range: _Optional[int] = ..., floor: _Optional[int] = ..., options: _Optional[_Iterable[_Union[CatalogState.Option, _Mapping]]] = ..., replacement: _Optional[_Union[CatalogState.Replacement, _Mapping]] = ..., replication: _Optional[int] = ..., participant_shards: _Optional[int] = ..., foreign: _Optional[_Iterable[_Union[CatalogState.Foreign, _Mapping]]] = ..., cluster_id: _Optional[str] = ..., joined: _Optional[_Iterable[_Union[CatalogState.Joined, _Mapping]]] = ..., placements: _Optional[_Iterable[_Union[CatalogState.Placement, _Mapping]]] = ..., grants: _Optional[_Iterable[_Union[CatalogState.Granted, _Mapping]]] = ..., ticket_keys: _Optional[_Iterable[_Union[CatalogState.TicketKey, _Mapping]]] = ..., is_public: _Optional[bool] = ..., revoked: _Optional[_Iterable[str]] = ..., limited: _Optional[_Iterable[_Union[CatalogState.Limited, _Mapping]]] = ..., level: _Optional[int] = ..., moves: _Optional[_Iterable[_Union[CatalogState.Move, _Mapping]]] = ..., reserved: _Optional[_Iterable[_Union[CatalogState.Reservation, _Mapping]]] = ..., migrations: _Optional[_Iterable[_Union[CatalogState.Migration, _Mapping]]] = ..., origins: _Optional[_Iterable[_Union[CatalogState.Origin, _Mapping]]] = ...) -> None: ...

class CatalogCommand(_message.Message):
    __slots__ = ("add_range", "drop_range", "set_option", "replace_node", "move_replica", "finish_replacement", "found", "register_foreign", "remove_foreign", "add_group", "place_database", "grant", "revoke", "forget_grants", "turn_ticket_key", "distrust", "set_limit", "raise_level", "register_node", "add_node", "drain_node", "remove_node", "rebalance", "reserve_place", "free_place", "migrate_shard", "finish_migration", "split_shard")
    class Found(_message.Message):
        __slots__ = ("state",)
        STATE_FIELD_NUMBER: _ClassVar[int]
        state: CatalogState
        def __init__(self, state: _Optional[_Union[CatalogState, _Mapping]] = ...) -> None: ...
    class AddRange(_message.Message):
        __slots__ = ("after",)
        AFTER_FIELD_NUMBER: _ClassVar[int]
        after: int
        def __init__(self, after: _Optional[int] = ...) -> None: ...
    class DropRange(_message.Message):
        __slots__ = ("number", "last_commit_ts")
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        LAST_COMMIT_TS_FIELD_NUMBER: _ClassVar[int]
        number: int
        last_commit_ts: int
        def __init__(self, number: _Optional[int] = ..., last_commit_ts: _Optional[int] = ...) -> None: ...
    class SetOption(_message.Message):
        __slots__ = ("name", "value")
        NAME_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        name: str
        value: int
        def __init__(self, name: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class ReplaceNode(_message.Message):
        __slots__ = ("old_node", "new_node", "address")
        OLD_NODE_FIELD_NUMBER: _ClassVar[int]
        NEW_NODE_FIELD_NUMBER: _ClassVar[int]
        ADDRESS_FIELD_NUMBER: _ClassVar[int]
        old_node: str
        new_node: str
        address: str
        def __init__(self, old_node: _Optional[str] = ..., new_node: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...
    class MoveReplica(_message.Message):
        __slots__ = ("group", "old_node", "new_node")
        GROUP_FIELD_NUMBER: _ClassVar[int]
        OLD_NODE_FIELD_NUMBER: _ClassVar[int]
        NEW_NODE_FIELD_NUMBER: _ClassVar[int]
        group: str
        old_node: str
        new_node: str
        def __init__(self, group: _Optional[str] = ..., old_node: _Optional[str] = ..., new_node: _Optional[str] = ...) -> None: ...
    class FinishReplacement(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class RegisterForeign(_message.Message):
        __slots__ = ("name", "address", "identity")
        NAME_FIELD_NUMBER: _ClassVar[int]
        ADDRESS_FIELD_NUMBER: _ClassVar[int]
        IDENTITY_FIELD_NUMBER: _ClassVar[int]
        name: str
        address: str
        identity: str
        def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., identity: _Optional[str] = ...) -> None: ...
    class AddGroup(_message.Message):
        __slots__ = ("name",)
        NAME_FIELD_NUMBER: _ClassVar[int]
        name: str
        def __init__(self, name: _Optional[str] = ...) -> None: ...
    class PlaceDatabase(_message.Message):
        __slots__ = ("database", "group")
        DATABASE_FIELD_NUMBER: _ClassVar[int]
        GROUP_FIELD_NUMBER: _ClassVar[int]
        database: str
        group: str
        def __init__(self, database: _Optional[str] = ..., group: _Optional[str] = ...) -> None: ...
    class TurnTicketKey(_message.Message):
        __slots__ = ("after", "key")
        AFTER_FIELD_NUMBER: _ClassVar[int]
        KEY_FIELD_NUMBER: _ClassVar[int]
        after: int
        key: bytes
        def __init__(self, after: _Optional[int] = ..., key: _Optional[bytes] = ...) -> None: ...
    class Distrust(_message.Message):
        __slots__ = ("what", "restores")
        WHAT_FIELD_NUMBER: _ClassVar[int]
        RESTORES_FIELD_NUMBER: _ClassVar[int]
        what: str
        restores: bool
        def __init__(self, what: _Optional[str] = ..., restores: _Optional[bool] = ...) -> None: ...
    class SetLimit(_message.Message):
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
    class RemoveForeign(_message.Message):
        __slots__ = ("name",)
        NAME_FIELD_NUMBER: _ClassVar[int]
        name: str
        def __init__(self, name: _Optional[str] = ...) -> None: ...
    class AddNode(_message.Message):
        __slots__ = ("node_id", "address", "roles")
        NODE_ID_FIELD_NUMBER: _ClassVar[int]
        ADDRESS_FIELD_NUMBER: _ClassVar[int]
        ROLES_FIELD_NUMBER: _ClassVar[int]
        node_id: str
        address: str
        roles: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, node_id: _Optional[str] = ..., address: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ...) -> None: ...
    class DrainNode(_message.Message):
        __slots__ = ("node_id", "drain")
        NODE_ID_FIELD_NUMBER: _ClassVar[int]
        DRAIN_FIELD_NUMBER: _ClassVar[int]
        node_id: str
        drain: CatalogState.Drain
        def __init__(self, node_id: _Optional[str] = ..., drain: _Optional[_Union[CatalogState.Drain, str]] = ...) -> None: ...
    class RemoveNode(_message.Message):
        __slots__ = ("node_id",)
        NODE_ID_FIELD_NUMBER: _ClassVar[int]
        node_id: str
        def __init__(self, node_id: _Optional[str] = ...) -> None: ...
    class Rebalance(_message.Message):
        __slots__ = ("stops",)
        STOPS_FIELD_NUMBER: _ClassVar[int]
        stops: bool
        def __init__(self, stops: _Optional[bool] = ...) -> None: ...
    class ReservePlace(_message.Message):
        __slots__ = ("wanted", "ended")
        WANTED_FIELD_NUMBER: _ClassVar[int]
        ENDED_FIELD_NUMBER: _ClassVar[int]
        wanted: CatalogState.Reservation
        ended: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, wanted: _Optional[_Union[CatalogState.Reservation, _Mapping]] = ..., ended: _Optional[_Iterable[str]] = ...) -> None: ...
    class FreePlace(_message.Message):
        __slots__ = ("number",)
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        number: str
        def __init__(self, number: _Optional[str] = ...) -> None: ...
    class MigrateShard(_message.Message):
        __slots__ = ("shard", "group")
        SHARD_FIELD_NUMBER: _ClassVar[int]
        GROUP_FIELD_NUMBER: _ClassVar[int]
        shard: int
        group: str
        def __init__(self, shard: _Optional[int] = ..., group: _Optional[str] = ...) -> None: ...
    class SplitShard(_message.Message):
        __slots__ = ("shard", "new_shard")
        SHARD_FIELD_NUMBER: _ClassVar[int]
        NEW_SHARD_FIELD_NUMBER: _ClassVar[int]
        shard: int
        new_shard: int
        def __init__(self, shard: _Optional[int] = ..., new_shard: _Optional[int] = ...) -> None: ...
    class FinishMigration(_message.Message):
        __slots__ = ("shard", "number")
        SHARD_FIELD_NUMBER: _ClassVar[int]
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        shard: int
        number: int
        def __init__(self, shard: _Optional[int] = ..., number: _Optional[int] = ...) -> None: ...
    class Grant(_message.Message):
        __slots__ = ("object", "table_id", "identity", "role")
        OBJECT_FIELD_NUMBER: _ClassVar[int]
        TABLE_ID_FIELD_NUMBER: _ClassVar[int]
        IDENTITY_FIELD_NUMBER: _ClassVar[int]
        ROLE_FIELD_NUMBER: _ClassVar[int]
        object: str
        table_id: str
        identity: str
        role: str
        def __init__(self, object: _Optional[str] = ..., table_id: _Optional[str] = ..., identity: _Optional[str] = ..., role: _Optional[str] = ...) -> None: ...
    class Revoke(_message.Message):
        __slots__ = ("object", "identity", "role")
        OBJECT_FIELD_NUMBER: _ClassVar[int]
        IDENTITY_FIELD_NUMBER: _ClassVar[int]
        ROLE_FIELD_NUMBER: _ClassVar[int]
        object: str
        identity: str
        role: str
        def __init__(self, object: _Optional[str] = ..., identity: _Optional[str] = ..., role: _Optional[str] = ...) -> None: ...
    class ForgetGrants(_message.Message):
        __slots__ = ("table", "table_id")
        TABLE_FIELD_NUMBER: _ClassVar[int]
        TABLE_ID_FIELD_NUMBER: _ClassVar[int]
        table: str
        table_id: str
        def __init__(self, table: _Optional[str] = ..., table_id: _Optional[str] = ...) -> None: ...
    class RaiseLevel(_message.Message):
        __slots__ = ("level",)
        LEVEL_FIELD_NUMBER: _ClassVar[int]
        level: int
        def __init__(self, level: _Optional[int] = ...) -> None: ...
    class RegisterNode(_message.Message):
        __slots__ = ("node_id", "version", "oldest_level", "newest_level")
        NODE_ID_FIELD_NUMBER: _ClassVar[int]
        VERSION_FIELD_NUMBER: _ClassVar[int]
        OLDEST_LEVEL_FIELD_NUMBER: _ClassVar[int]
        NEWEST_LEVEL_FIELD_NUMBER: _ClassVar[int]
        node_id: str
        version: str
        oldest_level: int
        newest_level: int
        def __init__(self, node_id: _Optional[str] = ..., version: _Optional[str] = ..., oldest_level: _Optional[int] = ..., newest_level: _Optional[int] = ...) -> None: ...
    ADD_RANGE_FIELD_NUMBER: _ClassVar[int]
    DROP_RANGE_FIELD_NUMBER: _ClassVar[int]
    SET_OPTION_FIELD_NUMBER: _ClassVar[int]
    REPLACE_NODE_FIELD_NUMBER: _ClassVar[int]
    MOVE_REPLICA_FIELD_NUMBER: _ClassVar[int]
    FINISH_REPLACEMENT_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FOREIGN_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FOREIGN_FIELD_NUMBER: _ClassVar[int]
    ADD_GROUP_FIELD_NUMBER: _ClassVar[int]
    PLACE_DATABASE_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    REVOKE_FIELD_NUMBER: _ClassVar[int]
    FORGET_GRANTS_FIELD_NUMBER: _ClassVar[int]
    TURN_TICKET_KEY_FIELD_NUMBER: _ClassVar[int]
    DISTRUST_FIELD_NUMBER: _ClassVar[int]
    SET_LIMIT_FIELD_NUMBER: _ClassVar[int]
    RAISE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    REGISTER_NODE_FIELD_NUMBER: _ClassVar[int]
    ADD_NODE_FIELD_NUMBER: _ClassVar[int]
    DRAIN_NODE_FIELD_NUMBER: _ClassVar[int]
    REMOVE_NODE_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_FIELD_NUMBER: _ClassVar[int]
    RESERVE_PLACE_FIELD_NUMBER: _ClassVar[int]
    FREE_PLACE_FIELD_NUMBER: _ClassVar[int]
    MIGRATE_SHARD_FIELD_NUMBER: _ClassVar[int]
    FINISH_MIGRATION_FIELD_NUMBER: _ClassVar[int]
    SPLIT_SHARD_FIELD_NUMBER: _ClassVar[int]
    add_range: CatalogCommand.AddRange
    drop_range: CatalogCommand.DropRange
    set_option: CatalogCommand.SetOption
    replace_node: CatalogCommand.ReplaceNode
    move_replica: CatalogCommand.MoveReplica
    finish_replacement: CatalogCommand.FinishReplacement
    found: CatalogCommand.Found
    register_foreign: CatalogCommand.RegisterForeign
    remove_foreign: CatalogCommand.RemoveForeign
    add_group: CatalogCommand.AddGroup
    place_database: CatalogCommand.PlaceDatabase
    grant: CatalogCommand.Grant
    revoke: CatalogCommand.Revoke
    forget_grants: CatalogCommand.ForgetGrants
    turn_ticket_key: CatalogCommand.TurnTicketKey
    distrust: CatalogCommand.Distrust
    set_limit: CatalogCommand.SetLimit
    raise_level: CatalogCommand.RaiseLevel
    register_node: CatalogCommand.RegisterNode
    add_node: CatalogCommand.AddNode
    drain_node: CatalogCommand.DrainNode
    remove_node: CatalogCommand.RemoveNode
    rebalance: CatalogCommand.Rebalance
    reserve_place: CatalogCommand.ReservePlace
    free_place: CatalogCommand.FreePlace
    migrate_shard: CatalogCommand.MigrateShard
    finish_migration: CatalogCommand.FinishMigration
    split_shard: CatalogCommand.SplitShard
    def __init__(self, add_range: _Optional[_Union[CatalogCommand.AddRange, _Mapping]] = ..., drop_range: _Optional[_Union[CatalogCommand.DropRange, _Mapping]] = ..., set_option: _Optional[_Union[CatalogCommand.SetOption, _Mapping]] = ..., replace_node: _Optional[_Union[CatalogCommand.ReplaceNode, _Mapping]] = ..., move_replica: _Optional[_Union[CatalogCommand.MoveReplica, _Mapping]] = ..., finish_replacement: _Optional[_Union[CatalogCommand.FinishReplacement, _Mapping]] = ..., found: _Optional[_Union[CatalogCommand.Found, _Mapping]] = ..., register_foreign: _Optional[_Union[CatalogCommand.RegisterForeign, _Mapping]] = ..., remove_foreign: _Optional[_Union[CatalogCommand.RemoveForeign, _Mapping]] = ..., add_group: _Optional[_Union[CatalogCommand.AddGroup, _Mapping]] = ..., place_database: _Optional[_Union[CatalogCommand.PlaceDatabase, _Mapping]] = ..., grant: _Optional[_Union[CatalogCommand.Grant, _Mapping]] = ..., revoke: _Optional[_Union[CatalogCommand.Revoke, _Mapping]] = ..., forget_grants: _Optional[_Union[CatalogCommand.ForgetGrants, _Mapping]] = ..., turn_ticket_key: _Optional[_Union[CatalogCommand.TurnTicketKey, _Mapping]] = ..., distrust: _Optional[_Union[CatalogCommand.Distrust, _Mapping]] = ..., set_limit: _Optional[_Union[CatalogCommand.SetLimit, _Mapping]] = ..., raise_level: _Optional[_Union[CatalogCommand.RaiseLevel, _Mapping]] = ..., register_node: _Optional[_Union[CatalogCommand.RegisterNode, _Mapping]] = ..., add_node: _Optional[_Union[CatalogCommand.AddNode, _Mapping]] = ..., drain_node: _Optional[_Union[CatalogCommand.DrainNode, _Mapping]] = ..., remove_node: _Optional[_Union[CatalogCommand.RemoveNode, _Mapping]] = ..., rebalance: _Optional[_Union[CatalogCommand.Rebalance, _Mapping]] = ..., reserve_place: _Optional[_Union[CatalogCommand.ReservePlace, _Mapping]] = ..., free_place: _Optional[_Union[CatalogCommand.FreePlace, _Mapping]] = ..., migrate_shard: _Optional[_Union[CatalogCommand.MigrateShard, _Mapping]] = ..., finish_migration: _Optional[_Union[CatalogCommand.FinishMigration, _Mapping]] = ..., split_shard: _Optional[_Union[CatalogCommand.SplitShard, _Mapping]] = ...) -> None: ...
