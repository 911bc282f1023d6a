from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListTimelineRequest(_message.Message):
    __slots__ = ("since_micros", "until_micros", "after")
    SINCE_MICROS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MICROS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    since_micros: int
    until_micros: int
    after: str
    def __init__(self, since_micros: _Optional[int] = ..., until_micros: _Optional[int] = ..., after: _Optional[str] = ...) -> None: ...

class ListTimelineResponse(_message.Message):
    __slots__ = ("files", "more")
    FILES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedScalarFieldContainer[str]
    more: bool
    def __init__(self, files: _Optional[_Iterable[str]] = ..., more: _Optional[bool] = ...) -> None: ...

class CountCommitsRequest(_message.Message):
    __slots__ = ("table_ids", "since")
    TABLE_IDS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    table_ids: _containers.RepeatedScalarFieldContainer[str]
    since: int
    def __init__(self, table_ids: _Optional[_Iterable[str]] = ..., since: _Optional[int] = ...) -> None: ...

class CountCommitsResponse(_message.Message):
    __slots__ = ("counts",)
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.RepeatedCompositeFieldContainer[CommitCount]
    def __init__(self, counts: _Optional[_Iterable[_Union[CommitCount, _Mapping]]] = ...) -> None: ...

class CommitCount(_message.Message):
    __slots__ = ("table_id", "txn_id", "added_rows", "added_files", "deleted_rows", "changed_rows")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    TXN_ID_FIELD_NUMBER: _ClassVar[int]
    ADDED_ROWS_FIELD_NUMBER: _ClassVar[int]
    ADDED_FILES_FIELD_NUMBER: _ClassVar[int]
    DELETED_ROWS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_ROWS_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    txn_id: int
    added_rows: int
    added_files: int
    deleted_rows: int
    changed_rows: int
    def __init__(self, table_id: _Optional[str] = ..., txn_id: _Optional[int] = ..., added_rows: _Optional[int] = ..., added_files: _Optional[int] = ..., deleted_rows: _Optional[int] = ..., changed_rows: _Optional[int] = ...) -> None: ...
