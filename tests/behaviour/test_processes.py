"""Schedulers when the process forks or ends."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

import pytest
import warm

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.serial


def run_program(source):
    """Run a program of its own and return what it printed; it must end, and well."""
    paths = [str(ROOT), *(path for path in sys.path if path)]
    result = warm.run(
        "-W", "error::ResourceWarning", "-W", "ignore::DeprecationWarning:__main__",
        "-W", "ignore:This process:DeprecationWarning", "-c", textwrap.dedent(source),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout.split(), result.stderr


def test_the_end_of_the_interpreter_lets_a_running_job_end():
    out, err = run_program(
        """
        import threading
        from goscheduler import BackgroundScheduler
        started = threading.Event()
        def job():
            started.set()
            threading.main_thread().join()
            print("ended", flush=True)
        scheduler = BackgroundScheduler(timezone="UTC")
        scheduler.start()
        scheduler.add_job(job)
        started.wait(60)
        print("main", flush=True)
        """
    )
    assert out == ["main", "ended"]
    assert err == ""


def test_a_program_with_an_idle_scheduler_ends_at_once():
    out, err = run_program(
        """
        from goscheduler import BackgroundScheduler
        for _ in range(3):
            scheduler = BackgroundScheduler(timezone="UTC", poll_interval=3600)
            scheduler.start()
            scheduler.add_job(print, "interval", hours=1)
        print("main")
        """,
    )
    assert (out, err) == (["main"], "")


def test_a_scheduler_that_is_no_daemon_keeps_the_program_alive_until_it_is_shut_down():
    out, err = run_program(
        """
        from goscheduler import BackgroundScheduler
        scheduler = BackgroundScheduler(timezone="UTC", daemon=False)
        turns = []
        def job():
            turns.append(1)
            print("turn", flush=True)
            if len(turns) == 3:
                scheduler.shutdown()
        scheduler.start()
        scheduler.add_job(job, "interval", seconds=0.05)
        print("main", flush=True)
        """
    )
    assert out == ["main", "turn", "turn", "turn"]
    assert err == ""


def test_a_forked_child_sees_a_stopped_scheduler_and_may_start_its_own():
    out, err = run_program(
        """
        import os, threading
        from goscheduler import BackgroundScheduler
        from goscheduler.events import EVENT_JOB_EXECUTED
        scheduler = BackgroundScheduler(timezone="UTC")
        scheduler.add_listener(lambda event: heard.set(), EVENT_JOB_EXECUTED)
        heard = threading.Event()
        scheduler.start()
        scheduler.add_job(print, args=["parent"], kwargs={"flush": True})
        assert heard.wait(60)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                print("running" if scheduler.running else "stopped", flush=True)
                heard = threading.Event()
                scheduler.start()
                scheduler.add_job(print, args=["child"], kwargs={"flush": True})
                assert heard.wait(60)
                scheduler.shutdown()
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert scheduler.running
        heard.clear()
        scheduler.add_job(print, args=["parent-again"], kwargs={"flush": True})
        assert heard.wait(60)
        scheduler.shutdown()
        """
    )
    assert out == ["parent", "stopped", "child", "parent-again"]
    assert err == ""


def test_a_child_forked_in_the_middle_of_everything_can_always_start_its_own():
    out, _ = run_program(
        """
        import os, threading
        from goscheduler import BackgroundScheduler
        from goscheduler.events import EVENT_JOB_EXECUTED
        scheduler = BackgroundScheduler(timezone="UTC", job_defaults={"max_instances": 5})
        ran = threading.Event()
        scheduler.start()
        for number in range(20):
            scheduler.add_job(int, "interval", seconds=0.005, id=str(number))
        stop = threading.Event()
        def churn():
            while not stop.is_set():
                scheduler.add_job(int, "interval", seconds=0.005, id="churn", replace_existing=True)
                scheduler.get_jobs()
        threading.Thread(target=churn, daemon=True).start()
        good = 0
        for _ in range(25):
            pid = os.fork()
            if pid == 0:
                import signal
                signal.alarm(15)
                assert not scheduler.running
                ran = threading.Event()
                scheduler.start()
                scheduler.add_job(ran.set, id="mine")
                if not ran.wait(60):
                    os._exit(3)
                scheduler.shutdown(wait=False)
                os._exit(0)
            good += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        stop.set()
        print(good)
        scheduler.shutdown()
        """,
    )
    assert out == ["25"]


def test_a_forked_child_that_just_ends_does_not_touch_the_parents_scheduler():
    out, err = run_program(
        """
        import os, sys, threading
        from goscheduler import BackgroundScheduler
        scheduler = BackgroundScheduler(timezone="UTC")
        scheduler.start()
        turns = threading.Semaphore(0)
        scheduler.add_job(turns.release, "interval", seconds=0.02, max_instances=1000)  # a slow machine is no error
        assert turns.acquire(timeout=60)
        pid = os.fork()
        if pid == 0:
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        for _ in range(5):
            assert turns.acquire(timeout=60)
        print("still-running")
        """
    )
    assert out == ["still-running"]
    assert err == ""


def test_jobs_added_before_a_fork_can_be_started_in_the_child():
    out, _ = run_program(
        """
        import os, threading
        from goscheduler import BackgroundScheduler
        scheduler = BackgroundScheduler(timezone="UTC")
        ran = threading.Event()
        scheduler.add_job(lambda: ran.set())
        pid = os.fork()
        if pid == 0:
            scheduler.start()
            print("ran" if ran.wait(60) else "lost", flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
        """
    )
    assert out == ["ran"]


def test_control_c_ends_a_blocking_scheduler_and_lets_its_job_end():
    out, _ = run_program(
        """
        import os, signal, threading
        from goscheduler import BlockingScheduler
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored
        scheduler = BlockingScheduler(timezone="UTC")
        def job():
            os.kill(os.getpid(), signal.SIGINT)
            threading.main_thread().join()
            print("ended", flush=True)
        scheduler.add_job(job)
        try:
            scheduler.start()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
    )
    assert out == ["interrupted", "ended"]


def test_sigterm_turned_into_an_exit_ends_a_blocking_scheduler_in_order():
    out, _ = run_program(
        """
        import os, signal, sys
        from goscheduler import BlockingScheduler
        from goscheduler.events import EVENT_SCHEDULER_SHUTDOWN
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        scheduler = BlockingScheduler(timezone="UTC")
        scheduler.add_listener(lambda event: print("shutdown", flush=True), EVENT_SCHEDULER_SHUTDOWN)
        scheduler.add_job(lambda: os.kill(os.getpid(), signal.SIGTERM))
        scheduler.start()
        """
    )
    assert out == ["shutdown"]
