"""Every example runs to its end, without a warning, and prints what it promises."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import warm

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

#: What each example prints, as a pattern for the whole of its output.
EXPECTED: dict[str, tuple[list[str], str]] = {
    "background.py": ([], r"Hello, world! \(1\)\nHello, world! \(2\)\nHello, world! \(3\)\n(Hello.*\n)*Done\.\n"),
    "blocking.py": ([], r"3\n2\n1\nLift-off\.\n"),
    "asyncio_scheduler.py": (
        [],
        r"Fetched page 1 on the event loop\nFetched page 2 on the event loop\n(Fetched.*\n)*Running: False\n",
    ),
    "tornado_scheduler.py": (
        [],
        r"A coroutine, native, ran on the IOLoop\nA coroutine, of tornado\.gen, ran on the IOLoop\nRunning: False\n",
    ),
    "gevent_scheduler.py": (
        [],
        r"Two jobs have met on one hub\nKilled: it ran longer than its timeout of 0\.2 seconds\nRunning: False\n",
    ),
    "twisted_scheduler.py": (
        [],
        r"A function ran on the reactor: False\nA coroutine ran on the reactor: True\n"
        r"inlineCallbacks ran on the reactor: True\nRunning: False\n",
    ),
    "qt_scheduler.py": (
        [],
        r"Fetched on the GUI thread: False\nShown on the GUI thread: True, 42\nRunning: False\n",
    ),
    "cron_and_time_zones.py": (
        [],
        r".*09:00.*Monday.*Friday.*\n"
        r"  Mon 2026-01-05 09:00 CET\n  Tue 2026-01-06 09:00 CET\n  Wed 2026-01-07 09:00 CET\n"
        r".*02:30.*\n"
        r"  Sat 2026-03-28 02:30 CET\n  Sun 2026-03-29 03:00 CEST\n  Mon 2026-03-30 02:30 CEST\n",
    ),
    "interval_jitter.py": (
        [],
        r"every minute.*\n100 runs in 99 minutes\nevery run at most 20 s after its minute: True\n"
        r"not all of them on the minute: True\n",
    ),
    "calendar_interval.py": (
        [],
        r"every month at 08:00.*\n  2026-01-31 08:00\n  2026-03-31 08:00\n  2026-05-31 08:00\n  2026-07-31 08:00\n",
    ),
    "combining_triggers.py": (
        [],
        r".*13.*Friday.*\n  Fri 2026-02-13\n  Fri 2026-03-13\n  Fri 2026-11-13\n"
        r".*Tuesday.*Monday.*\n  Thu 2026-01-01 07:00\n  Fri 2026-01-02 07:00\n  Mon 2026-01-05 09:00\n",
    ),
    "events_and_listeners.py": (
        [],
        r"by-two returned 5\.0\nby-zero failed: ZeroDivisionError\('division by zero'\)\n",
    ),
    "changing_jobs.py": (
        [],
        r"added:       cron\[hour='3'\], runs next at 03:00\n"
        r"paused:      next run None\n"
        r"resumed:     runs next at 03:00\n"
        r"modified:    weekly report for everybody\n"
        r"rescheduled: cron\[hour='5', minute='30'\], runs next at 05:30\n"
        r"removed:     None\n",
    ),
    "max_instances_and_coalescing.py": (
        [],
        r"slow: 1 running, the next run was skipped\n"
        r"one for all: 1 run\(s\) for 3 fire times\n"
        r"each of them: 3 run\(s\) for 3 fire times\n",
    ),
    "process_pool.py": (
        [],
        r"Sum: 332833500, computed in another process: True\n"
        r"The crash is an error of that run alone: True\n"
        r"The pool goes on: 285\n",
    ),
    "configuration.py": (
        [],
        r"time zone Europe/Berlin, at most 3 at once, coalescing: False\n.*timezon.*did you mean 'timezone'\?.*\n",
    ),
    "export_import.py": ([], r"backup: backup\('orders',\) on cron\[hour='1'\]\n"),
    "custom_trigger.py": ([], r"doubling\[4 times from 12:00\]\n12:01 12:03 12:07 12:15\n"),
    "sunset_trigger.py": (
        [],
        r"at sunset at 52\.52, 13\.405\n20 Mar 18:1\d CET\n21 Jun 21:3\d CEST\n21 Dec 15:5\d CET\n"
        r"after the polar day: Jul\n",
    ),
    "calendars.py": (
        [],
        r"poll: every 4 hours .*\nThu 24 08:00, Thu 24 12:00, Thu 24 16:00, Mon 28 08:00\n"
        r"report: .*\nThu 24 09:00, Tue 29 09:00, Wed 30 09:00, Thu 31 09:00\nafter skip_next: Tue 29 09:00\n",
    ),
    "custom_executor.py": ([], r"Running on the thread for-lookout\n"),
    "custom_job_store.py": (
        [],
        r"After the restart: remind\('water the plants',\) on cron\[hour='8'\], at 08:00\n",
    ),
    "flask_app.py": (["--check"], r"(/jobs lists clean-up|Flask is not installed: pip install flask)\n"),
    "django_app.py": (
        [],
        r"rolled back: \[\]\ncommitted: \['bill-7'\]\nthe worker: billed order 7\n"
        r"declared by the worker: \['expire-carts'\]\n",
    ),
    "retries.py": (
        [],
        r"fetched at attempt 3\n"
        r"dead letter of bill: the job gave up: there is no Ada\n"
        r"redriven: 1\n"
        r"billed Ada\n"
        r"  attempt 2 by redrive: succeeded\n"
        r"  attempt 1 by schedule: failed\n",
    ),
    "timeouts.py": (
        [],
        r"crawled at attempt 2\n"
        r"  attempt 1: timed out\n"
        r"  attempt 2: succeeded\n"
        r"copy is running, at row something\n"
        r"told to end: True\n"
        r"copy cancelled: the disk is full\n",
    ),
    "limits.py": (
        [],
        r"00:00:00 storm warning\n00:00:00 weather of Berlin\n00:00:00 weather of Paris\n"
        r"00:01:01 weather of Rome\n00:01:01 weather of Oslo\n"
        r"00:03:00 copy\n00:04:00 copy\n",
    ),
    "tasks_by_name.py": (
        [],
        r"sent 'hello' to ada@example\.org\n"
        r"sent 'hello again' to bob@example\.org\n"
        r'suspended: no task named "resize" is registered here\n'
        r"resized cat\.jpg\n",
    ),
    "periodic.py": (
        [],
        r"added     cleanup_hourly  every hour \(America/New_York\)\n"
        r"added     weekly_report   at 09:00 on every Monday \(UTC\)\n"
        r"2 added, 0 changed, 0 unchanged, 0 removed\n"
        r"in the queue: cleanup_old_data\(\{'max_age_days': 30\}\)\n"
        r"added     refresh_cache   every 15 minutes \(UTC\)\n"
        r"changed   cleanup_hourly  cron: every hour \(America/New_York\) → every hour \(UTC\), payload, priority\n"
        r"removed   weekly_report\n"
        r"1 added, 1 changed, 0 unchanged, 1 removed\n"
        r"runs of cleanup_hourly: 1\n",
    ),
    "why.py": (
        [],
        r"first   scheduled  It is not due until 2026-01-01 02:00:00 UTC\.\nmail    paused     It was paused by Ada\.\n"
        r"once    failed     It has fired for the last time, at 2026-01-01 00:00:00 UTC, and failed\.\n"
        r'render  suspended  It is suspended: there is no executor named "gpu"\.\n'
        r"report  scheduled  It is not due until 2026-01-01 09:00:00 UTC\.\n"
        r'second  scheduled  It waits until 2026-01-01 01:1.:.. UTC for a limit: "api"\.\n'
        r"sync    scheduled  It is not due until 2026-01-01 01:00:01 UTC, when it is tried again\.\n"
        r"once has run 1 time: ConnectionError: the server does not answer\n",
    ),
    "worker.py": (
        [],
        r"beat 1\nbeat 2\nbeat 3\nthis job comes to its end all the same\n(beat \d+\n)*"
        r"the worker has ended with exit code 0\n",
    ),
    "testing_your_jobs.py": (
        [],
        r"after 1 day: \['invoice 1'\]\nafter 3 days: \['invoice 1', 'invoice 2', 'invoice 3'\]\n",
    ),
    "documents.py": (
        [],
        r"sent welcome\nbroken: no mail server; it comes again when its lock has run out\n"
        r"sent daily news\nsent last chance\n"
        r"broken: sleeps\ndaily news: sleeps\nlast chance: rests\nnext year: sleeps\n",
    ),
    "messages.py": (
        [],
        r"cancelled: True\n00:00:00 hourly tick \(attempt 1\)\n00:01:05 flaky comes through in the end \(attempt 3\)\n"
        r"01:00:00 hourly tick \(attempt 1\)\n02:00:00 hourly tick \(attempt 1\)\n"
        r"dead: odd, goscheduler\.errors\.MessageRejected: nobody takes this\npending: 0\n",
    ),
    "locks.py": (
        [],
        r"line 1\nline 2\nfree right after the crash: False\nfree when its time was over: True\n",
    ),
    "pages_demo.py": (["--check"], r"history: 1\d\d runs\n"),
    "demo.py": (
        ["2"],
        r"(?s).*long-report +begins.*kill -9.*long-report +belonged to a process that is gone.*"
        r"long-report +is written.*flaky +\| \S+ \| +3 \| succeeded.*"
        r"long-report +\| \S+ \| +1 \| lost\n +long-report +\| \S+ \| +1 \| succeeded.*",
    ),
}


def test_every_example_is_checked() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_the_example_prints_what_it_promises(name: str) -> None:
    if name == "qt_scheduler.py" and find_spec("PySide6") is None:
        pytest.skip("Qt is not installed")
    arguments, pattern = EXPECTED[name]
    done = warm.run("-W", "error::DeprecationWarning", EXAMPLES / name, *arguments)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(pattern, done.stdout), done.stdout
    assert not done.stderr
