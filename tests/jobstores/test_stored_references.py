"""Where a reference that stands in a store may lead: into the program's own code, and nowhere else by default."""

from __future__ import annotations

import io
import json
import sys

import pytest
from record_places import STORES, Place

from goscheduler._program import PROGRAM
from goscheduler._resolver import MissingFunction, Resolver
from goscheduler.testing import ManualClock, ManualScheduler
from goscheduler.testing.contract import NOW, nothing

#: Functions that run commands, load code, write files, or call whatever they are given; all of them can be imported
#: where the tests run, and none of them is on the list of modules that are denied by name.
FOREIGN = [
    "imaplib:IMAP4_stream", "pip._internal:main", "distutils.spawn:spawn", "dataclasses:_create_fn",
    "urllib.request:urlretrieve", "shelve:open", "test.support.script_helper:spawn_python", "pytest:main",
    "click:edit", "pip:main", "pip._internal.cli.main:main", "pip._internal.utils.subprocess:call_subprocess",
    "pip._vendor.distlib.util:get_executable", "setuptools:setup", "setuptools._distutils.spawn:spawn",
    "setuptools.build_meta:build_wheel", "distutils.core:run_setup", "distutils.util:execute",
    "distutils.file_util:copy_file", "distutils.dir_util:remove_tree", "ensurepip:bootstrap", "venv:create",
    "venv:main", "compileall:compile_dir", "py_compile:compile", "zipapp:create_archive", "zipfile:main",
    "tarfile:open", "tarfile:main", "gzip:open", "bz2:open", "lzma:open", "fileinput:input", "linecache:getlines",
    "tempfile:mktemp", "tempfile:TemporaryDirectory", "pathlib:Path", "io:open", "codecs:open", "tokenize:open",
    "dbm:open", "dbm.dumb:open", "sqlite3:connect", "smtplib:SMTP", "ftplib:FTP", "poplib:POP3",
    "telnetlib:Telnet", "nntplib:NNTP", "http.client:HTTPConnection", "http.server:test",
    "urllib.request:urlopen", "xmlrpc.client:ServerProxy", "socketserver:TCPServer", "ssl:get_server_certificate",
    "concurrent.futures:ProcessPoolExecutor", "asyncio:create_subprocess_shell", "asyncio:run",
    "asyncio.events:new_event_loop", "unittest:main", "unittest.loader:findTestCases", "cmd:Cmd",
    "platform:popen", "site:addsitedir", "sysconfig:_main", "functools:reduce", "functools:partial",
    "operator:methodcaller", "operator:attrgetter", "copyreg:pickle", "types:FunctionType", "inspect:getsource",
    "ast:literal_eval", "string:Formatter", "contextlib:ExitStack", "atexit:register", "signal:raise_signal",
    "threading:Thread", "_thread:start_new_thread", "sched:scheduler", "queue:Queue", "weakref:finalize",
    "gc:get_objects", "logging:FileHandler", "logging.handlers:HTTPHandler", "turtle:done", "idlelib.run:main",
    "lib2to3.main:main", "tkinter:Tk", "typer:launch", "click:launch", "click.utils:open_file",
    "rich.console:Console", "hypothesis.extra.cli:main", "sqlalchemy:create_engine",
    "sqlalchemy.util.langhelpers:walk_subclasses", "redis:Redis", "pymongo:MongoClient",
    "kombu.utils.imports:symbol_by_name", "celery.bin.celery:main", "dramatiq.cli:main", "rq.cli:main",
    "rq.utils:import_attribute", "mypy.api:run", "httpx:get", "requests:get", "requests.api:request", "yaml:load",
    "psutil:Popen", "xdist:plugin", "execnet:makegateway", "apscheduler.util:ref_to_obj",
    "goscheduler.references:ref_to_obj", "goscheduler.cli:main", "goscheduler.plugins:create_plugin",
    "goscheduler.util:maybe_ref",
]  # fmt: skip
#: And some that are found through a module of the program itself.
THROUGH_OURS = ["own_code:json.dumps", "own_code:dumps", "own_code:client.get_method", "own_code:Borrowed"]

OWN_CODE = """
import json, urllib.request
from http.cookiejar import CookieJar as Borrowed
from json import dumps
client = urllib.request.Request("http://localhost")
def fine(): pass
"""


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch):
    """Forget what other tests of this process have given to ``add_job``."""
    monkeypatch.setattr(PROGRAM, "_references", set())


@pytest.fixture(params=list(STORES))
def kind(request):
    return request.param


#: A session of ZooKeeper is kept although a busy machine lets this process stand still for a while.
PATIENCE = {"zookeeper": {"timeout": 60}}


@pytest.fixture
def store(kind, url_of):
    return STORES[kind].from_url(url_of(kind), server_time=False, **PATIENCE.get(kind, {}))


@pytest.fixture
def own_code(tmp_path, monkeypatch):
    """Put a module beside the program that is part of it, and that nobody has imported."""
    (tmp_path / "own_code.py").write_text(OWN_CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return ["own_code"]


def write(store, kind, scheduler, references):
    place = Place(kind, store)
    for number, reference in enumerate(references):
        scheduler.add_job(nothing, "interval", minutes=1, id=f"job-{number}")
        definition = json.loads(place.read(f"job-{number}"))
        place.overwrite(f"job-{number}", json.dumps({**definition, "func": reference}))


def test_by_default_a_stored_reference_leads_into_no_foreign_code(store, kind, own_code):
    references = [*FOREIGN, *THROUGH_OURS]
    with ManualScheduler(
        clock=ManualClock(NOW), jobstores={"default": store}, allowed_modules=own_code
    ) as scheduler:
        scheduler.add_job(nothing, "interval", minutes=1, id="good")
        write(store, kind, scheduler, references)
        scheduler.advance(60)
        assert {record.job_id for record in scheduler.runs()} == {"good"}
        reasons = {job.func_ref: job.suspended for job in scheduler.get_jobs() if job.id != "good"}
        assert set(reasons) == set(references)
        wrong = {ref: reason for ref, reason in reasons.items() if not reason or "allowed_modules=[" not in reason}
        assert wrong == {}


def test_what_is_allowed_by_name_runs(store, kind):
    with ManualScheduler(
        clock=ManualClock(NOW), jobstores={"default": store}, allowed_modules=["math"]
    ) as scheduler:
        write(store, kind, scheduler, ["math:fsum", "cmath:sqrt"])
        scheduler.modify_job("job-0", args=[[1.0]])
        scheduler.advance(60)
        assert [(record.job_id, record.outcome) for record in scheduler.runs()] == [("job-0", "succeeded")]
        assert 'allowed_modules=[\'cmath\']' in scheduler.get_job("job-1").suspended


def test_the_way_back_lets_everything_that_is_installed_run(store, kind):
    with ManualScheduler(clock=ManualClock(NOW), jobstores={"default": store}, allowed_modules="any") as scheduler:
        write(store, kind, scheduler, ["cmath:sqrt", "os:getpid"])
        scheduler.modify_job("job-0", args=[4])
        scheduler.advance(60)
        assert [(record.job_id, record.outcome) for record in scheduler.runs()] == [("job-0", "succeeded")]
        assert "not open to references" in scheduler.get_job("job-1").suspended


def test_a_job_that_waits_for_its_code_to_be_known_fires_when_the_program_names_it(store, kind, tmp_path, monkeypatch):
    reference = f"later_{kind}:fine"  # the process remembers what was named
    (tmp_path / f"later_{kind}.py").write_text(OWN_CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    with ManualScheduler(clock=ManualClock(NOW), jobstores={"default": store}) as scheduler:
        write(store, kind, scheduler, [reference])
        scheduler.advance(60)
        assert f"allowed_modules=['later_{kind}']" in scheduler.get_job("job-0").suspended
        scheduler.add_job(reference, "interval", days=1, id="named")
        scheduler.run_due()
        assert scheduler.get_job("job-0").suspended is None
        assert [record.job_id for record in scheduler.runs()] == ["job-0"]


def test_listing_and_looking_import_nothing(store, kind, own_code, tmp_path):
    sys.modules.pop("own_code", None)
    with ManualScheduler(
        clock=ManualClock(NOW), jobstores={"default": store}, allowed_modules=own_code
    ) as scheduler:
        write(store, kind, scheduler, ["own_code:fine"])
        job = scheduler.get_job("job-0")
        assert [repr(one.func) for one in scheduler.get_jobs()] == ["<function 'own_code:fine', not imported yet>"]
        assert scheduler.why("job-0")
        assert job.state
        scheduler.modify_job("job-0", name="another name")
        scheduler.modify_job("job-0", args=[])
        assert "own_code" not in sys.modules
        scheduler.advance(60)
        assert [record.outcome for record in scheduler.runs()] == ["succeeded"]
        assert scheduler.get_job("job-0").func is sys.modules["own_code"].fine


def test_an_imported_file_leads_into_no_foreign_code(own_code):
    with ManualScheduler(clock=ManualClock(NOW), allowed_modules=own_code) as scheduler:
        scheduler.add_job(nothing, "interval", minutes=1, id="job")
        out = io.StringIO()
        scheduler.export_jobs(out)
        scheduler.remove_all_jobs()
        document = json.loads(out.getvalue())
        for reference in [*FOREIGN, *THROUGH_OURS]:
            document["jobs"][0]["func"] = reference
            with pytest.raises(ValueError, match=r"allowed_modules=\["):
                scheduler.import_jobs(io.StringIO(json.dumps(document)))
        assert scheduler.get_jobs() == []
        document["jobs"][0]["func"] = "own_code:fine"
        scheduler.import_jobs(io.StringIO(json.dumps(document)))
        assert [job.func_ref for job in scheduler.get_jobs()] == ["own_code:fine"]


NOWHERE = ["", ":", ".:work", "..:work", "a..b:work", "\0:work", "no such module:work", "own_code:"]


@pytest.mark.parametrize("reference", NOWHERE)
def test_a_reference_that_no_module_can_have_leads_nowhere(reference, own_code):
    assert isinstance(Resolver().find(reference), MissingFunction)
