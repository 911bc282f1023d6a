from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class KeepOverwrittenRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class KeepOverwrittenResponse(_message.Message):
    __slots__ = ("millis",)
    MILLIS_FIELD_NUMBER: _ClassVar[int]
    millis: int
    def __init__(self, millis: _Optional[int] = ...) -> None: ...

class CutClusterRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CutClusterResponse(_message.Message):
    __slots__ = ("cut_id", "cluster_id", "groups")
    CUT_ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    cut_id: str
    cluster_id: str
    groups: _containers.RepeatedCompositeFieldContainer[GroupCut]
    def __init__(self, cut_id: _Optional[str] = ..., cluster_id: _Optional[str] = ..., groups: _Optional[_Iterable[_Union[GroupCut, _Mapping]]] = ...) -> None: ...

class GroupCut(_message.Message):
    __slots__ = ("group", "node_id")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    group: str
    node_id: str
    def __init__(self, group: _Optional[str] = ..., node_id: _Optional[str] = ...) -> None: ...

class HoldGroupRequest(_message.Message):
    __slots__ = ("cut_id",)
    CUT_ID_FIELD_NUMBER: _ClassVar[int]
    cut_id: str
    def __init__(self, cut_id: _Optional[str] = ...) -> None: ...

class HoldGroupResponse(_message.Message):
    __slots__ = ("node_id", "index", "catalog_version")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    CATALOG_VERSION_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    index: int
    catalog_version: int
    def __init__(self, node_id: _Optional[str] = ..., index: _Optional[int] = ..., catalog_version: _Optional[int] = ...) -> None: ...

class TakeCutRequest(_message.Message):
    __slots__ = ("cut_id",)
    CUT_ID_FIELD_NUMBER: _ClassVar[int]
    cut_id: str
    def __init__(self, cut_id: _Optional[str] = ...) -> None: ...

class TakeCutResponse(_message.Message):
    __slots__ = ("held",)
    HELD_FIELD_NUMBER: _ClassVar[int]
    held: bool
    def __init__(self, held: _Optional[bool] = ...) -> None: ...

class ReadCutRequest(_message.Message):
    __slots__ = ("cut_id", "group", "node_id", "piece")
    CUT_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    cut_id: str
    group: str
    node_id: str
    piece: int
    def __init__(self, cut_id: _Optional[str] = ..., group: _Optional[str] = ..., node_id: _Optional[str] = ..., piece: _Optional[int] = ...) -> None: ...

class ReadCutResponse(_message.Message):
    __slots__ = ("data", "is_last")
    DATA_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    is_last: bool
    def __init__(self, data: _Optional[bytes] = ..., is_last: _Optional[bool] = ...) -> None: ...
