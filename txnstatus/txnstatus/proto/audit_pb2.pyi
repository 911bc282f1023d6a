from txnstatus.proto import common_pb2 as _common_pb2
from txnstatus.proto import table_pb2 as _table_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DirectoryUse(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DIRECTORY_USE_UNKNOWN: _ClassVar[DirectoryUse]
    DIRECTORY_IN_USE: _ClassVar[DirectoryUse]
    DIRECTORY_CLAIMED: _ClassVar[DirectoryUse]
    DIRECTORY_GOING: _ClassVar[DirectoryUse]
DIRECTORY_USE_UNKNOWN: DirectoryUse
DIRECTORY_IN_USE: DirectoryUse
DIRECTORY_CLAIMED: DirectoryUse
DIRECTORY_GOING: DirectoryUse

class AuditShardRequest(_message.Message):
    __slots__ = ("shard", "after_table_id", "after_txn_id")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    AFTER_TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_TXN_ID_FIELD_NUMBER: _ClassVar[int]
    shard: int
    after_table_id: str
    after_txn_id: int
    def __init__(self, shard: _Optional[int] = ..., after_table_id: _Optional[str] = ..., after_txn_id: _Optional[int] = ...) -> None: ...

class AuditShardResponse(_message.Message):
    __slots__ = ("participants", "more")
    PARTICIPANTS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    participants: _containers.RepeatedCompositeFieldContainer[AuditedParticipant]
    more: bool
    def __init__(self, participants: _Optional[_Iterable[_Union[AuditedParticipant, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class AuditedParticipant(_message.Message):
    __slots__ = ("info", "unfinished")
    INFO_FIELD_NUMBER: _ClassVar[int]
    UNFINISHED_FIELD_NUMBER: _ClassVar[int]
    info: _common_pb2.TableInfo
    unfinished: _containers.RepeatedCompositeFieldContainer[UnfinishedTxn]
    def __init__(self, info: _Optional[_Union[_common_pb2.TableInfo, _Mapping]] = ..., unfinished: _Optional[_Iterable[_Union[UnfinishedTxn, _Mapping]]] = ...) -> None: ...

class UnfinishedTxn(_message.Message):
    __slots__ = ("txn_id", "state", "locks")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    state: _common_pb2.ParticipantState
    locks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, txn_id: _Optional[int] = ..., state: _Optional[_Union[_common_pb2.ParticipantState, str]] = ..., locks: _Optional[_Iterable[str]] = ...) -> None: ...

class AuditTransactionRequest(_message.Message):
    __slots__ = ("table_id", "txn_id")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    txn_id: int
    def __init__(self, table_id: _Optional[str] = ..., txn_id: _Optional[int] = ...) -> None: ...

class AuditTransactionResponse(_message.Message):
    __slots__ = ("state", "prepare_timestamp", "commit_timestamp", "locks")
    STATE_FIELD_NUMBER: _ClassVar[int]
    PREPARE_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    COMMIT_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    state: _common_pb2.ParticipantState
    prepare_timestamp: int
    commit_timestamp: int
    locks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, state: _Optional[_Union[_common_pb2.ParticipantState, str]] = ..., prepare_timestamp: _Optional[int] = ..., commit_timestamp: _Optional[int] = ..., locks: _Optional[_Iterable[str]] = ...) -> None: ...

class AuditTableRequest(_message.Message):
    __slots__ = ("table_id", "after")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    after: str
    def __init__(self, table_id: _Optional[str] = ..., after: _Optional[str] = ...) -> None: ...

class AuditTableResponse(_message.Message):
    __slots__ = ("directories", "more")
    DIRECTORIES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    directories: _containers.RepeatedCompositeFieldContainer[KnownDirectory]
    more: bool
    def __init__(self, directories: _Optional[_Iterable[_Union[KnownDirectory, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class KnownDirectory(_message.Message):
    __slots__ = ("name", "use", "manifest", "files")
    NAME_FIELD_NUMBER: _ClassVar[int]
    USE_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    name: str
    use: DirectoryUse
    manifest: _table_pb2.ManifestRef
    files: _containers.RepeatedCompositeFieldContainer[KnownFile]
    def __init__(self, name: _Optional[str] = ..., use: _Optional[_Union[DirectoryUse, str]] = ..., manifest: _Optional[_Union[_table_pb2.ManifestRef, _Mapping]] = ..., files: _Optional[_Iterable[_Union[KnownFile, _Mapping]]] = ...) -> None: ...

class KnownFile(_message.Message):
    __slots__ = ("path", "bytes", "crc32")
    PATH_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    CRC32_FIELD_NUMBER: _ClassVar[int]
    path: str
    bytes: int
    crc32: int
    def __init__(self, path: _Optional[str] = ..., bytes: _Optional[int] = ..., crc32: _Optional[int] = ...) -> None: ...

class AdoptDirectoriesRequest(_message.Message):
    __slots__ = ("table_id", "names", "only_ask")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    ONLY_ASK_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    names: _containers.RepeatedScalarFieldContainer[str]
    only_ask: bool
    def __init__(self, table_id: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ..., only_ask: _Optional[bool] = ...) -> None: ...

class AdoptDirectoriesResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[AdoptResult]
    def __init__(self, results: _Optional[_Iterable[_Union[AdoptResult, _Mapping]]] = ...) -> None: ...

class AdoptResult(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.ErrorDetail
    def __init__(self, error: _Optional[_Union[_common_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...
