from txnstatus.proto import common_pb2 as _common_pb2
from txnstatus.proto import txn_manager_pb2 as _txn_manager_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RegisterParticipantRequest(_message.Message):
    __slots__ = ("txn_id", "owner", "participant")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANT_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    owner: str
    participant: _common_pb2.ParticipantInfo
    def __init__(self, txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., participant: _Optional[_Union[_common_pb2.ParticipantInfo, _Mapping]] = ...) -> None: ...

class RegisterParticipantResponse(_message.Message):
    __slots__ = ("keepalive_millis",)
    KEEPALIVE_MILLIS_FIELD_NUMBER: _ClassVar[int]
    keepalive_millis: int
    def __init__(self, keepalive_millis: _Optional[int] = ...) -> None: ...

class GetOutcomesRequest(_message.Message):
    __slots__ = ("txn_ids", "timestamp")
    TXN_IDS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    txn_ids: _containers.RepeatedScalarFieldContainer[int]
    timestamp: int
    def __init__(self, txn_ids: _Optional[_Iterable[int]] = ..., timestamp: _Optional[int] = ...) -> None: ...

class GetOutcomesResponse(_message.Message):
    __slots__ = ("commit_timestamps",)
    COMMIT_TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    commit_timestamps: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, commit_timestamps: _Optional[_Iterable[int]] = ...) -> None: ...

class ListTransactionsRequest(_message.Message):
    __slots__ = ("states", "label")
    STATES_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedScalarFieldContainer[_common_pb2.TxnState]
    label: str
    def __init__(self, states: _Optional[_Iterable[_Union[_common_pb2.TxnState, str]]] = ..., label: _Optional[str] = ...) -> None: ...

class ListTransactionsResponse(_message.Message):
    __slots__ = ("txns",)
    TXNS_FIELD_NUMBER: _ClassVar[int]
    txns: _containers.RepeatedCompositeFieldContainer[_common_pb2.TxnInfo]
    def __init__(self, txns: _Optional[_Iterable[_Union[_common_pb2.TxnInfo, _Mapping]]] = ...) -> None: ...

class StatusCommand(_message.Message):
    __slots__ = ("begin_txns", "register_participant", "begin_commit", "finalize_commit", "complete_commit", "begin_abort", "finalize_abort", "expire")
    class BeginTxns(_message.Message):
        __slots__ = ("request_id", "count", "owner", "label", "keepalive_millis", "now_micros")
        REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
        COUNT_FIELD_NUMBER: _ClassVar[int]
        OWNER_FIELD_NUMBER: _ClassVar[int]
        LABEL_FIELD_NUMBER: _ClassVar[int]
        KEEPALIVE_MILLIS_FIELD_NUMBER: _ClassVar[int]
        NOW_MICROS_FIELD_NUMBER: _ClassVar[int]
        request_id: str
        count: int
        owner: str
        label: str
        keepalive_millis: int
        now_micros: int
        def __init__(self, request_id: _Optional[str] = ..., count: _Optional[int] = ..., owner: _Optional[str] = ..., label: _Optional[str] = ..., keepalive_millis: _Optional[int] = ..., now_micros: _Optional[int] = ...) -> None: ...
    class RegisterParticipant(_message.Message):
        __slots__ = ("txn_id", "owner", "participant_id", "name")
        TXN_ID_FIELD_NUMBER: _ClassVar[int]
        OWNER_FIELD_NUMBER: _ClassVar[int]
        PARTICIPANT_ID_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        txn_id: int
        owner: str
        participant_id: str
        name: str
        def __init__(self, txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., participant_id: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...
    class BeginCommit(_message.Message):
        __slots__ = ("txn_id", "owner", "now_micros")
        TXN_ID_FIELD_NUMBER: _ClassVar[int]
        OWNER_FIELD_NUMBER: _ClassVar[int]
        NOW_MICROS_FIELD_NUMBER: _ClassVar[int]
        txn_id: int
        owner: str
        now_micros: int
        def __init__(self, txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., now_micros: _Optional[int] = ...) -> None: ...
    class FinalizeCommit(_message.Message):
        __slots__ = ("txn_id", "commit_timestamp", "now_micros")
        TXN_ID_FIELD_NUMBER: _ClassVar[int]
        COMMIT_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
        NOW_MICROS_FIELD_NUMBER: _ClassVar[int]
        txn_id: int
        commit_timestamp: int
        now_micros: int
        def __init__(self, txn_id: _Optional[int] = ..., commit_timestamp: _Optional[int] = ..., now_micros: _Optional[int] = ...) -> None: ...
    class CompleteCommit(_message.Message):
        __slots__ = ("txn_id", "now_micros")
        TXN_ID_FIELD_NUMBER: _ClassVar[int]
        NOW_MICROS_FIELD_NUMBER: _ClassVar[int]
        txn_id: int
        now_micros: int
        def __init__(self, txn_id: _Optional[int] = ..., now_micros: _Optional[int] = ...) -> None: ...
    class BeginAbort(_message.Message):
        __slots__ = ("txn_id", "owner", "cause", "now_micros")
        TXN_ID_FIELD_NUMBER: _ClassVar[int]
        OWNER_FIELD_NUMBER: _ClassVar[int]
        CAUSE_FIELD_NUMBER: _ClassVar[int]
        NOW_MICROS_FIELD_NUMBER: _ClassVar[int]
        txn_id: int
        owner: str
        cause: _common_pb2.AbortCause
        now_micros: int
        def __init__(self, txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., cause: _Optional[_Union[_common_pb2.AbortCause, _Mapping]] = ..., now_micros: _Optional[int] = ...) -> None: ...
    class FinalizeAbort(_message.Message):
        __slots__ = ("txn_id", "now_micros")
        TXN_ID_FIELD_NUMBER: _ClassVar[int]
        NOW_MICROS_FIELD_NUMBER: _ClassVar[int]
        txn_id: int
        now_micros: int
        def __init__(self, txn_id: _Optional[int] = ..., now_micros: _Optional[int] = ...) -> None: ...
    class Expire(_message.Message):
        __slots__ = ("txn_id", "cause", "now_micros")
        TXN_ID_FIELD_NUMBER: _ClassVar[int]
        CAUSE_FIELD_NUMBER: _ClassVar[int]
        NOW_MICROS_FIELD_NUMBER: _ClassVar[int]
        txn_id: int
        cause: _common_pb2.AbortCause
        now_micros: int
        def __init__(self, txn_id: _Optional[int] = ..., cause: _Optional[_Union[_common_pb2.AbortCause, _Mapping]] = ..., now_micros: _Optional[int] = ...) -> None: ...
    BEGIN_TXNS_FIELD_NUMBER: _ClassVar[int]
    REGISTER_PARTICIPANT_FIELD_NUMBER: _ClassVar[int]
    BEGIN_COMMIT_FIELD_NUMBER: _ClassVar[int]
    FINALIZE_COMMIT_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_COMMIT_FIELD_NUMBER: _ClassVar[int]
    BEGIN_ABORT_FIELD_NUMBER: _ClassVar[int]
    FINALIZE_ABORT_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_FIELD_NUMBER: _ClassVar[int]
    begin_txns: StatusCommand.BeginTxns
    register_participant: StatusCommand.RegisterParticipant
    begin_commit: StatusCommand.BeginCommit
    finalize_commit: StatusCommand.FinalizeCommit
    complete_commit: StatusCommand.CompleteCommit
    begin_abort: StatusCommand.BeginAbort
    finalize_abort: StatusCommand.FinalizeAbort
    expire: StatusCommand.Expire
    def __init__(self, begin_txns: _Optional[_Union[StatusCommand.BeginTxns, _Mapping]] = ..., register_participant: _Optional[_Union[StatusCommand.RegisterParticipant, _Mapping]] = ..., begin_commit: _Optional[_Union[StatusCommand.BeginCommit, _Mapping]] = ..., finalize_commit: _Optional[_Union[StatusCommand.FinalizeCommit, _Mapping]] = ..., complete_commit: _Optional[_Union[StatusCommand.CompleteCommit, _Mapping]] = ..., begin_abort: _Optional[_Union[StatusCommand.BeginAbort, _Mapping]] = ..., finalize_abort: _Optional[_Union[StatusCommand.FinalizeAbort, _Mapping]] = ..., expire: _Optional[_Union[StatusCommand.Expire, _Mapping]] = ...) -> None: ...

class StatusSnapshot(_message.Message):
    __slots__ = ("version", "next_txn_id", "last_commit_timestamp", "txns", "begin_requests")
    class RequestRecord(_message.Message):
        __slots__ = ("request_id", "first_txn_id", "count")
        REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
        FIRST_TXN_ID_FIELD_NUMBER: _ClassVar[int]
        COUNT_FIELD_NUMBER: _ClassVar[int]
        request_id: str
        first_txn_id: int
        count: int
        def __init__(self, request_id: _Optional[str] = ..., first_txn_id: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NEXT_TXN_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_COMMIT_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    TXNS_FIELD_NUMBER: _ClassVar[int]
    BEGIN_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    version: int
    next_txn_id: int
    last_commit_timestamp: int
    txns: _containers.RepeatedCompositeFieldContainer[_common_pb2.TxnInfo]
    begin_requests: _containers.RepeatedCompositeFieldContainer[StatusSnapshot.RequestRecord]
    def __init__(self, version: _Optional[int] = ..., next_txn_id: _Optional[int] = ..., last_commit_timestamp: _Optional[int] = ..., txns: _Optional[_Iterable[_Union[_common_pb2.TxnInfo, _Mapping]]] = ..., begin_requests: _Optional[_Iterable[_Union[StatusSnapshot.RequestRecord, _Mapping]]] = ...) -> None: ...
