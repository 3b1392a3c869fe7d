"""A Django project of one's own: copied, with a database, and run in processes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import warm

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
#: What a script does first.
SET_UP = "import os; os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'site_settings')\nimport django; django.setup()\n"
#: How long something that is certain to happen may take, in seconds.
PATIENCE = 90


class Project:
    """A copy of the project, and what can be run in it."""

    def __init__(self, folder: Path, database: str) -> None:
        shutil.copytree(HERE / "django_project", folder)
        (folder / "shop" / "__init__.py").touch()
        self.folder, self.notes = folder, folder / "notes"
        self.notes.touch()
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GOSCHEDULER")},
            "DATABASE": database, "NOTES": str(self.notes), "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}",
            "DJANGO_SETTINGS_MODULE": "site_settings", "PYTHONUNBUFFERED": "1",
        }  # fmt: skip
        self._started: list[warm.Process] = []

    def manage(self, *arguments: str, settings: Mapping[str, Any] | None = None) -> Any:
        """Run ``manage.py`` and return what it wrote, and its exit code."""
        return warm.run("manage.py", *arguments, cwd=self.folder, env=self._with(settings))

    def run(self, script: str, settings: Mapping[str, Any] | None = None) -> str:
        """Run a script in the project, which must succeed, and return what it printed."""
        (self.folder / "script.py").write_text(SET_UP + script, encoding="utf-8")
        done = warm.run("script.py", cwd=self.folder, env=self._with(settings))
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, *command: str, **options: Any) -> warm.Process:
        """Start a program in the project; it is killed at the end if it still runs."""
        process = warm.start(*command, cwd=self.folder, env=self.environment, stdin=warm.DEVNULL, text=True, **options)
        self._started.append(process)
        return process

    def noted(self) -> list[str]:
        """Return the whole lines that jobs have noted."""
        return self.notes.read_text(encoding="utf-8").splitlines()

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.wait(PATIENCE)

    def _with(self, settings: Mapping[str, Any] | None) -> dict[str, str]:
        return self.environment if settings is None else {**self.environment, "SETTINGS": json.dumps(settings)}


@pytest.fixture
def project(tmp_path: Path, url_of: Callable[[str], str]) -> Iterator[Callable[..., Project]]:
    """Return a maker of a project with a database of one kind."""
    made: list[Project] = []

    def make(kind: str = "sqlite") -> Project:
        database = f"sqlite://{'/'}{tmp_path}/site.db" if kind == "sqlite" else url_of(kind)
        made.append(Project(tmp_path / "site", database))
        return made[-1]

    yield make
    for each in made:
        each.end()
