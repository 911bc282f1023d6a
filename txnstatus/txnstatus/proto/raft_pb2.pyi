from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RaftFrame(_message.Message):
    __slots__ = ("hello", "messages", "refusal")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    messages: _containers.RepeatedCompositeFieldContainer[RaftMessage]
    refusal: str
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., messages: _Optional[_Iterable[_Union[RaftMessage, _Mapping]]] = ..., refusal: _Optional[str] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("cluster_name", "node_id", "incarnation", "protocol", "cluster_id", "version", "oldest_level", "newest_level")
    CLUSTER_NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OLDEST_LEVEL_FIELD_NUMBER: _ClassVar[int]
    NEWEST_LEVEL_FIELD_NUMBER: _ClassVar[int]
    cluster_name: str
    node_id: str
    incarnation: int
    protocol: int
    cluster_id: str
    version: str
    oldest_level: int
    newest_level: int
    def __init__(self, cluster_name: _Optional[str] = ..., node_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., protocol: _Optional[int] = ..., cluster_id: _Optional[str] = ..., version: _Optional[str] = ..., oldest_level: _Optional[int] = ..., newest_level: _Optional[int] = ...) -> None: ...

class LogEntry(_message.Message):
    __slots__ = ("index", "term", "command")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    index: int
    term: int
    command: bytes
    def __init__(self, index: _Optional[int] = ..., term: _Optional[int] = ..., command: _Optional[bytes] = ...) -> None: ...

class RaftMessage(_message.Message):
    __slots__ = ("group", "term", "request_vote", "response_vote", "append_entries", "snapshot_part", "append_reply", "timeout_now", "stale_term", "snapshot_reply", "pre_vote", "pre_vote_reply")
    class RequestVote(_message.Message):
        __slots__ = ("last_log_index", "last_log_term", "leadership_transfer")
        LAST_LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
        LAST_LOG_TERM_FIELD_NUMBER: _ClassVar[int]
        LEADERSHIP_TRANSFER_FIELD_NUMBER: _ClassVar[int]
        last_log_index: int
        last_log_term: int
        leadership_transfer: bool
        def __init__(self, last_log_index: _Optional[int] = ..., last_log_term: _Optional[int] = ..., leadership_transfer: _Optional[bool] = ...) -> None: ...
    class ResponseVote(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class AppendEntries(_message.Message):
        __slots__ = ("commit_index", "prev_log_index", "prev_log_term", "entries", "sent_micros", "last_index")
        COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
        PREV_LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
        PREV_LOG_TERM_FIELD_NUMBER: _ClassVar[int]
        ENTRIES_FIELD_NUMBER: _ClassVar[int]
        SENT_MICROS_FIELD_NUMBER: _ClassVar[int]
        LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
        commit_index: int
        prev_log_index: int
        prev_log_term: int
        entries: _containers.RepeatedCompositeFieldContainer[LogEntry]
        sent_micros: int
        last_index: int
        def __init__(self, commit_index: _Optional[int] = ..., prev_log_index: _Optional[int] = ..., prev_log_term: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[LogEntry, _Mapping]]] = ..., sent_micros: _Optional[int] = ..., last_index: _Optional[int] = ...) -> None: ...
    class SnapshotPart(_message.Message):
        __slots__ = ("data", "sent_micros", "last_index", "last_term", "offset", "size")
        DATA_FIELD_NUMBER: _ClassVar[int]
        SENT_MICROS_FIELD_NUMBER: _ClassVar[int]
        LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
        LAST_TERM_FIELD_NUMBER: _ClassVar[int]
        OFFSET_FIELD_NUMBER: _ClassVar[int]
        SIZE_FIELD_NUMBER: _ClassVar[int]
        data: bytes
        sent_micros: int
        last_index: int
        last_term: int
        offset: int
        size: int
        def __init__(self, data: _Optional[bytes] = ..., sent_micros: _Optional[int] = ..., last_index: _Optional[int] = ..., last_term: _Optional[int] = ..., offset: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...
    class AppendReply(_message.Message):
        __slots__ = ("next_index", "reset", "success", "echo_micros")
        NEXT_INDEX_FIELD_NUMBER: _ClassVar[int]
        RESET_FIELD_NUMBER: _ClassVar[int]
        SUCCESS_FIELD_NUMBER: _ClassVar[int]
        ECHO_MICROS_FIELD_NUMBER: _ClassVar[int]
        next_index: int
        reset: bool
        success: bool
        echo_micros: int
        def __init__(self, next_index: _Optional[int] = ..., reset: _Optional[bool] = ..., success: _Optional[bool] = ..., echo_micros: _Optional[int] = ...) -> None: ...
    class TimeoutNow(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class StaleTerm(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class SnapshotReply(_message.Message):
        __slots__ = ("last_index", "last_term", "offset", "echo_micros", "damaged")
        LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
        LAST_TERM_FIELD_NUMBER: _ClassVar[int]
        OFFSET_FIELD_NUMBER: _ClassVar[int]
        ECHO_MICROS_FIELD_NUMBER: _ClassVar[int]
        DAMAGED_FIELD_NUMBER: _ClassVar[int]
        last_index: int
        last_term: int
        offset: int
        echo_micros: int
        damaged: bool
        def __init__(self, last_index: _Optional[int] = ..., last_term: _Optional[int] = ..., offset: _Optional[int] = ..., echo_micros: _Optional[int] = ..., damaged: _Optional[bool] = ...) -> None: ...
    class PreVote(_message.Message):
        __slots__ = ("last_log_index", "last_log_term")
        LAST_LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
        LAST_LOG_TERM_FIELD_NUMBER: _ClassVar[int]
        last_log_index: int
        last_log_term: int
        def __init__(self, last_log_index: _Optional[int] = ..., last_log_term: _Optional[int] = ...) -> None: ...
    class PreVoteReply(_message.Message):
        __slots__ = ("granted", "abstaining")
        GRANTED_FIELD_NUMBER: _ClassVar[int]
        ABSTAINING_FIELD_NUMBER: _ClassVar[int]
        granted: bool
        abstaining: bool
        def __init__(self, granted: _Optional[bool] = ..., abstaining: _Optional[bool] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    REQUEST_VOTE_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_VOTE_FIELD_NUMBER: _ClassVar[int]
    APPEND_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_PART_FIELD_NUMBER: _ClassVar[int]
    APPEND_REPLY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NOW_FIELD_NUMBER: _ClassVar[int]
    STALE_TERM_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_REPLY_FIELD_NUMBER: _ClassVar[int]
    PRE_VOTE_FIELD_NUMBER: _ClassVar[int]
    PRE_VOTE_REPLY_FIELD_NUMBER: _ClassVar[int]
    group: str
    term: int
    request_vote: RaftMessage.RequestVote
    response_vote: RaftMessage.ResponseVote
    append_entries: RaftMessage.AppendEntries
    snapshot_part: RaftMessage.SnapshotPart
    append_reply: RaftMessage.AppendReply
    timeout_now: RaftMessage.TimeoutNow
    stale_term: RaftMessage.StaleTerm
    snapshot_reply: RaftMessage.SnapshotReply
    pre_vote: RaftMessage.PreVote
    pre_vote_reply: RaftMessage.PreVoteReply
    def __init__(self, group: _Optional[str] = ..., term: _Optional[int] = ..., request_vote: _Optional[_Union[RaftMessage.RequestVote, _Mapping]] = ..., response_vote: _Optional[_Union[RaftMessage.ResponseVote, _Mapping]] = ..., append_entries: _Optional[_Union[RaftMessage.AppendEntries, _Mapping]] = ..., snapshot_part: _Optional[_Union[RaftMessage.SnapshotPart, _Mapping]] = ..., append_reply: _Optional[_Union[RaftMessage.AppendReply, _Mapping]] = ..., timeout_now: _Optional[_Union[RaftMessage.TimeoutNow, _Mapping]] = ..., stale_term: _Optional[_Union[RaftMessage.StaleTerm, _Mapping]] = ..., snapshot_reply: _Optional[_Union[RaftMessage.SnapshotReply, _Mapping]] = ..., pre_vote: _Optional[_Union[RaftMessage.PreVote, _Mapping]] = ..., pre_vote_reply: _Optional[_Union[RaftMessage.PreVoteReply, _Mapping]] = ...) -> None: ...

class Members(_message.Message):
    __slots__ = ("node_ids",)
    NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    node_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class SegmentHeader(_message.Message):
    __slots__ = ("version", "group", "number", "next_index", "vote", "abstaining", "previous_bytes")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NEXT_INDEX_FIELD_NUMBER: _ClassVar[int]
    VOTE_FIELD_NUMBER: _ClassVar[int]
    ABSTAINING_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_BYTES_FIELD_NUMBER: _ClassVar[int]
    version: int
    group: str
    number: int
    next_index: int
    vote: JournalRecord.Vote
    abstaining: bool
    previous_bytes: int
    def __init__(self, version: _Optional[int] = ..., group: _Optional[str] = ..., number: _Optional[int] = ..., next_index: _Optional[int] = ..., vote: _Optional[_Union[JournalRecord.Vote, _Mapping]] = ..., abstaining: _Optional[bool] = ..., previous_bytes: _Optional[int] = ...) -> None: ...

class JournalRecord(_message.Message):
    __slots__ = ("entry", "truncate_from", "vote", "abstaining")
    class Vote(_message.Message):
        __slots__ = ("term", "voted_for")
        TERM_FIELD_NUMBER: _ClassVar[int]
        VOTED_FOR_FIELD_NUMBER: _ClassVar[int]
        term: int
        voted_for: str
        def __init__(self, term: _Optional[int] = ..., voted_for: _Optional[str] = ...) -> None: ...
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    TRUNCATE_FROM_FIELD_NUMBER: _ClassVar[int]
    VOTE_FIELD_NUMBER: _ClassVar[int]
    ABSTAINING_FIELD_NUMBER: _ClassVar[int]
    entry: LogEntry
    truncate_from: int
    vote: JournalRecord.Vote
    abstaining: bool
    def __init__(self, entry: _Optional[_Union[LogEntry, _Mapping]] = ..., truncate_from: _Optional[int] = ..., vote: _Optional[_Union[JournalRecord.Vote, _Mapping]] = ..., abstaining: _Optional[bool] = ...) -> None: ...

class JournalBatch(_message.Message):
    __slots__ = ("records",)
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[JournalRecord]
    def __init__(self, records: _Optional[_Iterable[_Union[JournalRecord, _Mapping]]] = ...) -> None: ...

class SnapshotHeader(_message.Message):
    __slots__ = ("version", "group", "last", "previous", "members")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    version: int
    group: str
    last: LogEntry
    previous: LogEntry
    members: Members
    def __init__(self, version: _Optional[int] = ..., group: _Optional[str] = ..., last: _Optional[_Union[LogEntry, _Mapping]] = ..., previous: _Optional[_Union[LogEntry, _Mapping]] = ..., members: _Optional[_Union[Members, _Mapping]] = ...) -> None: ...

class PartsSnapshot(_message.Message):
    __slots__ = ("version", "parts", "opened", "released", "arriving", "migrated")
    class OpenedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class MigratedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class Released(_message.Message):
        __slots__ = ("part", "number")
        PART_FIELD_NUMBER: _ClassVar[int]
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        part: str
        number: int
        def __init__(self, part: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...
    class Arriving(_message.Message):
        __slots__ = ("part", "number", "chunks", "goes_on")
        PART_FIELD_NUMBER: _ClassVar[int]
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        CHUNKS_FIELD_NUMBER: _ClassVar[int]
        GOES_ON_FIELD_NUMBER: _ClassVar[int]
        part: str
        number: int
        chunks: int
        goes_on: bool
        def __init__(self, part: _Optional[str] = ..., number: _Optional[int] = ..., chunks: _Optional[int] = ..., goes_on: _Optional[bool] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    ARRIVING_FIELD_NUMBER: _ClassVar[int]
    MIGRATED_FIELD_NUMBER: _ClassVar[int]
    version: int
    parts: _containers.RepeatedScalarFieldContainer[str]
    opened: _containers.ScalarMap[str, int]
    released: _containers.RepeatedCompositeFieldContainer[PartsSnapshot.Released]
    arriving: _containers.RepeatedCompositeFieldContainer[PartsSnapshot.Arriving]
    migrated: _containers.ScalarMap[str, int]
    def __init__(self, version: _Optional[int] = ..., parts: _Optional[_Iterable[str]] = ..., opened: _Optional[_Mapping[str, int]] = ..., released: _Optional[_Iterable[_Union[PartsSnapshot.Released, _Mapping]]] = ..., arriving: _Optional[_Iterable[_Union[PartsSnapshot.Arriving, _Mapping]]] = ..., migrated: _Optional[_Mapping[str, int]] = ...) -> None: ...

class PartLeaves(_message.Message):
    __slots__ = ("part", "number")
    PART_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    part: str
    number: int
    def __init__(self, part: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class PartArrives(_message.Message):
    __slots__ = ("part", "number", "chunk", "data", "is_last", "goes_on")
    PART_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    GOES_ON_FIELD_NUMBER: _ClassVar[int]
    part: str
    number: int
    chunk: int
    data: bytes
    is_last: bool
    goes_on: bool
    def __init__(self, part: _Optional[str] = ..., number: _Optional[int] = ..., chunk: _Optional[int] = ..., data: _Optional[bytes] = ..., is_last: _Optional[bool] = ..., goes_on: _Optional[bool] = ...) -> None: ...

class PartSplits(_message.Message):
    __slots__ = ("part", "number", "new_part", "share")
    PART_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NEW_PART_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    part: str
    number: int
    new_part: str
    share: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, part: _Optional[str] = ..., number: _Optional[int] = ..., new_part: _Optional[str] = ..., share: _Optional[_Iterable[str]] = ...) -> None: ...

class SnapshotEnd(_message.Message):
    __slots__ = ("chunks", "sha256")
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    chunks: int
    sha256: bytes
    def __init__(self, chunks: _Optional[int] = ..., sha256: _Optional[bytes] = ...) -> None: ...
