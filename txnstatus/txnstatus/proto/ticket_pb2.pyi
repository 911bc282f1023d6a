from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Ticket(_message.Message):
    __slots__ = ("cluster_id", "owner", "scope", "expires")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    owner: str
    scope: TicketScope
    expires: int
    def __init__(self, cluster_id: _Optional[str] = ..., owner: _Optional[str] = ..., scope: _Optional[_Union[TicketScope, _Mapping]] = ..., expires: _Optional[int] = ...) -> None: ...

class TicketScope(_message.Message):
    __slots__ = ("txn_id", "tables", "appends_only", "may_commit")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    APPENDS_ONLY_FIELD_NUMBER: _ClassVar[int]
    MAY_COMMIT_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    tables: _containers.RepeatedScalarFieldContainer[str]
    appends_only: bool
    may_commit: bool
    def __init__(self, txn_id: _Optional[int] = ..., tables: _Optional[_Iterable[str]] = ..., appends_only: _Optional[bool] = ..., may_commit: _Optional[bool] = ...) -> None: ...

class SignedTicket(_message.Message):
    __slots__ = ("ticket", "key", "mac")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    MAC_FIELD_NUMBER: _ClassVar[int]
    ticket: bytes
    key: int
    mac: bytes
    def __init__(self, ticket: _Optional[bytes] = ..., key: _Optional[int] = ..., mac: _Optional[bytes] = ...) -> None: ...
