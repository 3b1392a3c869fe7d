"""The plug-in of pytest, as projects get it: by installing the package."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.serial  # pytest in pytest, in a process of its own: modules are not shared

FEW_PLUGINS = ("-p", "no:cacheprovider", "-p", "no:schemathesis", "-p", "no:hypothesispytest", "-p", "no:xdist")

APP = """
    import time
    from datetime import datetime, timedelta, timezone
    from goscheduler import BackgroundScheduler, current_run

    scheduler = BackgroundScheduler()
    sent = []

    def send(order, again=False):
        sent.append((order, current_run().job_id))
        if again:
            scheduler.add_job(send, "date", run_date="2040-01-01", args=[order + 1], id="follow-up")
        return order * 2

    def fail():
        raise ValueError("no such order")
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    declared = {found.value for found in entry_points(group="pytest11")}
    assert "goscheduler.testing.plugin" in declared, "the installed package is not this one; pip install --editable ."
    pytester.makepyfile(app=APP)
    return pytester


def passes(project: pytest.Pytester, tests: int) -> None:
    result = project.runpytest_subprocess(*FEW_PLUGINS, "--strict-markers", "-W", "error")
    result.assert_outcomes(passed=tests)


def test_a_project_has_a_scheduler_whose_time_it_moves_and_its_events(project):
    project.makepyfile("""
        from datetime import datetime, timezone
        import pytest
        from goscheduler.events import EVENT_JOB_EXECUTED

        def test_time(manual_scheduler, event_recorder):
            manual_scheduler.add_job(print, "interval", hours=1, id="a")
            manual_scheduler.advance("3h")
            assert len(event_recorder.of(EVENT_JOB_EXECUTED, "a")) == 3

        @pytest.mark.goscheduler(start="2026-03-28 12:00", timezone="Europe/Berlin", job_defaults={"retry": 2})
        def test_clock_changes(event_recorder, manual_scheduler):
            job = manual_scheduler.add_job(print, "cron", hour=2, minute=30, id="a")
            assert manual_scheduler.clock.now() == datetime(2026, 3, 28, 12, tzinfo=timezone.utc)
            assert (job.next_run_time.hour, job.retry.max_attempts) == (3, 2)
            manual_scheduler.advance("1d")
            assert len(event_recorder.of(EVENT_JOB_EXECUTED)) == 1

        def test_a_recorder_alone_listens_to_what_it_is_added_to(event_recorder):
            from goscheduler.testing import ManualScheduler
            with ManualScheduler() as scheduler:
                scheduler.add_listener(event_recorder)
                scheduler.add_job(print, id="b")
                scheduler.run_due()
            assert event_recorder.of(EVENT_JOB_EXECUTED, "b")
    """)
    passes(project, 3)


def test_run_jobs_runs_what_was_added_once_on_the_thread_of_the_test(project):
    project.makepyfile("""
        import pytest
        import app
        from goscheduler import current_run
        from goscheduler.errors import JobLookupError

        @pytest.fixture(autouse=True)
        def clean():
            yield
            app.scheduler.remove_all_jobs()
            app.sent.clear()

        def test_jobs_and_those_that_they_add_run_once(run_jobs):
            app.scheduler.add_job(app.send, "cron", hour=3, args=[1, True], id="mail")
            assert run_jobs(app.scheduler) == {"mail": 2, "follow-up": 4}
            assert run_jobs(app.scheduler) == {}
            assert run_jobs(app.scheduler, "follow-up") == {"follow-up": 4}
            assert app.sent == [(1, "mail"), (2, "follow-up"), (2, "follow-up")]
            with pytest.raises(JobLookupError):
                run_jobs(app.scheduler, "nothing")

        def test_what_a_job_raises_comes_out_and_paused_jobs_are_left_out(run_jobs):
            app.scheduler.add_job(app.send, "cron", hour=3, args=[1], id="paused", next_run_time=None)
            app.scheduler.add_job(app.fail, "cron", hour=3, retry=5)
            with pytest.raises(ValueError, match="no such order"):
                run_jobs(app.scheduler)
            assert app.sent == []

        def test_a_started_scheduler_and_coroutines_and_what_is_around_them(run_jobs, manual_scheduler):
            from contextlib import contextmanager
            told = []

            @contextmanager
            def around(run):
                told.append(run.job_id)
                yield

            async def later():
                return current_run().attempt

            manual_scheduler.add_around(around)
            manual_scheduler.add_job(later, "cron", hour=3, id="later")
            assert run_jobs(manual_scheduler) == {"later": 1}
            assert told == ["later"]
    """)
    passes(project, 3)


def test_a_wrong_use_of_the_marker_is_told(project):
    project.makepyfile("""
        import pytest

        @pytest.mark.goscheduler("2026-01-01")
        def test_one(manual_scheduler): ...

        @pytest.mark.goscheduler(start="soon")
        def test_two(manual_scheduler): ...
    """)
    result = project.runpytest_subprocess(*FEW_PLUGINS)
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*marker goscheduler takes names*", "*start*soon*"])


def test_a_scheduler_works_while_freezegun_or_time_machine_has_the_time(project):
    project.makepyfile("""
        from datetime import datetime, timezone
        from freezegun import freeze_time
        import time_machine
        from goscheduler import BackgroundScheduler
        from goscheduler.events import EVENT_JOB_EXECUTED
        from goscheduler.testing import EventRecorder

        def third(scheduler):
            recorder = EventRecorder(scheduler)
            scheduler.start()
            scheduler.add_job(datetime.now, "interval", seconds=0.01, args=[timezone.utc], id="a")
            event = recorder.wait_for(EVENT_JOB_EXECUTED, "a", count=3)
            scheduler.shutdown()
            return event

        @freeze_time("2001-02-03")
        def test_frozen():
            event = third(BackgroundScheduler())
            assert event.retval == datetime(2001, 2, 3, tzinfo=timezone.utc)
            assert event.scheduled_run_time.year > 2001  # the scheduler itself goes by the real time

        @time_machine.travel("2001-02-03")
        def test_travelled():
            event = third(BackgroundScheduler())
            assert (event.retval.year, event.scheduled_run_time.year) == (2001, 2001)

        @freeze_time("2001-02-03")
        def test_a_manual_scheduler_has_its_own_time(manual_scheduler):
            seen = []
            manual_scheduler.add_job(lambda: seen.append(datetime.now()), "cron", day=1, jobstore="default")
            manual_scheduler.advance("31d")
            assert seen == [datetime(2001, 2, 3)] * 2
    """)
    passes(project, 3)


def test_the_plug_in_loads_nothing_of_the_package_before_a_test_asks_for_it():
    code = "import sys, goscheduler.testing.plugin as plugin; plugin._keep_the_clock_from_freezegun()\n"
    code += "print(*(name for name in sys.modules if name.startswith(('goscheduler', 'freezegun'))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {
        "goscheduler", "goscheduler._version", "goscheduler.testing", "goscheduler.testing.plugin"
    }  # fmt: skip
