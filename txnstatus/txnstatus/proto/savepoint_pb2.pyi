from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CreateSavepointRequest(_message.Message):
    __slots__ = ("savepoint_id", "name", "owner", "timestamp", "tables", "expires")
    SAVEPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    savepoint_id: str
    name: str
    owner: str
    timestamp: int
    tables: _containers.RepeatedScalarFieldContainer[str]
    expires: int
    def __init__(self, savepoint_id: _Optional[str] = ..., name: _Optional[str] = ..., owner: _Optional[str] = ..., timestamp: _Optional[int] = ..., tables: _Optional[_Iterable[str]] = ..., expires: _Optional[int] = ...) -> None: ...

class CreateSavepointResponse(_message.Message):
    __slots__ = ("savepoint",)
    SAVEPOINT_FIELD_NUMBER: _ClassVar[int]
    savepoint: SavepointInfo
    def __init__(self, savepoint: _Optional[_Union[SavepointInfo, _Mapping]] = ...) -> None: ...

class ListSavepointsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSavepointsResponse(_message.Message):
    __slots__ = ("savepoints",)
    SAVEPOINTS_FIELD_NUMBER: _ClassVar[int]
    savepoints: _containers.RepeatedCompositeFieldContainer[SavepointInfo]
    def __init__(self, savepoints: _Optional[_Iterable[_Union[SavepointInfo, _Mapping]]] = ...) -> None: ...

class ReleaseSavepointRequest(_message.Message):
    __slots__ = ("name", "savepoint_id", "owner", "as_operator")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SAVEPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    AS_OPERATOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    savepoint_id: str
    owner: str
    as_operator: bool
    def __init__(self, name: _Optional[str] = ..., savepoint_id: _Optional[str] = ..., owner: _Optional[str] = ..., as_operator: _Optional[bool] = ...) -> None: ...

class ReleaseSavepointResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SavepointInfo(_message.Message):
    __slots__ = ("savepoint_id", "name", "owner", "timestamp", "tables", "created", "expires", "held_bytes", "unfinished")
    SAVEPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    HELD_BYTES_FIELD_NUMBER: _ClassVar[int]
    UNFINISHED_FIELD_NUMBER: _ClassVar[int]
    savepoint_id: str
    name: str
    owner: str
    timestamp: int
    tables: _containers.RepeatedScalarFieldContainer[str]
    created: int
    expires: int
    held_bytes: int
    unfinished: bool
    def __init__(self, savepoint_id: _Optional[str] = ..., name: _Optional[str] = ..., owner: _Optional[str] = ..., timestamp: _Optional[int] = ..., tables: _Optional[_Iterable[str]] = ..., created: _Optional[int] = ..., expires: _Optional[int] = ..., held_bytes: _Optional[int] = ..., unfinished: _Optional[bool] = ...) -> None: ...

class HoldSavepointRequest(_message.Message):
    __slots__ = ("savepoint", "here", "is_home")
    SAVEPOINT_FIELD_NUMBER: _ClassVar[int]
    HERE_FIELD_NUMBER: _ClassVar[int]
    IS_HOME_FIELD_NUMBER: _ClassVar[int]
    savepoint: CreateSavepointRequest
    here: _containers.RepeatedScalarFieldContainer[str]
    is_home: bool
    def __init__(self, savepoint: _Optional[_Union[CreateSavepointRequest, _Mapping]] = ..., here: _Optional[_Iterable[str]] = ..., is_home: _Optional[bool] = ...) -> None: ...

class HoldSavepointResponse(_message.Message):
    __slots__ = ("savepoint",)
    SAVEPOINT_FIELD_NUMBER: _ClassVar[int]
    savepoint: SavepointInfo
    def __init__(self, savepoint: _Optional[_Union[SavepointInfo, _Mapping]] = ...) -> None: ...

class DropSavepointRequest(_message.Message):
    __slots__ = ("savepoint_id",)
    SAVEPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    savepoint_id: str
    def __init__(self, savepoint_id: _Optional[str] = ...) -> None: ...

class DropSavepointResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
