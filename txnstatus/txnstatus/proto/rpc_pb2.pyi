from txnstatus.proto import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Frame(_message.Message):
    __slots__ = ("calls", "replies", "hello")
    class Hello(_message.Message):
        __slots__ = ("cluster_id", "credential")
        CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
        CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
        cluster_id: str
        credential: Frame.Credential
        def __init__(self, cluster_id: _Optional[str] = ..., credential: _Optional[_Union[Frame.Credential, _Mapping]] = ...) -> None: ...
    class Credential(_message.Message):
        __slots__ = ("ticket", "jwt", "secret")
        TICKET_FIELD_NUMBER: _ClassVar[int]
        JWT_FIELD_NUMBER: _ClassVar[int]
        SECRET_FIELD_NUMBER: _ClassVar[int]
        ticket: bytes
        jwt: str
        secret: Frame.Secret
        def __init__(self, ticket: _Optional[bytes] = ..., jwt: _Optional[str] = ..., secret: _Optional[_Union[Frame.Secret, _Mapping]] = ...) -> None: ...
    class Secret(_message.Message):
        __slots__ = ("name", "secret")
        NAME_FIELD_NUMBER: _ClassVar[int]
        SECRET_FIELD_NUMBER: _ClassVar[int]
        name: str
        secret: str
        def __init__(self, name: _Optional[str] = ..., secret: _Optional[str] = ...) -> None: ...
    CALLS_FIELD_NUMBER: _ClassVar[int]
    REPLIES_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[Call]
    replies: _containers.RepeatedCompositeFieldContainer[Reply]
    hello: Frame.Hello
    def __init__(self, calls: _Optional[_Iterable[_Union[Call, _Mapping]]] = ..., replies: _Optional[_Iterable[_Union[Reply, _Mapping]]] = ..., hello: _Optional[_Union[Frame.Hello, _Mapping]] = ...) -> None: ...

class Call(_message.Message):
    __slots__ = ("id", "method", "payload", "timeout_millis", "group", "trace")
    ID_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MILLIS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    id: int
    method: str
    payload: bytes
    timeout_millis: int
    group: str
    trace: bytes
    def __init__(self, id: _Optional[int] = ..., method: _Optional[str] = ..., payload: _Optional[bytes] = ..., timeout_millis: _Optional[int] = ..., group: _Optional[str] = ..., trace: _Optional[bytes] = ...) -> None: ...

class Reply(_message.Message):
    __slots__ = ("id", "payload", "error", "led_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LED_AT_FIELD_NUMBER: _ClassVar[int]
    id: int
    payload: bytes
    error: _common_pb2.ErrorDetail
    led_at: str
    def __init__(self, id: _Optional[int] = ..., payload: _Optional[bytes] = ..., error: _Optional[_Union[_common_pb2.ErrorDetail, _Mapping]] = ..., led_at: _Optional[str] = ...) -> None: ...
