from txnstatus.proto import txn_status_pb2 as _txn_status_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetClusterRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetClusterResponse(_message.Message):
    __slots__ = ("cluster_id", "nodes", "participant_shards")
    class NodesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANT_SHARDS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    nodes: _containers.ScalarMap[str, str]
    participant_shards: int
    def __init__(self, cluster_id: _Optional[str] = ..., nodes: _Optional[_Mapping[str, str]] = ..., participant_shards: _Optional[int] = ...) -> None: ...

class GetNodeRequest(_message.Message):
    __slots__ = ("digests",)
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    digests: bool
    def __init__(self, digests: _Optional[bool] = ...) -> None: ...

class GetNodeResponse(_message.Message):
    __slots__ = ("node_id", "incarnation", "groups")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    incarnation: int
    groups: _containers.RepeatedCompositeFieldContainer[GroupStatus]
    def __init__(self, node_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., groups: _Optional[_Iterable[_Union[GroupStatus, _Mapping]]] = ...) -> None: ...

class GroupStatus(_message.Message):
    __slots__ = ("group", "leader", "leader_id", "term", "commit_index", "applied_index", "digest")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    APPLIED_INDEX_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    group: str
    leader: bool
    leader_id: str
    term: int
    commit_index: int
    applied_index: int
    digest: bytes
    def __init__(self, group: _Optional[str] = ..., leader: _Optional[bool] = ..., leader_id: _Optional[str] = ..., term: _Optional[int] = ..., commit_index: _Optional[int] = ..., applied_index: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...
