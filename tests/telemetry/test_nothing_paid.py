"""Who reads no metrics pays for none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from goscheduler.telemetry import instrument, metrics_text
from goscheduler.testing import ManualScheduler


def tick() -> None:
    pass


def _imported_by(program: str) -> set[str]:
    text = f"import sys\n{program}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_scheduler_imports_no_telemetry() -> None:
    program = "from goscheduler import BackgroundScheduler\ns = BackgroundScheduler()\ns.start()\ns.shutdown()"
    found = _imported_by(program)
    assert not [name for name in found if name.startswith(("opentelemetry", "goscheduler.telemetry", "http.server"))]


def test_metrics_for_prometheus_need_nothing_that_is_not_of_python() -> None:
    program = (
        "from goscheduler import BackgroundScheduler\nfrom goscheduler.telemetry import metrics_text, JSONFormatter\n"
        "metrics_text(BackgroundScheduler())"
    )
    found = _imported_by(program)
    assert not [name for name in found if name.startswith(("opentelemetry", "prometheus_client"))]


def test_without_the_extra_the_error_says_what_to_install() -> None:
    program = (
        "import sys\nsys.modules['opentelemetry'] = None\nfrom goscheduler.telemetry import instrument\n"
        "from goscheduler import BackgroundScheduler\ninstrument(BackgroundScheduler())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'pip install "goscheduler[otel]"' in done.stderr.splitlines()[-1]


def test_nothing_is_counted_by_schedule_before_something_reads_it() -> None:
    with ManualScheduler() as scheduler:
        scheduler.add_job(tick, id="a")
        scheduler.advance(1)
        assert scheduler.engine.tally is None
        assert scheduler.engine.statistics.tallied() is None
        assert scheduler.stats()[-1].counts["succeeded"] == 1
        metrics_text(scheduler)
        scheduler.add_job(tick, id="b")
        scheduler.advance(1)
        assert 'status="succeeded"} 1' in metrics_text(scheduler)


def test_a_scheduler_that_is_not_traced_has_nothing_around_attempts() -> None:
    scheduler = ManualScheduler()
    assert (scheduler.engine.arounds, scheduler.engine.carrier, scheduler.engine.hears_ends) == ((), None, ())
    told = instrument(scheduler)
    assert len(scheduler.engine.arounds) == len(scheduler.engine.hears_ends) == 1
    told.remove()
    assert (scheduler.engine.arounds, scheduler.engine.carrier, scheduler.engine.hears_ends) == ((), None, ())


@pytest.mark.parametrize("name", ["nothing", "otel_metrics2"])
def test_a_name_that_does_not_exist_is_an_attribute_error(name: str) -> None:
    import goscheduler.telemetry

    with pytest.raises(AttributeError, match=name):
        getattr(goscheduler.telemetry, name)
