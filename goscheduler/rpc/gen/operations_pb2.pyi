import datetime

from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListStatsRequest(_message.Message):
    __slots__ = ("minutes", "jobstore")
    MINUTES_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    minutes: int
    jobstore: str
    def __init__(self, minutes: _Optional[int] = ..., jobstore: _Optional[str] = ...) -> None: ...

class StatsRow(_message.Message):
    __slots__ = ("start", "seconds", "counts", "lateness", "duration")
    class CountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    START_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    LATENESS_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    start: _timestamp_pb2.Timestamp
    seconds: int
    counts: _containers.ScalarMap[str, int]
    lateness: Quantiles
    duration: Quantiles
    def __init__(self, start: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., seconds: _Optional[int] = ..., counts: _Optional[_Mapping[str, int]] = ..., lateness: _Optional[_Union[Quantiles, _Mapping]] = ..., duration: _Optional[_Union[Quantiles, _Mapping]] = ...) -> None: ...

class Quantiles(_message.Message):
    __slots__ = ("p50", "p95", "p99")
    P50_FIELD_NUMBER: _ClassVar[int]
    P95_FIELD_NUMBER: _ClassVar[int]
    P99_FIELD_NUMBER: _ClassVar[int]
    p50: float
    p95: float
    p99: float
    def __init__(self, p50: _Optional[float] = ..., p95: _Optional[float] = ..., p99: _Optional[float] = ...) -> None: ...

class ListStatsResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[StatsRow]
    def __init__(self, items: _Optional[_Iterable[_Union[StatsRow, _Mapping]]] = ...) -> None: ...

class GetOverviewRequest(_message.Message):
    __slots__ = ("minutes",)
    MINUTES_FIELD_NUMBER: _ClassVar[int]
    minutes: int
    def __init__(self, minutes: _Optional[int] = ...) -> None: ...

class Overview(_message.Message):
    __slots__ = ("counts", "lateness", "duration", "live", "processes", "jobs", "failing", "paused", "suspended", "oldest_due", "top_failing", "next_jobs")
    class CountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    LATENESS_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    FAILING_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    OLDEST_DUE_FIELD_NUMBER: _ClassVar[int]
    TOP_FAILING_FIELD_NUMBER: _ClassVar[int]
    NEXT_JOBS_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.ScalarMap[str, int]
    lateness: Quantiles
    duration: Quantiles
    live: int
    processes: int
    jobs: Count
    failing: Count
    paused: Count
    suspended: Count
    oldest_due: _timestamp_pb2.Timestamp
    top_failing: _containers.RepeatedCompositeFieldContainer[LetterGroup]
    next_jobs: _containers.RepeatedCompositeFieldContainer[JobRow]
    def __init__(self, counts: _Optional[_Mapping[str, int]] = ..., lateness: _Optional[_Union[Quantiles, _Mapping]] = ..., duration: _Optional[_Union[Quantiles, _Mapping]] = ..., live: _Optional[int] = ..., processes: _Optional[int] = ..., jobs: _Optional[_Union[Count, _Mapping]] = ..., failing: _Optional[_Union[Count, _Mapping]] = ..., paused: _Optional[_Union[Count, _Mapping]] = ..., suspended: _Optional[_Union[Count, _Mapping]] = ..., oldest_due: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., top_failing: _Optional[_Iterable[_Union[LetterGroup, _Mapping]]] = ..., next_jobs: _Optional[_Iterable[_Union[JobRow, _Mapping]]] = ...) -> None: ...

class Count(_message.Message):
    __slots__ = ("number", "exact")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    number: int
    exact: bool
    def __init__(self, number: _Optional[int] = ..., exact: bool = ...) -> None: ...

class LetterGroup(_message.Message):
    __slots__ = ("task", "error_type", "signature", "size", "first", "last", "job_ids", "run_id", "jobstore")
    TASK_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    task: str
    error_type: str
    signature: str
    size: int
    first: _timestamp_pb2.Timestamp
    last: _timestamp_pb2.Timestamp
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    run_id: str
    jobstore: str
    def __init__(self, task: _Optional[str] = ..., error_type: _Optional[str] = ..., signature: _Optional[str] = ..., size: _Optional[int] = ..., first: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., job_ids: _Optional[_Iterable[str]] = ..., run_id: _Optional[str] = ..., jobstore: _Optional[str] = ...) -> None: ...

class JobRow(_message.Message):
    __slots__ = ("id", "name", "state", "next_run_time", "trigger", "schedule", "suspended", "jobstore", "executor", "task", "tags", "priority", "last_outcome", "last_outcomes", "last_run", "last_error", "paused_by", "pause_reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    NEXT_RUN_TIME_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    LAST_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    LAST_OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    LAST_RUN_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    PAUSED_BY_FIELD_NUMBER: _ClassVar[int]
    PAUSE_REASON_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    state: str
    next_run_time: _timestamp_pb2.Timestamp
    trigger: str
    schedule: str
    suspended: str
    jobstore: str
    executor: str
    task: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    priority: int
    last_outcome: str
    last_outcomes: _containers.RepeatedScalarFieldContainer[str]
    last_run: _timestamp_pb2.Timestamp
    last_error: str
    paused_by: str
    pause_reason: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., next_run_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., trigger: _Optional[str] = ..., schedule: _Optional[str] = ..., suspended: _Optional[str] = ..., jobstore: _Optional[str] = ..., executor: _Optional[str] = ..., task: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., priority: _Optional[int] = ..., last_outcome: _Optional[str] = ..., last_outcomes: _Optional[_Iterable[str]] = ..., last_run: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_error: _Optional[str] = ..., paused_by: _Optional[str] = ..., pause_reason: _Optional[str] = ...) -> None: ...

class FindJobsRequest(_message.Message):
    __slots__ = ("jobstore", "tag", "state", "executor", "task", "text", "due_before", "last_outcome", "pause_id", "sort", "limit", "after", "outcomes")
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    DUE_BEFORE_FIELD_NUMBER: _ClassVar[int]
    LAST_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    PAUSE_ID_FIELD_NUMBER: _ClassVar[int]
    SORT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    jobstore: str
    tag: str
    state: str
    executor: str
    task: str
    text: str
    due_before: str
    last_outcome: str
    pause_id: str
    sort: str
    limit: int
    after: str
    outcomes: int
    def __init__(self, jobstore: _Optional[str] = ..., tag: _Optional[str] = ..., state: _Optional[str] = ..., executor: _Optional[str] = ..., task: _Optional[str] = ..., text: _Optional[str] = ..., due_before: _Optional[str] = ..., last_outcome: _Optional[str] = ..., pause_id: _Optional[str] = ..., sort: _Optional[str] = ..., limit: _Optional[int] = ..., after: _Optional[str] = ..., outcomes: _Optional[int] = ...) -> None: ...

class JobRowPage(_message.Message):
    __slots__ = ("items", "next", "complete")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[JobRow]
    next: str
    complete: bool
    def __init__(self, items: _Optional[_Iterable[_Union[JobRow, _Mapping]]] = ..., next: _Optional[str] = ..., complete: bool = ...) -> None: ...

class CountJobsRequest(_message.Message):
    __slots__ = ("jobstore", "tag", "state", "executor", "task", "text", "due_before", "last_outcome", "pause_id")
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    DUE_BEFORE_FIELD_NUMBER: _ClassVar[int]
    LAST_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    PAUSE_ID_FIELD_NUMBER: _ClassVar[int]
    jobstore: str
    tag: str
    state: str
    executor: str
    task: str
    text: str
    due_before: str
    last_outcome: str
    pause_id: str
    def __init__(self, jobstore: _Optional[str] = ..., tag: _Optional[str] = ..., state: _Optional[str] = ..., executor: _Optional[str] = ..., task: _Optional[str] = ..., text: _Optional[str] = ..., due_before: _Optional[str] = ..., last_outcome: _Optional[str] = ..., pause_id: _Optional[str] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("id", "jobstore")
    ID_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    id: str
    jobstore: str
    def __init__(self, id: _Optional[str] = ..., jobstore: _Optional[str] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("id", "name", "state", "next_run_time", "trigger", "schedule", "suspended", "jobstore", "executor", "task", "tags", "priority", "last_outcome", "last_outcomes", "last_run", "last_error", "paused_by", "pause_reason", "why_not_running", "description", "args", "kwargs", "metadata", "misfire_grace_time", "coalesce", "max_instances", "overlap", "timeout", "retry", "dead_letter", "limits", "on_crash", "max_crashes", "auto_remove", "run_count", "last_success", "created_at", "created_by", "live", "due", "waiting", "last_runs", "gaps", "etag")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    NEXT_RUN_TIME_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    LAST_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    LAST_OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    LAST_RUN_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    PAUSED_BY_FIELD_NUMBER: _ClassVar[int]
    PAUSE_REASON_FIELD_NUMBER: _ClassVar[int]
    WHY_NOT_RUNNING_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    KWARGS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    MISFIRE_GRACE_TIME_FIELD_NUMBER: _ClassVar[int]
    COALESCE_FIELD_NUMBER: _ClassVar[int]
    MAX_INSTANCES_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    ON_CRASH_FIELD_NUMBER: _ClassVar[int]
    MAX_CRASHES_FIELD_NUMBER: _ClassVar[int]
    AUTO_REMOVE_FIELD_NUMBER: _ClassVar[int]
    RUN_COUNT_FIELD_NUMBER: _ClassVar[int]
    LAST_SUCCESS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    DUE_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    LAST_RUNS_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    state: str
    next_run_time: _timestamp_pb2.Timestamp
    trigger: str
    schedule: str
    suspended: str
    jobstore: str
    executor: str
    task: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    priority: int
    last_outcome: str
    last_outcomes: _containers.RepeatedScalarFieldContainer[str]
    last_run: _timestamp_pb2.Timestamp
    last_error: str
    paused_by: str
    pause_reason: str
    why_not_running: str
    description: str
    args: _struct_pb2.Value
    kwargs: _struct_pb2.Value
    metadata: _containers.ScalarMap[str, str]
    misfire_grace_time: float
    coalesce: bool
    max_instances: int
    overlap: str
    timeout: float
    retry: RetryOfJob
    dead_letter: bool
    limits: _containers.RepeatedCompositeFieldContainer[LimitOfJob]
    on_crash: str
    max_crashes: int
    auto_remove: bool
    run_count: int
    last_success: _timestamp_pb2.Timestamp
    created_at: _timestamp_pb2.Timestamp
    created_by: str
    live: int
    due: int
    waiting: int
    last_runs: _containers.RepeatedCompositeFieldContainer[RunRow]
    gaps: _containers.RepeatedCompositeFieldContainer[Gap]
    etag: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., next_run_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., trigger: _Optional[str] = ..., schedule: _Optional[str] = ..., suspended: _Optional[str] = ..., jobstore: _Optional[str] = ..., executor: _Optional[str] = ..., task: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., priority: _Optional[int] = ..., last_outcome: _Optional[str] = ..., last_outcomes: _Optional[_Iterable[str]] = ..., last_run: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_error: _Optional[str] = ..., paused_by: _Optional[str] = ..., pause_reason: _Optional[str] = ..., why_not_running: _Optional[str] = ..., description: _Optional[str] = ..., args: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., kwargs: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., metadata: _Optional[_Mapping[str, str]] = ..., misfire_grace_time: _Optional[float] = ..., coalesce: bool = ..., max_instances: _Optional[int] = ..., overlap: _Optional[str] = ..., timeout: _Optional[float] = ..., retry: _Optional[_Union[RetryOfJob, _Mapping]] = ..., dead_letter: bool = ..., limits: _Optional[_Iterable[_Union[LimitOfJob, _Mapping]]] = ..., on_crash: _Optional[str] = ..., max_crashes: _Optional[int] = ..., auto_remove: bool = ..., run_count: _Optional[int] = ..., last_success: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_by: _Optional[str] = ..., live: _Optional[int] = ..., due: _Optional[int] = ..., waiting: _Optional[int] = ..., last_runs: _Optional[_Iterable[_Union[RunRow, _Mapping]]] = ..., gaps: _Optional[_Iterable[_Union[Gap, _Mapping]]] = ..., etag: _Optional[str] = ...) -> None: ...

class RetryOfJob(_message.Message):
    __slots__ = ("attempts", "backoff")
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_FIELD_NUMBER: _ClassVar[int]
    attempts: int
    backoff: str
    def __init__(self, attempts: _Optional[int] = ..., backoff: _Optional[str] = ...) -> None: ...

class LimitOfJob(_message.Message):
    __slots__ = ("name", "concurrency", "rate")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    name: str
    concurrency: int
    rate: str
    def __init__(self, name: _Optional[str] = ..., concurrency: _Optional[int] = ..., rate: _Optional[str] = ...) -> None: ...

class RunRow(_message.Message):
    __slots__ = ("run_id", "job_id", "job_name", "task", "tags", "executor", "source", "attempt", "scheduled_at", "started_at", "finished_at", "seconds", "lateness", "outcome", "reason", "error_type", "error_message", "error", "result", "progress", "progress_note", "owner", "host", "fence", "coalesced", "fire_times", "crashes", "cursor", "traceback")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    LATENESS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_NOTE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    COALESCED_FIELD_NUMBER: _ClassVar[int]
    FIRE_TIMES_FIELD_NUMBER: _ClassVar[int]
    CRASHES_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    TRACEBACK_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    job_id: str
    job_name: str
    task: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    executor: str
    source: str
    attempt: int
    scheduled_at: _timestamp_pb2.Timestamp
    started_at: _timestamp_pb2.Timestamp
    finished_at: _timestamp_pb2.Timestamp
    seconds: float
    lateness: float
    outcome: str
    reason: str
    error_type: str
    error_message: str
    error: str
    result: str
    progress: float
    progress_note: str
    owner: str
    host: str
    fence: int
    coalesced: int
    fire_times: int
    crashes: int
    cursor: str
    traceback: str
    def __init__(self, run_id: _Optional[str] = ..., job_id: _Optional[str] = ..., job_name: _Optional[str] = ..., task: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., executor: _Optional[str] = ..., source: _Optional[str] = ..., attempt: _Optional[int] = ..., scheduled_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., finished_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., seconds: _Optional[float] = ..., lateness: _Optional[float] = ..., outcome: _Optional[str] = ..., reason: _Optional[str] = ..., error_type: _Optional[str] = ..., error_message: _Optional[str] = ..., error: _Optional[str] = ..., result: _Optional[str] = ..., progress: _Optional[float] = ..., progress_note: _Optional[str] = ..., owner: _Optional[str] = ..., host: _Optional[str] = ..., fence: _Optional[int] = ..., coalesced: _Optional[int] = ..., fire_times: _Optional[int] = ..., crashes: _Optional[int] = ..., cursor: _Optional[str] = ..., traceback: _Optional[str] = ...) -> None: ...

class Gap(_message.Message):
    __slots__ = ("at", "reason")
    AT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    at: _timestamp_pb2.Timestamp
    reason: str
    def __init__(self, at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class WhyRequest(_message.Message):
    __slots__ = ("id", "jobstore", "at")
    ID_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    jobstore: str
    at: str
    def __init__(self, id: _Optional[str] = ..., jobstore: _Optional[str] = ..., at: _Optional[str] = ...) -> None: ...

class WhyView(_message.Message):
    __slots__ = ("id", "state", "sentence", "executor", "limits", "next_run_time", "processes")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    NEXT_RUN_TIME_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    id: str
    state: str
    sentence: str
    executor: str
    limits: _containers.RepeatedScalarFieldContainer[str]
    next_run_time: _timestamp_pb2.Timestamp
    processes: int
    def __init__(self, id: _Optional[str] = ..., state: _Optional[str] = ..., sentence: _Optional[str] = ..., executor: _Optional[str] = ..., limits: _Optional[_Iterable[str]] = ..., next_run_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., processes: _Optional[int] = ...) -> None: ...

class ListNextFiresRequest(_message.Message):
    __slots__ = ("id", "jobstore", "count")
    ID_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    id: str
    jobstore: str
    count: int
    def __init__(self, id: _Optional[str] = ..., jobstore: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class FireTime(_message.Message):
    __slots__ = ("at", "offset", "zone", "clock_changes")
    AT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    CLOCK_CHANGES_FIELD_NUMBER: _ClassVar[int]
    at: _timestamp_pb2.Timestamp
    offset: str
    zone: str
    clock_changes: bool
    def __init__(self, at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., offset: _Optional[str] = ..., zone: _Optional[str] = ..., clock_changes: bool = ...) -> None: ...

class ListNextFiresResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[FireTime]
    def __init__(self, items: _Optional[_Iterable[_Union[FireTime, _Mapping]]] = ...) -> None: ...

class GetJobTimelineRequest(_message.Message):
    __slots__ = ("id", "jobstore", "limit")
    ID_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    id: str
    jobstore: str
    limit: int
    def __init__(self, id: _Optional[str] = ..., jobstore: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class GetJobTimelineResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[RunRow]
    def __init__(self, items: _Optional[_Iterable[_Union[RunRow, _Mapping]]] = ...) -> None: ...

class PauseJobsRequest(_message.Message):
    __slots__ = ("ids", "jobstore", "reason", "request_id")
    IDS_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    jobstore: str
    reason: str
    request_id: str
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., jobstore: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class Change(_message.Message):
    __slots__ = ("changed", "unchanged", "failed", "undo_id", "run_ids")
    class FailedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class RunIdsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    UNDO_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_IDS_FIELD_NUMBER: _ClassVar[int]
    changed: _containers.RepeatedScalarFieldContainer[str]
    unchanged: _containers.RepeatedScalarFieldContainer[str]
    failed: _containers.ScalarMap[str, str]
    undo_id: str
    run_ids: _containers.ScalarMap[str, str]
    def __init__(self, changed: _Optional[_Iterable[str]] = ..., unchanged: _Optional[_Iterable[str]] = ..., failed: _Optional[_Mapping[str, str]] = ..., undo_id: _Optional[str] = ..., run_ids: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ResumeJobsRequest(_message.Message):
    __slots__ = ("ids", "jobstore", "reason", "request_id")
    IDS_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    jobstore: str
    reason: str
    request_id: str
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., jobstore: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RunJobsRequest(_message.Message):
    __slots__ = ("ids", "jobstore", "reason", "request_id")
    IDS_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    jobstore: str
    reason: str
    request_id: str
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., jobstore: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class SkipNextRequest(_message.Message):
    __slots__ = ("id", "jobstore", "reason", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    jobstore: str
    reason: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., jobstore: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class Next(_message.Message):
    __slots__ = ("id", "before", "next_run_time")
    ID_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    NEXT_RUN_TIME_FIELD_NUMBER: _ClassVar[int]
    id: str
    before: _timestamp_pb2.Timestamp
    next_run_time: _timestamp_pb2.Timestamp
    def __init__(self, id: _Optional[str] = ..., before: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., next_run_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PostponeJobRequest(_message.Message):
    __slots__ = ("id", "until", "jobstore", "reason", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    until: str
    jobstore: str
    reason: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., until: _Optional[str] = ..., jobstore: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RemoveJobsRequest(_message.Message):
    __slots__ = ("ids", "jobstore", "reason", "request_id")
    IDS_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    jobstore: str
    reason: str
    request_id: str
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., jobstore: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class EditJobRequest(_message.Message):
    __slots__ = ("id", "changes", "jobstore", "expect", "dry_run", "reason", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    EXPECT_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    changes: _struct_pb2.Struct
    jobstore: str
    expect: str
    dry_run: bool
    reason: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., changes: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., jobstore: _Optional[str] = ..., expect: _Optional[str] = ..., dry_run: bool = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class Edit(_message.Message):
    __slots__ = ("id", "before", "after", "etag", "done")
    ID_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    id: str
    before: _struct_pb2.Struct
    after: _struct_pb2.Struct
    etag: str
    done: bool
    def __init__(self, id: _Optional[str] = ..., before: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., after: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., etag: _Optional[str] = ..., done: bool = ...) -> None: ...

class AddJobRequest(_message.Message):
    __slots__ = ("job", "jobstore", "reason", "request_id")
    JOB_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    job: _struct_pb2.Struct
    jobstore: str
    reason: str
    request_id: str
    def __init__(self, job: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., jobstore: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class BackfillRequest(_message.Message):
    __slots__ = ("id", "start", "end", "reprocess", "at_once", "newest_first", "dry_run", "jobstore", "reason", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    REPROCESS_FIELD_NUMBER: _ClassVar[int]
    AT_ONCE_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIRST_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    start: str
    end: str
    reprocess: str
    at_once: int
    newest_first: bool
    dry_run: bool
    jobstore: str
    reason: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., start: _Optional[str] = ..., end: _Optional[str] = ..., reprocess: _Optional[str] = ..., at_once: _Optional[int] = ..., newest_first: bool = ..., dry_run: bool = ..., jobstore: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class BackfillView(_message.Message):
    __slots__ = ("id", "job_id", "times", "skipped", "at_once", "history_since", "note", "done")
    ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    AT_ONCE_FIELD_NUMBER: _ClassVar[int]
    HISTORY_SINCE_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    id: str
    job_id: str
    times: _containers.RepeatedCompositeFieldContainer[_timestamp_pb2.Timestamp]
    skipped: _containers.RepeatedCompositeFieldContainer[SkippedTime]
    at_once: int
    history_since: _timestamp_pb2.Timestamp
    note: str
    done: bool
    def __init__(self, id: _Optional[str] = ..., job_id: _Optional[str] = ..., times: _Optional[_Iterable[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]]] = ..., skipped: _Optional[_Iterable[_Union[SkippedTime, _Mapping]]] = ..., at_once: _Optional[int] = ..., history_since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., note: _Optional[str] = ..., done: bool = ...) -> None: ...

class SkippedTime(_message.Message):
    __slots__ = ("at", "why")
    AT_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    at: _timestamp_pb2.Timestamp
    why: str
    def __init__(self, at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., why: _Optional[str] = ...) -> None: ...

class ListBackfillsRequest(_message.Message):
    __slots__ = ("job_id", "jobstore")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    jobstore: str
    def __init__(self, job_id: _Optional[str] = ..., jobstore: _Optional[str] = ...) -> None: ...

class BackfillRow(_message.Message):
    __slots__ = ("id", "job_id", "state", "start", "end", "reprocess", "at_once", "newest_first", "times", "waiting", "running", "ended", "started_at", "jobstore")
    ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    REPROCESS_FIELD_NUMBER: _ClassVar[int]
    AT_ONCE_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIRST_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    id: str
    job_id: str
    state: str
    start: _timestamp_pb2.Timestamp
    end: _timestamp_pb2.Timestamp
    reprocess: str
    at_once: int
    newest_first: bool
    times: int
    waiting: int
    running: int
    ended: int
    started_at: _timestamp_pb2.Timestamp
    jobstore: str
    def __init__(self, id: _Optional[str] = ..., job_id: _Optional[str] = ..., state: _Optional[str] = ..., start: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reprocess: _Optional[str] = ..., at_once: _Optional[int] = ..., newest_first: bool = ..., times: _Optional[int] = ..., waiting: _Optional[int] = ..., running: _Optional[int] = ..., ended: _Optional[int] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., jobstore: _Optional[str] = ...) -> None: ...

class ListBackfillsResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[BackfillRow]
    def __init__(self, items: _Optional[_Iterable[_Union[BackfillRow, _Mapping]]] = ...) -> None: ...

class CancelBackfillRequest(_message.Message):
    __slots__ = ("id", "reason", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ListBlackoutsRequest(_message.Message):
    __slots__ = ("jobstore",)
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    jobstore: str
    def __init__(self, jobstore: _Optional[str] = ...) -> None: ...

class Blackout(_message.Message):
    __slots__ = ("id", "state", "start", "end", "action", "tag", "job_id", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: str
    state: str
    start: _timestamp_pb2.Timestamp
    end: _timestamp_pb2.Timestamp
    action: str
    tag: str
    job_id: str
    reason: str
    def __init__(self, id: _Optional[str] = ..., state: _Optional[str] = ..., start: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., action: _Optional[str] = ..., tag: _Optional[str] = ..., job_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ListBlackoutsResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Blackout]
    def __init__(self, items: _Optional[_Iterable[_Union[Blackout, _Mapping]]] = ...) -> None: ...

class AddBlackoutRequest(_message.Message):
    __slots__ = ("end", "start", "tag", "job_id", "action", "jobstore", "reason", "request_id")
    END_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    end: str
    start: str
    tag: str
    job_id: str
    action: str
    jobstore: str
    reason: str
    request_id: str
    def __init__(self, end: _Optional[str] = ..., start: _Optional[str] = ..., tag: _Optional[str] = ..., job_id: _Optional[str] = ..., action: _Optional[str] = ..., jobstore: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RemoveBlackoutRequest(_message.Message):
    __slots__ = ("id", "reason", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class PreviewBulkRequest(_message.Message):
    __slots__ = ("act", "jobstore", "tag", "state", "executor", "task", "text", "due_before", "last_outcome", "pause_id")
    ACT_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    DUE_BEFORE_FIELD_NUMBER: _ClassVar[int]
    LAST_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    PAUSE_ID_FIELD_NUMBER: _ClassVar[int]
    act: str
    jobstore: str
    tag: str
    state: str
    executor: str
    task: str
    text: str
    due_before: str
    last_outcome: str
    pause_id: str
    def __init__(self, act: _Optional[str] = ..., jobstore: _Optional[str] = ..., tag: _Optional[str] = ..., state: _Optional[str] = ..., executor: _Optional[str] = ..., task: _Optional[str] = ..., text: _Optional[str] = ..., due_before: _Optional[str] = ..., last_outcome: _Optional[str] = ..., pause_id: _Optional[str] = ...) -> None: ...

class BulkPreview(_message.Message):
    __slots__ = ("ticket", "act", "filters", "count", "exact", "examples")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    ACT_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    ticket: str
    act: str
    filters: _struct_pb2.Struct
    count: int
    exact: bool
    examples: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ticket: _Optional[str] = ..., act: _Optional[str] = ..., filters: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., count: _Optional[int] = ..., exact: bool = ..., examples: _Optional[_Iterable[str]] = ...) -> None: ...

class StartBulkRequest(_message.Message):
    __slots__ = ("ticket", "reason", "request_id")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ticket: str
    reason: str
    request_id: str
    def __init__(self, ticket: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class Bulk(_message.Message):
    __slots__ = ("id", "act", "filters", "by", "reason", "state", "jobstore", "started_at", "changed", "unchanged", "refused", "reasons")
    class ReasonsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    ACT_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    id: str
    act: str
    filters: _struct_pb2.Struct
    by: str
    reason: str
    state: str
    jobstore: str
    started_at: _timestamp_pb2.Timestamp
    changed: int
    unchanged: int
    refused: int
    reasons: _containers.ScalarMap[str, str]
    def __init__(self, id: _Optional[str] = ..., act: _Optional[str] = ..., filters: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., by: _Optional[str] = ..., reason: _Optional[str] = ..., state: _Optional[str] = ..., jobstore: _Optional[str] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., changed: _Optional[int] = ..., unchanged: _Optional[int] = ..., refused: _Optional[int] = ..., reasons: _Optional[_Mapping[str, str]] = ...) -> None: ...

class GetBulkRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class ListBulksRequest(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class ListBulksResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Bulk]
    def __init__(self, items: _Optional[_Iterable[_Union[Bulk, _Mapping]]] = ...) -> None: ...

class StopBulkRequest(_message.Message):
    __slots__ = ("id", "reason", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class FindRunsRequest(_message.Message):
    __slots__ = ("jobstore", "job_id", "outcome", "since", "until", "tag", "error_type", "owner", "later_than", "limit", "before")
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LATER_THAN_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    jobstore: str
    job_id: str
    outcome: _containers.RepeatedScalarFieldContainer[str]
    since: str
    until: str
    tag: str
    error_type: str
    owner: str
    later_than: float
    limit: int
    before: str
    def __init__(self, jobstore: _Optional[str] = ..., job_id: _Optional[str] = ..., outcome: _Optional[_Iterable[str]] = ..., since: _Optional[str] = ..., until: _Optional[str] = ..., tag: _Optional[str] = ..., error_type: _Optional[str] = ..., owner: _Optional[str] = ..., later_than: _Optional[float] = ..., limit: _Optional[int] = ..., before: _Optional[str] = ...) -> None: ...

class RunRowPage(_message.Message):
    __slots__ = ("items", "next", "complete")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[RunRow]
    next: str
    complete: bool
    def __init__(self, items: _Optional[_Iterable[_Union[RunRow, _Mapping]]] = ..., next: _Optional[str] = ..., complete: bool = ...) -> None: ...

class GetRunRequest(_message.Message):
    __slots__ = ("id", "job_id", "jobstore")
    ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    id: str
    job_id: str
    jobstore: str
    def __init__(self, id: _Optional[str] = ..., job_id: _Optional[str] = ..., jobstore: _Optional[str] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("run_id", "live", "attempts", "dead")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    live: LiveRun
    attempts: _containers.RepeatedCompositeFieldContainer[RunRow]
    dead: bool
    def __init__(self, run_id: _Optional[str] = ..., live: _Optional[_Union[LiveRun, _Mapping]] = ..., attempts: _Optional[_Iterable[_Union[RunRow, _Mapping]]] = ..., dead: bool = ...) -> None: ...

class LiveRun(_message.Message):
    __slots__ = ("run_id", "job_id", "job_name", "state", "scheduled_at", "due_at", "started_at", "attempt", "source", "owner", "host", "pid", "progress", "progress_note")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_AT_FIELD_NUMBER: _ClassVar[int]
    DUE_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_NOTE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    job_id: str
    job_name: str
    state: str
    scheduled_at: _timestamp_pb2.Timestamp
    due_at: _timestamp_pb2.Timestamp
    started_at: _timestamp_pb2.Timestamp
    attempt: int
    source: str
    owner: str
    host: str
    pid: int
    progress: float
    progress_note: str
    def __init__(self, run_id: _Optional[str] = ..., job_id: _Optional[str] = ..., job_name: _Optional[str] = ..., state: _Optional[str] = ..., scheduled_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., due_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., attempt: _Optional[int] = ..., source: _Optional[str] = ..., owner: _Optional[str] = ..., host: _Optional[str] = ..., pid: _Optional[int] = ..., progress: _Optional[float] = ..., progress_note: _Optional[str] = ...) -> None: ...

class ListLiveRunsRequest(_message.Message):
    __slots__ = ("jobstore", "job_id", "limit")
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    jobstore: str
    job_id: str
    limit: int
    def __init__(self, jobstore: _Optional[str] = ..., job_id: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListLiveRunsResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[LiveRun]
    def __init__(self, items: _Optional[_Iterable[_Union[LiveRun, _Mapping]]] = ...) -> None: ...

class CancelRunsRequest(_message.Message):
    __slots__ = ("ids", "jobstore", "reason", "request_id")
    IDS_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    jobstore: str
    reason: str
    request_id: str
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., jobstore: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class FindLettersRequest(_message.Message):
    __slots__ = ("job_id", "since", "until", "tag", "error_type", "task", "signature", "jobstore", "limit", "before")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    since: str
    until: str
    tag: str
    error_type: str
    task: str
    signature: str
    jobstore: str
    limit: int
    before: str
    def __init__(self, job_id: _Optional[str] = ..., since: _Optional[str] = ..., until: _Optional[str] = ..., tag: _Optional[str] = ..., error_type: _Optional[str] = ..., task: _Optional[str] = ..., signature: _Optional[str] = ..., jobstore: _Optional[str] = ..., limit: _Optional[int] = ..., before: _Optional[str] = ...) -> None: ...

class ListLetterGroupsRequest(_message.Message):
    __slots__ = ("jobstore", "job_id", "since", "until", "tag", "error_type")
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    jobstore: str
    job_id: str
    since: str
    until: str
    tag: str
    error_type: str
    def __init__(self, jobstore: _Optional[str] = ..., job_id: _Optional[str] = ..., since: _Optional[str] = ..., until: _Optional[str] = ..., tag: _Optional[str] = ..., error_type: _Optional[str] = ...) -> None: ...

class LetterGroups(_message.Message):
    __slots__ = ("groups", "window", "complete")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[LetterGroup]
    window: int
    complete: bool
    def __init__(self, groups: _Optional[_Iterable[_Union[LetterGroup, _Mapping]]] = ..., window: _Optional[int] = ..., complete: bool = ...) -> None: ...

class GetLetterRequest(_message.Message):
    __slots__ = ("id", "jobstore")
    ID_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    id: str
    jobstore: str
    def __init__(self, id: _Optional[str] = ..., jobstore: _Optional[str] = ...) -> None: ...

class RedriveRequest(_message.Message):
    __slots__ = ("job_id", "since", "until", "tag", "error_type", "task", "signature", "ids", "jobstore", "rate", "dry_run", "reason", "request_id")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    since: str
    until: str
    tag: str
    error_type: str
    task: str
    signature: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    jobstore: str
    rate: float
    dry_run: bool
    reason: str
    request_id: str
    def __init__(self, job_id: _Optional[str] = ..., since: _Optional[str] = ..., until: _Optional[str] = ..., tag: _Optional[str] = ..., error_type: _Optional[str] = ..., task: _Optional[str] = ..., signature: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ..., jobstore: _Optional[str] = ..., rate: _Optional[float] = ..., dry_run: bool = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class Letters(_message.Message):
    __slots__ = ("count", "examples", "complete")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    count: int
    examples: _containers.RepeatedScalarFieldContainer[str]
    complete: bool
    def __init__(self, count: _Optional[int] = ..., examples: _Optional[_Iterable[str]] = ..., complete: bool = ...) -> None: ...

class RedriveResponse(_message.Message):
    __slots__ = ("letters", "change")
    LETTERS_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    letters: Letters
    change: Change
    def __init__(self, letters: _Optional[_Union[Letters, _Mapping]] = ..., change: _Optional[_Union[Change, _Mapping]] = ...) -> None: ...

class DiscardRequest(_message.Message):
    __slots__ = ("job_id", "since", "until", "tag", "error_type", "task", "signature", "ids", "jobstore", "dry_run", "reason", "request_id")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    since: str
    until: str
    tag: str
    error_type: str
    task: str
    signature: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    jobstore: str
    dry_run: bool
    reason: str
    request_id: str
    def __init__(self, job_id: _Optional[str] = ..., since: _Optional[str] = ..., until: _Optional[str] = ..., tag: _Optional[str] = ..., error_type: _Optional[str] = ..., task: _Optional[str] = ..., signature: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ..., jobstore: _Optional[str] = ..., dry_run: bool = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DiscardResponse(_message.Message):
    __slots__ = ("letters", "change")
    LETTERS_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    letters: Letters
    change: Change
    def __init__(self, letters: _Optional[_Union[Letters, _Mapping]] = ..., change: _Optional[_Union[Change, _Mapping]] = ...) -> None: ...

class ListProcessesRequest(_message.Message):
    __slots__ = ("jobstore",)
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    jobstore: str
    def __init__(self, jobstore: _Optional[str] = ...) -> None: ...

class Process(_message.Message):
    __slots__ = ("owner", "jobstore", "host", "pid", "state", "version", "started_at", "expires_at", "reported_at", "executors", "tasks", "runs", "all_runs")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    REPORTED_AT_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    ALL_RUNS_FIELD_NUMBER: _ClassVar[int]
    owner: str
    jobstore: str
    host: str
    pid: int
    state: str
    version: str
    started_at: _timestamp_pb2.Timestamp
    expires_at: _timestamp_pb2.Timestamp
    reported_at: _timestamp_pb2.Timestamp
    executors: _containers.RepeatedCompositeFieldContainer[ExecutorUse]
    tasks: _containers.RepeatedScalarFieldContainer[str]
    runs: _containers.RepeatedCompositeFieldContainer[Running]
    all_runs: bool
    def __init__(self, owner: _Optional[str] = ..., jobstore: _Optional[str] = ..., host: _Optional[str] = ..., pid: _Optional[int] = ..., state: _Optional[str] = ..., version: _Optional[str] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reported_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., executors: _Optional[_Iterable[_Union[ExecutorUse, _Mapping]]] = ..., tasks: _Optional[_Iterable[str]] = ..., runs: _Optional[_Iterable[_Union[Running, _Mapping]]] = ..., all_runs: bool = ...) -> None: ...

class ExecutorUse(_message.Message):
    __slots__ = ("alias", "running", "room")
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    ROOM_FIELD_NUMBER: _ClassVar[int]
    alias: str
    running: int
    room: int
    def __init__(self, alias: _Optional[str] = ..., running: _Optional[int] = ..., room: _Optional[int] = ...) -> None: ...

class Running(_message.Message):
    __slots__ = ("run_id", "job_id", "started_at", "progress", "progress_note")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_NOTE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    job_id: str
    started_at: _timestamp_pb2.Timestamp
    progress: float
    progress_note: str
    def __init__(self, run_id: _Optional[str] = ..., job_id: _Optional[str] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., progress: _Optional[float] = ..., progress_note: _Optional[str] = ...) -> None: ...

class ListProcessesResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Process]
    def __init__(self, items: _Optional[_Iterable[_Union[Process, _Mapping]]] = ...) -> None: ...

class AskProcessRequest(_message.Message):
    __slots__ = ("owner", "action", "reason", "request_id")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    owner: str
    action: str
    reason: str
    request_id: str
    def __init__(self, owner: _Optional[str] = ..., action: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ListLimitsRequest(_message.Message):
    __slots__ = ("jobstore", "runs")
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    jobstore: str
    runs: bool
    def __init__(self, jobstore: _Optional[str] = ..., runs: bool = ...) -> None: ...

class Limit(_message.Message):
    __slots__ = ("name", "jobstore", "live", "waiting", "starts", "concurrency", "rates", "holders", "queue")
    class StartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    RATES_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    jobstore: str
    live: int
    waiting: int
    starts: _containers.ScalarMap[str, int]
    concurrency: int
    rates: _containers.RepeatedScalarFieldContainer[str]
    holders: _containers.RepeatedCompositeFieldContainer[LimitRun]
    queue: _containers.RepeatedCompositeFieldContainer[LimitRun]
    def __init__(self, name: _Optional[str] = ..., jobstore: _Optional[str] = ..., live: _Optional[int] = ..., waiting: _Optional[int] = ..., starts: _Optional[_Mapping[str, int]] = ..., concurrency: _Optional[int] = ..., rates: _Optional[_Iterable[str]] = ..., holders: _Optional[_Iterable[_Union[LimitRun, _Mapping]]] = ..., queue: _Optional[_Iterable[_Union[LimitRun, _Mapping]]] = ...) -> None: ...

class LimitRun(_message.Message):
    __slots__ = ("run_id", "job_id", "since", "host", "pid")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    job_id: str
    since: _timestamp_pb2.Timestamp
    host: str
    pid: int
    def __init__(self, run_id: _Optional[str] = ..., job_id: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., host: _Optional[str] = ..., pid: _Optional[int] = ...) -> None: ...

class ListLimitsResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Limit]
    def __init__(self, items: _Optional[_Iterable[_Union[Limit, _Mapping]]] = ...) -> None: ...

class GetAuditRequest(_message.Message):
    __slots__ = ("actor", "operation", "status", "since", "until", "jobstore", "limit", "before")
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    actor: str
    operation: str
    status: str
    since: str
    until: str
    jobstore: str
    limit: int
    before: str
    def __init__(self, actor: _Optional[str] = ..., operation: _Optional[str] = ..., status: _Optional[str] = ..., since: _Optional[str] = ..., until: _Optional[str] = ..., jobstore: _Optional[str] = ..., limit: _Optional[int] = ..., before: _Optional[str] = ...) -> None: ...

class Audit(_message.Message):
    __slots__ = ("items", "next", "gaps", "complete")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[AuditEntry]
    next: str
    gaps: _containers.RepeatedScalarFieldContainer[str]
    complete: bool
    def __init__(self, items: _Optional[_Iterable[_Union[AuditEntry, _Mapping]]] = ..., next: _Optional[str] = ..., gaps: _Optional[_Iterable[str]] = ..., complete: bool = ...) -> None: ...

class AuditEntry(_message.Message):
    __slots__ = ("id", "at", "actor", "role", "via", "operation", "arguments", "reason", "status", "outcome", "jobstore", "address")
    ID_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    VIA_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    id: str
    at: _timestamp_pb2.Timestamp
    actor: str
    role: str
    via: str
    operation: str
    arguments: _struct_pb2.Struct
    reason: str
    status: str
    outcome: _struct_pb2.Value
    jobstore: str
    address: str
    def __init__(self, id: _Optional[str] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., actor: _Optional[str] = ..., role: _Optional[str] = ..., via: _Optional[str] = ..., operation: _Optional[str] = ..., arguments: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., reason: _Optional[str] = ..., status: _Optional[str] = ..., outcome: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., jobstore: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class GetForecastRequest(_message.Message):
    __slots__ = ("hours", "bucket", "jobstore", "tag", "executor", "task", "timezone", "whole_hours")
    HOURS_FIELD_NUMBER: _ClassVar[int]
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    WHOLE_HOURS_FIELD_NUMBER: _ClassVar[int]
    hours: int
    bucket: int
    jobstore: str
    tag: str
    executor: str
    task: str
    timezone: str
    whole_hours: bool
    def __init__(self, hours: _Optional[int] = ..., bucket: _Optional[int] = ..., jobstore: _Optional[str] = ..., tag: _Optional[str] = ..., executor: _Optional[str] = ..., task: _Optional[str] = ..., timezone: _Optional[str] = ..., whole_hours: bool = ...) -> None: ...

class Forecast(_message.Message):
    __slots__ = ("buckets", "jobs", "complete")
    BUCKETS_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    buckets: _containers.RepeatedCompositeFieldContainer[Bucket]
    jobs: int
    complete: bool
    def __init__(self, buckets: _Optional[_Iterable[_Union[Bucket, _Mapping]]] = ..., jobs: _Optional[int] = ..., complete: bool = ...) -> None: ...

class Bucket(_message.Message):
    __slots__ = ("start", "firings", "by_executor", "jobs", "clock_changes")
    class ByExecutorEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    START_FIELD_NUMBER: _ClassVar[int]
    FIRINGS_FIELD_NUMBER: _ClassVar[int]
    BY_EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_CHANGES_FIELD_NUMBER: _ClassVar[int]
    start: _timestamp_pb2.Timestamp
    firings: int
    by_executor: _containers.ScalarMap[str, int]
    jobs: int
    clock_changes: bool
    def __init__(self, start: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., firings: _Optional[int] = ..., by_executor: _Optional[_Mapping[str, int]] = ..., jobs: _Optional[int] = ..., clock_changes: bool = ...) -> None: ...

class ListFiringsRequest(_message.Message):
    __slots__ = ("start", "minutes", "jobstore", "tag", "executor", "task", "limit")
    START_FIELD_NUMBER: _ClassVar[int]
    MINUTES_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    start: str
    minutes: int
    jobstore: str
    tag: str
    executor: str
    task: str
    limit: int
    def __init__(self, start: _Optional[str] = ..., minutes: _Optional[int] = ..., jobstore: _Optional[str] = ..., tag: _Optional[str] = ..., executor: _Optional[str] = ..., task: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class Firings(_message.Message):
    __slots__ = ("items", "jobs", "complete")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[FiringRow]
    jobs: int
    complete: bool
    def __init__(self, items: _Optional[_Iterable[_Union[FiringRow, _Mapping]]] = ..., jobs: _Optional[int] = ..., complete: bool = ...) -> None: ...

class FiringRow(_message.Message):
    __slots__ = ("id", "jobstore", "executor", "schedule", "first", "firings")
    ID_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    FIRINGS_FIELD_NUMBER: _ClassVar[int]
    id: str
    jobstore: str
    executor: str
    schedule: str
    first: _timestamp_pb2.Timestamp
    firings: int
    def __init__(self, id: _Optional[str] = ..., jobstore: _Optional[str] = ..., executor: _Optional[str] = ..., schedule: _Optional[str] = ..., first: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., firings: _Optional[int] = ...) -> None: ...

class ExplainTriggerRequest(_message.Message):
    __slots__ = ("trigger", "timezone", "count", "after")
    TRIGGER_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    trigger: _struct_pb2.Value
    timezone: str
    count: int
    after: str
    def __init__(self, trigger: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., timezone: _Optional[str] = ..., count: _Optional[int] = ..., after: _Optional[str] = ...) -> None: ...

class Trigger(_message.Message):
    __slots__ = ("trigger", "schedule", "times")
    TRIGGER_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    trigger: str
    schedule: str
    times: _containers.RepeatedCompositeFieldContainer[FireTime]
    def __init__(self, trigger: _Optional[str] = ..., schedule: _Optional[str] = ..., times: _Optional[_Iterable[_Union[FireTime, _Mapping]]] = ...) -> None: ...

class ListMessagesRequest(_message.Message):
    __slots__ = ("event_name", "due_after", "due_before", "state", "limit", "after", "count", "offset")
    EVENT_NAME_FIELD_NUMBER: _ClassVar[int]
    DUE_AFTER_FIELD_NUMBER: _ClassVar[int]
    DUE_BEFORE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    event_name: str
    due_after: str
    due_before: str
    state: str
    limit: int
    after: str
    count: bool
    offset: int
    def __init__(self, event_name: _Optional[str] = ..., due_after: _Optional[str] = ..., due_before: _Optional[str] = ..., state: _Optional[str] = ..., limit: _Optional[int] = ..., after: _Optional[str] = ..., count: bool = ..., offset: _Optional[int] = ...) -> None: ...

class MessagePage(_message.Message):
    __slots__ = ("items", "next", "complete", "total", "exact")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[MessageRow]
    next: str
    complete: bool
    total: int
    exact: bool
    def __init__(self, items: _Optional[_Iterable[_Union[MessageRow, _Mapping]]] = ..., next: _Optional[str] = ..., complete: bool = ..., total: _Optional[int] = ..., exact: bool = ...) -> None: ...

class MessageRow(_message.Message):
    __slots__ = ("id", "event_name", "payload", "payload_is_base64", "content_type", "metadata", "scheduled_at", "state", "attempts", "last_error", "recurring", "source", "created_at", "retries", "recurrence", "occurrences")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    EVENT_NAME_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_IS_BASE64_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_AT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    RECURRING_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    RECURRENCE_FIELD_NUMBER: _ClassVar[int]
    OCCURRENCES_FIELD_NUMBER: _ClassVar[int]
    id: str
    event_name: str
    payload: str
    payload_is_base64: bool
    content_type: str
    metadata: _containers.ScalarMap[str, str]
    scheduled_at: _timestamp_pb2.Timestamp
    state: str
    attempts: int
    last_error: str
    recurring: bool
    source: str
    created_at: _timestamp_pb2.Timestamp
    retries: int
    recurrence: Recurrence
    occurrences: int
    def __init__(self, id: _Optional[str] = ..., event_name: _Optional[str] = ..., payload: _Optional[str] = ..., payload_is_base64: bool = ..., content_type: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., scheduled_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., state: _Optional[str] = ..., attempts: _Optional[int] = ..., last_error: _Optional[str] = ..., recurring: bool = ..., source: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., retries: _Optional[int] = ..., recurrence: _Optional[_Union[Recurrence, _Mapping]] = ..., occurrences: _Optional[int] = ...) -> None: ...

class Recurrence(_message.Message):
    __slots__ = ("interval", "cron", "timezone", "max_occurrences", "until")
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    MAX_OCCURRENCES_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    interval: float
    cron: str
    timezone: str
    max_occurrences: int
    until: _timestamp_pb2.Timestamp
    def __init__(self, interval: _Optional[float] = ..., cron: _Optional[str] = ..., timezone: _Optional[str] = ..., max_occurrences: _Optional[int] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetMessageRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class ScheduleMessageRequest(_message.Message):
    __slots__ = ("message", "reason", "request_id")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    message: _struct_pb2.Struct
    reason: str
    request_id: str
    def __init__(self, message: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class CancelMessageRequest(_message.Message):
    __slots__ = ("id", "reason", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class CancelMessageResponse(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: bool
    def __init__(self, value: bool = ...) -> None: ...

class PostponeMessageRequest(_message.Message):
    __slots__ = ("id", "to", "reason", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    to: str
    reason: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., to: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RedriveMessageRequest(_message.Message):
    __slots__ = ("id", "reason", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RedriveMessageResponse(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: int
    def __init__(self, value: _Optional[int] = ...) -> None: ...

class DiscardMessageRequest(_message.Message):
    __slots__ = ("id", "reason", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class DiscardMessageResponse(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: int
    def __init__(self, value: _Optional[int] = ...) -> None: ...

class ListSchedulesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ScheduleRow(_message.Message):
    __slots__ = ("id", "declared", "schedule", "state", "words")
    ID_FIELD_NUMBER: _ClassVar[int]
    DECLARED_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    id: str
    declared: bool
    schedule: _struct_pb2.Value
    state: _struct_pb2.Value
    words: str
    def __init__(self, id: _Optional[str] = ..., declared: bool = ..., schedule: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., state: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., words: _Optional[str] = ...) -> None: ...

class ListSchedulesResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[ScheduleRow]
    def __init__(self, items: _Optional[_Iterable[_Union[ScheduleRow, _Mapping]]] = ...) -> None: ...

class GetScheduleDiffRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ScheduleDiff(_message.Message):
    __slots__ = ("registry", "added", "changed", "unchanged", "removed", "orphaned")
    REGISTRY_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    ORPHANED_FIELD_NUMBER: _ClassVar[int]
    registry: str
    added: _containers.RepeatedCompositeFieldContainer[ScheduleChange]
    changed: _containers.RepeatedCompositeFieldContainer[ScheduleChange]
    unchanged: _containers.RepeatedScalarFieldContainer[str]
    removed: _containers.RepeatedCompositeFieldContainer[ScheduleChange]
    orphaned: _containers.RepeatedCompositeFieldContainer[ScheduleChange]
    def __init__(self, registry: _Optional[str] = ..., added: _Optional[_Iterable[_Union[ScheduleChange, _Mapping]]] = ..., changed: _Optional[_Iterable[_Union[ScheduleChange, _Mapping]]] = ..., unchanged: _Optional[_Iterable[str]] = ..., removed: _Optional[_Iterable[_Union[ScheduleChange, _Mapping]]] = ..., orphaned: _Optional[_Iterable[_Union[ScheduleChange, _Mapping]]] = ...) -> None: ...

class ScheduleChange(_message.Message):
    __slots__ = ("id", "fields")
    ID_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    id: str
    fields: _containers.RepeatedCompositeFieldContainer[FieldChange]
    def __init__(self, id: _Optional[str] = ..., fields: _Optional[_Iterable[_Union[FieldChange, _Mapping]]] = ...) -> None: ...

class FieldChange(_message.Message):
    __slots__ = ("field", "before", "after")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    field: str
    before: str
    after: str
    def __init__(self, field: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ...) -> None: ...

class ListDocumentsRequest(_message.Message):
    __slots__ = ("collection", "limit")
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    collection: str
    limit: int
    def __init__(self, collection: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class Documents(_message.Message):
    __slots__ = ("collection", "due", "exact", "upcoming", "malformed")
    class MalformedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    DUE_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    UPCOMING_FIELD_NUMBER: _ClassVar[int]
    MALFORMED_FIELD_NUMBER: _ClassVar[int]
    collection: str
    due: int
    exact: bool
    upcoming: _containers.RepeatedCompositeFieldContainer[DocumentRow]
    malformed: _containers.ScalarMap[str, str]
    def __init__(self, collection: _Optional[str] = ..., due: _Optional[int] = ..., exact: bool = ..., upcoming: _Optional[_Iterable[_Union[DocumentRow, _Mapping]]] = ..., malformed: _Optional[_Mapping[str, str]] = ...) -> None: ...

class DocumentRow(_message.Message):
    __slots__ = ("id", "sleep_until", "interval")
    ID_FIELD_NUMBER: _ClassVar[int]
    SLEEP_UNTIL_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    id: str
    sleep_until: _timestamp_pb2.Timestamp
    interval: _struct_pb2.Value
    def __init__(self, id: _Optional[str] = ..., sleep_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., interval: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ...) -> None: ...

class ListDocumentsResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Documents]
    def __init__(self, items: _Optional[_Iterable[_Union[Documents, _Mapping]]] = ...) -> None: ...

class ListLocksRequest(_message.Message):
    __slots__ = ("prefix", "limit")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    limit: int
    def __init__(self, prefix: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class LockRow(_message.Message):
    __slots__ = ("name", "fence", "until", "holder")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    name: str
    fence: int
    until: _timestamp_pb2.Timestamp
    holder: str
    def __init__(self, name: _Optional[str] = ..., fence: _Optional[int] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., holder: _Optional[str] = ...) -> None: ...

class ListLocksResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[LockRow]
    def __init__(self, items: _Optional[_Iterable[_Union[LockRow, _Mapping]]] = ...) -> None: ...

class BreakLockRequest(_message.Message):
    __slots__ = ("name", "fence", "reason", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    fence: int
    reason: str
    request_id: str
    def __init__(self, name: _Optional[str] = ..., fence: _Optional[int] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class BreakLockResponse(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: bool
    def __init__(self, value: bool = ...) -> None: ...

class DoctorRequest(_message.Message):
    __slots__ = ("jobstore",)
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    jobstore: str
    def __init__(self, jobstore: _Optional[str] = ...) -> None: ...

class Finding(_message.Message):
    __slots__ = ("check", "verdict", "message", "jobstore")
    CHECK_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    JOBSTORE_FIELD_NUMBER: _ClassVar[int]
    check: str
    verdict: str
    message: str
    jobstore: str
    def __init__(self, check: _Optional[str] = ..., verdict: _Optional[str] = ..., message: _Optional[str] = ..., jobstore: _Optional[str] = ...) -> None: ...

class DoctorResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Finding]
    def __init__(self, items: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ...) -> None: ...

class GetHealthRequest(_message.Message):
    __slots__ = ("host",)
    HOST_FIELD_NUMBER: _ClassVar[int]
    host: str
    def __init__(self, host: _Optional[str] = ...) -> None: ...

class Health(_message.Message):
    __slots__ = ("status", "message", "latency_ms", "pending", "stuck", "details", "checked_at", "checks")
    class DetailsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    STATUS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    STUCK_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    CHECKED_AT_FIELD_NUMBER: _ClassVar[int]
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    status: str
    message: str
    latency_ms: float
    pending: int
    stuck: int
    details: _containers.ScalarMap[str, str]
    checked_at: _timestamp_pb2.Timestamp
    checks: _containers.RepeatedCompositeFieldContainer[Check]
    def __init__(self, status: _Optional[str] = ..., message: _Optional[str] = ..., latency_ms: _Optional[float] = ..., pending: _Optional[int] = ..., stuck: _Optional[int] = ..., details: _Optional[_Mapping[str, str]] = ..., checked_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., checks: _Optional[_Iterable[_Union[Check, _Mapping]]] = ...) -> None: ...

class Check(_message.Message):
    __slots__ = ("name", "status", "message")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    name: str
    status: str
    message: str
    def __init__(self, name: _Optional[str] = ..., status: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class ListAlertsRequest(_message.Message):
    __slots__ = ("state", "limit")
    STATE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    state: str
    limit: int
    def __init__(self, state: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class Alert(_message.Message):
    __slots__ = ("id", "alert", "rule", "target", "state", "message", "since", "told_at", "acknowledged_by", "acknowledged_until", "acknowledge_reason", "silenced_by", "silenced_until", "silence_reason", "not_sent")
    ID_FIELD_NUMBER: _ClassVar[int]
    ALERT_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    TOLD_AT_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_BY_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGE_REASON_FIELD_NUMBER: _ClassVar[int]
    SILENCED_BY_FIELD_NUMBER: _ClassVar[int]
    SILENCED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    SILENCE_REASON_FIELD_NUMBER: _ClassVar[int]
    NOT_SENT_FIELD_NUMBER: _ClassVar[int]
    id: str
    alert: str
    rule: str
    target: str
    state: str
    message: str
    since: _timestamp_pb2.Timestamp
    told_at: _timestamp_pb2.Timestamp
    acknowledged_by: str
    acknowledged_until: _timestamp_pb2.Timestamp
    acknowledge_reason: str
    silenced_by: str
    silenced_until: _timestamp_pb2.Timestamp
    silence_reason: str
    not_sent: int
    def __init__(self, id: _Optional[str] = ..., alert: _Optional[str] = ..., rule: _Optional[str] = ..., target: _Optional[str] = ..., state: _Optional[str] = ..., message: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., told_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., acknowledged_by: _Optional[str] = ..., acknowledged_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., acknowledge_reason: _Optional[str] = ..., silenced_by: _Optional[str] = ..., silenced_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., silence_reason: _Optional[str] = ..., not_sent: _Optional[int] = ...) -> None: ...

class ListAlertsResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Alert]
    def __init__(self, items: _Optional[_Iterable[_Union[Alert, _Mapping]]] = ...) -> None: ...

class AckAlertRequest(_message.Message):
    __slots__ = ("id", "until", "reason", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    until: str
    reason: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., until: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class SilenceAlertRequest(_message.Message):
    __slots__ = ("id", "until", "reason", "request_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    until: str
    reason: str
    request_id: str
    def __init__(self, id: _Optional[str] = ..., until: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class Silence(_message.Message):
    __slots__ = ("id", "by", "reason", "until")
    ID_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    id: str
    by: str
    reason: str
    until: _timestamp_pb2.Timestamp
    def __init__(self, id: _Optional[str] = ..., by: _Optional[str] = ..., reason: _Optional[str] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetAboutRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class About(_message.Message):
    __slots__ = ("version", "timezone", "stores", "read_only", "name", "role", "only_stores", "only_tags", "see_arguments")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    STORES_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    ONLY_STORES_FIELD_NUMBER: _ClassVar[int]
    ONLY_TAGS_FIELD_NUMBER: _ClassVar[int]
    SEE_ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    version: str
    timezone: str
    stores: _containers.RepeatedCompositeFieldContainer[Store]
    read_only: bool
    name: str
    role: str
    only_stores: _containers.RepeatedScalarFieldContainer[str]
    only_tags: _containers.RepeatedScalarFieldContainer[str]
    see_arguments: bool
    def __init__(self, version: _Optional[str] = ..., timezone: _Optional[str] = ..., stores: _Optional[_Iterable[_Union[Store, _Mapping]]] = ..., read_only: bool = ..., name: _Optional[str] = ..., role: _Optional[str] = ..., only_stores: _Optional[_Iterable[str]] = ..., only_tags: _Optional[_Iterable[str]] = ..., see_arguments: bool = ...) -> None: ...

class Store(_message.Message):
    __slots__ = ("alias", "kind", "address")
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    alias: str
    kind: str
    address: str
    def __init__(self, alias: _Optional[str] = ..., kind: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...
