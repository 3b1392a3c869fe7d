"""Run the tests that use other packages with the oldest versions of these that ``pyproject.toml`` allows.

``make oldest`` runs it; arguments go to pytest. The packages that only the tests need are the newest.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PLACE = ROOT / "build" / "oldest"
PYTHON = PLACE / "bin" / "python"
#: What the tests want otherwise: a judge that needs a newer Rich than we do, and a Flask that we do not need.
OVERRIDES = 'schemathesis; python_version < "3"\nflask>=2.3\n'
#: What meets the drivers and frameworks. The rest of the suite meets only ourselves.
TESTS = (
    "triggers/test_cron_crontab.py", "triggers/test_rrule.py", "calendars", "transports", "telemetry",
    "documents/test_document_stores.py", "locks/test_lock_places.py", "periodic/test_periodic_dispatch.py",
    "jobstores/sqlalchemy/test_sql_special.py", "jobstores/redis/test_redis_reads.py",
    "jobstores/mongodb/test_mongodb_reads.py", "jobstores/keyvalue/test_kv_servers.py", "rpc/test_rpc_operations.py",
    "web/test_http_mounts.py", "cli/test_cli_many.py", "pytest_plugin", "contrib/test_contrib_sentry.py",
    "contrib/test_contrib_structlog.py", "contrib/test_flask_scheduler.py",
)  # fmt: skip


def main() -> None:
    uv = [sys.executable, "-m", "uv", "--quiet"]
    PLACE.parent.mkdir(exist_ok=True)
    run(*uv, "venv", "--clear", "--python", sys.executable, str(PLACE))
    constraints, overrides = PLACE / "constraints.txt", PLACE / "overrides.txt"
    run(*uv, "pip", "compile", "--python", str(PYTHON), "--resolution", "lowest-direct", "pyproject.toml",
        "--extra", "all", "--output-file", str(constraints))  # fmt: skip
    overrides.write_text(OVERRIDES, encoding="utf-8")
    run(*uv, "pip", "install", "--python", str(PYTHON), "--constraint", str(constraints),
        "--override", str(overrides), "--editable", ".[test]")  # fmt: skip
    # What old versions warn of is their affair.
    run(str(PYTHON), "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider",
        "-o", "filterwarnings=default", *(f"tests/{test}" for test in TESTS), *sys.argv[1:])  # fmt: skip


def run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT)
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
