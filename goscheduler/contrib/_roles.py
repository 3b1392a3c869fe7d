"""What a process of a web application does with its scheduler. Pure: what is seen comes in, what to do goes out.

A scheduler that runs fires jobs; one that adds leaves that to other processes; one that is off is not started. One
program is loaded in many processes, and not all of them are to do what it says: one watches files for another, one
forks workers, one is a command that migrates a database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from goscheduler.errors import InvalidArgument, nearest, shown

ROLES = ("run", "add", "off")

#: Commands of Flask and Django that serve requests.
SERVING = frozenset({"run", "runserver", "runserver_plus"})

HOOKS = "from goscheduler.contrib.gunicorn import post_worker_init, worker_exit"


class Place(NamedTuple):
    """What is seen of the process in which an application is loaded."""

    command: str | None = None
    """The command of Flask or Django that it is; None for a server, a script or a shell."""
    watches: bool = False
    """Whether it watches files, and has another process serve."""
    forks: str = ""
    """The server that forks its workers after this; empty if there is none."""
    hooked: bool = False
    """Whether that server calls our hooks in its workers."""
    workers: int = 1
    """How many processes serve, as far as is known."""
    is_target: bool = False
    """Whether the ``goscheduler`` command loads the application for its scheduler."""


class Decision(NamedTuple):
    """What a process is to do with its scheduler."""

    role: str
    """One of :data:`ROLES`."""
    reason: str = ""
    """Why it is not what the program says; empty if it is."""
    problem: bool = False
    """Whether somebody has to do something about that."""


def check_role(role: object) -> str:
    """Return a role, if it is one.

    :raises InvalidArgument: if it is none
    """
    if isinstance(role, str) and role in ROLES:
        return role
    meant = nearest(role, ROLES) if isinstance(role, str) else None
    hint = f"; did you mean {meant!r}?" if meant else ""
    raise InvalidArgument(f"role must be 'run', 'add' or 'off', got {shown(role)}{hint}", field="role", value=role)


def decide(wanted: str, place: Place, shared: bool) -> Decision:
    """Return what a process does whose program wants a role; ``shared`` tells whether others see its job stores."""
    role = check_role(wanted)
    if place.is_target:
        return Decision("off", "the goscheduler command has loaded this program, and starts it itself")
    if role == "off":
        return Decision("off", "its role is 'off'")
    if place.watches:
        return Decision("off", "this process watches files for a reloader; it starts in the one that serves")
    if place.forks and role == "run":  # who only adds may be forked: it opens nothing before it is used
        return _before_the_fork(place, shared)
    if place.command is not None and place.command not in SERVING:
        return _in_command(place.command, shared)
    return Decision(role)


def _before_the_fork(place: Place, shared: bool) -> Decision:
    """Without hooks, have the workers add at least, so that no job of theirs waits for ever."""
    if place.hooked:
        return Decision("off", f"{place.forks} forks its workers from this process; it starts in each of them")
    way = f"to run jobs there, put into gunicorn.conf.py: {HOOKS}"
    if place.forks == "uwsgi":
        way = "run it with --lazy-apps"
    reason = f"{place.forks} forks its workers from this process; {way}"
    return Decision("add" if shared else "off", reason, problem=True)


def _in_command(command: str, shared: bool) -> Decision:
    """A command may add jobs, where those that run them find them."""
    if shared:
        return Decision("add", f"this is the command {shown(command)}, which runs no jobs")
    return Decision("off", f"this is the command {shown(command)}, and its job store is not shared")


def problem_with_workers(place: Place, shared: bool) -> str:
    """Return what is wrong with several processes that run jobs, or nothing."""
    if shared or place.workers < 2:
        return ""
    return (
        f"{place.workers} processes serve, and each of them runs every job: the job store is the memory of each. Give "
        "the scheduler a job store that they share, such as postgresql, redis or sqlite, or the role 'add' beside a "
        "worker: goscheduler worker"
    )


def count_workers(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Return how many processes a server was asked for, on its command line or by ``WEB_CONCURRENCY``."""
    for number, word in enumerate(argv):
        if word in ("-w", "--workers"):
            return _count(argv[number + 1 : number + 2])
        for option in ("--workers=", "-w"):
            if word.startswith(option) and word.removeprefix(option).isdigit():
                return _count([word.removeprefix(option)])
    return _count([environ.get("WEB_CONCURRENCY", "")])


def _count(words: Sequence[str]) -> int:
    return int(words[0]) if words and words[0].isdecimal() else 1
