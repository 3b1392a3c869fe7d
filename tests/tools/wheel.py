"""Build the package, install its wheel into an empty environment, and use it there as the README does.

``make wheel`` runs it. The source archive is built first and the wheel is built from it, so that a file that one of
them lacks is found. Everything is left in ``build/wheel``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PLACE = ROOT / "build" / "wheel"
ELSEWHERE = PLACE / "elsewhere"
"""Where programs run, so that they cannot import the package from the repository."""
PYTHON = PLACE / "environment" / "bin" / "python"
#: What a wheel without its data files, its licence or its entry points would lack.
NEEDED = (
    "goscheduler/py.typed", "goscheduler/web/templates/macros.html", "goscheduler/rpc/gen/scheduler_pb2.py",
    ".dist-info/licenses/LICENSE", ".dist-info/entry_points.txt",
)  # fmt: skip


def main() -> None:
    shutil.rmtree(PLACE, ignore_errors=True)
    ELSEWHERE.mkdir(parents=True)
    wheel = built()
    lacking = [name for name in NEEDED if not any(name in found for found in zipfile.ZipFile(wheel).namelist())]
    fail_if(lacking, f"{wheel.name} has no {', '.join(lacking)}")
    run(sys.executable, "-m", "uv", "--quiet", "venv", "--python", sys.executable, str(PYTHON.parent.parent))
    install(str(wheel))
    check_without_extras()
    install(f"{wheel}[sqlalchemy,cli]")
    check_command()
    check_readme()
    print(f"{wheel.name} installs, and does what the README says")


def built() -> Path:
    run(sys.executable, "-m", "build", "--installer", "uv", "--outdir", str(PLACE), str(ROOT))
    (wheel,) = PLACE.glob("*.whl")
    return wheel


def install(what: str) -> None:
    run(sys.executable, "-m", "uv", "--quiet", "pip", "install", "--python", str(PYTHON), what)


def check_without_extras() -> None:
    program = "import goscheduler; goscheduler.BackgroundScheduler(); print(goscheduler.__file__)"
    where = run(str(PYTHON), "-W", "error", "-c", program)
    fail_if(str(PYTHON.parent.parent) not in where, f"the package was imported from {where}")
    refused = call(str(PYTHON.parent / "goscheduler"), "--help")
    fail_if('pip install "goscheduler[cli]"' not in refused.stderr, f"without the extra cli: {refused.stderr}")


def check_command() -> None:
    command = str(PYTHON.parent / "goscheduler")
    version = re.findall(r'__version__ = "(.+)"', (ROOT / "goscheduler" / "_version.py").read_text(encoding="utf-8"))
    fail_if("worker" not in run(command, "--help"), "goscheduler --help names no command 'worker'")
    fail_if(version[0] not in run(command, "version"), f"goscheduler version is not {version[0]}")


def check_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code, printed = re.findall(r"```python\n(.*?)```.*?```text\n(.*?)```", readme, re.DOTALL)[0]
    (ELSEWHERE / "readme.py").write_text(code, encoding="utf-8")
    said = run(str(PYTHON), "-W", "error", "readme.py")
    fail_if(said != printed, f"the first program of the README printed {said!r}")


def run(*command: str) -> str:
    done = call(*command)
    fail_if(done.returncode != 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def call(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(command, cwd=ELSEWHERE, env=environment, capture_output=True, text=True)


def fail_if(wrong: object, reason: str) -> None:
    if wrong:
        sys.exit(f"make wheel: {reason}")


if __name__ == "__main__":
    main()
