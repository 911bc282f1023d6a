from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TxnState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TXN_STATE_UNKNOWN: _ClassVar[TxnState]
    OPEN: _ClassVar[TxnState]
    ABORTED: _ClassVar[TxnState]
    COMMIT_IN_PROGRESS: _ClassVar[TxnState]
    COMMITTED: _ClassVar[TxnState]
    ABORT_IN_PROGRESS: _ClassVar[TxnState]
    FINALIZE_IN_PROGRESS: _ClassVar[TxnState]

class ParticipantState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PARTICIPANT_STATE_UNKNOWN: _ClassVar[ParticipantState]
    PARTICIPANT_OPEN: _ClassVar[ParticipantState]
    PARTICIPANT_COMMIT_IN_PROGRESS: _ClassVar[ParticipantState]
    PARTICIPANT_COMMITTED: _ClassVar[ParticipantState]
    PARTICIPANT_ABORTED: _ClassVar[ParticipantState]
TXN_STATE_UNKNOWN: TxnState
OPEN: TxnState
ABORTED: TxnState
COMMIT_IN_PROGRESS: TxnState
COMMITTED: TxnState
ABORT_IN_PROGRESS: TxnState
FINALIZE_IN_PROGRESS: TxnState
PARTICIPANT_STATE_UNKNOWN: ParticipantState
PARTICIPANT_OPEN: ParticipantState
PARTICIPANT_COMMIT_IN_PROGRESS: ParticipantState
PARTICIPANT_COMMITTED: ParticipantState
PARTICIPANT_ABORTED: ParticipantState

class AbortCause(_message.Message):
    __slots__ = ("code", "message", "by", "winner", "objects")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    WINNER_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    by: str
    winner: int
    objects: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., by: _Optional[str] = ..., winner: _Optional[int] = ..., objects: _Optional[_Iterable[str]] = ...) -> None: ...

class ErrorDetail(_message.Message):
    __slots__ = ("code", "message", "txn_id", "hint", "cause", "again_millis")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    AGAIN_MILLIS_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    txn_id: int
    hint: str
    cause: AbortCause
    again_millis: int
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., txn_id: _Optional[int] = ..., hint: _Optional[str] = ..., cause: _Optional[_Union[AbortCause, _Mapping]] = ..., again_millis: _Optional[int] = ...) -> None: ...

class IdSet(_message.Message):
    __slots__ = ("bounds",)
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    bounds: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, bounds: _Optional[_Iterable[int]] = ...) -> None: ...

class TxnInfo(_message.Message):
    __slots__ = ("txn_id", "state", "owner", "label", "keepalive_millis", "begin_micros", "last_transition_micros", "commit_timestamp", "cause", "participants", "undoes")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    KEEPALIVE_MILLIS_FIELD_NUMBER: _ClassVar[int]
    BEGIN_MICROS_FIELD_NUMBER: _ClassVar[int]
    LAST_TRANSITION_MICROS_FIELD_NUMBER: _ClassVar[int]
    COMMIT_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANTS_FIELD_NUMBER: _ClassVar[int]
    UNDOES_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    state: TxnState
    owner: str
    label: str
    keepalive_millis: int
    begin_micros: int
    last_transition_micros: int
    commit_timestamp: int
    cause: AbortCause
    participants: _containers.RepeatedCompositeFieldContainer[ParticipantInfo]
    undoes: int
    def __init__(self, txn_id: _Optional[int] = ..., state: _Optional[_Union[TxnState, str]] = ..., owner: _Optional[str] = ..., label: _Optional[str] = ..., keepalive_millis: _Optional[int] = ..., begin_micros: _Optional[int] = ..., last_transition_micros: _Optional[int] = ..., commit_timestamp: _Optional[int] = ..., cause: _Optional[_Union[AbortCause, _Mapping]] = ..., participants: _Optional[_Iterable[_Union[ParticipantInfo, _Mapping]]] = ..., undoes: _Optional[int] = ...) -> None: ...

class ParticipantInfo(_message.Message):
    __slots__ = ("participant_id", "name", "first_write")
    PARTICIPANT_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    FIRST_WRITE_FIELD_NUMBER: _ClassVar[int]
    participant_id: str
    name: str
    first_write: str
    def __init__(self, participant_id: _Optional[str] = ..., name: _Optional[str] = ..., first_write: _Optional[str] = ...) -> None: ...

class Column(_message.Message):
    __slots__ = ("name", "type", "nullable", "comment", "added", "shown", "widened", "told_type", "default", "initial")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NULLABLE_FIELD_NUMBER: _ClassVar[int]
    COMMENT_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    SHOWN_FIELD_NUMBER: _ClassVar[int]
    WIDENED_FIELD_NUMBER: _ClassVar[int]
    TOLD_TYPE_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_FIELD_NUMBER: _ClassVar[int]
    INITIAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    nullable: bool
    comment: str
    added: bool
    shown: str
    widened: bool
    told_type: str
    default: str
    initial: str
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., nullable: _Optional[bool] = ..., comment: _Optional[str] = ..., added: _Optional[bool] = ..., shown: _Optional[str] = ..., widened: _Optional[bool] = ..., told_type: _Optional[str] = ..., default: _Optional[str] = ..., initial: _Optional[str] = ...) -> None: ...

class TableSchema(_message.Message):
    __slots__ = ("columns", "partition_by", "primary_key", "retired", "version")
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_BY_FIELD_NUMBER: _ClassVar[int]
    PRIMARY_KEY_FIELD_NUMBER: _ClassVar[int]
    RETIRED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.RepeatedCompositeFieldContainer[Column]
    partition_by: _containers.RepeatedScalarFieldContainer[str]
    primary_key: _containers.RepeatedScalarFieldContainer[str]
    retired: _containers.RepeatedScalarFieldContainer[str]
    version: int
    def __init__(self, columns: _Optional[_Iterable[_Union[Column, _Mapping]]] = ..., partition_by: _Optional[_Iterable[str]] = ..., primary_key: _Optional[_Iterable[str]] = ..., retired: _Optional[_Iterable[str]] = ..., version: _Optional[int] = ...) -> None: ...

class TableInfo(_message.Message):
    __slots__ = ("table_id", "name", "location", "schema", "conflicts", "properties", "made")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    CONFLICTS_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    MADE_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    name: str
    location: str
    schema: TableSchema
    conflicts: str
    properties: _containers.RepeatedCompositeFieldContainer[TableProperty]
    made: int
    def __init__(self, table_id: _Optional[str] = ..., name: _Optional[str] = ..., location: _Optional[str] = ..., schema: _Optional[_Union[TableSchema, _Mapping]] = ..., conflicts: _Optional[str] = ..., properties: _Optional[_Iterable[_Union[TableProperty, _Mapping]]] = ..., made: _Optional[int] = ...) -> None: ...

class TableProperty(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
