from txnstatus.proto import common_pb2 as _common_pb2
from txnstatus.proto import txn_manager_pb2 as _txn_manager_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RangeBeginRequest(_message.Message):
    __slots__ = ("request", "floor", "participants", "looks")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    FLOOR_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANTS_FIELD_NUMBER: _ClassVar[int]
    LOOKS_FIELD_NUMBER: _ClassVar[int]
    request: _txn_manager_pb2.BeginTransactionRequest
    floor: int
    participants: _containers.RepeatedCompositeFieldContainer[_common_pb2.ParticipantInfo]
    looks: bool
    def __init__(self, request: _Optional[_Union[_txn_manager_pb2.BeginTransactionRequest, _Mapping]] = ..., floor: _Optional[int] = ..., participants: _Optional[_Iterable[_Union[_common_pb2.ParticipantInfo, _Mapping]]] = ..., looks: _Optional[bool] = ...) -> None: ...

class RangeBeginResponse(_message.Message):
    __slots__ = ("begun", "last_commit_timestamp")
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    LAST_COMMIT_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    begun: _txn_manager_pb2.BeginTransactionResponse
    last_commit_timestamp: int
    def __init__(self, begun: _Optional[_Union[_txn_manager_pb2.BeginTransactionResponse, _Mapping]] = ..., last_commit_timestamp: _Optional[int] = ...) -> None: ...

class RaiseFloorRequest(_message.Message):
    __slots__ = ("timestamp", "fills")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    FILLS_FIELD_NUMBER: _ClassVar[int]
    timestamp: int
    fills: bool
    def __init__(self, timestamp: _Optional[int] = ..., fills: _Optional[bool] = ...) -> None: ...

class RaiseFloorResponse(_message.Message):
    __slots__ = ("last_commit_timestamp", "full", "settled", "oldest_kept_txn_id", "next_txn_id")
    LAST_COMMIT_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    OLDEST_KEPT_TXN_ID_FIELD_NUMBER: _ClassVar[int]
    NEXT_TXN_ID_FIELD_NUMBER: _ClassVar[int]
    last_commit_timestamp: int
    full: bool
    settled: bool
    oldest_kept_txn_id: int
    next_txn_id: int
    def __init__(self, last_commit_timestamp: _Optional[int] = ..., full: _Optional[bool] = ..., settled: _Optional[bool] = ..., oldest_kept_txn_id: _Optional[int] = ..., next_txn_id: _Optional[int] = ...) -> None: ...

class RegisterParticipantsRequest(_message.Message):
    __slots__ = ("registrations",)
    REGISTRATIONS_FIELD_NUMBER: _ClassVar[int]
    registrations: _containers.RepeatedCompositeFieldContainer[Registration]
    def __init__(self, registrations: _Optional[_Iterable[_Union[Registration, _Mapping]]] = ...) -> None: ...

class Registration(_message.Message):
    __slots__ = ("txn_id", "owner", "participant", "trace")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANT_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    owner: str
    participant: _common_pb2.ParticipantInfo
    trace: bytes
    def __init__(self, txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., participant: _Optional[_Union[_common_pb2.ParticipantInfo, _Mapping]] = ..., trace: _Optional[bytes] = ...) -> None: ...

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
    __slots__ = ("states", "label", "below_txn_id", "limit", "begun_by", "participant", "begun_since_micros", "begun_before_micros", "txn_ids", "below")
    STATES_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    BELOW_TXN_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    BEGUN_BY_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANT_FIELD_NUMBER: _ClassVar[int]
    BEGUN_SINCE_MICROS_FIELD_NUMBER: _ClassVar[int]
    BEGUN_BEFORE_MICROS_FIELD_NUMBER: _ClassVar[int]
    TXN_IDS_FIELD_NUMBER: _ClassVar[int]
    BELOW_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedScalarFieldContainer[_common_pb2.TxnState]
    label: str
    below_txn_id: int
    limit: int
    begun_by: str
    participant: str
    begun_since_micros: int
    begun_before_micros: int
    txn_ids: _containers.RepeatedScalarFieldContainer[int]
    below: _containers.RepeatedCompositeFieldContainer[Below]
    def __init__(self, states: _Optional[_Iterable[_Union[_common_pb2.TxnState, str]]] = ..., label: _Optional[str] = ..., below_txn_id: _Optional[int] = ..., limit: _Optional[int] = ..., begun_by: _Optional[str] = ..., participant: _Optional[str] = ..., begun_since_micros: _Optional[int] = ..., begun_before_micros: _Optional[int] = ..., txn_ids: _Optional[_Iterable[int]] = ..., below: _Optional[_Iterable[_Union[Below, _Mapping]]] = ...) -> None: ...

class Below(_message.Message):
    __slots__ = ("group", "txn_id")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    group: str
    txn_id: int
    def __init__(self, group: _Optional[str] = ..., txn_id: _Optional[int] = ...) -> None: ...

class ListTransactionsResponse(_message.Message):
    __slots__ = ("txns", "more", "next")
    TXNS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    txns: _containers.RepeatedCompositeFieldContainer[_common_pb2.TxnInfo]
    more: bool
    next: _containers.RepeatedCompositeFieldContainer[Below]
    def __init__(self, txns: _Optional[_Iterable[_Union[_common_pb2.TxnInfo, _Mapping]]] = ..., more: _Optional[bool] = ..., next: _Optional[_Iterable[_Union[Below, _Mapping]]] = ...) -> None: ...
