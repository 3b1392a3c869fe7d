"""Alerts at work: evaluated every few seconds, on a thread of their own, in as many processes as have them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from goscheduler.alerts.alert import Alert
from goscheduler.alerts.board import Board
from goscheduler.alerts.channels import channel_of
from goscheduler.alerts.evaluate import Evaluator
from goscheduler.alerts.machine import SECOND
from goscheduler.alerts.model import Notice, NoticeKind, Phase, state_id
from goscheduler.alerts.outbox import Outbox
from goscheduler.alerts.rules import StoreDown
from goscheduler.errors import InvalidArgument, described, shown, survivable
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.logs import guarded_logger
from goscheduler.runs.health import HealthStatus
from goscheduler.times import parse_duration, to_micros

if TYPE_CHECKING:
    from goscheduler.alerts.channels import Channel
    from goscheduler.alerts.rules import Length
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.schedulers.base import BaseScheduler

#: Others may have evaluated so much of an interval ago that it is not done again.
TURN_SHARE = 0.9
HEARTBEAT_SECONDS = 60

_logger = guarded_logger("goscheduler.alerts")


class Alerts:
    """Evaluates alerts on a scheduler or an observer, and tells channels.

    Several processes may have the same alerts: what they find stands in the job store, so that one notice comes from
    all of them. ``channels`` are URLs, functions or channels by name. ``grouping`` is how long notices with one cause
    wait for each other. ``heartbeat`` is the URL of a dead man's switch, which hears every minute that all is well.
    """

    def __init__(
        self,
        scheduler: BaseScheduler,
        alerts: Sequence[Alert],
        channels: Mapping[str, Any],
        *,
        interval: Length = 10,
        grouping: Length = 30,
        heartbeat: Any = None,
    ) -> None:
        self._scheduler = scheduler
        self._channels = {name: channel_of(value) for name, value in channels.items()}
        check_alerts(alerts, self._channels)
        self._interval = parse_duration(interval).total_seconds()
        if self._interval < 1:
            raise InvalidArgument(f"interval must be a second or more, got {shown(interval)}", field="interval")
        self._evaluator = Evaluator(scheduler, alerts)
        wait = round(parse_duration(grouping).total_seconds() * SECOND)
        names = frozenset(alert.name for alert in alerts)
        self._outbox = Outbox(names, self._channels, wait, self._now)
        self._own_outbox = Outbox(names, self._channels, wait, self._now, unit=3600 * SECOND)
        self._heartbeat = None if heartbeat is None else channel_of(heartbeat)
        self._key = hashlib.sha256(repr(list(alerts)).encode("utf-8", "surrogatepass")).hexdigest()[:20]
        self._own = Board(MemoryJobStore())
        """For as long as the store that keeps the states does not answer: what this process finds by itself."""
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to evaluate, on a thread.

        :raises RuntimeError: if it was stopped: its channels are closed
        """
        if self._stopping.is_set():
            raise RuntimeError("These alerts were stopped; make new ones")
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._run, name="goscheduler-alerts", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop evaluating, when the evaluation that goes on has ended, and let go of the channels."""
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._thread = None
        for channel in (*self._channels.values(), *([self._heartbeat] if self._heartbeat else [])):
            channel.close()

    def __enter__(self) -> Alerts:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def evaluate(self) -> None:
        """Evaluate once, unless another process has just done so, and send what is owed.

        Nothing is evaluated before the scheduler is started, and after its end.
        """
        if not self._scheduler.running:
            return
        try:
            self._work_on(Board(home_of(self._scheduler)))
        except BaseException as error:
            if not survivable(error):
                raise
            _logger.warning("Alerts cannot be kept in the job store: %s", described(error))
            self._evaluator.evaluate(self._own, only=[StoreDown.name])
        else:
            self._settle_own()
        self._own_outbox.flush(self._own)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.evaluate()
            except BaseException:
                _logger.exception("An evaluation of alerts failed; the next one follows")
            self._stopping.wait(self._interval)

    def _work_on(self, board: Board) -> None:
        if board.take_turn(self._key, self._now(), round(self._interval * TURN_SHARE * SECOND)):
            self._evaluator.evaluate(board)
        self._outbox.flush(board)
        beat = f"heartbeat-{self._key}"
        if self._heartbeat is not None and board.take_turn(beat, self._now(), HEARTBEAT_SECONDS * SECOND):
            self._beat()

    def _settle_own(self) -> None:
        """Find the end of what this process has found by itself while the store did not answer."""
        if any(kept.state.phase is not Phase.OK for kept in self._own.states().values()):
            self._evaluator.evaluate(self._own, only=[StoreDown.name])

    def _beat(self) -> None:
        if self._heartbeat is None or self._scheduler.health().status is HealthStatus.UNHEALTHY:
            return
        problem = _tried(self._heartbeat, _test_notice("heartbeat", self._scheduler.clock.now()))
        if problem:
            _logger.warning("The heartbeat was not taken: %s", problem)

    def _now(self) -> int:
        return to_micros(self._scheduler.clock.now())


def home_of(scheduler: BaseScheduler) -> BaseJobStore:
    """Return the store that keeps what belongs to no store in particular."""
    stores = scheduler.engine.stores
    return stores["default" if "default" in stores else min(stores)]


def check_alerts(alerts: Sequence[Alert], channels: Mapping[str, object]) -> None:
    """Raise if two alerts have one name, or one tells a channel that is not there.

    :raises InvalidArgument: naming it
    """
    names = [alert.name for alert in alerts]
    if len(set(names)) != len(names):
        raise InvalidArgument("alerts must have names of their own", field="alerts")
    for alert in alerts:
        unknown = sorted(alert.channels - channels.keys())
        if unknown:
            known = ", ".join(sorted(channels)) or "none"
            raise InvalidArgument(
                f"alert {shown(alert.name)}: there is no channel {shown(unknown[0])}; there are: {known}", field="to"
            )


def send_test(channels: Mapping[str, Channel], now: datetime) -> dict[str, str]:
    """Send a test notice through every channel, and return name → why it was not taken, empty if it was."""
    return {name: _tried(channel, _test_notice(name, now)) for name, channel in channels.items()}


def _tried(channel: Channel, notice: Notice) -> str:
    try:
        channel.send(notice)
    except BaseException as error:
        if not survivable(error):
            raise
        return described(error)
    return ""


def _test_notice(name: str, now: datetime) -> Notice:
    key = state_id("test", name, now.isoformat())
    return Notice(NoticeKind.TEST, "test", "test", [name], 1, "This is a test.", now, now, key)
