"""Every public method takes what APScheduler 3's takes, in its order; what is new comes by keyword or at the end."""

from __future__ import annotations

import inspect
from importlib import import_module

from rows import each_row

CLASSES = [
    ("schedulers.base", "BaseScheduler"),
    ("schedulers.blocking", "BlockingScheduler"),
    ("schedulers.background", "BackgroundScheduler"),
    ("schedulers.asyncio", "AsyncIOScheduler"),
    ("job", "Job"),
    ("jobstores.base", "BaseJobStore"),
    ("jobstores.memory", "MemoryJobStore"),
    ("executors.base", "BaseExecutor"),
    ("executors.pool", "ThreadPoolExecutor"),
    ("executors.pool", "ProcessPoolExecutor"),
    ("executors.debug", "DebugExecutor"),
    ("executors.asyncio", "AsyncIOExecutor"),
]

#: What people override or call although its name says not to.
EXTENSION_POINTS = {
    "BaseScheduler": [
        "_create_lock", "_create_default_executor", "_create_default_jobstore", "_process_jobs", "_configure",
        "_dispatch_event",
    ],
    "BaseExecutor": ["_do_submit_job", "_run_job_success", "_run_job_error"],
    "BaseJobStore": ["_fix_paused_jobs_sorting"],
}  # fmt: skip

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _cases() -> list[tuple[str, str, str]]:
    cases = []
    for module, cls in CLASSES:
        theirs = getattr(import_module(f"apscheduler.{module}"), cls)
        public = [name for name in dir(theirs) if not name.startswith("_") and inspect.isroutine(getattr(theirs, name))]
        names = public + EXTENSION_POINTS.get(cls, [])
        cases += [(module, cls, name) for name in [*names, "__init__"]]
    return cases


@each_row(("module", "cls", "method"), _cases())
def test_a_method_can_be_called_as_in_apscheduler(module: str, cls: str, method: str) -> None:
    theirs = _parameters("apscheduler", module, cls, method)
    ours = _parameters("goscheduler", module, cls, method)
    positional = [p.name for p in theirs if p.kind in POSITIONAL]
    assert [p.name for p in ours if p.kind in POSITIONAL][: len(positional)] == positional
    assert _required(ours) <= _required(theirs), "something that APScheduler does not ask for must be optional"
    if any(p.kind is p.VAR_KEYWORD for p in theirs) and method not in ("start", "shutdown"):
        assert any(p.kind is p.VAR_KEYWORD for p in ours)


@each_row(("module", "cls", "method"), _cases())
def test_defaults_that_mean_something_are_apschedulers(module: str, cls: str, method: str) -> None:
    theirs = {p.name: p.default for p in _parameters("apscheduler", module, cls, method)}
    ours = {p.name: p.default for p in _parameters("goscheduler", module, cls, method)}
    plain = {name: value for name, value in theirs.items() if isinstance(value, (bool, int, str)) or value is None}
    for name in ("mask", "prefix", "executor"):  # ours listen to more, read both prefixes, and take job_defaults
        plain.pop(name, None)
    assert {name: ours.get(name, "missing") for name in plain} == plain


def _parameters(root: str, module: str, cls: str, method: str) -> list[inspect.Parameter]:
    function = getattr(getattr(import_module(f"{root}.{module}"), cls), method)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return [] if function is object.__init__ else parameters


def _required(parameters: list[inspect.Parameter]) -> set[str]:
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {p.name for p in parameters if p.default is p.empty and p.kind not in variable}


def test_a_base_scheduler_asks_a_subclass_for_how_to_wait_only() -> None:
    from goscheduler.schedulers.base import BaseScheduler

    assert "wakeup" in BaseScheduler.__abstractmethods__


def test_a_job_store_must_implement_apschedulers_eight_methods_and_no_more() -> None:
    import apscheduler.jobstores.base as theirs

    import goscheduler.jobstores.base as ours

    assert ours.BaseJobStore.__abstractmethods__ == theirs.BaseJobStore.__abstractmethods__


def test_an_executor_written_for_apscheduler_needs_one_method_only() -> None:
    import goscheduler.executors.base as ours

    class Custom(ours.BaseExecutor):
        def _do_submit_job(self, job, run_times):  # type: ignore[no-untyped-def]
            raise NotImplementedError

    assert isinstance(Custom(), ours.BaseExecutor)
