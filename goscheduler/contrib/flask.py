"""A scheduler for Flask: configured by the application, with its context around each run.

It has the interface of Flask-APScheduler, and starts where its process is to run jobs: not in the parent of a reloader,
not in gunicorn before the fork, not in commands. :attr:`Scheduler.scheduler` is the scheduler itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, TypeVar

import click
from flask import Flask
from flask.cli import FlaskGroup, ScriptInfo

from goscheduler.config import SchedulerConfig
from goscheduler.contrib import _starting
from goscheduler.contrib._roles import check_role
from goscheduler.errors import InvalidArgument, UnknownOption, shown
from goscheduler.executors.around import Around
from goscheduler.executors.context import CurrentRun
from goscheduler.executors.enclosure import Enclosure
from goscheduler.logs import guarded_logger
from goscheduler.runs.model import Run
from goscheduler.schedulers.background import BackgroundScheduler
from goscheduler.schedulers.base import BaseScheduler

__all__ = ["APScheduler", "Scheduler"]

PREFIX = "SCHEDULER_"
#: Keys that are settings of the scheduler.
SETTINGS = {PREFIX + name.upper(): name for name in SchedulerConfig.__dataclass_fields__ if name != "extra"}
#: Keys of Flask-APScheduler about its HTTP interface.
INTERFACE = ("API_ENABLED", "API_PREFIX", "ENDPOINT_PREFIX", "AUTH", "VIEWS_ENABLED")
OTHERS = tuple(PREFIX + name for name in ("ROLE", "JOBS", "ALLOWED_HOSTS", *INTERFACE))

_logger = guarded_logger("goscheduler.contrib")
_F = TypeVar("_F", bound=Callable[..., Any])


class Scheduler:
    """The scheduler of a Flask application. What is not here is that of :attr:`scheduler`, such as ``get_jobs``."""

    def __init__(self, scheduler: BaseScheduler | None = None, app: Flask | None = None) -> None:
        self.scheduler = BackgroundScheduler() if scheduler is None else scheduler
        self.app: Flask | None = None
        self.role = "run"
        """What the application wants its processes to do; a process may do less."""
        self._declared: list[Callable[[], object]] = []
        """What declares the jobs of decorators once more, after the store that had them is gone."""
        self._was_started = False
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Take the configuration of an application, and add the jobs of ``SCHEDULER_JOBS``.

        Another application may take its place once the scheduler was shut down; the jobs of decorators stay.

        :raises UnknownOption: for a key that begins with ``SCHEDULER_`` and that nobody knows
        :raises InvalidArgument: for a value that makes no sense
        :raises RuntimeError: while the scheduler runs for another application, or with other settings
        """
        settings = _settings_of(app.config)
        self._refuse_second_application(app, settings)
        role = check_role(app.config.get("SCHEDULER_ROLE", "run"))
        jobs = [_arguments_of(job) for job in app.config.get("SCHEDULER_JOBS") or app.config.get("JOBS") or ()]
        if settings:
            self.scheduler.configure(self.scheduler.given_settings, prefix="", **settings)
        if not _is_allowed(app, self.scheduler.engine.host):
            role = "add" if _starting.is_shared(self.scheduler) else "off"
        self.role = role
        self.app = app
        self.scheduler.engine.enclose_by([_AppContext(self), *_enclosures_of(self.scheduler)])
        self._declare_again()
        for job in jobs:
            self.scheduler.add_job(**job)
        app.extensions["goscheduler"] = app.extensions["apscheduler"] = self
        app.apscheduler = self  # type: ignore[attr-defined]
        _step_back_for_reloader(app, self.scheduler)
        _tell_of_interface(app)

    def start(self, paused: bool = False) -> None:
        """Start the scheduler, as far as this process is to have it; call it anywhere after :meth:`init_app`.

        :raises RuntimeError: before :meth:`init_app`
        """
        if self.app is None:
            raise RuntimeError("This scheduler has no application yet; call init_app(app) before start()")
        command, reloads = _command()
        _starting.start(self.scheduler, self.role, command, reloads=reloads, paused=paused)
        self._was_started |= self.scheduler.running

    def for_worker(self) -> BaseScheduler:
        """Return the scheduler for ``goscheduler worker``, which runs its jobs in the context of the application.

        :raises RuntimeError: before :meth:`init_app`, and on a machine that ``SCHEDULER_ALLOWED_HOSTS`` leaves out
        """
        if self.app is None:
            raise RuntimeError(
                "this scheduler has no application yet; name a module that calls create_app(), or create_app itself"
            )
        if not _is_allowed(self.app, self.scheduler.engine.host):
            raise RuntimeError("this machine is not among SCHEDULER_ALLOWED_HOSTS")
        return self.scheduler

    def task(self, *args: Any, **options: Any) -> Callable[[_F], _F]:
        """Return a decorator that adds the function as a job, as :meth:`BaseScheduler.scheduled_job` does."""
        return self._declaring(self.scheduler.scheduled_job(*args, **options))

    scheduled_job = task

    def every(self, what: str, **options: Any) -> Callable[[_F], _F]:
        """Return a decorator that adds the function as a job with a schedule in words: :meth:`BaseScheduler.every`."""
        return self._declaring(self.scheduler.every(what, **options))

    def add_job(self, id: str, func: Callable[..., Any] | str, **options: Any) -> Any:
        """Add a job, with its arguments in the order of Flask-APScheduler; ``trigger`` may be a mapping with a type."""
        return self.scheduler.add_job(**_arguments_of({"id": id, "func": func, **options}, replace=False))

    def run_job(self, id: str, jobstore: str | None = None) -> str:
        """Run a job once, now, and return the id of the run: :meth:`BaseScheduler.run_now`."""
        return self.scheduler.run_now(id, jobstore)

    def _declaring(self, decorate: Callable[[_F], _F]) -> Callable[[_F], _F]:
        def declare(func: _F) -> _F:
            decorate(func)
            self._declared.append(partial(decorate, func))
            return func

        return declare

    def _declare_again(self) -> None:
        """Put the jobs of decorators where a start finds them: an earlier one has moved them into a store of its own.

        Until then they wait, whatever is configured.
        """
        if self._was_started and not self.scheduler.running:
            self._was_started = False
            for declare in self._declared:
                declare()

    def _refuse_second_application(self, app: Flask, settings: Mapping[str, Any]) -> None:
        if not self.scheduler.running or (self.app in (None, app) and not settings):
            return
        mine = "it was started before init_app()" if self.app is None else f"it runs for {shown(self.app.name)}"
        raise RuntimeError(
            f"init_app() of {shown(app.name)} comes while this scheduler is running: {mine}, and jobs would run in the "
            "wrong context. Call shutdown() before, such as at the end of the fixture that makes the application, set "
            "SCHEDULER_ROLE to 'off' in tests, or make a Scheduler for each application"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "scheduler":
            raise AttributeError(name)
        return getattr(self.scheduler, name)


APScheduler = Scheduler


class _AppContext(Enclosure):
    """The context of the application around each run, in this process: a child process has no application."""

    def __init__(self, owner: Scheduler) -> None:
        self._owner = owner
        super().__init__(self._push)
        self.ref = self.name = "the application context"

    def _push(self, run: CurrentRun) -> Any:
        assert self._owner.app is not None
        return self._owner.app.app_context()

    def for_child(self, run: Run) -> Around | None:
        return None


def _enclosures_of(scheduler: BaseScheduler) -> list[Enclosure]:
    arounds = scheduler.engine.arounds
    return [each for each in arounds if isinstance(each, Enclosure) and not isinstance(each, _AppContext)]


def _settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a scheduler among those of an application."""
    for key in config:
        if key.startswith(PREFIX) and key not in SETTINGS and key not in OTHERS:
            raise UnknownOption(key, [*SETTINGS, *OTHERS], where="the configuration of Flask")
    return {name: config[key] for key, name in SETTINGS.items() if config.get(key) is not None}


def _arguments_of(job: Any, replace: bool = True) -> dict[str, Any]:
    """Return the arguments of ``add_job`` that a job in the manner of Flask-APScheduler stands for."""
    if not isinstance(job, Mapping) or "id" not in job or "func" not in job:
        raise InvalidArgument(
            f"each job of SCHEDULER_JOBS must be a mapping with 'id' and 'func', got {shown(job)}",
            field="SCHEDULER_JOBS",
            value=job,
        )
    arguments = dict(job)
    trigger = arguments.get("trigger")
    if isinstance(trigger, Mapping):
        arguments |= dict(trigger)
        arguments["trigger"] = arguments.pop("type", None)
    if replace and "if_exists" not in arguments:
        arguments.setdefault("replace_existing", True)  # it is in the store from the start before this one
    return arguments


def _is_allowed(app: Flask, host: str) -> bool:
    """Tell whether jobs may run on this machine."""
    allowed = app.config.get("SCHEDULER_ALLOWED_HOSTS", ["*"])
    if "*" in allowed or host in allowed:
        return True
    _logger.info("The scheduler runs no jobs: %s is not among SCHEDULER_ALLOWED_HOSTS", shown(host))
    return False


def _command() -> tuple[str | None, bool]:
    """Return the command of Flask that goes on, None outside of one, and whether it was asked for a reloader."""
    context = click.get_current_context(silent=True)
    if context is None or not _is_of_flask(context):
        return None, False
    if context.parent is None:
        return context.info_name or "", False  # which command it is to be, the application may have to tell
    if context.info_name == "run" and context.parent.parent is None:
        reload = context.params.get("reload")
        return "run", bool(_is_debugged() if reload is None else reload)
    return context.info_name or "", False


def _is_of_flask(context: click.Context | None) -> bool:
    """Tell whether a command belongs to Flask: the command lines of servers are made with click as well."""
    while context is not None:
        if isinstance(context.command, FlaskGroup) or isinstance(context.obj, ScriptInfo):
            return True
        context = context.parent
    return False


def _is_debugged() -> bool:
    from flask.helpers import get_debug_flag

    return get_debug_flag()


def _step_back_for_reloader(app: Flask, scheduler: BaseScheduler) -> None:
    """Have ``app.run(debug=True)`` of a script end the scheduler here: the process that serves starts its own."""
    run = app.run

    @wraps(run)
    def run_or_watch(
        host: str | None = None, port: int | None = None, debug: bool | None = None, load_dotenv: bool = True,
        **options: Any,
    ) -> None:  # fmt: skip
        debugged = app.debug or _is_debugged() if debug is None else debug
        if options.get("use_reloader", debugged) and not _starting.is_reloaded() and scheduler.running:
            _logger.info("The scheduler is shut down: this process watches files; it starts in the one that serves")
            scheduler.shutdown(wait=False)
        run(host, port, debug, load_dotenv, **options)

    app.run = run_or_watch  # type: ignore[method-assign]


def _tell_of_interface(app: Flask) -> None:
    if app.config.get("SCHEDULER_API_ENABLED"):
        _logger.warning(
            "SCHEDULER_API_ENABLED does nothing: say who may ask, and mount the HTTP interface with "
            "app.register_blueprint(goscheduler.web.flask_blueprint(scheduler.scheduler, principal=…), "
            'url_prefix="/scheduler"); see "Look and act in a browser, and over HTTP" in the documentation'
        )
