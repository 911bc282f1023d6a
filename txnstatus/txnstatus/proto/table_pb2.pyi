from txnstatus.proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LockMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOCK_MODE_UNKNOWN: _ClassVar[LockMode]
    LOCK_S: _ClassVar[LockMode]
    LOCK_SHARED_WRITE: _ClassVar[LockMode]
    LOCK_X: _ClassVar[LockMode]

class WriteMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    APPEND: _ClassVar[WriteMode]
    OVERWRITE: _ClassVar[WriteMode]

class RowChange(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROW_CHANGE_UNKNOWN: _ClassVar[RowChange]
    ROW_INSERT: _ClassVar[RowChange]
    ROW_INSERT_IGNORE: _ClassVar[RowChange]
    ROW_UPSERT: _ClassVar[RowChange]
    ROW_UPDATE: _ClassVar[RowChange]
    ROW_DELETE: _ClassVar[RowChange]
LOCK_MODE_UNKNOWN: LockMode
LOCK_S: LockMode
LOCK_SHARED_WRITE: LockMode
LOCK_X: LockMode
APPEND: WriteMode
OVERWRITE: WriteMode
ROW_CHANGE_UNKNOWN: RowChange
ROW_INSERT: RowChange
ROW_INSERT_IGNORE: RowChange
ROW_UPSERT: RowChange
ROW_UPDATE: RowChange
ROW_DELETE: RowChange

class LockRequest(_message.Message):
    __slots__ = ("txn_id", "owner", "table", "partitions", "mode", "wait_millis", "statement", "alone", "settled_by")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    WAIT_MILLIS_FIELD_NUMBER: _ClassVar[int]
    STATEMENT_FIELD_NUMBER: _ClassVar[int]
    ALONE_FIELD_NUMBER: _ClassVar[int]
    SETTLED_BY_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    owner: str
    table: str
    partitions: _containers.RepeatedScalarFieldContainer[str]
    mode: LockMode
    wait_millis: int
    statement: str
    alone: bool
    settled_by: str
    def __init__(self, txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., table: _Optional[str] = ..., partitions: _Optional[_Iterable[str]] = ..., mode: _Optional[_Union[LockMode, str]] = ..., wait_millis: _Optional[int] = ..., statement: _Optional[str] = ..., alone: _Optional[bool] = ..., settled_by: _Optional[str] = ...) -> None: ...

class LockResponse(_message.Message):
    __slots__ = ("granted", "mode")
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    granted: bool
    mode: LockMode
    def __init__(self, granted: _Optional[bool] = ..., mode: _Optional[_Union[LockMode, str]] = ...) -> None: ...

class ShowLocksRequest(_message.Message):
    __slots__ = ("table", "partition", "extended", "after")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    EXTENDED_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    table: str
    partition: str
    extended: bool
    after: LockPlace
    def __init__(self, table: _Optional[str] = ..., partition: _Optional[str] = ..., extended: _Optional[bool] = ..., after: _Optional[_Union[LockPlace, _Mapping]] = ...) -> None: ...

class LockPlace(_message.Message):
    __slots__ = ("object", "since", "txn_id")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    object: str
    since: int
    txn_id: int
    def __init__(self, object: _Optional[str] = ..., since: _Optional[int] = ..., txn_id: _Optional[int] = ...) -> None: ...

class ShowLocksResponse(_message.Message):
    __slots__ = ("locks", "more", "given_to")
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    GIVEN_TO_FIELD_NUMBER: _ClassVar[int]
    locks: _containers.RepeatedCompositeFieldContainer[LockInfo]
    more: bool
    given_to: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, locks: _Optional[_Iterable[_Union[LockInfo, _Mapping]]] = ..., more: _Optional[bool] = ..., given_to: _Optional[_Iterable[int]] = ...) -> None: ...

class LockInfo(_message.Message):
    __slots__ = ("object", "mode", "granted", "txn_id", "owner", "since", "blocked_by", "txn")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_BY_FIELD_NUMBER: _ClassVar[int]
    TXN_FIELD_NUMBER: _ClassVar[int]
    object: str
    mode: LockMode
    granted: bool
    txn_id: int
    owner: str
    since: int
    blocked_by: _containers.RepeatedScalarFieldContainer[int]
    txn: _common_pb2.TxnInfo
    def __init__(self, object: _Optional[str] = ..., mode: _Optional[_Union[LockMode, str]] = ..., granted: _Optional[bool] = ..., txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., since: _Optional[int] = ..., blocked_by: _Optional[_Iterable[int]] = ..., txn: _Optional[_Union[_common_pb2.TxnInfo, _Mapping]] = ...) -> None: ...

class CreateTableRequest(_message.Message):
    __slots__ = ("name", "schema", "location", "request_id", "conflicts", "properties", "placement", "owner", "reservation")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CONFLICTS_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    name: str
    schema: _common_pb2.TableSchema
    location: str
    request_id: str
    conflicts: str
    properties: _containers.RepeatedCompositeFieldContainer[_common_pb2.TableProperty]
    placement: str
    owner: str
    reservation: str
    def __init__(self, name: _Optional[str] = ..., schema: _Optional[_Union[_common_pb2.TableSchema, _Mapping]] = ..., location: _Optional[str] = ..., request_id: _Optional[str] = ..., conflicts: _Optional[str] = ..., properties: _Optional[_Iterable[_Union[_common_pb2.TableProperty, _Mapping]]] = ..., placement: _Optional[str] = ..., owner: _Optional[str] = ..., reservation: _Optional[str] = ...) -> None: ...

class CreateTableResponse(_message.Message):
    __slots__ = ("table", "placement", "shard")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    table: _common_pb2.TableInfo
    placement: str
    shard: int
    def __init__(self, table: _Optional[_Union[_common_pb2.TableInfo, _Mapping]] = ..., placement: _Optional[str] = ..., shard: _Optional[int] = ...) -> None: ...

class AlterTableRequest(_message.Message):
    __slots__ = ("table", "properties", "columns", "request_id")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    table: str
    properties: _containers.RepeatedCompositeFieldContainer[_common_pb2.TableProperty]
    columns: _containers.RepeatedCompositeFieldContainer[ColumnChange]
    request_id: str
    def __init__(self, table: _Optional[str] = ..., properties: _Optional[_Iterable[_Union[_common_pb2.TableProperty, _Mapping]]] = ..., columns: _Optional[_Iterable[_Union[ColumnChange, _Mapping]]] = ..., request_id: _Optional[str] = ...) -> None: ...

class ColumnChange(_message.Message):
    __slots__ = ("name", "type", "comment", "after", "takes_nulls", "rename", "drop", "widen", "default", "drop_default")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    TAKES_NULLS_FIELD_NUMBER: _ClassVar[int]
    RENAME_FIELD_NUMBER: _ClassVar[int]
    DROP_FIELD_NUMBER: _ClassVar[int]
    WIDEN_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_FIELD_NUMBER: _ClassVar[int]
    DROP_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    comment: str
    after: str
    takes_nulls: bool
    rename: str
    drop: bool
    widen: str
    default: str
    drop_default: bool
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., comment: _Optional[str] = ..., after: _Optional[str] = ..., takes_nulls: _Optional[bool] = ..., rename: _Optional[str] = ..., drop: _Optional[bool] = ..., widen: _Optional[str] = ..., default: _Optional[str] = ..., drop_default: _Optional[bool] = ...) -> None: ...

class AlterTableResponse(_message.Message):
    __slots__ = ("table", "placement", "shard")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    table: _common_pb2.TableInfo
    placement: str
    shard: int
    def __init__(self, table: _Optional[_Union[_common_pb2.TableInfo, _Mapping]] = ..., placement: _Optional[str] = ..., shard: _Optional[int] = ...) -> None: ...

class RenameTableRequest(_message.Message):
    __slots__ = ("table", "new_name", "request_id", "wait_millis", "table_id", "shard")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    NEW_NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_MILLIS_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    table: str
    new_name: str
    request_id: str
    wait_millis: int
    table_id: str
    shard: int
    def __init__(self, table: _Optional[str] = ..., new_name: _Optional[str] = ..., request_id: _Optional[str] = ..., wait_millis: _Optional[int] = ..., table_id: _Optional[str] = ..., shard: _Optional[int] = ...) -> None: ...

class RenameTableResponse(_message.Message):
    __slots__ = ("table", "placement", "waits_for", "shard")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    table: _common_pb2.TableInfo
    placement: str
    waits_for: _containers.RepeatedScalarFieldContainer[int]
    shard: int
    def __init__(self, table: _Optional[_Union[_common_pb2.TableInfo, _Mapping]] = ..., placement: _Optional[str] = ..., waits_for: _Optional[_Iterable[int]] = ..., shard: _Optional[int] = ...) -> None: ...

class GetTableRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetTableResponse(_message.Message):
    __slots__ = ("table", "placement", "shard")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    table: _common_pb2.TableInfo
    placement: str
    shard: int
    def __init__(self, table: _Optional[_Union[_common_pb2.TableInfo, _Mapping]] = ..., placement: _Optional[str] = ..., shard: _Optional[int] = ...) -> None: ...

class ListTablesRequest(_message.Message):
    __slots__ = ("after",)
    AFTER_FIELD_NUMBER: _ClassVar[int]
    after: str
    def __init__(self, after: _Optional[str] = ...) -> None: ...

class ListTablesResponse(_message.Message):
    __slots__ = ("tables", "more", "given_to")
    TABLES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    GIVEN_TO_FIELD_NUMBER: _ClassVar[int]
    tables: _containers.RepeatedCompositeFieldContainer[_common_pb2.TableInfo]
    more: bool
    given_to: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, tables: _Optional[_Iterable[_Union[_common_pb2.TableInfo, _Mapping]]] = ..., more: _Optional[bool] = ..., given_to: _Optional[_Iterable[int]] = ...) -> None: ...

class DropTableRequest(_message.Message):
    __slots__ = ("txn_id", "owner", "table", "wait_millis")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    WAIT_MILLIS_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    owner: str
    table: str
    wait_millis: int
    def __init__(self, txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., table: _Optional[str] = ..., wait_millis: _Optional[int] = ...) -> None: ...

class DropTableResponse(_message.Message):
    __slots__ = ("waits_for",)
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    waits_for: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, waits_for: _Optional[_Iterable[int]] = ...) -> None: ...

class OpenWriteRequest(_message.Message):
    __slots__ = ("txn_id", "owner", "table", "write_id")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    WRITE_ID_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    owner: str
    table: str
    write_id: str
    def __init__(self, txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., table: _Optional[str] = ..., write_id: _Optional[str] = ...) -> None: ...

class OpenWriteResponse(_message.Message):
    __slots__ = ("table", "directory")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    table: _common_pb2.TableInfo
    directory: str
    def __init__(self, table: _Optional[_Union[_common_pb2.TableInfo, _Mapping]] = ..., directory: _Optional[str] = ...) -> None: ...

class ManifestRef(_message.Message):
    __slots__ = ("path", "bytes", "crc32", "file_count", "row_count", "data_bytes", "partitions")
    PATH_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    CRC32_FIELD_NUMBER: _ClassVar[int]
    FILE_COUNT_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    DATA_BYTES_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    path: str
    bytes: int
    crc32: int
    file_count: int
    row_count: int
    data_bytes: int
    partitions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, path: _Optional[str] = ..., bytes: _Optional[int] = ..., crc32: _Optional[int] = ..., file_count: _Optional[int] = ..., row_count: _Optional[int] = ..., data_bytes: _Optional[int] = ..., partitions: _Optional[_Iterable[str]] = ...) -> None: ...

class KeyRange(_message.Message):
    __slots__ = ("lowest", "highest", "partitions")
    LOWEST_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    lowest: bytes
    highest: bytes
    partitions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, lowest: _Optional[bytes] = ..., highest: _Optional[bytes] = ..., partitions: _Optional[_Iterable[str]] = ...) -> None: ...

class KeyClaim(_message.Message):
    __slots__ = ("snapshot", "keys", "range", "own_writes")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    OWN_WRITES_FIELD_NUMBER: _ClassVar[int]
    snapshot: int
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    range: KeyRange
    own_writes: int
    def __init__(self, snapshot: _Optional[int] = ..., keys: _Optional[_Iterable[bytes]] = ..., range: _Optional[_Union[KeyRange, _Mapping]] = ..., own_writes: _Optional[int] = ...) -> None: ...

class AddFilesRequest(_message.Message):
    __slots__ = ("txn_id", "owner", "table", "write_id", "mode", "manifest", "from_writes", "overwrites", "read_timestamp", "claim", "deletes", "looked", "holds", "schema_version")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    WRITE_ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    FROM_WRITES_FIELD_NUMBER: _ClassVar[int]
    OVERWRITES_FIELD_NUMBER: _ClassVar[int]
    READ_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    DELETES_FIELD_NUMBER: _ClassVar[int]
    LOOKED_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    owner: str
    table: str
    write_id: str
    mode: WriteMode
    manifest: ManifestRef
    from_writes: _containers.RepeatedScalarFieldContainer[str]
    overwrites: _containers.RepeatedScalarFieldContainer[str]
    read_timestamp: int
    claim: KeyClaim
    deletes: Deletes
    looked: Looked
    holds: _containers.RepeatedCompositeFieldContainer[ColumnRange]
    schema_version: int
    def __init__(self, txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., table: _Optional[str] = ..., write_id: _Optional[str] = ..., mode: _Optional[_Union[WriteMode, str]] = ..., manifest: _Optional[_Union[ManifestRef, _Mapping]] = ..., from_writes: _Optional[_Iterable[str]] = ..., overwrites: _Optional[_Iterable[str]] = ..., read_timestamp: _Optional[int] = ..., claim: _Optional[_Union[KeyClaim, _Mapping]] = ..., deletes: _Optional[_Union[Deletes, _Mapping]] = ..., looked: _Optional[_Union[Looked, _Mapping]] = ..., holds: _Optional[_Iterable[_Union[ColumnRange, _Mapping]]] = ..., schema_version: _Optional[int] = ...) -> None: ...

class ColumnRange(_message.Message):
    __slots__ = ("column", "lowest", "highest")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    LOWEST_FIELD_NUMBER: _ClassVar[int]
    HIGHEST_FIELD_NUMBER: _ClassVar[int]
    column: str
    lowest: bytes
    highest: bytes
    def __init__(self, column: _Optional[str] = ..., lowest: _Optional[bytes] = ..., highest: _Optional[bytes] = ...) -> None: ...

class Looked(_message.Message):
    __slots__ = ("snapshot", "ranges")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    snapshot: int
    ranges: _containers.RepeatedCompositeFieldContainer[ColumnRange]
    def __init__(self, snapshot: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[ColumnRange, _Mapping]]] = ...) -> None: ...

class DeadRowsRef(_message.Message):
    __slots__ = ("path", "bytes", "crc32", "row_count", "file_count")
    PATH_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    CRC32_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    FILE_COUNT_FIELD_NUMBER: _ClassVar[int]
    path: str
    bytes: int
    crc32: int
    row_count: int
    file_count: int
    def __init__(self, path: _Optional[str] = ..., bytes: _Optional[int] = ..., crc32: _Optional[int] = ..., row_count: _Optional[int] = ..., file_count: _Optional[int] = ...) -> None: ...

class LineageRef(_message.Message):
    __slots__ = ("path", "bytes", "crc32")
    PATH_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    CRC32_FIELD_NUMBER: _ClassVar[int]
    path: str
    bytes: int
    crc32: int
    def __init__(self, path: _Optional[str] = ..., bytes: _Optional[int] = ..., crc32: _Optional[int] = ...) -> None: ...

class Deletes(_message.Message):
    __slots__ = ("ref", "files", "snapshot")
    REF_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    ref: DeadRowsRef
    files: _containers.RepeatedCompositeFieldContainer[FileDeletes]
    snapshot: int
    def __init__(self, ref: _Optional[_Union[DeadRowsRef, _Mapping]] = ..., files: _Optional[_Iterable[_Union[FileDeletes, _Mapping]]] = ..., snapshot: _Optional[int] = ...) -> None: ...

class FileDeletes(_message.Message):
    __slots__ = ("file", "file_set", "row_count", "positions")
    FILE_FIELD_NUMBER: _ClassVar[int]
    FILE_SET_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    file: str
    file_set: str
    row_count: int
    positions: bytes
    def __init__(self, file: _Optional[str] = ..., file_set: _Optional[str] = ..., row_count: _Optional[int] = ..., positions: _Optional[bytes] = ...) -> None: ...

class AddFilesResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WriteRowsRequest(_message.Message):
    __slots__ = ("txn_id", "owner", "table", "write_id", "change", "snapshot", "rows")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    WRITE_ID_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    owner: str
    table: str
    write_id: str
    change: RowChange
    snapshot: int
    rows: bytes
    def __init__(self, txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., table: _Optional[str] = ..., write_id: _Optional[str] = ..., change: _Optional[_Union[RowChange, str]] = ..., snapshot: _Optional[int] = ..., rows: _Optional[bytes] = ...) -> None: ...

class WriteRowsResponse(_message.Message):
    __slots__ = ("written", "ignored", "refused")
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    IGNORED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    written: int
    ignored: int
    refused: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, written: _Optional[int] = ..., ignored: _Optional[int] = ..., refused: _Optional[_Iterable[int]] = ...) -> None: ...

class RowChanges(_message.Message):
    __slots__ = ("batches", "flushed", "above")
    class Batch(_message.Message):
        __slots__ = ("commit_timestamp", "deletes", "rows")
        COMMIT_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
        DELETES_FIELD_NUMBER: _ClassVar[int]
        ROWS_FIELD_NUMBER: _ClassVar[int]
        commit_timestamp: int
        deletes: bool
        rows: bytes
        def __init__(self, commit_timestamp: _Optional[int] = ..., deletes: _Optional[bool] = ..., rows: _Optional[bytes] = ...) -> None: ...
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    FLUSHED_FIELD_NUMBER: _ClassVar[int]
    ABOVE_FIELD_NUMBER: _ClassVar[int]
    batches: _containers.RepeatedCompositeFieldContainer[RowChanges.Batch]
    flushed: _containers.RepeatedCompositeFieldContainer[ManifestRef]
    above: int
    def __init__(self, batches: _Optional[_Iterable[_Union[RowChanges.Batch, _Mapping]]] = ..., flushed: _Optional[_Iterable[_Union[ManifestRef, _Mapping]]] = ..., above: _Optional[int] = ...) -> None: ...

class ScanRequest(_message.Message):
    __slots__ = ("table", "timestamp", "lease_id", "txn_id", "owner", "leased", "lineages_above")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    LINEAGES_ABOVE_FIELD_NUMBER: _ClassVar[int]
    table: str
    timestamp: int
    lease_id: str
    txn_id: int
    owner: str
    leased: bool
    lineages_above: int
    def __init__(self, table: _Optional[str] = ..., timestamp: _Optional[int] = ..., lease_id: _Optional[str] = ..., txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., leased: _Optional[bool] = ..., lineages_above: _Optional[int] = ...) -> None: ...

class ScanResponse(_message.Message):
    __slots__ = ("table", "manifests", "lease_millis", "commit_timestamps", "changes", "own_writes", "dead", "replacing", "lineages", "folded")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    MANIFESTS_FIELD_NUMBER: _ClassVar[int]
    LEASE_MILLIS_FIELD_NUMBER: _ClassVar[int]
    COMMIT_TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    OWN_WRITES_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    REPLACING_FIELD_NUMBER: _ClassVar[int]
    LINEAGES_FIELD_NUMBER: _ClassVar[int]
    FOLDED_FIELD_NUMBER: _ClassVar[int]
    table: _common_pb2.TableInfo
    manifests: _containers.RepeatedCompositeFieldContainer[ManifestRef]
    lease_millis: int
    commit_timestamps: _containers.RepeatedScalarFieldContainer[int]
    changes: RowChanges
    own_writes: int
    dead: _containers.RepeatedCompositeFieldContainer[DeadRowsRef]
    replacing: int
    lineages: _containers.RepeatedCompositeFieldContainer[LineageRef]
    folded: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, table: _Optional[_Union[_common_pb2.TableInfo, _Mapping]] = ..., manifests: _Optional[_Iterable[_Union[ManifestRef, _Mapping]]] = ..., lease_millis: _Optional[int] = ..., commit_timestamps: _Optional[_Iterable[int]] = ..., changes: _Optional[_Union[RowChanges, _Mapping]] = ..., own_writes: _Optional[int] = ..., dead: _Optional[_Iterable[_Union[DeadRowsRef, _Mapping]]] = ..., replacing: _Optional[int] = ..., lineages: _Optional[_Iterable[_Union[LineageRef, _Mapping]]] = ..., folded: _Optional[_Iterable[int]] = ...) -> None: ...

class SnapshotLease(_message.Message):
    __slots__ = ("lease_id", "table", "timestamp", "lease_millis")
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    LEASE_MILLIS_FIELD_NUMBER: _ClassVar[int]
    lease_id: str
    table: str
    timestamp: int
    lease_millis: int
    def __init__(self, lease_id: _Optional[str] = ..., table: _Optional[str] = ..., timestamp: _Optional[int] = ..., lease_millis: _Optional[int] = ...) -> None: ...

class RenewLeasesRequest(_message.Message):
    __slots__ = ("leases",)
    LEASES_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[SnapshotLease]
    def __init__(self, leases: _Optional[_Iterable[_Union[SnapshotLease, _Mapping]]] = ...) -> None: ...

class RenewLeasesResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[RenewLeaseResult]
    def __init__(self, results: _Optional[_Iterable[_Union[RenewLeaseResult, _Mapping]]] = ...) -> None: ...

class RenewLeaseResult(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.ErrorDetail
    def __init__(self, error: _Optional[_Union[_common_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...
