from txnstatus.proto import common_pb2 as _common_pb2
from txnstatus.proto import table_pb2 as _table_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CompactionKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMPACTION_KIND_UNKNOWN: _ClassVar[CompactionKind]
    COMPACTION_MINOR: _ClassVar[CompactionKind]
    COMPACTION_MAJOR: _ClassVar[CompactionKind]

class CompactionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMPACTION_STATE_UNKNOWN: _ClassVar[CompactionState]
    COMPACTION_INITIATED: _ClassVar[CompactionState]
    COMPACTION_WORKING: _ClassVar[CompactionState]
    COMPACTION_SUCCEEDED: _ClassVar[CompactionState]
    COMPACTION_FAILED: _ClassVar[CompactionState]
    COMPACTION_ATTEMPTED: _ClassVar[CompactionState]
COMPACTION_KIND_UNKNOWN: CompactionKind
COMPACTION_MINOR: CompactionKind
COMPACTION_MAJOR: CompactionKind
COMPACTION_STATE_UNKNOWN: CompactionState
COMPACTION_INITIATED: CompactionState
COMPACTION_WORKING: CompactionState
COMPACTION_SUCCEEDED: CompactionState
COMPACTION_FAILED: CompactionState
COMPACTION_ATTEMPTED: CompactionState

class RequestCompactionRequest(_message.Message):
    __slots__ = ("table", "partition", "kind")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    table: str
    partition: str
    kind: CompactionKind
    def __init__(self, table: _Optional[str] = ..., partition: _Optional[str] = ..., kind: _Optional[_Union[CompactionKind, str]] = ...) -> None: ...

class RequestCompactionResponse(_message.Message):
    __slots__ = ("compaction_ids",)
    COMPACTION_IDS_FIELD_NUMBER: _ClassVar[int]
    compaction_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, compaction_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ListCompactionsRequest(_message.Message):
    __slots__ = ("table", "after")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    table: str
    after: CompactionPlace
    def __init__(self, table: _Optional[str] = ..., after: _Optional[_Union[CompactionPlace, _Mapping]] = ...) -> None: ...

class CompactionPlace(_message.Message):
    __slots__ = ("table_id", "compaction_id")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    COMPACTION_ID_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    compaction_id: str
    def __init__(self, table_id: _Optional[str] = ..., compaction_id: _Optional[str] = ...) -> None: ...

class ListCompactionsResponse(_message.Message):
    __slots__ = ("compactions", "more", "given_to")
    COMPACTIONS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    GIVEN_TO_FIELD_NUMBER: _ClassVar[int]
    compactions: _containers.RepeatedCompositeFieldContainer[CompactionInfo]
    more: bool
    given_to: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, compactions: _Optional[_Iterable[_Union[CompactionInfo, _Mapping]]] = ..., more: _Optional[bool] = ..., given_to: _Optional[_Iterable[int]] = ...) -> None: ...

class CompactionInfo(_message.Message):
    __slots__ = ("compaction_id", "table_id", "table", "partition", "kind", "state", "requested", "opened", "worker", "as_of", "ended", "switched", "input_file_sets", "input_rows", "output_rows", "output_files", "reason", "input_bytes")
    COMPACTION_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    SWITCHED_FIELD_NUMBER: _ClassVar[int]
    INPUT_FILE_SETS_FIELD_NUMBER: _ClassVar[int]
    INPUT_ROWS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_ROWS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FILES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    INPUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    compaction_id: str
    table_id: str
    table: str
    partition: str
    kind: CompactionKind
    state: CompactionState
    requested: bool
    opened: int
    worker: str
    as_of: int
    ended: int
    switched: int
    input_file_sets: int
    input_rows: int
    output_rows: int
    output_files: int
    reason: str
    input_bytes: int
    def __init__(self, compaction_id: _Optional[str] = ..., table_id: _Optional[str] = ..., table: _Optional[str] = ..., partition: _Optional[str] = ..., kind: _Optional[_Union[CompactionKind, str]] = ..., state: _Optional[_Union[CompactionState, str]] = ..., requested: _Optional[bool] = ..., opened: _Optional[int] = ..., worker: _Optional[str] = ..., as_of: _Optional[int] = ..., ended: _Optional[int] = ..., switched: _Optional[int] = ..., input_file_sets: _Optional[int] = ..., input_rows: _Optional[int] = ..., output_rows: _Optional[int] = ..., output_files: _Optional[int] = ..., reason: _Optional[str] = ..., input_bytes: _Optional[int] = ...) -> None: ...

class LeaseCompactionRequest(_message.Message):
    __slots__ = ("worker", "lease_id", "table", "min_bytes", "max_bytes")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    MIN_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    worker: str
    lease_id: str
    table: str
    min_bytes: int
    max_bytes: int
    def __init__(self, worker: _Optional[str] = ..., lease_id: _Optional[str] = ..., table: _Optional[str] = ..., min_bytes: _Optional[int] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class LeaseCompactionResponse(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: CompactionTask
    def __init__(self, task: _Optional[_Union[CompactionTask, _Mapping]] = ...) -> None: ...

class CompactionTask(_message.Message):
    __slots__ = ("table", "compaction_id", "kind", "partition", "directory", "as_of", "inputs", "dead", "target_file_bytes", "lease_millis", "changes", "others", "commit_timestamps")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    COMPACTION_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    TARGET_FILE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LEASE_MILLIS_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    COMMIT_TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    table: _common_pb2.TableInfo
    compaction_id: str
    kind: CompactionKind
    partition: str
    directory: str
    as_of: int
    inputs: _containers.RepeatedCompositeFieldContainer[_table_pb2.ManifestRef]
    dead: _containers.RepeatedCompositeFieldContainer[_table_pb2.DeadRowsRef]
    target_file_bytes: int
    lease_millis: int
    changes: _table_pb2.RowChanges
    others: _containers.RepeatedCompositeFieldContainer[_table_pb2.ManifestRef]
    commit_timestamps: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, table: _Optional[_Union[_common_pb2.TableInfo, _Mapping]] = ..., compaction_id: _Optional[str] = ..., kind: _Optional[_Union[CompactionKind, str]] = ..., partition: _Optional[str] = ..., directory: _Optional[str] = ..., as_of: _Optional[int] = ..., inputs: _Optional[_Iterable[_Union[_table_pb2.ManifestRef, _Mapping]]] = ..., dead: _Optional[_Iterable[_Union[_table_pb2.DeadRowsRef, _Mapping]]] = ..., target_file_bytes: _Optional[int] = ..., lease_millis: _Optional[int] = ..., changes: _Optional[_Union[_table_pb2.RowChanges, _Mapping]] = ..., others: _Optional[_Iterable[_Union[_table_pb2.ManifestRef, _Mapping]]] = ..., commit_timestamps: _Optional[_Iterable[int]] = ...) -> None: ...

class RenewCompactionRequest(_message.Message):
    __slots__ = ("table_id", "compaction_id", "lease_id")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    COMPACTION_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    compaction_id: str
    lease_id: str
    def __init__(self, table_id: _Optional[str] = ..., compaction_id: _Optional[str] = ..., lease_id: _Optional[str] = ...) -> None: ...

class RenewCompactionResponse(_message.Message):
    __slots__ = ("lease_millis",)
    LEASE_MILLIS_FIELD_NUMBER: _ClassVar[int]
    lease_millis: int
    def __init__(self, lease_millis: _Optional[int] = ...) -> None: ...

class CompleteCompactionRequest(_message.Message):
    __slots__ = ("table_id", "compaction_id", "lease_id", "manifest", "lineage", "hidden")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    COMPACTION_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    LINEAGE_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    compaction_id: str
    lease_id: str
    manifest: _table_pb2.ManifestRef
    lineage: _table_pb2.LineageRef
    hidden: _table_pb2.DeadRowsRef
    def __init__(self, table_id: _Optional[str] = ..., compaction_id: _Optional[str] = ..., lease_id: _Optional[str] = ..., manifest: _Optional[_Union[_table_pb2.ManifestRef, _Mapping]] = ..., lineage: _Optional[_Union[_table_pb2.LineageRef, _Mapping]] = ..., hidden: _Optional[_Union[_table_pb2.DeadRowsRef, _Mapping]] = ...) -> None: ...

class CompleteCompactionResponse(_message.Message):
    __slots__ = ("switched",)
    SWITCHED_FIELD_NUMBER: _ClassVar[int]
    switched: int
    def __init__(self, switched: _Optional[int] = ...) -> None: ...

class FailCompactionRequest(_message.Message):
    __slots__ = ("table_id", "compaction_id", "lease_id", "reason", "returned")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    COMPACTION_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    compaction_id: str
    lease_id: str
    reason: str
    returned: bool
    def __init__(self, table_id: _Optional[str] = ..., compaction_id: _Optional[str] = ..., lease_id: _Optional[str] = ..., reason: _Optional[str] = ..., returned: _Optional[bool] = ...) -> None: ...

class FailCompactionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
