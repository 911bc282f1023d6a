from txnstatus.proto import common_pb2 as _common_pb2
from txnstatus.proto import compaction_pb2 as _compaction_pb2
from txnstatus.proto import table_pb2 as _table_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ParticipantOpType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PARTICIPANT_OP_UNKNOWN: _ClassVar[ParticipantOpType]
    BEGIN_TXN: _ClassVar[ParticipantOpType]
    BEGIN_COMMIT: _ClassVar[ParticipantOpType]
    FINALIZE_COMMIT: _ClassVar[ParticipantOpType]
    ABORT_TXN: _ClassVar[ParticipantOpType]
PARTICIPANT_OP_UNKNOWN: ParticipantOpType
BEGIN_TXN: ParticipantOpType
BEGIN_COMMIT: ParticipantOpType
FINALIZE_COMMIT: ParticipantOpType
ABORT_TXN: ParticipantOpType

class ParticipantOp(_message.Message):
    __slots__ = ("txn_id", "table_id", "type", "commit_timestamp", "first_write", "trace")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    FIRST_WRITE_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    table_id: str
    type: ParticipantOpType
    commit_timestamp: int
    first_write: str
    trace: bytes
    def __init__(self, txn_id: _Optional[int] = ..., table_id: _Optional[str] = ..., type: _Optional[_Union[ParticipantOpType, str]] = ..., commit_timestamp: _Optional[int] = ..., first_write: _Optional[str] = ..., trace: _Optional[bytes] = ...) -> None: ...

class ParticipateRequest(_message.Message):
    __slots__ = ("now", "ops")
    NOW_FIELD_NUMBER: _ClassVar[int]
    OPS_FIELD_NUMBER: _ClassVar[int]
    now: int
    ops: _containers.RepeatedCompositeFieldContainer[ParticipantOp]
    def __init__(self, now: _Optional[int] = ..., ops: _Optional[_Iterable[_Union[ParticipantOp, _Mapping]]] = ...) -> None: ...

class ParticipateResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ParticipantOpResult]
    def __init__(self, results: _Optional[_Iterable[_Union[ParticipantOpResult, _Mapping]]] = ...) -> None: ...

class ParticipantOpResult(_message.Message):
    __slots__ = ("timestamp", "error")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    timestamp: int
    error: _common_pb2.ErrorDetail
    def __init__(self, timestamp: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...

class RowBatch(_message.Message):
    __slots__ = ("write_id", "deletes", "rows", "keys", "outcome")
    WRITE_ID_FIELD_NUMBER: _ClassVar[int]
    DELETES_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    write_id: str
    deletes: bool
    rows: bytes
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    outcome: bytes
    def __init__(self, write_id: _Optional[str] = ..., deletes: _Optional[bool] = ..., rows: _Optional[bytes] = ..., keys: _Optional[_Iterable[bytes]] = ..., outcome: _Optional[bytes] = ...) -> None: ...

class Moved(_message.Message):
    __slots__ = ("compaction_id", "deletes", "replaces")
    COMPACTION_ID_FIELD_NUMBER: _ClassVar[int]
    DELETES_FIELD_NUMBER: _ClassVar[int]
    REPLACES_FIELD_NUMBER: _ClassVar[int]
    compaction_id: str
    deletes: _table_pb2.Deletes
    replaces: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, compaction_id: _Optional[str] = ..., deletes: _Optional[_Union[_table_pb2.Deletes, _Mapping]] = ..., replaces: _Optional[_Iterable[str]] = ...) -> None: ...

class ObjectLock(_message.Message):
    __slots__ = ("object", "mode")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    object: str
    mode: _table_pb2.LockMode
    def __init__(self, object: _Optional[str] = ..., mode: _Optional[_Union[_table_pb2.LockMode, str]] = ...) -> None: ...

class ShardSnapshot(_message.Message):
    __slots__ = ("version", "next_table_number", "tables", "forgotten", "savepoints", "placed", "apart_below", "gone", "came")
    class TableState(_message.Message):
        __slots__ = ("info", "request_id", "txns", "file_sets", "overwrites", "created", "readable_from", "retired", "rows", "dropped", "before", "locks", "waits", "delete_sets", "additions", "additions_above", "compactions", "switched", "ended", "failures", "schemas", "former")
        INFO_FIELD_NUMBER: _ClassVar[int]
        REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
        TXNS_FIELD_NUMBER: _ClassVar[int]
        FILE_SETS_FIELD_NUMBER: _ClassVar[int]
        OVERWRITES_FIELD_NUMBER: _ClassVar[int]
        CREATED_FIELD_NUMBER: _ClassVar[int]
        READABLE_FROM_FIELD_NUMBER: _ClassVar[int]
        RETIRED_FIELD_NUMBER: _ClassVar[int]
        ROWS_FIELD_NUMBER: _ClassVar[int]
        DROPPED_FIELD_NUMBER: _ClassVar[int]
        BEFORE_FIELD_NUMBER: _ClassVar[int]
        LOCKS_FIELD_NUMBER: _ClassVar[int]
        WAITS_FIELD_NUMBER: _ClassVar[int]
        DELETE_SETS_FIELD_NUMBER: _ClassVar[int]
        ADDITIONS_FIELD_NUMBER: _ClassVar[int]
        ADDITIONS_ABOVE_FIELD_NUMBER: _ClassVar[int]
        COMPACTIONS_FIELD_NUMBER: _ClassVar[int]
        SWITCHED_FIELD_NUMBER: _ClassVar[int]
        ENDED_FIELD_NUMBER: _ClassVar[int]
        FAILURES_FIELD_NUMBER: _ClassVar[int]
        SCHEMAS_FIELD_NUMBER: _ClassVar[int]
        FORMER_FIELD_NUMBER: _ClassVar[int]
        info: _common_pb2.TableInfo
        request_id: str
        txns: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.TableTxn]
        file_sets: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.FileSets]
        overwrites: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.Overwrite]
        created: int
        readable_from: int
        retired: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.RetiredWrites]
        rows: ShardSnapshot.TableRows
        dropped: ShardSnapshot.Dropped
        before: ShardSnapshot.Dropped
        locks: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.LockClaim]
        waits: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.LockRequest]
        delete_sets: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.DeleteSet]
        additions: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.Addition]
        additions_above: int
        compactions: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.Compaction]
        switched: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.Switched]
        ended: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.EndedCompaction]
        failures: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.Failures]
        schemas: ShardSnapshot.Schemas
        former: ShardSnapshot.FormerNames
        def __init__(self, info: _Optional[_Union[_common_pb2.TableInfo, _Mapping]] = ..., request_id: _Optional[str] = ..., txns: _Optional[_Iterable[_Union[ShardSnapshot.TableTxn, _Mapping]]] = ..., file_sets: _Optional[_Iterable[_Union[ShardSnapshot.FileSets, _Mapping]]] = ..., overwrites: _Optional[_Iterable[_Union[ShardSnapshot.Overwrite, _Mapping]]] = ..., created: _Optional[int] = ..., readable_from: _Optional[int] = ..., retired: _Optional[_Iterable[_Union[ShardSnapshot.RetiredWrites, _Mapping]]] = ..., rows: _Optional[_Union[ShardSnapshot.TableRows, _Mapping]] = ..., dropped: _Optional[_Union[ShardSnapshot.Dropped, _Mapping]] = ..., before: _Optional[_Union[ShardSnapshot.Dropped, _Mapping]] = ..., locks: _Optional[_Iterable[_Union[ShardSnapshot.LockClaim, _Mapping]]] = ..., waits: _Optional[_Iterable[_Union[ShardSnapshot.LockRequest, _Mapping]]] = ..., delete_sets: _Optional[_Iterable[_Union[ShardSnapshot.DeleteSet, _Mapping]]] = ..., additions: _Optional[_Iterable[_Union[ShardSnapshot.Addition, _Mapping]]] = ..., additions_above: _Optional[int] = ..., compactions: _Optional[_Iterable[_Union[ShardSnapshot.Compaction, _Mapping]]] = ..., switched: _Optional[_Iterable[_Union[ShardSnapshot.Switched, _Mapping]]] = ..., ended: _Optional[_Iterable[_Union[ShardSnapshot.EndedCompaction, _Mapping]]] = ..., failures: _Optional[_Iterable[_Union[ShardSnapshot.Failures, _Mapping]]] = ..., schemas: _Optional[_Union[ShardSnapshot.Schemas, _Mapping]] = ..., former: _Optional[_Union[ShardSnapshot.FormerNames, _Mapping]] = ...) -> None: ...
    class FormerNames(_message.Message):
        __slots__ = ("renames", "freed")
        RENAMES_FIELD_NUMBER: _ClassVar[int]
        FREED_FIELD_NUMBER: _ClassVar[int]
        renames: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.Renamed]
        freed: ShardSnapshot.Renamed
        def __init__(self, renames: _Optional[_Iterable[_Union[ShardSnapshot.Renamed, _Mapping]]] = ..., freed: _Optional[_Union[ShardSnapshot.Renamed, _Mapping]] = ...) -> None: ...
    class Renamed(_message.Message):
        __slots__ = ("was", "now", "at", "request_id", "older")
        WAS_FIELD_NUMBER: _ClassVar[int]
        NOW_FIELD_NUMBER: _ClassVar[int]
        AT_FIELD_NUMBER: _ClassVar[int]
        REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
        OLDER_FIELD_NUMBER: _ClassVar[int]
        was: str
        now: str
        at: int
        request_id: str
        older: _common_pb2.IdSet
        def __init__(self, was: _Optional[str] = ..., now: _Optional[str] = ..., at: _Optional[int] = ..., request_id: _Optional[str] = ..., older: _Optional[_Union[_common_pb2.IdSet, _Mapping]] = ...) -> None: ...
    class Schemas(_message.Message):
        __slots__ = ("earlier", "version")
        EARLIER_FIELD_NUMBER: _ClassVar[int]
        VERSION_FIELD_NUMBER: _ClassVar[int]
        earlier: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.EarlierSchema]
        version: int
        def __init__(self, earlier: _Optional[_Iterable[_Union[ShardSnapshot.EarlierSchema, _Mapping]]] = ..., version: _Optional[int] = ...) -> None: ...
    class EarlierSchema(_message.Message):
        __slots__ = ("until", "schema", "request_id")
        UNTIL_FIELD_NUMBER: _ClassVar[int]
        SCHEMA_FIELD_NUMBER: _ClassVar[int]
        REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
        until: int
        schema: _common_pb2.TableSchema
        request_id: str
        def __init__(self, until: _Optional[int] = ..., schema: _Optional[_Union[_common_pb2.TableSchema, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...
    class Savepoint(_message.Message):
        __slots__ = ("savepoint_id", "name", "owner", "timestamp", "tables", "table_ids", "created", "expires", "is_home")
        SAVEPOINT_ID_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        OWNER_FIELD_NUMBER: _ClassVar[int]
        TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
        TABLES_FIELD_NUMBER: _ClassVar[int]
        TABLE_IDS_FIELD_NUMBER: _ClassVar[int]
        CREATED_FIELD_NUMBER: _ClassVar[int]
        EXPIRES_FIELD_NUMBER: _ClassVar[int]
        IS_HOME_FIELD_NUMBER: _ClassVar[int]
        savepoint_id: str
        name: str
        owner: str
        timestamp: int
        tables: _containers.RepeatedScalarFieldContainer[str]
        table_ids: _containers.RepeatedScalarFieldContainer[str]
        created: int
        expires: int
        is_home: bool
        def __init__(self, savepoint_id: _Optional[str] = ..., name: _Optional[str] = ..., owner: _Optional[str] = ..., timestamp: _Optional[int] = ..., tables: _Optional[_Iterable[str]] = ..., table_ids: _Optional[_Iterable[str]] = ..., created: _Optional[int] = ..., expires: _Optional[int] = ..., is_home: _Optional[bool] = ...) -> None: ...
    class Placed(_message.Message):
        __slots__ = ("name", "shard")
        NAME_FIELD_NUMBER: _ClassVar[int]
        SHARD_FIELD_NUMBER: _ClassVar[int]
        name: str
        shard: int
        def __init__(self, name: _Optional[str] = ..., shard: _Optional[int] = ...) -> None: ...
    class Gone(_message.Message):
        __slots__ = ("table_id", "shard", "location")
        TABLE_ID_FIELD_NUMBER: _ClassVar[int]
        SHARD_FIELD_NUMBER: _ClassVar[int]
        LOCATION_FIELD_NUMBER: _ClassVar[int]
        table_id: str
        shard: int
        location: str
        def __init__(self, table_id: _Optional[str] = ..., shard: _Optional[int] = ..., location: _Optional[str] = ...) -> None: ...
    class Dropped(_message.Message):
        __slots__ = ("txn_id", "owner", "commit_ts", "older")
        TXN_ID_FIELD_NUMBER: _ClassVar[int]
        OWNER_FIELD_NUMBER: _ClassVar[int]
        COMMIT_TS_FIELD_NUMBER: _ClassVar[int]
        OLDER_FIELD_NUMBER: _ClassVar[int]
        txn_id: int
        owner: str
        commit_ts: int
        older: _common_pb2.IdSet
        def __init__(self, txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., commit_ts: _Optional[int] = ..., older: _Optional[_Union[_common_pb2.IdSet, _Mapping]] = ...) -> None: ...
    class RetiredWrites(_message.Message):
        __slots__ = ("txn_id", "write_ids")
        TXN_ID_FIELD_NUMBER: _ClassVar[int]
        WRITE_IDS_FIELD_NUMBER: _ClassVar[int]
        txn_id: int
        write_ids: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, txn_id: _Optional[int] = ..., write_ids: _Optional[_Iterable[str]] = ...) -> None: ...
    class TableRows(_message.Message):
        __slots__ = ("unflushed", "flushes", "flushing", "given_up", "cleared", "keys_above", "commits", "folded", "spent", "newest_gone")
        UNFLUSHED_FIELD_NUMBER: _ClassVar[int]
        FLUSHES_FIELD_NUMBER: _ClassVar[int]
        FLUSHING_FIELD_NUMBER: _ClassVar[int]
        GIVEN_UP_FIELD_NUMBER: _ClassVar[int]
        CLEARED_FIELD_NUMBER: _ClassVar[int]
        KEYS_ABOVE_FIELD_NUMBER: _ClassVar[int]
        COMMITS_FIELD_NUMBER: _ClassVar[int]
        FOLDED_FIELD_NUMBER: _ClassVar[int]
        SPENT_FIELD_NUMBER: _ClassVar[int]
        NEWEST_GONE_FIELD_NUMBER: _ClassVar[int]
        unflushed: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.RowSet]
        flushes: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.Flush]
        flushing: _containers.RepeatedScalarFieldContainer[str]
        given_up: _containers.RepeatedScalarFieldContainer[str]
        cleared: _containers.RepeatedScalarFieldContainer[int]
        keys_above: int
        commits: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.Commit]
        folded: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.Fold]
        spent: _containers.RepeatedScalarFieldContainer[str]
        newest_gone: int
        def __init__(self, unflushed: _Optional[_Iterable[_Union[ShardSnapshot.RowSet, _Mapping]]] = ..., flushes: _Optional[_Iterable[_Union[ShardSnapshot.Flush, _Mapping]]] = ..., flushing: _Optional[_Iterable[str]] = ..., given_up: _Optional[_Iterable[str]] = ..., cleared: _Optional[_Iterable[int]] = ..., keys_above: _Optional[int] = ..., commits: _Optional[_Iterable[_Union[ShardSnapshot.Commit, _Mapping]]] = ..., folded: _Optional[_Iterable[_Union[ShardSnapshot.Fold, _Mapping]]] = ..., spent: _Optional[_Iterable[str]] = ..., newest_gone: _Optional[int] = ...) -> None: ...
    class Fold(_message.Message):
        __slots__ = ("switch_ts", "as_of")
        SWITCH_TS_FIELD_NUMBER: _ClassVar[int]
        AS_OF_FIELD_NUMBER: _ClassVar[int]
        switch_ts: int
        as_of: int
        def __init__(self, switch_ts: _Optional[int] = ..., as_of: _Optional[int] = ...) -> None: ...
    class RowSet(_message.Message):
        __slots__ = ("txn_id", "commit_ts", "batches")
        TXN_ID_FIELD_NUMBER: _ClassVar[int]
        COMMIT_TS_FIELD_NUMBER: _ClassVar[int]
        BATCHES_FIELD_NUMBER: _ClassVar[int]
        txn_id: int
        commit_ts: int
        batches: _containers.RepeatedCompositeFieldContainer[RowBatch]
        def __init__(self, txn_id: _Optional[int] = ..., commit_ts: _Optional[int] = ..., batches: _Optional[_Iterable[_Union[RowBatch, _Mapping]]] = ...) -> None: ...
    class Commit(_message.Message):
        __slots__ = ("commit_ts", "txn_id", "keys", "ranges")
        COMMIT_TS_FIELD_NUMBER: _ClassVar[int]
        TXN_ID_FIELD_NUMBER: _ClassVar[int]
        KEYS_FIELD_NUMBER: _ClassVar[int]
        RANGES_FIELD_NUMBER: _ClassVar[int]
        commit_ts: int
        txn_id: int
        keys: _containers.RepeatedScalarFieldContainer[bytes]
        ranges: _containers.RepeatedCompositeFieldContainer[_table_pb2.KeyRange]
        def __init__(self, commit_ts: _Optional[int] = ..., txn_id: _Optional[int] = ..., keys: _Optional[_Iterable[bytes]] = ..., ranges: _Optional[_Iterable[_Union[_table_pb2.KeyRange, _Mapping]]] = ...) -> None: ...
    class Flush(_message.Message):
        __slots__ = ("flush_id", "manifest", "first_ts", "last_ts")
        FLUSH_ID_FIELD_NUMBER: _ClassVar[int]
        MANIFEST_FIELD_NUMBER: _ClassVar[int]
        FIRST_TS_FIELD_NUMBER: _ClassVar[int]
        LAST_TS_FIELD_NUMBER: _ClassVar[int]
        flush_id: str
        manifest: _table_pb2.ManifestRef
        first_ts: int
        last_ts: int
        def __init__(self, flush_id: _Optional[str] = ..., manifest: _Optional[_Union[_table_pb2.ManifestRef, _Mapping]] = ..., first_ts: _Optional[int] = ..., last_ts: _Optional[int] = ...) -> None: ...
    class TableTxn(_message.Message):
        __slots__ = ("txn_id", "state", "owner", "prepare_ts", "commit_ts", "claimed", "writes", "superseded", "rows", "snapshot", "drops", "keys_from", "older", "savepoints", "overwritten", "rolled_back", "rollbacks")
        TXN_ID_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        OWNER_FIELD_NUMBER: _ClassVar[int]
        PREPARE_TS_FIELD_NUMBER: _ClassVar[int]
        COMMIT_TS_FIELD_NUMBER: _ClassVar[int]
        CLAIMED_FIELD_NUMBER: _ClassVar[int]
        WRITES_FIELD_NUMBER: _ClassVar[int]
        SUPERSEDED_FIELD_NUMBER: _ClassVar[int]
        ROWS_FIELD_NUMBER: _ClassVar[int]
        SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
        DROPS_FIELD_NUMBER: _ClassVar[int]
        KEYS_FROM_FIELD_NUMBER: _ClassVar[int]
        OLDER_FIELD_NUMBER: _ClassVar[int]
        SAVEPOINTS_FIELD_NUMBER: _ClassVar[int]
        OVERWRITTEN_FIELD_NUMBER: _ClassVar[int]
        ROLLED_BACK_FIELD_NUMBER: _ClassVar[int]
        ROLLBACKS_FIELD_NUMBER: _ClassVar[int]
        txn_id: int
        state: _common_pb2.ParticipantState
        owner: str
        prepare_ts: int
        commit_ts: int
        claimed: _containers.RepeatedScalarFieldContainer[str]
        writes: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.PendingWrite]
        superseded: _containers.RepeatedScalarFieldContainer[str]
        rows: _containers.RepeatedCompositeFieldContainer[RowBatch]
        snapshot: int
        drops: bool
        keys_from: int
        older: _common_pb2.IdSet
        savepoints: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.SavedWork]
        overwritten: _containers.RepeatedCompositeFieldContainer[RowBatch]
        rolled_back: _containers.RepeatedScalarFieldContainer[str]
        rollbacks: int
        def __init__(self, txn_id: _Optional[int] = ..., state: _Optional[_Union[_common_pb2.ParticipantState, str]] = ..., owner: _Optional[str] = ..., prepare_ts: _Optional[int] = ..., commit_ts: _Optional[int] = ..., claimed: _Optional[_Iterable[str]] = ..., writes: _Optional[_Iterable[_Union[ShardSnapshot.PendingWrite, _Mapping]]] = ..., superseded: _Optional[_Iterable[str]] = ..., rows: _Optional[_Iterable[_Union[RowBatch, _Mapping]]] = ..., snapshot: _Optional[int] = ..., drops: _Optional[bool] = ..., keys_from: _Optional[int] = ..., older: _Optional[_Union[_common_pb2.IdSet, _Mapping]] = ..., savepoints: _Optional[_Iterable[_Union[ShardSnapshot.SavedWork, _Mapping]]] = ..., overwritten: _Optional[_Iterable[_Union[RowBatch, _Mapping]]] = ..., rolled_back: _Optional[_Iterable[str]] = ..., rollbacks: _Optional[int] = ...) -> None: ...
    class SavedWork(_message.Message):
        __slots__ = ("savepoint_id", "writes", "rows")
        SAVEPOINT_ID_FIELD_NUMBER: _ClassVar[int]
        WRITES_FIELD_NUMBER: _ClassVar[int]
        ROWS_FIELD_NUMBER: _ClassVar[int]
        savepoint_id: str
        writes: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.PendingWrite]
        rows: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, savepoint_id: _Optional[str] = ..., writes: _Optional[_Iterable[_Union[ShardSnapshot.PendingWrite, _Mapping]]] = ..., rows: _Optional[_Iterable[str]] = ...) -> None: ...
    class LockClaim(_message.Message):
        __slots__ = ("txn_id", "lock", "since", "granted")
        TXN_ID_FIELD_NUMBER: _ClassVar[int]
        LOCK_FIELD_NUMBER: _ClassVar[int]
        SINCE_FIELD_NUMBER: _ClassVar[int]
        GRANTED_FIELD_NUMBER: _ClassVar[int]
        txn_id: int
        lock: ObjectLock
        since: int
        granted: bool
        def __init__(self, txn_id: _Optional[int] = ..., lock: _Optional[_Union[ObjectLock, _Mapping]] = ..., since: _Optional[int] = ..., granted: _Optional[bool] = ...) -> None: ...
    class LockRequest(_message.Message):
        __slots__ = ("txn_id", "locks", "since")
        TXN_ID_FIELD_NUMBER: _ClassVar[int]
        LOCKS_FIELD_NUMBER: _ClassVar[int]
        SINCE_FIELD_NUMBER: _ClassVar[int]
        txn_id: int
        locks: _containers.RepeatedCompositeFieldContainer[ObjectLock]
        since: int
        def __init__(self, txn_id: _Optional[int] = ..., locks: _Optional[_Iterable[_Union[ObjectLock, _Mapping]]] = ..., since: _Optional[int] = ...) -> None: ...
    class PendingWrite(_message.Message):
        __slots__ = ("write_id", "manifest", "replaces", "from_writes", "partitions", "overwrites", "base_ts", "claim", "deletes", "looked", "holds", "moved")
        WRITE_ID_FIELD_NUMBER: _ClassVar[int]
        MANIFEST_FIELD_NUMBER: _ClassVar[int]
        REPLACES_FIELD_NUMBER: _ClassVar[int]
        FROM_WRITES_FIELD_NUMBER: _ClassVar[int]
        PARTITIONS_FIELD_NUMBER: _ClassVar[int]
        OVERWRITES_FIELD_NUMBER: _ClassVar[int]
        BASE_TS_FIELD_NUMBER: _ClassVar[int]
        CLAIM_FIELD_NUMBER: _ClassVar[int]
        DELETES_FIELD_NUMBER: _ClassVar[int]
        LOOKED_FIELD_NUMBER: _ClassVar[int]
        HOLDS_FIELD_NUMBER: _ClassVar[int]
        MOVED_FIELD_NUMBER: _ClassVar[int]
        write_id: str
        manifest: _table_pb2.ManifestRef
        replaces: _containers.RepeatedScalarFieldContainer[str]
        from_writes: _containers.RepeatedScalarFieldContainer[str]
        partitions: _containers.RepeatedScalarFieldContainer[str]
        overwrites: _containers.RepeatedScalarFieldContainer[str]
        base_ts: int
        claim: _table_pb2.KeyClaim
        deletes: _table_pb2.Deletes
        looked: _table_pb2.Looked
        holds: _containers.RepeatedCompositeFieldContainer[_table_pb2.ColumnRange]
        moved: _containers.RepeatedCompositeFieldContainer[Moved]
        def __init__(self, write_id: _Optional[str] = ..., manifest: _Optional[_Union[_table_pb2.ManifestRef, _Mapping]] = ..., replaces: _Optional[_Iterable[str]] = ..., from_writes: _Optional[_Iterable[str]] = ..., partitions: _Optional[_Iterable[str]] = ..., overwrites: _Optional[_Iterable[str]] = ..., base_ts: _Optional[int] = ..., claim: _Optional[_Union[_table_pb2.KeyClaim, _Mapping]] = ..., deletes: _Optional[_Union[_table_pb2.Deletes, _Mapping]] = ..., looked: _Optional[_Union[_table_pb2.Looked, _Mapping]] = ..., holds: _Optional[_Iterable[_Union[_table_pb2.ColumnRange, _Mapping]]] = ..., moved: _Optional[_Iterable[_Union[Moved, _Mapping]]] = ...) -> None: ...
    class Compaction(_message.Message):
        __slots__ = ("compaction_id", "kind", "partition", "requested", "worker", "lease_id", "as_of", "inputs", "opened", "input_bytes")
        COMPACTION_ID_FIELD_NUMBER: _ClassVar[int]
        KIND_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        REQUESTED_FIELD_NUMBER: _ClassVar[int]
        WORKER_FIELD_NUMBER: _ClassVar[int]
        LEASE_ID_FIELD_NUMBER: _ClassVar[int]
        AS_OF_FIELD_NUMBER: _ClassVar[int]
        INPUTS_FIELD_NUMBER: _ClassVar[int]
        OPENED_FIELD_NUMBER: _ClassVar[int]
        INPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
        compaction_id: str
        kind: _compaction_pb2.CompactionKind
        partition: str
        requested: bool
        worker: str
        lease_id: str
        as_of: int
        inputs: _containers.RepeatedScalarFieldContainer[str]
        opened: int
        input_bytes: int
        def __init__(self, compaction_id: _Optional[str] = ..., kind: _Optional[_Union[_compaction_pb2.CompactionKind, str]] = ..., partition: _Optional[str] = ..., requested: _Optional[bool] = ..., worker: _Optional[str] = ..., lease_id: _Optional[str] = ..., as_of: _Optional[int] = ..., inputs: _Optional[_Iterable[str]] = ..., opened: _Optional[int] = ..., input_bytes: _Optional[int] = ...) -> None: ...
    class Switched(_message.Message):
        __slots__ = ("compaction_id", "switch_ts", "lineage", "inputs", "outputs", "as_of")
        COMPACTION_ID_FIELD_NUMBER: _ClassVar[int]
        SWITCH_TS_FIELD_NUMBER: _ClassVar[int]
        LINEAGE_FIELD_NUMBER: _ClassVar[int]
        INPUTS_FIELD_NUMBER: _ClassVar[int]
        OUTPUTS_FIELD_NUMBER: _ClassVar[int]
        AS_OF_FIELD_NUMBER: _ClassVar[int]
        compaction_id: str
        switch_ts: int
        lineage: _table_pb2.LineageRef
        inputs: _containers.RepeatedScalarFieldContainer[str]
        outputs: _containers.RepeatedScalarFieldContainer[str]
        as_of: int
        def __init__(self, compaction_id: _Optional[str] = ..., switch_ts: _Optional[int] = ..., lineage: _Optional[_Union[_table_pb2.LineageRef, _Mapping]] = ..., inputs: _Optional[_Iterable[str]] = ..., outputs: _Optional[_Iterable[str]] = ..., as_of: _Optional[int] = ...) -> None: ...
    class EndedCompaction(_message.Message):
        __slots__ = ("compaction", "state", "ended", "switched", "input_rows", "output_rows", "output_files", "reason")
        COMPACTION_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        ENDED_FIELD_NUMBER: _ClassVar[int]
        SWITCHED_FIELD_NUMBER: _ClassVar[int]
        INPUT_ROWS_FIELD_NUMBER: _ClassVar[int]
        OUTPUT_ROWS_FIELD_NUMBER: _ClassVar[int]
        OUTPUT_FILES_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        compaction: ShardSnapshot.Compaction
        state: _compaction_pb2.CompactionState
        ended: int
        switched: int
        input_rows: int
        output_rows: int
        output_files: int
        reason: str
        def __init__(self, compaction: _Optional[_Union[ShardSnapshot.Compaction, _Mapping]] = ..., state: _Optional[_Union[_compaction_pb2.CompactionState, str]] = ..., ended: _Optional[int] = ..., switched: _Optional[int] = ..., input_rows: _Optional[int] = ..., output_rows: _Optional[int] = ..., output_files: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...
    class Failures(_message.Message):
        __slots__ = ("partition", "count", "told_off")
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        COUNT_FIELD_NUMBER: _ClassVar[int]
        TOLD_OFF_FIELD_NUMBER: _ClassVar[int]
        partition: str
        count: int
        told_off: bool
        def __init__(self, partition: _Optional[str] = ..., count: _Optional[int] = ..., told_off: _Optional[bool] = ...) -> None: ...
    class Addition(_message.Message):
        __slots__ = ("commit_ts", "txn_id", "ranges")
        COMMIT_TS_FIELD_NUMBER: _ClassVar[int]
        TXN_ID_FIELD_NUMBER: _ClassVar[int]
        RANGES_FIELD_NUMBER: _ClassVar[int]
        commit_ts: int
        txn_id: int
        ranges: _containers.RepeatedCompositeFieldContainer[_table_pb2.ColumnRange]
        def __init__(self, commit_ts: _Optional[int] = ..., txn_id: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[_table_pb2.ColumnRange, _Mapping]]] = ...) -> None: ...
    class DeleteSet(_message.Message):
        __slots__ = ("write_id", "txn_id", "ref", "commit_ts", "file_sets", "files", "compaction_id")
        WRITE_ID_FIELD_NUMBER: _ClassVar[int]
        TXN_ID_FIELD_NUMBER: _ClassVar[int]
        REF_FIELD_NUMBER: _ClassVar[int]
        COMMIT_TS_FIELD_NUMBER: _ClassVar[int]
        FILE_SETS_FIELD_NUMBER: _ClassVar[int]
        FILES_FIELD_NUMBER: _ClassVar[int]
        COMPACTION_ID_FIELD_NUMBER: _ClassVar[int]
        write_id: str
        txn_id: int
        ref: _table_pb2.DeadRowsRef
        commit_ts: int
        file_sets: _containers.RepeatedScalarFieldContainer[str]
        files: _containers.RepeatedCompositeFieldContainer[_table_pb2.FileDeletes]
        compaction_id: str
        def __init__(self, write_id: _Optional[str] = ..., txn_id: _Optional[int] = ..., ref: _Optional[_Union[_table_pb2.DeadRowsRef, _Mapping]] = ..., commit_ts: _Optional[int] = ..., file_sets: _Optional[_Iterable[str]] = ..., files: _Optional[_Iterable[_Union[_table_pb2.FileDeletes, _Mapping]]] = ..., compaction_id: _Optional[str] = ...) -> None: ...
    class FileSets(_message.Message):
        __slots__ = ("write_id", "txn_id", "manifest", "commit_ts", "from_writes", "parts", "as_of")
        WRITE_ID_FIELD_NUMBER: _ClassVar[int]
        TXN_ID_FIELD_NUMBER: _ClassVar[int]
        MANIFEST_FIELD_NUMBER: _ClassVar[int]
        COMMIT_TS_FIELD_NUMBER: _ClassVar[int]
        FROM_WRITES_FIELD_NUMBER: _ClassVar[int]
        PARTS_FIELD_NUMBER: _ClassVar[int]
        AS_OF_FIELD_NUMBER: _ClassVar[int]
        write_id: str
        txn_id: int
        manifest: _table_pb2.ManifestRef
        commit_ts: int
        from_writes: _containers.RepeatedScalarFieldContainer[str]
        parts: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.FileSet]
        as_of: int
        def __init__(self, write_id: _Optional[str] = ..., txn_id: _Optional[int] = ..., manifest: _Optional[_Union[_table_pb2.ManifestRef, _Mapping]] = ..., commit_ts: _Optional[int] = ..., from_writes: _Optional[_Iterable[str]] = ..., parts: _Optional[_Iterable[_Union[ShardSnapshot.FileSet, _Mapping]]] = ..., as_of: _Optional[int] = ...) -> None: ...
    class FileSet(_message.Message):
        __slots__ = ("partition", "replaced_by", "replaced_ts")
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        REPLACED_BY_FIELD_NUMBER: _ClassVar[int]
        REPLACED_TS_FIELD_NUMBER: _ClassVar[int]
        partition: str
        replaced_by: int
        replaced_ts: int
        def __init__(self, partition: _Optional[str] = ..., replaced_by: _Optional[int] = ..., replaced_ts: _Optional[int] = ...) -> None: ...
    class Overwrite(_message.Message):
        __slots__ = ("object", "txn_id", "commit_ts")
        OBJECT_FIELD_NUMBER: _ClassVar[int]
        TXN_ID_FIELD_NUMBER: _ClassVar[int]
        COMMIT_TS_FIELD_NUMBER: _ClassVar[int]
        object: str
        txn_id: int
        commit_ts: int
        def __init__(self, object: _Optional[str] = ..., txn_id: _Optional[int] = ..., commit_ts: _Optional[int] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NEXT_TABLE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    SAVEPOINTS_FIELD_NUMBER: _ClassVar[int]
    PLACED_FIELD_NUMBER: _ClassVar[int]
    APART_BELOW_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    CAME_FIELD_NUMBER: _ClassVar[int]
    version: int
    next_table_number: int
    tables: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.TableState]
    forgotten: _common_pb2.IdSet
    savepoints: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.Savepoint]
    placed: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.Placed]
    apart_below: int
    gone: _containers.RepeatedCompositeFieldContainer[ShardSnapshot.Gone]
    came: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[int] = ..., next_table_number: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[ShardSnapshot.TableState, _Mapping]]] = ..., forgotten: _Optional[_Union[_common_pb2.IdSet, _Mapping]] = ..., savepoints: _Optional[_Iterable[_Union[ShardSnapshot.Savepoint, _Mapping]]] = ..., placed: _Optional[_Iterable[_Union[ShardSnapshot.Placed, _Mapping]]] = ..., apart_below: _Optional[int] = ..., gone: _Optional[_Iterable[_Union[ShardSnapshot.Gone, _Mapping]]] = ..., came: _Optional[_Iterable[str]] = ...) -> None: ...
