"""Operations on time: what fires when, and what a trigger means."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from goscheduler.clock import SYSTEM_CLOCK, Deadline
from goscheduler.errors import InvalidArgument, survivable
from goscheduler.ops.access import Role
from goscheduler.ops.filters import Executor, Tag, Task
from goscheduler.ops.model_around import Bucket, FiringRow, Firings, Forecast, TriggerView
from goscheduler.ops.operation import Call, Store, operation
from goscheduler.ops.schema import MOMENT, Flag, JsonValue, Text, Whole
from goscheduler.ops.views import fire_times
from goscheduler.schedulers._requested_trigger import trigger_of
from goscheduler.times import UTC, astimezone, convert_to_datetime, micros_of, to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job

#: A forecast looks at so many jobs and counts so many firings, within so many seconds; what is more is left out.
MOST_JOBS = 1_000_000
MOST_FIRINGS = 20_000_000
MOST_OF_ONE = 100_000
SECONDS = 10.0
#: A list of jobs that fire is given up after so many.
SECONDS_OF_LIST = 3.0
PAGE = 500
#: The times of so many different schedules are kept, for other jobs that have the same.
MOST_ALIKE = 5000
#: So many buckets are the most.
MOST_BUCKETS = 1000


@operation(Role.VIEWER)
def forecast(
    call: Call,
    hours: Annotated[int, Whole("How far to look ahead.", 1, 24 * 31)] = 24,
    bucket: Annotated[int, Whole("Length of a bucket in minutes.", 1, 24 * 60)] = 60,
    jobstore: Store = None,
    tag: Tag = None,
    executor: Executor = None,
    task: Task = None,
    timezone: Annotated[str | None, Text("The zone of the times; that of the scheduler if left out.", 100)] = None,
    whole_hours: Annotated[bool, Flag("Whether to begin with the hour that goes on, and not now.")] = False,
) -> Forecast:
    """Return how much fires in each hour to come, by executor."""
    zone = astimezone(timezone) or call.scheduler.timezone
    length = timedelta(minutes=bucket)
    now = call.now.astimezone(zone)
    if whole_hours:
        now = now.replace(minute=0, second=0, microsecond=0)
    number = -(-hours * 60 // bucket)
    if number > MOST_BUCKETS:
        raise InvalidArgument(f"bucket is too short: {number} buckets, {MOST_BUCKETS} are the most", field="bucket")
    end = (now.astimezone(UTC) + number * length).astimezone(zone)
    count = _Count(now, end, length, Deadline(SYSTEM_CLOCK, SECONDS))
    filters = {"executor": executor, "task": task, **call.scoped(tag, jobstore)}
    for job in _jobs_before(call, count.end, filters):
        count.add(job)
        if count.is_over:
            break
    return Forecast(count.buckets(number), count.jobs, not count.is_over)


@operation(Role.VIEWER)
def firings(
    call: Call,
    start: Annotated[str, MOMENT],
    minutes: Annotated[int, Whole("How long the stretch is.", 1, 24 * 60)] = 60,
    jobstore: Store = None,
    tag: Tag = None,
    executor: Executor = None,
    task: Task = None,
    limit: Annotated[int, Whole("How many jobs at most.", 1, 200)] = 100,
) -> Firings:
    """Return the jobs that fire within a stretch of time to come, those that fire most often first."""
    begin = call.moment("start", start, ahead=True)
    assert begin is not None
    end = (begin.astimezone(UTC) + timedelta(minutes=minutes)).astimezone(begin.tzinfo)
    filters = {"executor": executor, "task": task, **call.scoped(tag, jobstore)}
    deadline = Deadline(SYSTEM_CLOCK, SECONDS_OF_LIST)
    found: list[tuple[int, datetime, str, Job]] = []
    complete = True
    for job in _jobs_before(call, end, filters):
        times = _times_between(job, begin, end, call.now)
        if times:
            found.append((-len(times), times[0], job.id, job))
        if not deadline.left():
            complete = False
            break
    found.sort(key=lambda each: each[:3])
    rows = [
        FiringRow(job.id, job.jobstore, job.executor, job.trigger.explain(), first, -number)
        for number, first, _, job in found[:limit]
    ]  # fmt: skip
    return Firings(rows, len(found), complete)


def _times_between(job: Job, begin: datetime, end: datetime, now: datetime) -> list[datetime]:
    """Return when a job fires within a stretch; what is due already counts where now is."""
    first = getattr(job, "next_run_time", None)
    if first is None:
        return []
    times = [first] if begin <= max(first, now) < end else []
    try:
        following = job.trigger.between(max(first, begin), end, MOST_OF_ONE)
        times += [time for time in following if first < time < end]
    except BaseException as error:
        if not survivable(error):
            raise
    return times


def _jobs_before(call: Call, end: datetime, filters: dict[str, Any]) -> Iterator[Job]:
    after: str | None = None
    while True:
        page = call.scheduler.find_jobs(state="scheduled", due_before=end, limit=PAGE, after=after, **filters)
        yield from page.jobs
        after = page.next
        if after is None:
            return


class _Count:
    """Counts firings. Jobs of the same trigger and the same next time are counted together."""

    def __init__(self, start: datetime, end: datetime, length: timedelta, deadline: Deadline) -> None:
        self._start, self.end, self._length = start, end, length
        self._alike: dict[tuple[str, datetime], Counter[int]] = {}
        self._firings: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self._jobs_in: Counter[int] = Counter()
        self._total = 0
        self._deadline = deadline
        self.jobs = 0
        self.is_over = False

    def add(self, job: Job) -> None:
        """Count what a job fires."""
        first = getattr(job, "next_run_time", None)
        if first is None:
            return
        key = str(job.trigger), first
        times = self._alike.get(key)
        if times is None:
            times = self._times(job, first)
            if len(self._alike) < MOST_ALIKE:
                self._alike[key] = times
        for number, firings in times.items():
            self._firings[number][job.executor] += firings
            self._jobs_in[number] += 1
        self.jobs += 1
        self._total += times.total()
        self.is_over |= self._total > MOST_FIRINGS or self.jobs >= MOST_JOBS or not self._deadline.left()

    def _times(self, job: Job, first: datetime) -> Counter[int]:
        """Return number of a bucket → firings in it. What is due already counts in the first one."""
        times = [first]
        try:
            following = job.trigger.between(max(first, self._start), self.end, MOST_OF_ONE)
            times += [time for time in following if time > first]
        except BaseException as error:
            if not survivable(error):
                raise
        self.is_over |= len(times) > MOST_OF_ONE
        begin = to_micros(self._start)
        return Counter(max(0, (to_micros(time) - begin) // micros_of(self._length)) for time in times)

    def buckets(self, number: int) -> list[Bucket]:
        """Return all buckets in their order. They are equally long, whatever the clock on the wall does."""
        zone, first = self._start.tzinfo, self._start.astimezone(UTC)
        starts = [(first + index * self._length).astimezone(zone) for index in range(number + 1)]
        return [
            Bucket(
                start, self._firings[index].total(), dict(self._firings[index]), self._jobs_in[index],
                start.utcoffset() != starts[index + 1].utcoffset(),
            )
            for index, start in enumerate(starts[:-1])
        ]  # fmt: skip


@operation(Role.VIEWER)
def explain_trigger(
    call: Call,
    trigger: Annotated[Any, JsonValue("A crontab line, \"every 5m\", a date, or an object with a type.")],
    timezone: Annotated[str | None, Text("The zone; that of the scheduler if left out.", 100)] = None,
    count: Annotated[int, Whole("How many times to come.", 1, 100)] = 10,
    after: Annotated[str | None, MOMENT] = None,
) -> TriggerView:
    """Return what a trigger means, and when it fires."""
    zone = astimezone(timezone) or call.scheduler.timezone
    found = trigger_of(trigger, zone).anchored(call.now)
    start = convert_to_datetime(after, zone, "after") or call.now
    return TriggerView(str(found), found.explain(), fire_times(found.preview(count, start)))
