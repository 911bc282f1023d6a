from txnstatus.proto import common_pb2 as _common_pb2
from txnstatus.proto import table_pb2 as _table_pb2
from txnstatus.proto import ticket_pb2 as _ticket_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BeginTransactionRequest(_message.Message):
    __slots__ = ("request_id", "owner", "label", "keepalive_millis", "count", "is_retry", "first_writes", "near")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    KEEPALIVE_MILLIS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    IS_RETRY_FIELD_NUMBER: _ClassVar[int]
    FIRST_WRITES_FIELD_NUMBER: _ClassVar[int]
    NEAR_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    owner: str
    label: str
    keepalive_millis: int
    count: int
    is_retry: bool
    first_writes: _containers.RepeatedCompositeFieldContainer[FirstWrite]
    near: str
    def __init__(self, request_id: _Optional[str] = ..., owner: _Optional[str] = ..., label: _Optional[str] = ..., keepalive_millis: _Optional[int] = ..., count: _Optional[int] = ..., is_retry: _Optional[bool] = ..., first_writes: _Optional[_Iterable[_Union[FirstWrite, _Mapping]]] = ..., near: _Optional[str] = ...) -> None: ...

class FirstWrite(_message.Message):
    __slots__ = ("table", "write_id")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    WRITE_ID_FIELD_NUMBER: _ClassVar[int]
    table: str
    write_id: str
    def __init__(self, table: _Optional[str] = ..., write_id: _Optional[str] = ...) -> None: ...

class BeginTransactionResponse(_message.Message):
    __slots__ = ("txn_ids", "keepalive_millis", "cluster_id", "begun_before", "first_writes", "participants")
    TXN_IDS_FIELD_NUMBER: _ClassVar[int]
    KEEPALIVE_MILLIS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    BEGUN_BEFORE_FIELD_NUMBER: _ClassVar[int]
    FIRST_WRITES_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANTS_FIELD_NUMBER: _ClassVar[int]
    txn_ids: _containers.RepeatedScalarFieldContainer[int]
    keepalive_millis: int
    cluster_id: str
    begun_before: bool
    first_writes: _containers.RepeatedCompositeFieldContainer[_table_pb2.OpenWriteResponse]
    participants: _containers.RepeatedCompositeFieldContainer[_common_pb2.ParticipantInfo]
    def __init__(self, txn_ids: _Optional[_Iterable[int]] = ..., keepalive_millis: _Optional[int] = ..., cluster_id: _Optional[str] = ..., begun_before: _Optional[bool] = ..., first_writes: _Optional[_Iterable[_Union[_table_pb2.OpenWriteResponse, _Mapping]]] = ..., participants: _Optional[_Iterable[_Union[_common_pb2.ParticipantInfo, _Mapping]]] = ...) -> None: ...

class CommitTransactionRequest(_message.Message):
    __slots__ = ("txn_id", "owner", "wait_millis", "last_writes")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    WAIT_MILLIS_FIELD_NUMBER: _ClassVar[int]
    LAST_WRITES_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    owner: str
    wait_millis: int
    last_writes: _containers.RepeatedCompositeFieldContainer[_table_pb2.AddFilesRequest]
    def __init__(self, txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., wait_millis: _Optional[int] = ..., last_writes: _Optional[_Iterable[_Union[_table_pb2.AddFilesRequest, _Mapping]]] = ...) -> None: ...

class CommitTransactionResponse(_message.Message):
    __slots__ = ("txn", "waits_for")
    TXN_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    txn: _common_pb2.TxnInfo
    waits_for: str
    def __init__(self, txn: _Optional[_Union[_common_pb2.TxnInfo, _Mapping]] = ..., waits_for: _Optional[str] = ...) -> None: ...

class AbortTransactionRequest(_message.Message):
    __slots__ = ("txn_id", "owner", "reason", "as_operator")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    AS_OPERATOR_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    owner: str
    reason: str
    as_operator: bool
    def __init__(self, txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., reason: _Optional[str] = ..., as_operator: _Optional[bool] = ...) -> None: ...

class AbortTransactionResponse(_message.Message):
    __slots__ = ("txn",)
    TXN_FIELD_NUMBER: _ClassVar[int]
    txn: _common_pb2.TxnInfo
    def __init__(self, txn: _Optional[_Union[_common_pb2.TxnInfo, _Mapping]] = ...) -> None: ...

class GetTransactionStateRequest(_message.Message):
    __slots__ = ("txn_id", "wait_millis")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_MILLIS_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    wait_millis: int
    def __init__(self, txn_id: _Optional[int] = ..., wait_millis: _Optional[int] = ...) -> None: ...

class GetTransactionStateResponse(_message.Message):
    __slots__ = ("txn", "waits_for")
    TXN_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    txn: _common_pb2.TxnInfo
    waits_for: str
    def __init__(self, txn: _Optional[_Union[_common_pb2.TxnInfo, _Mapping]] = ..., waits_for: _Optional[str] = ...) -> None: ...

class KeepTransactionAliveRequest(_message.Message):
    __slots__ = ("txn_ids", "owner")
    TXN_IDS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    txn_ids: _containers.RepeatedScalarFieldContainer[int]
    owner: str
    def __init__(self, txn_ids: _Optional[_Iterable[int]] = ..., owner: _Optional[str] = ...) -> None: ...

class KeepTransactionAliveResponse(_message.Message):
    __slots__ = ("refused",)
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    refused: _containers.RepeatedCompositeFieldContainer[KeepAliveRefusal]
    def __init__(self, refused: _Optional[_Iterable[_Union[KeepAliveRefusal, _Mapping]]] = ...) -> None: ...

class KeepAliveRefusal(_message.Message):
    __slots__ = ("txn_id", "error")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    error: _common_pb2.ErrorDetail
    def __init__(self, txn_id: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...

class EnlistRequest(_message.Message):
    __slots__ = ("txn_id", "owner", "participant")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANT_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    owner: str
    participant: str
    def __init__(self, txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., participant: _Optional[str] = ...) -> None: ...

class EnlistResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class IssueTicketRequest(_message.Message):
    __slots__ = ("txn_id", "owner", "scope", "seconds")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    owner: str
    scope: _ticket_pb2.TicketScope
    seconds: int
    def __init__(self, txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., scope: _Optional[_Union[_ticket_pb2.TicketScope, _Mapping]] = ..., seconds: _Optional[int] = ...) -> None: ...

class IssueTicketResponse(_message.Message):
    __slots__ = ("ticket",)
    TICKET_FIELD_NUMBER: _ClassVar[int]
    ticket: bytes
    def __init__(self, ticket: _Optional[bytes] = ...) -> None: ...

class GetSnapshotRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetSnapshotResponse(_message.Message):
    __slots__ = ("timestamp",)
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    timestamp: int
    def __init__(self, timestamp: _Optional[int] = ...) -> None: ...

class TxnToken(_message.Message):
    __slots__ = ("txn_id", "keepalive_millis", "enable_keepalive", "cluster_id", "ticket", "authority", "trace")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    KEEPALIVE_MILLIS_FIELD_NUMBER: _ClassVar[int]
    ENABLE_KEEPALIVE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    AUTHORITY_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    keepalive_millis: int
    enable_keepalive: bool
    cluster_id: str
    ticket: bytes
    authority: bytes
    trace: bytes
    def __init__(self, txn_id: _Optional[int] = ..., keepalive_millis: _Optional[int] = ..., enable_keepalive: _Optional[bool] = ..., cluster_id: _Optional[str] = ..., ticket: _Optional[bytes] = ..., authority: _Optional[bytes] = ..., trace: _Optional[bytes] = ...) -> None: ...
