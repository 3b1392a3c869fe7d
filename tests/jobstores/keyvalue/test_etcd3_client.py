"""A ready client of etcd3 is as good as one of etcd3gw, in an environment that has the packages that it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import pytest

from goscheduler.jobstores.etcd import EtcdJobStore

#: etcd3 is imported only beside protobuf 3, and the drivers of other tests need a later one.
WANTED = ["etcd3==0.12.0", "protobuf<4"]
STEPS = Path(__file__).parents[2] / "support" / "etcd3_steps.py"
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def packages():
    """A folder with etcd3 and what it needs, which is kept for the next time."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = Path(tempfile.gettempdir(), f"goscheduler-etcd3-0.12.0-{version}")
    if not folder.exists():
        fetch(folder)
    return folder


def fetch(folder):
    made = folder.with_name(f"{folder.name}-{uuid.uuid4().hex[:8]}")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", str(made), *WANTED]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = f"etcd3 cannot be installed: {done.stderr[-500:]}"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(said)
    try:
        made.rename(folder)
    except OSError:  # another test run was quicker
        if not folder.is_dir():
            raise
        shutil.rmtree(made)


@pytest.mark.serial
def test_a_client_of_etcd3_keeps_jobs_leases_watches_and_locks_without_etcd3gw(packages, etcd, fresh):
    space = fresh(etcd)
    environment = {**os.environ, "PYTHONPATH": f"{packages}{os.pathsep}{ROOT}"}
    command = [sys.executable, str(STEPS), "127.0.0.1", str(etcd.port), f"/{space.name}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout == "done\n", done.stderr


def test_another_client_is_refused():
    with pytest.raises(TypeError, match="client must be one of etcd3gw or of etcd3, got object"):
        EtcdJobStore(client=object())
