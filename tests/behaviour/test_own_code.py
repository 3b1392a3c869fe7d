"""The program's own functions are found again without any configuration, however the program is started.

Each program is started twice on the same store: to add a job, and, as a process that has never named its function and
has not imported its module, to run it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

pytestmark = [pytest.mark.serial, pytest.mark.timeout(300)]

PACKAGE = Path(__file__).resolve().parent.parent.parent
CHORES = 'def tick():\n    print("it ran", flush=True)\n'
MAKE = """
import os
from goscheduler import BackgroundScheduler, BlockingScheduler

adding = "ADDING" in os.environ

def made(cls=BlockingScheduler):
    return cls(jobstores={"default": os.environ["STORE"]}, timezone="UTC")

def add(tick):
    scheduler = made(BackgroundScheduler)
    scheduler.start(paused=True)
    scheduler.add_job(tick, "interval", seconds=1)
    scheduler.shutdown()
"""
RUN_CHORES = """
if adding:
    from {module} import tick
    add(tick)
else:
    made().start()
"""
RUN_MAIN = f"""
{CHORES}
if adding:
    add(tick)
else:
    made().start()
"""
APP = """
if adding:
    from chores import tick
    add(tick)
scheduler = made({cls})
def app(environ, start_response):
    start_response("200 OK", [])
    return [b""]
"""
TEST = """
from shop.sales import RUN, adding, made
def test_it():
    RUN()
"""
SALES = f"{MAKE}\ndef RUN():\n    if adding:\n        from shop.chores import tick\n        add(tick)\n" \
        "    else:\n        made().start()\n"  # fmt: skip


def python(*arguments):
    return [sys.executable, *arguments]


#: How a program is started → its files, its command, its Python path.
PROGRAMS = {
    "a script with a module beside it": (
        {"run.py": MAKE + RUN_CHORES.format(module="chores"), "chores.py": CHORES}, python("run.py"), ""),
    "a script with the function in it": ({"run.py": MAKE + RUN_MAIN}, python("run.py"), ""),
    "a script from elsewhere": (
        {"tools/run.py": MAKE + RUN_CHORES.format(module="chores"), "tools/chores.py": CHORES},
        python("tools/run.py"), ""),
    "a package": (
        {"shop/__init__.py": "", "shop/__main__.py": MAKE + RUN_CHORES.format(module="shop.chores"),
         "shop/chores.py": CHORES}, python("-m", "shop"), ""),
    "a module of a package": (
        {"shop/worker.py": MAKE + RUN_CHORES.format(module="shop.chores"), "shop/chores.py": CHORES},
        python("-m", "shop.worker"), ""),
    "a module of a package with the function in it": (
        {"shop/__init__.py": "", "shop/worker.py": MAKE + RUN_MAIN}, python("-m", "shop.worker"), ""),
    "a console": (
        {"chores.py": CHORES}, python("-c", MAKE + RUN_CHORES.format(module="chores")), ""),
    "gunicorn": (
        {"app.py": MAKE + APP.format(cls="BackgroundScheduler") + "if not adding:\n    scheduler.start()\n",
         "chores.py": CHORES},
        python("-m", "gunicorn", "--bind", "unix:web.sock", "app:app"), ""),
    "goscheduler worker": (
        {"app.py": MAKE + APP.format(cls="BlockingScheduler"), "chores.py": CHORES},
        python("-m", "goscheduler", "worker", "app:scheduler"), ""),
    "pytest": (
        {"pyproject.toml": "", "src/shop/__init__.py": "", "src/shop/chores.py": CHORES, "src/shop/sales.py": SALES,
         "tests/test_shop.py": TEST},
        python("-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "tests/test_shop.py"), "src"),
    "pytest, the scheduler made by the test": (
        {"pyproject.toml": "", "src/shop/__init__.py": "", "src/shop/chores.py": CHORES,
         "tests/test_shop.py": f"{SALES}\ndef test_it():\n    RUN()\n"},
        python("-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "tests/test_shop.py"), "src"),
    "an installed application": (
        {"lib/site-packages/shop/__init__.py": "", "lib/site-packages/shop/chores.py": CHORES,
         "lib/site-packages/shop/sales.py": SALES, "bin/shop": "from shop.sales import RUN\nRUN()\n"},
        python("bin/shop"), "lib/site-packages"),
    "an application in one file": (
        {"run.py": f"import sys\nsys.frozen = True\ndel __file__\n{MAKE}{RUN_MAIN}"}, python("run.py"), ""),
}  # fmt: skip


@pytest.mark.parametrize("form", list(PROGRAMS))
def test_functions_of_the_program_run_without_configuration(form, tmp_path):
    files, command, path = PROGRAMS[form]
    place(tmp_path, files)
    environment = {
        **os.environ, "STORE": f"sqlite:///{tmp_path}/jobs.db", "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join([str(tmp_path / path), str(PACKAGE)] if path else [str(PACKAGE)]),
    }  # fmt: skip
    adding = python("-c", "import app") if "app.py" in files else command
    subprocess.run(adding, cwd=tmp_path, env={**environment, "ADDING": "1"}, check=True, timeout=120)
    assert "it ran\n" in lines_until_it_ran(command, tmp_path, environment)


def test_what_is_installed_beside_the_program_is_not_its_own(tmp_path):
    place(tmp_path, {
        "run.py": dedent("""
            from goscheduler._program import PROGRAM
            from goscheduler import BackgroundScheduler
            scheduler = BackgroundScheduler()
            names = ["chores", "vendored", "hidden", "inside", "json", "pip", "goscheduler.references", "test.support"]
            print({name: PROGRAM.owns(name) for name in names})
        """),
        "chores.py": "", "vendored/__init__.py": "", 
        "vendored-1.0.dist-info/METADATA": "Name: vendored\nVersion: 1.0\n",
        "vendored-1.0.dist-info/RECORD": "vendored/__init__.py,,\nvendored-1.0.dist-info/RECORD,,\n",
        ".venv/lib/python3/site-packages/hidden.py": "", "elsewhere/inside.py": "",
    })  # fmt: skip
    path = [tmp_path / ".venv/lib/python3/site-packages", tmp_path / "elsewhere", PACKAGE]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    answer = subprocess.run(
        python("run.py"), cwd=tmp_path, env=environment, check=True, timeout=120, capture_output=True, text=True
    )
    owned = {name for name, is_owned in eval(answer.stdout).items() if is_owned}
    assert owned == {"chores", "inside"}


def place(folder, files):
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def lines_until_it_ran(command, folder, environment):
    """Return what a program says until its job has run or cannot run."""
    lines = []
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as program:
        assert program.stdout is not None
        try:
            for line in program.stdout:
                lines.append(line)
                if "it ran" in line or "suspended" in line:
                    break
        finally:
            program.kill()
    return "".join(lines)
