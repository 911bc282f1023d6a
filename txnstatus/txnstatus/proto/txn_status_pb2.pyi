from txnstatus.proto import common_pb2 as _common_pb2
from txnstatus.proto import txn_manager_pb2 as _txn_manager_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RangeBeginRequest(_message.Message):
    __slots__ = ("request", "floor", "participants")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    FLOOR_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANTS_FIELD_NUMBER: _ClassVar[int]
    request: _txn_manager_pb2.BeginTransactionRequest
    floor: int
    participants: _containers.RepeatedCompositeFieldContainer[_common_pb2.ParticipantInfo]
    def __init__(self, request: _Optional[_Union[_txn_manager_pb2.BeginTransactionRequest, _Mapping]] = ..., floor: _Optional[int] = ..., participants: _Optional[_Iterable[_Union[_common_pb2.ParticipantInfo, _Mapping]]] = ...) -> None: ...

class RangeBeginResponse(_message.Message):
    __slots__ = ("begun", "last_commit_timestamp")
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    LAST_COMMIT_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    begun: _txn_manager_pb2.BeginTransactionResponse
    last_commit_timestamp: int
    def __init__(self, begun: _Optional[_Union[_txn_manager_pb2.BeginTransactionResponse, _Mapping]] = ..., last_commit_timestamp: _Optional[int] = ...) -> None: ...

class RaiseFloorRequest(_message.Message):
    __slots__ = ("timestamp",)
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    timestamp: int
    def __init__(self, timestamp: _Optional[int] = ...) -> None: ...

class RaiseFloorResponse(_message.Message):
    __slots__ = ("last_commit_timestamp", "full", "settled", "oldest_kept_txn_id")
    LAST_COMMIT_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    OLDEST_KEPT_TXN_ID_FIELD_NUMBER: _ClassVar[int]
    last_commit_timestamp: int
    full: bool
    settled: bool
    oldest_kept_txn_id: int
    def __init__(self, last_commit_timestamp: _Optional[int] = ..., full: _Optional[bool] = ..., settled: _Optional[bool] = ..., oldest_kept_txn_id: _Optional[int] = ...) -> None: ...

class RegisterParticipantsRequest(_message.Message):
    __slots__ = ("registrations",)
    REGISTRATIONS_FIELD_NUMBER: _ClassVar[int]
    registrations: _containers.RepeatedCompositeFieldContainer[Registration]
    def __init__(self, registrations: _Optional[_Iterable[_Union[Registration, _Mapping]]] = ...) -> None: ...

class Registration(_message.Message):
    __slots__ = ("txn_id", "owner", "participant")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANT_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    owner: str
    participant: _common_pb2.ParticipantInfo
    def __init__(self, txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., participant: _Optional[_Union[_common_pb2.ParticipantInfo, _Mapping]] = ...) -> None: ...

class RegisterParticipantsResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[RegistrationResult]
    def __init__(self, results: _Optional[_Iterable[_Union[RegistrationResult, _Mapping]]] = ...) -> None: ...

class RegistrationResult(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.ErrorDetail
    def __init__(self, error: _Optional[_Union[_common_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...

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
    __slots__ = ("states", "label", "below_txn_id", "limit", "begun_by", "participant", "begun_since_micros", "begun_before_micros", "txn_ids")
    STATES_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    BELOW_TXN_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    BEGUN_BY_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANT_FIELD_NUMBER: _ClassVar[int]
    BEGUN_SINCE_MICROS_FIELD_NUMBER: _ClassVar[int]
    BEGUN_BEFORE_MICROS_FIELD_NUMBER: _ClassVar[int]
    TXN_IDS_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedScalarFieldContainer[_common_pb2.TxnState]
    label: str
    below_txn_id: int
    limit: int
    begun_by: str
    participant: str
    begun_since_micros: int
    begun_before_micros: int
    txn_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, states: _Optional[_Iterable[_Union[_common_pb2.TxnState, str]]] = ..., label: _Optional[str] = ..., below_txn_id: _Optional[int] = ..., limit: _Optional[int] = ..., begun_by: _Optional[str] = ..., participant: _Optional[str] = ..., begun_since_micros: _Optional[int] = ..., begun_before_micros: _Optional[int] = ..., txn_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class ListTransactionsResponse(_message.Message):
    __slots__ = ("txns", "more")
    TXNS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    txns: _containers.RepeatedCompositeFieldContainer[_common_pb2.TxnInfo]
    more: bool
    def __init__(self, txns: _Optional[_Iterable[_Union[_common_pb2.TxnInfo, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class StatusCommand(_message.Message):
    __slots__ = ("begin_txns", "begin_commit", "finalize_commit", "complete_commit", "begin_abort", "finalize_abort", "expire", "forget", "raise_floor", "register_participants")
    class BeginTxns(_message.Message):
        __slots__ = ("request_id", "count", "owner", "label", "keepalive_millis", "now_micros", "floor", "max_unfinished", "participants")
        REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
        COUNT_FIELD_NUMBER: _ClassVar[int]
        OWNER_FIELD_NUMBER: _ClassVar[int]
        LABEL_FIELD_NUMBER: _ClassVar[int]
        KEEPALIVE_MILLIS_FIELD_NUMBER: _ClassVar[int]
        NOW_MICROS_FIELD_NUMBER: _ClassVar[int]
        FLOOR_FIELD_NUMBER: _ClassVar[int]
        MAX_UNFINISHED_FIELD_NUMBER: _ClassVar[int]
        PARTICIPANTS_FIELD_NUMBER: _ClassVar[int]
        request_id: str
        count: int
        owner: str
        label: str
        keepalive_millis: int
        now_micros: int
        floor: int
        max_unfinished: int
        participants: _containers.RepeatedCompositeFieldContainer[_common_pb2.ParticipantInfo]
        def __init__(self, request_id: _Optional[str] = ..., count: _Optional[int] = ..., owner: _Optional[str] = ..., label: _Optional[str] = ..., keepalive_millis: _Optional[int] = ..., now_micros: _Optional[int] = ..., floor: _Optional[int] = ..., max_unfinished: _Optional[int] = ..., participants: _Optional[_Iterable[_Union[_common_pb2.ParticipantInfo, _Mapping]]] = ...) -> None: ...
    class RegisterParticipants(_message.Message):
        __slots__ = ("txn_id", "owner", "participants")
        TXN_ID_FIELD_NUMBER: _ClassVar[int]
        OWNER_FIELD_NUMBER: _ClassVar[int]
        PARTICIPANTS_FIELD_NUMBER: _ClassVar[int]
        txn_id: int
        owner: str
        participants: _containers.RepeatedCompositeFieldContainer[_common_pb2.ParticipantInfo]
        def __init__(self, txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., participants: _Optional[_Iterable[_Union[_common_pb2.ParticipantInfo, _Mapping]]] = ...) -> None: ...
    class BeginCommit(_message.Message):
        __slots__ = ("txn_id", "owner", "now_micros", "prepare_ts", "writes")
        TXN_ID_FIELD_NUMBER: _ClassVar[int]
        OWNER_FIELD_NUMBER: _ClassVar[int]
        NOW_MICROS_FIELD_NUMBER: _ClassVar[int]
        PREPARE_TS_FIELD_NUMBER: _ClassVar[int]
        WRITES_FIELD_NUMBER: _ClassVar[int]
        txn_id: int
        owner: str
        now_micros: int
        prepare_ts: int
        writes: _containers.RepeatedCompositeFieldContainer[StatusCommand.LastWrite]
        def __init__(self, txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., now_micros: _Optional[int] = ..., prepare_ts: _Optional[int] = ..., writes: _Optional[_Iterable[_Union[StatusCommand.LastWrite, _Mapping]]] = ...) -> None: ...
    class LastWrite(_message.Message):
        __slots__ = ("participant_id", "command")
        PARTICIPANT_ID_FIELD_NUMBER: _ClassVar[int]
        COMMAND_FIELD_NUMBER: _ClassVar[int]
        participant_id: str
        command: bytes
        def __init__(self, participant_id: _Optional[str] = ..., command: _Optional[bytes] = ...) -> None: ...
    class FinalizeCommit(_message.Message):
        __slots__ = ("txn_id", "commit_ts", "now_micros", "prepared")
        TXN_ID_FIELD_NUMBER: _ClassVar[int]
        COMMIT_TS_FIELD_NUMBER: _ClassVar[int]
        NOW_MICROS_FIELD_NUMBER: _ClassVar[int]
        PREPARED_FIELD_NUMBER: _ClassVar[int]
        txn_id: int
        commit_ts: int
        now_micros: int
        prepared: int
        def __init__(self, txn_id: _Optional[int] = ..., commit_ts: _Optional[int] = ..., now_micros: _Optional[int] = ..., prepared: _Optional[int] = ...) -> None: ...
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
    class Forget(_message.Message):
        __slots__ = ("finished_before_micros",)
        FINISHED_BEFORE_MICROS_FIELD_NUMBER: _ClassVar[int]
        finished_before_micros: int
        def __init__(self, finished_before_micros: _Optional[int] = ...) -> None: ...
    class RaiseFloor(_message.Message):
        __slots__ = ("timestamp",)
        TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
        timestamp: int
        def __init__(self, timestamp: _Optional[int] = ...) -> None: ...
    BEGIN_TXNS_FIELD_NUMBER: _ClassVar[int]
    BEGIN_COMMIT_FIELD_NUMBER: _ClassVar[int]
    FINALIZE_COMMIT_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_COMMIT_FIELD_NUMBER: _ClassVar[int]
    BEGIN_ABORT_FIELD_NUMBER: _ClassVar[int]
    FINALIZE_ABORT_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_FIELD_NUMBER: _ClassVar[int]
    FORGET_FIELD_NUMBER: _ClassVar[int]
    RAISE_FLOOR_FIELD_NUMBER: _ClassVar[int]
    REGISTER_PARTICIPANTS_FIELD_NUMBER: _ClassVar[int]
    begin_txns: StatusCommand.BeginTxns
    begin_commit: StatusCommand.BeginCommit
    finalize_commit: StatusCommand.FinalizeCommit
    complete_commit: StatusCommand.CompleteCommit
    begin_abort: StatusCommand.BeginAbort
    finalize_abort: StatusCommand.FinalizeAbort
    expire: StatusCommand.Expire
    forget: StatusCommand.Forget
    raise_floor: StatusCommand.RaiseFloor
    register_participants: StatusCommand.RegisterParticipants
    def __init__(self, begin_txns: _Optional[_Union[StatusCommand.BeginTxns, _Mapping]] = ..., begin_commit: _Optional[_Union[StatusCommand.BeginCommit, _Mapping]] = ..., finalize_commit: _Optional[_Union[StatusCommand.FinalizeCommit, _Mapping]] = ..., complete_commit: _Optional[_Union[StatusCommand.CompleteCommit, _Mapping]] = ..., begin_abort: _Optional[_Union[StatusCommand.BeginAbort, _Mapping]] = ..., finalize_abort: _Optional[_Union[StatusCommand.FinalizeAbort, _Mapping]] = ..., expire: _Optional[_Union[StatusCommand.Expire, _Mapping]] = ..., forget: _Optional[_Union[StatusCommand.Forget, _Mapping]] = ..., raise_floor: _Optional[_Union[StatusCommand.RaiseFloor, _Mapping]] = ..., register_participants: _Optional[_Union[StatusCommand.RegisterParticipants, _Mapping]] = ...) -> None: ...

class StatusSnapshot(_message.Message):
    __slots__ = ("version", "next_txn_id", "last_commit_timestamp", "first_txn_id", "end_txn_id", "full", "unfinished", "finished")
    class Record(_message.Message):
        __slots__ = ("txn", "request_id", "request_first_txn_id", "request_count")
        TXN_FIELD_NUMBER: _ClassVar[int]
        REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
        REQUEST_FIRST_TXN_ID_FIELD_NUMBER: _ClassVar[int]
        REQUEST_COUNT_FIELD_NUMBER: _ClassVar[int]
        txn: _common_pb2.TxnInfo
        request_id: str
        request_first_txn_id: int
        request_count: int
        def __init__(self, txn: _Optional[_Union[_common_pb2.TxnInfo, _Mapping]] = ..., request_id: _Optional[str] = ..., request_first_txn_id: _Optional[int] = ..., request_count: _Optional[int] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NEXT_TXN_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_COMMIT_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    FIRST_TXN_ID_FIELD_NUMBER: _ClassVar[int]
    END_TXN_ID_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    UNFINISHED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    version: int
    next_txn_id: int
    last_commit_timestamp: int
    first_txn_id: int
    end_txn_id: int
    full: bool
    unfinished: _containers.RepeatedCompositeFieldContainer[StatusSnapshot.Record]
    finished: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, version: _Optional[int] = ..., next_txn_id: _Optional[int] = ..., last_commit_timestamp: _Optional[int] = ..., first_txn_id: _Optional[int] = ..., end_txn_id: _Optional[int] = ..., full: _Optional[bool] = ..., unfinished: _Optional[_Iterable[_Union[StatusSnapshot.Record, _Mapping]]] = ..., finished: _Optional[_Iterable[bytes]] = ...) -> None: ...
