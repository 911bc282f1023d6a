from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class SetSavepointRequest(_message.Message):
    __slots__ = ("txn_id", "owner", "savepoint_id", "table_ids", "released")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SAVEPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_IDS_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    owner: str
    savepoint_id: str
    table_ids: _containers.RepeatedScalarFieldContainer[str]
    released: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., savepoint_id: _Optional[str] = ..., table_ids: _Optional[_Iterable[str]] = ..., released: _Optional[_Iterable[str]] = ...) -> None: ...

class SetSavepointResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RollbackToRequest(_message.Message):
    __slots__ = ("txn_id", "owner", "savepoint_id", "rollback_id", "table_ids", "held_by", "void")
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SAVEPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    ROLLBACK_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_IDS_FIELD_NUMBER: _ClassVar[int]
    HELD_BY_FIELD_NUMBER: _ClassVar[int]
    VOID_FIELD_NUMBER: _ClassVar[int]
    txn_id: int
    owner: str
    savepoint_id: str
    rollback_id: str
    table_ids: _containers.RepeatedScalarFieldContainer[str]
    held_by: _containers.RepeatedScalarFieldContainer[str]
    void: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, txn_id: _Optional[int] = ..., owner: _Optional[str] = ..., savepoint_id: _Optional[str] = ..., rollback_id: _Optional[str] = ..., table_ids: _Optional[_Iterable[str]] = ..., held_by: _Optional[_Iterable[str]] = ..., void: _Optional[_Iterable[str]] = ...) -> None: ...

class RollbackToResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
