"""Jobs that name a task: the name is what is stored, and an unknown one waits until somebody registers it."""

from __future__ import annotations

import gc
import io
import json
import logging
import weakref
from datetime import timedelta
from itertools import count

import pytest
from behaviour_doubles import START, FaultySimpleStore, FirstThen, PickledStore, calls, note, within

from goscheduler import task
from goscheduler.errors import InvalidArgument
from goscheduler.events import (
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_RELEASED,
    EVENT_JOB_REMOVED,
    EVENT_JOB_SUSPENDED,
)
from goscheduler.executors.debug import DebugExecutor
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.schedulers.background import BackgroundScheduler
from goscheduler.testing import EventRecorder, ManualScheduler

UNKNOWN = 'no task named "{}" is registered here'


class LastingStore(MemoryJobStore):
    """A memory store that shutdown does not empty."""

    def shutdown(self):
        return


@pytest.fixture(params=[LastingStore, PickledStore], ids=["memory store", "simple store"])
def store(request):
    return request.param()


@pytest.fixture
def scheduler(schedulers, store):
    scheduler = schedulers(ManualScheduler, jobstores={"default": store})
    scheduler.start()
    return scheduler


@pytest.fixture
def recorder(scheduler):
    return EventRecorder(scheduler)


_numbers = count(1)


@pytest.fixture
def name():
    """A name that no other test has registered for the process."""
    return f"task-{next(_numbers)}"


def send(to="nobody", *, subject="none"):
    calls.append((to, subject))


def resend(to="nobody", *, subject="none"):
    calls.append(("again", to, subject))


def every_ten_seconds(scheduler, func, **options):
    return scheduler.add_job(func, "interval", seconds=10, **{"id": "job", **options})


def test_a_job_runs_the_task_that_it_names_with_its_payload(scheduler, name, jobcalls):
    task(name)(send)
    every_ten_seconds(scheduler, name, args=["a@b.c"], kwargs={"subject": "hello"})
    scheduler.advance(10)
    assert jobcalls == [("a@b.c", "hello")]


def test_what_is_stored_is_the_name(scheduler, name):
    task(name)(send)
    job = every_ten_seconds(scheduler, name)
    assert (job.func, job.func_ref, job.task, job.name) == (send, name, name, name)
    assert job.__getstate__()["func"] == name
    assert scheduler.get_job("job").task == name
    assert every_ten_seconds(scheduler, send, id="by function").func_ref == name


def test_a_job_of_a_plain_function_has_no_task(scheduler):
    job = every_ten_seconds(scheduler, note)
    assert (job.task, job.func_ref) == (None, "behaviour_doubles:note")


def test_a_record_with_an_old_name_is_led_to_the_function_by_an_alias(scheduler, name, jobcalls):
    every_ten_seconds(scheduler, f"old-{name}")
    task(name, aliases=[f"old-{name}"])(send)
    scheduler.advance(10)
    assert jobcalls == [("nobody", "none")]
    assert scheduler.get_job("job").func_ref == f"old-{name}"


def test_the_arguments_of_a_known_task_are_checked_at_the_call(scheduler, name):
    scheduler.register(name, send)
    with pytest.raises(ValueError, match="colour"):
        scheduler.add_job(name, kwargs={"colour": "red"})
    assert scheduler.get_jobs() == []


def test_the_scheduler_goes_by_its_own_task_first(scheduler, schedulers, name, jobcalls):
    task(name)(send)
    scheduler.register(name, resend)
    every_ten_seconds(scheduler, name)
    scheduler.advance(10)
    assert jobcalls == [("again", "nobody", "none")]
    assert schedulers(ManualScheduler).add_job(name).func is send
    plain = every_ten_seconds(scheduler, send, id="plain")
    assert (plain.task, plain.func) == (None, send), "the name would lead to another function"


def test_registering_works_as_a_decorator_too(scheduler, name, jobcalls):
    @scheduler.register(name, aliases=[f"{name}-old"])
    def local(value):
        jobcalls.append(value)

    assert every_ten_seconds(scheduler, local, args=[1]).func_ref == name
    every_ten_seconds(scheduler, f"{name}-old", args=[2], id="old")
    scheduler.advance(10)
    assert jobcalls == [1, 2]


def test_a_decorator_without_a_name_is_refused(scheduler):
    with pytest.raises(TypeError, match="needs a name"):
        scheduler.register(send)
    with pytest.raises(TypeError, match="must be a callable"):
        scheduler.register("name", None)


def test_a_bound_method_can_be_a_task_and_its_object_is_no_argument(scheduler, name, jobcalls):
    class Mailer:
        def send(self, to):
            jobcalls.append(to)

    mailer = Mailer()
    scheduler.register(name, mailer.send)
    job = every_ten_seconds(scheduler, mailer.send, args=["you"])
    assert job.__getstate__()["args"] == ("you",)
    scheduler.advance(10)
    assert jobcalls == ["you"]


def test_a_task_that_is_registered_again_takes_effect_at_the_next_firing(scheduler, name, jobcalls, caplog):
    caplog.set_level(logging.INFO, "goscheduler")
    scheduler.register(name, send)
    every_ten_seconds(scheduler, name)
    scheduler.advance(10)
    scheduler.register(name, resend)
    scheduler.advance(10)
    assert jobcalls == [("nobody", "none"), ("again", "nobody", "none")]
    assert [record.levelname for record in caplog.records if f'Task "{name}" was' in record.getMessage()] == ["INFO"]


# A task that is not known here


def test_a_task_that_is_not_known_is_accepted_with_a_warning(scheduler, name, caplog):
    job = every_ten_seconds(scheduler, name, args=[1, 2, 3])
    assert (job.task, job.name, job.suspended) == (name, name, None)
    (record,) = [record for record in caplog.records if "not registered here" in record.getMessage()]
    assert (record.levelname, name in record.getMessage()) == ("WARNING", True)


def test_a_name_with_a_dot_must_be_registered_first(scheduler, name):
    with pytest.raises(ValueError, match=r"Invalid reference.*registered first"):
        scheduler.add_job(f"mail.{name}")
    scheduler.register(f"mail.{name}", send)
    assert every_ten_seconds(scheduler, f"mail.{name}").func is send


@pytest.mark.parametrize("wrong", ["x" * 256, "a\nb", "a\0b"])
def test_a_name_that_cannot_be_one_is_refused(scheduler, wrong):
    with pytest.raises(InvalidArgument) as refused:
        scheduler.add_job(wrong)
    assert refused.value.field == "func"


def test_a_job_of_an_unknown_task_is_suspended_when_due_and_kept(scheduler, recorder, name, jobcalls):
    every_ten_seconds(scheduler, name)
    scheduler.advance(5)
    assert scheduler.get_job("job").suspended is None
    scheduler.advance(5)
    job = scheduler.get_job("job")
    assert job.suspended == UNKNOWN.format(name)
    assert job.next_run_time == START + timedelta(seconds=10)
    (event,) = recorder.of(EVENT_JOB_SUSPENDED)
    assert (event.job_id, event.reason) == ("job", job.suspended)
    assert not recorder.of(EVENT_JOB_REMOVED)
    scheduler.advance(100)
    assert len(recorder.of(EVENT_JOB_SUSPENDED)) == 1


@pytest.mark.parametrize("process_wide", [False, True], ids=["for the scheduler", "for the process"])
def test_a_suspended_job_goes_on_when_its_task_is_registered(scheduler, recorder, name, jobcalls, process_wide):
    every_ten_seconds(scheduler, name)
    scheduler.advance(10)
    (task(name) if process_wide else scheduler.register(name))(send)
    scheduler.run_due()
    assert jobcalls == [("nobody", "none")]
    (event,) = recorder.of(EVENT_JOB_RELEASED)
    assert (event.job_id, event.reason) == ("job", UNKNOWN.format(name))
    assert scheduler.get_job("job").suspended is None
    scheduler.advance(10)
    assert len(jobcalls) == 2


def test_the_task_of_another_name_helps_nobody(scheduler, recorder, name, jobcalls):
    every_ten_seconds(scheduler, name)
    every_ten_seconds(scheduler, note, id="no executor", executor="gpu")
    scheduler.advance(10)
    scheduler.register(f"{name}-other", send)
    scheduler.run_due()
    assert jobcalls == []
    assert len(recorder.of(EVENT_JOB_SUSPENDED)) == 2
    assert not recorder.of(EVENT_JOB_RELEASED)


def test_a_job_that_is_suspended_for_another_reason_is_not_released_by_a_task(scheduler, recorder, name):
    scheduler.register(name, send)
    scheduler.add_job(name, FirstThen(OSError("no calendar")), id="job")
    scheduler.advance(10)
    scheduler.register(name, resend)
    scheduler.run_due()
    assert "no calendar" in scheduler.get_job("job").suspended
    assert not recorder.of(EVENT_JOB_RELEASED)


def test_a_job_that_lacks_executor_and_task_gets_one_after_the_other(scheduler, name, jobcalls):
    every_ten_seconds(scheduler, name, executor="gpu")
    scheduler.advance(10)
    assert scheduler.get_job("job").suspended == 'there is no executor named "gpu"'
    scheduler.add_executor(DebugExecutor(), "gpu")
    scheduler.run_due()
    assert scheduler.get_job("job").suspended == UNKNOWN.format(name)
    scheduler.register(name, send)
    scheduler.run_due()
    assert len(jobcalls) == 1


def test_a_suspended_job_goes_on_after_a_start_that_knows_its_task(scheduler, name, jobcalls):
    every_ten_seconds(scheduler, name)
    scheduler.advance(10)
    scheduler.shutdown()
    scheduler.register(name, send)
    scheduler.start()
    scheduler.run_due()
    assert jobcalls == [("nobody", "none")]


def test_a_task_registered_while_paused_releases_its_jobs_on_resume(scheduler, name, jobcalls):
    every_ten_seconds(scheduler, name)
    scheduler.advance(10)
    scheduler.pause()
    scheduler.register(name, send)
    scheduler.run_due()
    assert jobcalls == []
    scheduler.resume()
    scheduler.run_due()
    assert len(jobcalls) == 1


def test_a_store_that_is_out_when_the_task_comes_is_looked_at_later(schedulers, name, jobcalls):
    store = FaultySimpleStore()
    scheduler = schedulers(ManualScheduler, jobstores={"default": store})
    scheduler.start()
    every_ten_seconds(scheduler, name)
    scheduler.advance(10)
    store.faults["suspensions"] = OSError("gone")
    task(name)(send)  # an import must not fail because of a store
    scheduler.run_due()
    assert jobcalls == []
    del store.faults["suspensions"]
    scheduler.advance(60)
    assert jobcalls[0] == ("nobody", "none")


def test_a_background_scheduler_is_woken_by_a_task_of_the_process(schedulers, name, jobcalls):
    scheduler = schedulers(BackgroundScheduler)
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(name, id="job")
    assert recorder.wait_for(EVENT_JOB_SUSPENDED, "job", timeout=60)
    within(60, lambda: task(name)(send))
    assert recorder.wait_for(EVENT_JOB_EXECUTED, "job", timeout=60)
    assert jobcalls == [("nobody", "none")]


def test_the_process_does_not_keep_a_scheduler_alive(name):
    scheduler = ManualScheduler()
    scheduler.register(name, send)
    gone = weakref.ref(scheduler)
    del scheduler
    gc.collect()
    assert gone() is None
    task(name)(send)


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_a_change_of_the_arguments_keeps_the_name(scheduler, name, jobcalls, known):
    if known:
        scheduler.register(name, send)
    every_ten_seconds(scheduler, name)
    job = scheduler.modify_job("job", args=["you"])
    assert (job.task, job.func_ref, job.args) == (name, name, ("you",))
    scheduler.register(name, send)
    scheduler.advance(10)
    assert jobcalls == [("you", "none")]


def test_a_change_of_the_arguments_keeps_the_old_name_of_a_task(scheduler, name):
    scheduler.register(name, send, aliases=[f"old-{name}"])
    every_ten_seconds(scheduler, f"old-{name}")
    assert scheduler.modify_job("job", args=["you"]).func_ref == f"old-{name}"


def test_a_job_can_be_given_a_task_in_place_of_a_function_and_back(scheduler, name, jobcalls, caplog):
    every_ten_seconds(scheduler, note)
    scheduler.modify_job("job", func=name)
    assert "not registered here" in caplog.text
    scheduler.register(name, send)
    scheduler.advance(10)
    scheduler.modify_job("job", func=note)
    scheduler.advance(10)
    assert jobcalls == [("nobody", "none"), "called"]
    assert scheduler.get_job("job").task is None


def test_a_run_that_was_asked_for_waits_for_its_task_and_does_not_fail(scheduler, recorder, name, jobcalls):
    every_ten_seconds(scheduler, name, next_run_time=None)
    scheduler.run_now("job")
    scheduler.run_due()
    assert jobcalls == []
    scheduler.register(name, send)
    scheduler.advance(20)
    assert jobcalls == [("nobody", "none")]
    assert [event.code for event in recorder.of(EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)] == [EVENT_JOB_EXECUTED]


@pytest.mark.parametrize("dotted", [False, True], ids=["plain", "with a dot"])
def test_an_unknown_task_is_exported_and_imported_by_its_name(scheduler, schedulers, name, jobcalls, dotted):
    name = f"mail.{name}" if dotted else name
    scheduler.register(name, send)
    every_ten_seconds(scheduler, name, args=["you"])
    file = io.StringIO()
    scheduler.export_jobs(file)
    assert json.loads(file.getvalue())["jobs"][0]["func"] == name
    file.seek(0)
    with schedulers(ManualScheduler) as other:
        other.import_jobs(file)
        assert other.get_job("job").task == name
        other.advance(10)
        assert other.get_job("job").suspended == UNKNOWN.format(name)
        other.register(name, resend)
        other.run_due()
    assert jobcalls == [("again", "you", "none")]


# Registered tasks only


@pytest.fixture
def strict(schedulers, store):
    scheduler = schedulers(ManualScheduler, jobstores={"default": store}, registered_only="yes")
    scheduler.start()
    return scheduler


@pytest.mark.parametrize("func", ["behaviour_doubles:note", "math:sqrt", note, print, lambda: None])
def test_where_only_tasks_are_allowed_nothing_else_is_added(strict, func):
    with pytest.raises(InvalidArgument, match=r"func must be a registered task.*scheduler\.register") as refused:
        strict.add_job(func)
    assert refused.value.field == "func"
    assert strict.get_jobs() == []


def test_where_only_tasks_are_allowed_they_run_also_when_given_as_functions(strict, name, jobcalls):
    strict.register(name, send)
    every_ten_seconds(strict, name)
    every_ten_seconds(strict, send, id="by function")
    strict.advance(10)
    assert len(jobcalls) == 2


def test_a_job_of_a_function_that_was_stored_before_is_suspended(scheduler, store, recorder, jobcalls):
    every_ten_seconds(scheduler, note)
    scheduler.shutdown()
    scheduler.configure(
        {}, jobstores={"default": store}, registered_only=True, clock=scheduler.clock, event_dispatch="sync"
    )
    scheduler.start()
    scheduler.advance(10)
    assert "registered tasks only" in scheduler.get_job("job").suspended
    assert recorder.of(EVENT_JOB_SUSPENDED, "job")
    assert jobcalls == []


def test_whether_only_tasks_are_allowed_must_be_yes_or_no():
    with pytest.raises(InvalidArgument, match="registered_only must be true or false") as refused:
        ManualScheduler(registered_only="perhaps")
    assert refused.value.field == "registered_only"


# Handlers that get the job


def handle(payload, job):
    calls.append((payload, job.job_id, job.task, job.tags, job.attempt))


def test_a_handler_gets_its_payload_and_the_job_also_of_one_that_is_gone(scheduler, name, jobcalls):
    scheduler.register(name, handle, pass_job=True)
    scheduler.add_job(name, args=[{"to": "a@b.c"}], id="once", tags=["mail"])
    scheduler.run_due()
    assert jobcalls == [({"to": "a@b.c"}, "once", name, ("mail",), 1)]


def test_a_task_of_the_process_may_get_the_job_too_and_is_found_by_its_function(scheduler, name, jobcalls):
    decorated = task(name, pass_job=True)(handle)
    assert decorated is handle
    job = scheduler.add_job(handle, kwargs={"payload": 1}, id="once")
    scheduler.run_due()
    assert (job.task, jobcalls) == (name, [(1, "once", name, (), 1)])


def test_the_job_is_no_argument_that_a_user_has_to_give(scheduler, name):
    scheduler.register(name, handle, pass_job=True)
    with pytest.raises(InvalidArgument, match="payload"):
        scheduler.add_job(name)
    with pytest.raises(InvalidArgument):
        scheduler.add_job(name, args=[1, 2])


@pytest.mark.parametrize("func", [lambda: None, lambda *args: None, 5], ids=["nothing", "anything", "no function"])
def test_a_function_that_cannot_take_the_job_is_refused(scheduler, name, func):
    with pytest.raises(TypeError):
        scheduler.register(name, func, pass_job=True)


def test_the_same_handler_registered_again_replaces_nothing(scheduler, name, caplog):
    caplog.set_level(logging.INFO)
    scheduler.register(name, handle, pass_job=True)
    scheduler.register(name, handle, pass_job=True)
    assert "from now on" not in caplog.text
