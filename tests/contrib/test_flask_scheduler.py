"""The scheduler of a Flask application: its configuration, its jobs, its context."""

from __future__ import annotations

import click
import pytest
from flask import Flask, current_app
from flask.cli import FlaskGroup

from goscheduler import ProcessPoolExecutor
from goscheduler.contrib.flask import APScheduler, Scheduler
from goscheduler.errors import InvalidArgument, UnknownOption
from goscheduler.runs.model import OutcomeKind
from goscheduler.testing import ManualScheduler

seen: list[object] = []


def look() -> None:
    seen.append((current_app.name, current_app.config["COLOUR"]))


@pytest.fixture
def app():
    seen.clear()
    app = Flask("shop")
    app.config["COLOUR"] = "red"
    return app


@pytest.fixture
def scheduler():
    scheduler = Scheduler(ManualScheduler())
    yield scheduler
    if scheduler.running:
        scheduler.shutdown()


def test_jobs_of_the_decorator_the_configuration_and_the_methods_run_in_the_context_of_the_application(app, scheduler):
    app.config.update(
        SCHEDULER_JOBS=[
            {"id": "flat", "func": f"{__name__}:look", "trigger": "interval", "minutes": 5},
            {"id": "nested", "func": look, "trigger": {"type": "interval", "minutes": 5}},
        ],
        SCHEDULER_JOB_DEFAULTS={"misfire_grace_time": 90},
        SCHEDULER_TIMEZONE="Europe/Berlin",
    )
    scheduler.task("interval", minutes=5, id="decorated")(look)
    scheduler.init_app(app)
    scheduler.start()
    scheduler.add_job("added", look, trigger="interval", minutes=5)
    scheduler.scheduler.advance("5m")
    assert seen == [("shop", "red")] * 4
    assert {job.id: job.misfire_grace_time for job in scheduler.get_jobs()} == dict.fromkeys(
        ["flat", "nested", "decorated", "added"], 90
    )
    assert (str(scheduler.timezone), scheduler.running, scheduler.state) == ("Europe/Berlin", True, 1)
    assert scheduler.run_job("flat") in [run.id for run in scheduler.live_runs("flat")]
    assert app.extensions["apscheduler"] is app.apscheduler is scheduler
    assert APScheduler is Scheduler


def test_what_else_is_around_is_inside_of_the_context_and_a_second_application_takes_the_place_of_the_first(app):
    scheduler = Scheduler(ManualScheduler())
    app.config["SCHEDULER_AROUND"] = [in_context]
    scheduler.init_app(app)
    other = Flask("warehouse")
    other.config["COLOUR"] = "blue"
    scheduler.init_app(other)
    scheduler.start()
    scheduler.scheduler.add_job(look)
    scheduler.scheduler.run_due()
    assert seen == ["around in warehouse", ("warehouse", "blue")]
    scheduler.shutdown()


class in_context:
    def __init__(self, run: object) -> None:
        seen.append(f"around in {current_app.name}")

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


def test_a_process_pool_is_allowed_since_child_processes_have_no_application(app, scheduler):
    app.config["SCHEDULER_EXECUTORS"] = {"default": ProcessPoolExecutor(1)}
    scheduler.init_app(app)
    scheduler.start(paused=True)
    assert scheduler.running


def test_a_job_that_fails_fails_in_its_context(app, scheduler):
    scheduler.init_app(app)
    scheduler.start()
    scheduler.add_job("job", lambda: current_app.config["SIZE"], auto_remove=False)
    scheduler.scheduler.run_due()
    [record] = scheduler.runs("job")
    assert (record.outcome, record.error_type) == (OutcomeKind.FAILED, "KeyError")


@pytest.mark.parametrize(
    ("config", "error", "text"),
    [
        ({"SCHEDULER_JOBSTORE": "x"}, UnknownOption, "did you mean 'SCHEDULER_JOBSTORES'"),
        ({"SCHEDULER_API_ENABLE": True}, UnknownOption, "for the configuration of Flask; did you mean"),
        ({"SCHEDULER_ROLE": "adds"}, InvalidArgument, "role must be 'run', 'add' or 'off', got 'adds'; did you mean"),
        ({"SCHEDULER_TIMEZONE": "Mars"}, ValueError, "Unknown timezone 'Mars'"),
        ({"SCHEDULER_JOBS": ["x"]}, InvalidArgument, "must be a mapping with 'id' and 'func', got 'x'"),
        ({"SCHEDULER_JOBS": [{"id": "a"}]}, InvalidArgument, "must be a mapping with 'id' and 'func'"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused_when_it_is_read(app, scheduler, config, error, text):
    app.config.update(config)
    with pytest.raises(error, match=text):
        scheduler.init_app(app)
    assert scheduler.app is None


def test_a_start_without_an_application_says_what_is_missing(scheduler):
    with pytest.raises(RuntimeError, match=r"call init_app\(app\) before start\(\)"):
        scheduler.start()


def test_commands_do_not_start_it_and_may_add_where_the_store_is_shared(app, tmp_path, caplog):
    local, shared = Scheduler(), Scheduler()
    local.init_app(app)
    app.config["SCHEDULER_JOBSTORES"] = {"default": f"sqlite:///{tmp_path / 'jobs.sqlite'}"}
    shared.init_app(app)

    @app.cli.command()
    def upgrade() -> None:
        local.start()
        shared.start()

    with caplog.at_level("INFO", "goscheduler.contrib"):
        FlaskGroup(create_app=lambda: app)(["upgrade"], standalone_mode=False)
    assert [record.message for record in caplog.records] == [
        "The scheduler is not started: this is the command 'upgrade', and its job store is not shared",
        "The scheduler runs no jobs: this is the command 'upgrade', which runs no jobs",
    ]
    assert (local.running, shared.running) == (False, True)
    shared.add_job("a", look)
    assert [job.id for job in shared.get_jobs()] == ["a"]
    shared.shutdown()


def test_the_command_line_of_a_server_that_is_made_with_click_is_no_command_of_flask(app, scheduler):
    scheduler.init_app(app)

    @click.group()
    def server() -> None: ...

    @server.command()
    def serve() -> None:
        scheduler.start()

    server(["serve"], standalone_mode=False)
    assert scheduler.running


def test_a_second_application_is_refused_while_the_first_one_is_served_and_finds_all_declared_jobs_afterwards(app):
    scheduler = Scheduler(ManualScheduler())
    scheduler.task("interval", minutes=5, id="task")(look)
    scheduler.every("5 minutes", id="every")(look)
    app.config["SCHEDULER_JOB_DEFAULTS"] = {"misfire_grace_time": 90}
    scheduler.init_app(app)
    scheduler.start()
    scheduler.scheduled_job("interval", minutes=5)(look)
    plain, same = Flask("plain"), Flask("shop")
    same.config.update(app.config)
    for other in (plain, same, app):
        with pytest.raises(RuntimeError, match=r"it runs for 'shop'.*Call shutdown\(\) before"):
            scheduler.init_app(other)
    assert scheduler.app is app
    for _ in range(2):
        scheduler.shutdown()
        scheduler.init_app(same)
        scheduler.init_app(same)
        scheduler.start()
        assert scheduler.app is same
        assert len(scheduler.get_jobs()) == 3
    scheduler.scheduler.advance("5m")
    assert seen == [("shop", "red")] * 3
    scheduler.shutdown()
    scheduler.init_app(plain)
    scheduler.start()
    assert len(scheduler.get_jobs()) == 3
    scheduler.shutdown()


def test_the_reloader_of_a_script_ends_the_scheduler_in_the_process_that_watches(app, scheduler, monkeypatch):
    served: list[object] = []
    monkeypatch.setattr(app, "run", lambda *given, **options: served.append((given, options)))
    scheduler.init_app(app)
    scheduler.start()
    app.run(debug=False)
    assert scheduler.running
    app.run(port=0, debug=True)
    assert not scheduler.running
    assert served[1] == ((None, 0, True, True), {})
    monkeypatch.setenv("WERKZEUG_RUN_MAIN", "true")
    scheduler.start()
    app.run(debug=True)
    assert scheduler.running


def test_machines_that_are_not_allowed_run_nothing_and_the_interface_says_how_it_is_mounted(app, scheduler, caplog):
    app.config.update(SCHEDULER_ALLOWED_HOSTS=["elsewhere"], SCHEDULER_API_ENABLED=True)
    with caplog.at_level("INFO", "goscheduler.contrib"):
        scheduler.init_app(app)
        scheduler.start()
    assert not scheduler.running
    assert "is not among SCHEDULER_ALLOWED_HOSTS" in caplog.text
    assert "app.register_blueprint(goscheduler.web.flask_blueprint(" in caplog.text
