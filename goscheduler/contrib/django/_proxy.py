"""The scheduler of a Django project, made when it is first needed.

Before the apps are ready jobs can be declared, and nothing else. Afterwards the first call opens the job store: a web
process, a command or a shell only adds jobs, and :func:`ProjectScheduler.for_worker` gives the one that runs them.
Declarations reach the store with the worker alone, so that no old web process can undo those of a newer worker.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from django.apps import apps
from django.core.exceptions import AppRegistryNotReady, ImproperlyConfigured

from goscheduler._program import PROGRAM
from goscheduler.contrib.django._settings import ProjectSettings, project_settings

if TYPE_CHECKING:
    from goscheduler.contrib.django._scheduler import DjangoScheduler
    from goscheduler.job import Job
    from goscheduler.schedulers.base import BaseScheduler

#: What may be done before the apps are ready.
EARLY = frozenset({
    "register", "add_listener", "remove_listener", "add_around", "add_executor", "add_calendar", "timezone",
})  # fmt: skip
#: What only the worker does.
OF_WORKERS = frozenset({"start", "shutdown", "pause", "resume", "configure", "wakeup"})

TASK_BACKEND = "goscheduler.contrib.django.tasks.Backend"

_F = TypeVar("_F", bound=Callable[..., Any])


class ProjectScheduler:
    """Stands for the scheduler of the project, and has its methods."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._made: DjangoScheduler | None = None
        self._is_worker = False

    def scheduled_job(self, trigger: Any, *args: Any, **options: Any) -> Callable[[_F], _F]:
        """Return a decorator that declares a job, for a module such as ``jobs.py``; the worker puts it into the store.

        It takes what :meth:`BaseScheduler.scheduled_job` takes. Give each job an id.
        """
        return self._declaring("scheduled_job", trigger, *args, **options)

    def every(self, what: str, **options: Any) -> Callable[[_F], _F]:
        """Return a decorator that declares a job with a schedule in words, as :meth:`BaseScheduler.every` does."""
        return self._declaring("every", what, **options)

    async def aadd_job(self, func: Callable[..., Any] | str, *args: Any, **options: Any) -> Job:
        """Add a job from a coroutine, outside of a transaction: those of Django are not open in coroutines."""
        from asgiref.sync import sync_to_async

        added: Job = await sync_to_async(self._live().add_job)(func, *args, **options)
        return added

    def for_worker(self) -> BaseScheduler:
        """Return the scheduler that runs the jobs of this project in this process, not started yet.

        :raises ImproperlyConfigured: if this process has used the scheduler to add jobs already
        """
        with self._lock:
            self._require_apps("for_worker")
            made = self._declared()
            if made.running:
                raise ImproperlyConfigured(
                    "The scheduler was used before the worker had started, so it only adds jobs in this process. Move "
                    "calls such as add_job() out of modules and of ready(), and declare jobs with "
                    "@scheduler.scheduled_job"
                )
            self._is_worker = True
            self._give_store(made)
            _learn_tasks()
            return made

    def reset(self) -> None:
        """Let go of the store, because settings have changed; the next call opens it again. For tests."""
        with self._lock:
            made, self._made, self._is_worker = self._made, None, False
        if made is not None and made.running:
            made.shutdown()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in OF_WORKERS and not self._is_worker:
            raise ImproperlyConfigured(
                f"scheduler.{name}() is for the process that runs the jobs: python manage.py goscheduler worker. Every "
                "other process opens the job store by its first call, and only adds jobs"
            )
        return getattr(self._declared() if name in EARLY else self._live(name), name)

    def __repr__(self) -> str:
        made = self._made
        return "<scheduler of this project, not used yet>" if made is None else f"<scheduler of this project: {made}>"

    def _declaring(self, method: str, *args: Any, **options: Any) -> Callable[[_F], _F]:
        def declare(func: _F) -> _F:
            with self._lock:
                made = self._declared()
                if self._is_worker or not made.running:
                    getattr(made, method)(*args, **options)(func)
            return func

        return declare

    def _declared(self) -> DjangoScheduler:
        """Return the scheduler, which may not have a store yet."""
        with self._lock:
            if self._made is None:
                self._made = _scheduler_of_settings()
            return self._made

    def _live(self, name: str = "add_job") -> DjangoScheduler:
        """Return the scheduler with its store open."""
        made = self._made
        if made is not None and (self._is_worker or made.running):
            return made
        with self._lock:
            self._require_apps(name)
            made = self._declared()
            if not made.running:
                made.engine.jobs.waiting.clear()  # declarations, which the worker makes
                if "default" not in made.engine.stores:
                    self._give_store(made)
                if project_settings().store == "memory":
                    made.start(paused=True)  # for tests of projects: no other process could run what is added
                else:
                    made.start(only_adds=True)
            return made

    def _require_apps(self, name: str) -> None:
        if not apps.ready:
            raise AppRegistryNotReady(
                f"scheduler.{name} was used before Django was ready: while apps are imported, or in ready(). Declare "
                "jobs with @scheduler.scheduled_job in the module jobs.py of an app; call other methods in views, "
                "signals or commands"
            )

    def _give_store(self, made: DjangoScheduler) -> None:
        from goscheduler.plugins import create_plugin

        read = project_settings()
        store: Any = {"type": "memory"} if read.store == "memory" else read.store
        if read.alias is not None:
            from goscheduler.contrib.django._database import store_url

            store = store_url(read.alias)
            made.alias, made.driver = read.alias, _driver_of(store)
        made.add_jobstore(create_plugin("jobstore", "default", store))


def _scheduler_of_settings() -> DjangoScheduler:
    from django.conf import settings

    from goscheduler.contrib.django._connections import clean_connections
    from goscheduler.contrib.django._scheduler import DjangoScheduler

    read = project_settings()
    module = os.environ.get("DJANGO_SETTINGS_MODULE")
    if module:
        PROGRAM.has_code_in(module)  # a worker may have been started by django-admin, which is not of the project
    zone, given = read.timezone or settings.TIME_ZONE, read.options.get("around", ())
    try:
        return DjangoScheduler(
            **{
                "timezone": zone, "job_defaults": read.job_defaults, "executors": _executors(read), **read.options,
                "around": [clean_connections, *(given.split(",") if isinstance(given, str) else given)],
            }
        )  # fmt: skip
    except (ValueError, TypeError, LookupError) as error:
        raise ImproperlyConfigured(f"GOSCHEDULER: {error}") from error


def _learn_tasks() -> None:
    """Let the worker run the tasks of Django, where they are installed."""
    try:
        import_module("goscheduler.contrib.django._task_running")
    except ImportError as error:
        if str(error.name).partition(".")[0] != "django_tasks":
            raise


def _executors(read: ProjectSettings) -> dict[str, Any]:
    """Return the executors, one for each queue of tasks among them."""
    from django.conf import settings

    backends = [each for each in getattr(settings, "TASKS", {}).values() if each.get("BACKEND") == TASK_BACKEND]
    queues = [queue for each in backends for queue in each.get("QUEUES", ["default"])]
    return {**{queue: {"type": "threadpool"} for queue in queues}, **read.executors}


def _driver_of(url: str) -> str:
    """Return the package that a URL of ours makes the store use."""
    scheme = url.partition(":")[0]
    return {"sqlite": "sqlite3", "mysql+mysqldb": "MySQLdb"}.get(scheme, scheme.partition("+")[2])
