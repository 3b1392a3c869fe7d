"""An executor on a cluster of Dask."""

from __future__ import annotations

import asyncio
import math
from asyncio import CancelledError
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from distributed import Client, KilledWorker
from distributed.comm.core import CommClosedError

from goscheduler.errors import InvalidArgument, described, shown
from goscheduler.executors._dask_worker import BEGUN_BEFORE, NotBegun, run_guarded
from goscheduler.executors._packed import tell_packed
from goscheduler.executors._remote import PUT_BACK_SECONDS, EngineRefused, Flight, RemoteExecutor
from goscheduler.executors.call import cancelled, failed, snoozed

if TYPE_CHECKING:
    from goscheduler.runs.model import Run

__all__ = ["DaskExecutor"]

#: How long a connection, or an answer of the scheduler of Dask, may take.
ANSWER_SECONDS = 10.0
#: How long a worker may take to restart.
RESTART_SECONDS = 30.0
CONNECTION_LOST = "the connection to the scheduler of Dask was lost"


class DaskExecutor(RemoteExecutor):
    """Runs jobs on the workers of the Dask scheduler at ``address``, or of a client that is given.

    ``resources`` is what each run needs of the resources that workers have, such as ``{"GPU": 1}``. A run that was told
    to end and goes on keeps its thread; with ``restart_worker`` its worker is restarted, which needs a nanny and ends
    everything else that runs there.
    """

    def __init__(
        self, address: str | Client, resources: Mapping[str, float] | None = None, restart_worker: bool = False
    ) -> None:
        if not isinstance(address, (str, Client)):
            raise TypeError(f"address must be that of a Dask scheduler or a Client, got {type(address).__name__}")
        self._address = address if isinstance(address, str) else None
        self._client: Client | None = None if isinstance(address, str) else address
        self._resources = checked_resources(resources)
        self._restart_worker = restart_worker

    def _prepare(self) -> None:
        self._ended_before: list[str] = []
        self._ended_since: list[str] = []
        """Names of attempts that are over. Their events are cleared one look later, when Dask has forgotten them."""

    def _lost(self, flight: Flight, reason: str) -> bool:
        self._errands.put(self._look)  # there is room for fewer runs by now
        return super()._lost(flight, reason)

    def _count_slots(self) -> int:
        client = self._connected()
        self._clear_events(client)
        workers = _ask(client, client.scheduler.identity)["workers"]
        if not workers:
            self._lose_all(client)
            raise EngineRefused("the Dask cluster has no workers")
        slots = sum(slots_of(worker, self._resources) for worker in workers.values())
        if not slots:
            raise EngineRefused(f"no worker of the Dask cluster has resources {self._resources}")
        return slots

    def _connected(self) -> Client:
        client = self._client
        if client is None or (client.status == "closed" and self._address is not None):
            self._client = client = Client(self._address, timeout=ANSWER_SECONDS, set_as_default=False)
        if client.status != "running":
            raise EngineRefused(f"the client of Dask is not connected, it is {client.status}")
        return client

    def _clear_events(self, client: Client) -> None:
        names, self._ended_before, self._ended_since = self._ended_before, self._ended_since, []
        for name in names:
            _ask(client, client.scheduler.event_clear, name=name)

    def _lose_all(self, client: Client) -> None:
        """Report the runs of a cluster without workers; those that have not begun go back."""
        for flight in list(self._flights.values()):
            future = flight.work
            if future is None:
                continue
            begun = _ask(client, client.scheduler.event_is_set, name=future.key)
            future.cancel(force=True)
            if begun:
                RemoteExecutor._lost(self, flight, "the Dask cluster has lost all workers")
            else:
                self._end(flight, snoozed("the Dask cluster has no workers", PUT_BACK_SECONDS))

    def _send(self, flight: Flight, message: bytes) -> None:
        client, run = self._client, flight.run
        if client is None or client.status != "running":
            self._look()
            raise EngineRefused(self._trouble or CONNECTION_LOST)
        key = key_of(run)
        flight.work = client.submit(
            run_guarded, message, key, run.id, run.fence, key=key, pure=False, retries=0, resources=self._resources,
        )  # fmt: skip
        flight.work.add_done_callback(partial(self._done, flight))

    def _done(self, flight: Flight, future: Any) -> None:
        """Report a run that is over, on the thread on which Dask says so."""
        try:
            self._ended(flight, future)
            flight.work = None  # not before: what is not reported is found when all workers are lost
        finally:
            future.release()
            self._ended_since.append(future.key)

    def _ended(self, flight: Flight, future: Any) -> None:
        if future.cancelled():
            self._lost(flight, CONNECTION_LOST)
            return
        try:
            error: BaseException | None = future.exception(timeout=ANSWER_SECONDS)
            reply = future.result(timeout=ANSWER_SECONDS) if error is None else BEGUN_BEFORE
        except (Exception, CancelledError) as problem:  # what the job raises comes within the reply
            self._lost(flight, f"its reply was lost on the way from the Dask worker: {described(problem)}")
            return
        if error is None and reply == BEGUN_BEFORE:
            self._lost(flight, "its Dask worker was lost")
        elif error is None:
            self._answered(flight, reply)
        elif isinstance(error, (KilledWorker, CommClosedError)):
            self._lost(flight, f"its Dask worker was lost: {described(error)}")
        elif isinstance(error, NotBegun):
            self._end(flight, snoozed(f"the scheduler of Dask did not answer its worker: {error}", PUT_BACK_SECONDS))
        else:
            self._end(flight, failed(error, flight.started_at, flight.seconds()))

    def _tell_to_end(self, flight: Flight, reason: str) -> None:
        client, future = self._client, flight.work
        if client is None or future is None:
            return
        run, worker = flight.run, self._worker_of(future.key)
        if worker is None or not self._told(client, worker, run, reason):
            future.cancel()  # it has not begun

    def _told(self, client: Client, worker: str, run: Run, reason: str) -> bool:
        """Tell a run on a worker to end; False if it has not begun there."""
        tell = partial(tell_packed, run.id, run.fence, reason)
        try:
            told = _ask(client, client.run, function=tell, workers=[worker], on_error="ignore")
        except TimeoutError:
            self._logger.warning(
                'Run %s of job %s was told to end, and Dask worker %s does not answer; it hears of it when it does',
                run.id, run.job.id, worker, extra={"job_id": run.job.id, "run_id": run.id},
            )  # fmt: skip
            return True
        return any(told.values())

    def _drop(self, flight: Flight) -> None:
        future = flight.work
        if not self._restart_worker or self._client is None or future is None:
            return
        worker = self._worker_of(future.key)
        future.cancel(force=True)
        if worker is not None:
            self._logger.warning('Executor "%s" restarts Dask worker %s, where a run does not end', self._alias, worker)
            options = {"workers": [worker], "timeout": RESTART_SECONDS, "raise_for_error": False}
            _ask(self._client, self._client.restart_workers, RESTART_SECONDS + ANSWER_SECONDS, **options)
        self._end(flight, cancelled(flight.told or "the run was given up", flight.started_at, flight.seconds()))

    def _worker_of(self, key: str) -> str | None:
        assert self._client is not None
        processing = _ask(self._client, self._client.scheduler.processing, workers=None)
        return next((worker for worker, keys in processing.items() if key in keys), None)

    def _hang_up(self) -> None:
        client = self._client
        if client is None:
            return
        try:
            if client.status == "running":
                self._clear_events(client)
                self._clear_events(client)
        finally:
            if self._address is not None:
                self._client = None
                client.close(timeout=ANSWER_SECONDS)


def key_of(run: Run) -> str:
    """Return the name of an attempt in Dask. Dask would take two of one name for one."""
    return f"gs-{run.id}-{run.fence}"


def slots_of(worker: Mapping[str, Any], resources: Mapping[str, float] | None) -> int:
    """Return how many runs that need ``resources`` a worker can have at a time."""
    if worker.get("status", "running") != "running":
        return 0
    has: Mapping[str, float] = worker.get("resources") or {}
    fits = [math.floor(has.get(name, 0) / amount) for name, amount in (resources or {}).items()]
    return min(int(worker["nthreads"]), *fits) if fits else int(worker["nthreads"])


def checked_resources(resources: Mapping[str, float] | None) -> dict[str, float] | None:
    """Return the resources that a run needs, each a number above zero."""
    if not resources:
        return None
    for name, amount in resources.items():
        if isinstance(amount, bool) or not isinstance(amount, (int, float)) or not 0 < amount < math.inf:
            raise InvalidArgument(
                f"resources[{shown(name)}] must be a number above zero, got {shown(amount)}", field="resources"
            )
    return dict(resources)


def _ask(client: Client, question: Any, seconds: float | None = None, **options: Any) -> Any:
    """Return the answer to a question, or raise the built-in ``TimeoutError``.

    A method of the client, called on its own loop as here, returns an awaitable and waits for nobody.
    """
    try:
        return client.sync(question, callback_timeout=seconds or ANSWER_SECONDS, **options)
    except asyncio.TimeoutError as error:  # another one in Python 3.10
        raise TimeoutError(f"no answer from Dask within {seconds or ANSWER_SECONDS:g} seconds") from error
