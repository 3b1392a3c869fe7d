"""One notice from a cluster, none lost: many evaluators on one store, and crashes at every step."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from alert_doubles import Switch, Told, World
from operation_doubles import ADMIN

from goscheduler.alerts import Alert, Alerts, front
from goscheduler.alerts.board import Board
from goscheduler.errors import StoreUnavailable
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.observer import Observer
from goscheduler.ops.service import Operations
from goscheduler.ops.source import Source
from goscheduler.testing import ManualClock, ManualScheduler

ROOT = Path(__file__).resolve().parents[2]


def alert(world, **options):
    return Alert("billing", [Switch(world)], **{"to": ["ops"], **options})


class Place:
    """One process with alerts, whose time and whose rule a test moves."""

    def __init__(self, scheduler, channels=None, **options):
        self.scheduler, self.world = scheduler, World()
        self.channels = channels or {"ops": Told()}
        self.alerts = Alerts(scheduler, [alert(self.world, **options)], self.channels)
        self.operations = Operations(Source(scheduler))

    @property
    def told(self):
        return self.channels["ops"]

    def pass_time(self, seconds, broken=None):
        """Let time pass, evaluation by evaluation, while this is broken."""
        if broken is not None:
            self.world.broken = broken
        for _ in range(seconds // 10):
            self.alerts.evaluate()
            self.scheduler.clock.advance(10)

    def call(self, name, **arguments):
        return self.operations.call(name, ADMIN, arguments)


@pytest.fixture
def place():
    with ManualScheduler() as scheduler:
        yield Place(scheduler)


# Many evaluators


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "redis"])
def test_eight_processes_that_find_the_same_at_the_same_time_tell_it_once(url_of, kind, monkeypatch):
    monkeypatch.setattr(Board, "take_turn", lambda *args: True)  # so that all of them evaluate
    clock, world, told, url = ManualClock(), World(), Told(), url_of(kind)
    with ExitStack() as stack:
        cluster = [
            Alerts(stack.enter_context(Observer(url, clock=clock)), [alert(world)], {"ops": told}) for _ in range(8)
        ]  # fmt: skip
        pool = stack.enter_context(ThreadPoolExecutor(8))
        for number in range(12):
            world.broken = {"a": "x", "b": "y"} if number in (1, 2, 6, 7) else {}
            list(pool.map(lambda alerts: alerts.evaluate(), cluster))
            clock.advance("5m")
    assert Counter((notice.targets[0], notice.kind.value) for notice in told.notices) == {
        ("a", "firing"): 2, ("a", "recovery"): 2, ("b", "firing"): 2, ("b", "recovery"): 2,
    }  # fmt: skip
    assert len({notice.dedup_key for notice in told.notices}) == 4
    assert len({notice.id for notice in told.notices}) == 8


def test_processes_with_the_same_alerts_take_turns(place):
    others = [Alerts(place.scheduler, [alert(place.world)], {"ops": Told()}) for _ in range(7)]
    for _ in range(10):
        for alerts in (place.alerts, *others):
            alerts.evaluate()
            place.scheduler.clock.advance(1)
        place.scheduler.clock.advance(2)
    assert place.world.looks == 10


# Crashes


class Killed(KeyboardInterrupt):
    """Ends a process: nothing survives it."""


class Fragile(MemoryJobStore):
    """Dies at the n-th call of notes, before or after it is carried out."""

    dies_at, after = -1, False

    def _call(self, method, *args, **options):
        self.dies_at -= 1
        if self.dies_at == 0 and not self.after:
            raise Killed
        answer = method(*args, **options)
        if self.dies_at == 0:
            raise Killed
        return answer

    def put_note(self, *args, **options):
        return self._call(super().put_note, *args, **options)

    def read_note(self, *args):
        return self._call(super().read_note, *args)

    def notes(self, *args):
        return self._call(super().notes, *args)

    def remove_note(self, *args):
        return self._call(super().remove_note, *args)


#: What happens every ten seconds: broken for a minute, then calm.
STORY = [{"a": ""}] * 6 + [{}] * 16


def played(dies_at, after):
    """Play the story; the process dies at a call, and another one goes on. Return the notices, and whether it died."""
    store, told, world = Fragile(), Told(), World()
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        alerts, died, twice = Alerts(scheduler, [alert(world)], {"ops": told}), False, 0
        store.dies_at, store.after = dies_at, after
        for world.broken in STORY:
            try:
                alerts.evaluate()
            except Killed:
                died, store.dies_at = True, -1
                owed = [kept.state.owed[0] for kept in Board(store).states().values() if kept.state.owed]
                claimed = [each.kind.value for each in owed if each.claim]
                twice = int(claimed != [] and claimed == told.kinds[-1:])  # it died between sending and marking
                alerts = Alerts(scheduler, [alert(world)], {"ops": told})
            scheduler.clock.advance(10)
    return told, died, twice


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_at_any_step_loses_no_notice_and_repeats_at_most_the_one_that_was_being_sent(after):
    step, repeated = 0, 0
    while True:
        step += 1
        told, died, twice = played(step, after)
        if not died:
            break
        counts = Counter(told.kinds)
        assert set(counts) == {"firing", "recovery"}, f"step {step}"
        assert sum(counts.values()) == 2 + twice, f"step {step}"
        assert len({notice.dedup_key for notice in told.notices}) == 1, f"step {step}"
        assert len({notice.id for notice in told.notices}) == 2, f"step {step}"
        repeated += twice
    assert step > 60  # every call of notes was tried
    assert repeated > 0  # and the crash between sending and marking among them


def test_a_sender_that_dies_in_the_middle_of_sending_is_followed_by_another_one_thirty_seconds_later(place):
    def die(notice):
        raise Killed

    mortal = Alerts(place.scheduler, [alert(place.world)], {"ops": die})
    place.world.broken = {"a": ""}
    mortal.evaluate()
    place.scheduler.clock.advance(30)
    with pytest.raises(Killed):
        mortal.evaluate()
    place.pass_time(30)
    assert place.told.kinds == []
    place.pass_time(20)
    assert place.told.kinds == ["firing"]


PROCESS = """
import sys, time
from goscheduler.alerts import Alert, Alerts, JobSuspended, NoSuccess, outbox
from goscheduler.observer import Observer
outbox.CLAIM = 2_000_000
url, path, mode = sys.argv[1:]

def tell(notice):
    with open(path, "a") as file:
        file.write(f"{mode} {notice.kind.value} {notice.dedup_key}\\n")
    if mode == "dies":
        sys.stdin.readline()  # until it is killed

with Observer(url) as observer:
    alerts = Alerts(observer, [Alert("a", [NoSuccess(0)], to=["ops"], match="job:gone")], {"ops": tell},
                    interval=1, grouping=0)
    alerts.start()
    sys.stdin.readline()
    alerts.stop()
"""


@pytest.mark.serial
def test_a_process_that_is_killed_after_it_has_sent_is_followed_by_one_that_sends_the_same(url_of, tmp_path):
    url, path = url_of("sqlite"), tmp_path / "told"
    with Observer(url):
        pass  # which makes the tables

    def started(mode):
        return subprocess.Popen(
            [sys.executable, "-c", PROCESS, url, str(path), mode], stdin=subprocess.PIPE, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    pause = threading.Event()

    def wait_for_lines(count):
        for _ in range(600):
            lines = path.read_text().split("\n")[:-1] if path.exists() else []
            if len(lines) >= count:
                return lines
            pause.wait(0.1)
        raise AssertionError(f"{count} notices were expected, there are {lines}")

    dying = started("dies")
    wait_for_lines(1)
    dying.send_signal(signal.SIGKILL)
    dying.wait()
    dying.stdin.close()
    living = started("lives")
    try:
        first, second = (line.split() for line in wait_for_lines(2))
    finally:
        living.communicate(b"\n")
    assert (first[0], second[0]) == ("dies", "lives")
    assert first[1:] == second[1:]
    assert len(path.read_text().splitlines()) == 2


# Together, again, to others, not at all


def test_two_hundred_jobs_with_one_cause_are_one_notice_and_one_recovery(place):
    jobs = {f"job-{number:03}": "ValueError no …" for number in range(200)}
    place.pass_time(60, {**jobs, "other": "KeyError"})
    assert sorted(notice.count for notice in place.told.notices) == [1, 200]
    (large,) = [notice for notice in place.told.notices if notice.count == 200]
    assert len(large.targets) == 20
    assert "and 180 more" in large.text
    place.pass_time(60, {"job-007": "ValueError no …", "other": "KeyError"})
    assert place.told.kinds == ["firing", "firing"]  # it is over when all are well
    place.pass_time(60, {"other": "KeyError"})
    (recovery,) = [notice for notice in place.told.notices if notice.kind.value == "recovery"]
    assert (recovery.count, recovery.dedup_key) == (200, large.dedup_key)


def test_what_breaks_within_thirty_seconds_is_told_together(place):
    place.pass_time(20, {"a": "x"})
    place.pass_time(40, {"a": "x", "b": "x"})
    (notice,) = place.told.notices
    assert notice.targets == ["a", "b"]


def test_an_alert_that_fires_again_is_told_although_others_have_not_recovered(place):
    place.pass_time(60, {"a": "x", "b": "x"})
    place.pass_time(20, {"b": "x"})
    place.pass_time(120, {"a": "x", "b": "x"})
    assert place.told.kinds == ["firing", "recovery", "firing"]


def test_reminders_and_the_second_channel_follow_until_somebody_knows():
    channels = {"ops": Told(), "pager": Told()}
    with ManualScheduler() as scheduler:
        place = Place(scheduler, channels, repeat="5m", escalate_after="3m", escalate_to=["pager"])
        place.pass_time(600, {"a": ""})
        assert channels["ops"].kinds == ["firing", "reminder"]
        assert channels["pager"].kinds == ["escalation", "reminder"]
        (view,) = place.call("alerts")
        acknowledged = place.call("ack_alert", id=view["id"], reason="I look at it")
        assert (acknowledged["acknowledged_by"], acknowledged["acknowledge_reason"]) == ("ada", "I look at it")
        place.pass_time(1200)
        assert channels["ops"].kinds == ["firing", "reminder"]
        place.pass_time(60, {})
        assert channels["pager"].kinds[-1] == channels["ops"].kinds[-1] == "recovery"
        assert len({notice.dedup_key for each in channels.values() for notice in each.notices}) == 1
        assert place.told.notices[-1].text.endswith("It had been firing for 30 minutes.")


@pytest.mark.parametrize("about", ["billing", "id"])
def test_what_is_silenced_is_told_when_the_silence_ends(place, about):
    place.call("silence_alert", id="billing", until="5m", reason="a release")
    place.pass_time(120, {"a": ""})
    (view,) = place.call("alerts", state="firing")
    assert (view["silenced_by"], view["silence_reason"], view["told_at"]) == ("ada", "a release", None)
    if about == "id":
        place.call("silence_alert", id="billing")
        place.call("silence_alert", id=view["id"], until="3m")
    place.pass_time(120)
    assert place.told.kinds == []
    place.pass_time(120)
    assert place.told.kinds == ["firing"]


def test_a_silence_that_is_taken_back_ends_at_once(place):
    place.call("silence_alert", id="billing", until="5h")
    place.pass_time(60, {"a": ""})
    place.call("silence_alert", id="billing")
    place.pass_time(60)
    assert place.told.kinds == ["firing"]


def test_a_channel_that_is_down_gets_the_notice_later_and_the_others_get_it_once():
    channels = {"ops": Told(), "mail": Told(refusals=3)}
    with ManualScheduler() as scheduler:
        place = Place(scheduler, channels, to=["ops", "mail"])
        place.pass_time(30, {"a": ""})
        place.pass_time(10)
        assert (channels["ops"].kinds, channels["mail"].kinds) == (["firing"], [])
        assert place.call("alerts")[0]["not_sent"] == 1
        place.pass_time(600)
        assert (channels["ops"].kinds, channels["mail"].kinds) == (["firing"], ["firing"])
        assert place.call("alerts")[0]["not_sent"] == 0


def test_a_store_that_does_not_answer_is_told_by_each_process_itself(monkeypatch):
    class Down(MemoryJobStore):
        down = False

        def read_note(self, kind, key):
            if self.down:
                raise StoreUnavailable("no answer")
            return super().read_note(kind, key)

        def get_next_run_time(self):
            if self.down:
                raise StoreUnavailable("no answer")
            return super().get_next_run_time()

    from goscheduler.alerts import StoreDown

    store, told = Down(), Told()
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        alerts = Alerts(scheduler, [Alert("stores", [StoreDown()], to=["ops"])], {"ops": told})
        for store.down in [False] * 3 + [True] * 9 + [False] * 9:
            alerts.evaluate()
            scheduler.clock.advance(10)
    assert told.kinds == ["firing", "recovery"]
    assert "no answer" in told.notices[0].message


def test_facts_that_cannot_be_gathered_end_no_alert(place, monkeypatch):
    place.pass_time(60, {"a": ""})

    def fail(self, facts):
        raise ConnectionError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(Switch, "find", fail)
        place.pass_time(60)
    assert place.told.kinds == ["firing"]
    place.pass_time(60, {})
    assert place.told.kinds == ["firing", "recovery"]


def test_states_that_were_ok_for_a_day_are_forgotten(place):
    place.pass_time(60, {"a": ""})
    place.pass_time(60, {})
    assert [view["state"] for view in place.call("alerts")] == ["ok"]
    place.scheduler.clock.advance("1d")
    place.pass_time(10)
    assert place.call("alerts") == []


def test_alerts_are_evaluated_on_a_thread_until_they_are_stopped(place, monkeypatch):
    evaluated, told = threading.Event(), Told()

    class Heard(Told):
        def send(self, notice):
            super().send(notice)
            evaluated.set()

    channel = Heard()
    alerts = Alerts(place.scheduler, [alert(place.world)], {"ops": channel}, interval=1, grouping=0)
    place.world.broken = {"a": ""}
    with alerts:
        assert evaluated.wait(60)
    assert (channel.kinds, channel.is_open, told.kinds) == (["firing"], False, [])


def test_the_dead_mans_switch_hears_every_minute_that_all_is_well_and_nothing_otherwise():
    store, heard = MemoryJobStore(), Told()
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        alerts = Alerts(scheduler, [alert(World())], {"ops": Told()}, heartbeat=heard)
        for _ in range(18):
            alerts.evaluate()
            scheduler.clock.advance(10)
        assert len(heard.notices) == 3
        scheduler.add_job(print, "interval", hours=1, next_run_time=scheduler.clock.now())
        scheduler.pause()  # and a job is due, which nobody fires
        scheduler.clock.advance(120)
        alerts.evaluate()
        assert len(heard.notices) == 3


def test_nothing_is_evaluated_before_the_scheduler_is_started_and_after_the_alerts_were_stopped():
    world, told = World(), Told()
    world.broken = {"a": ""}
    alerts = Alerts(ManualScheduler(), [alert(world)], {"ops": told})
    alerts.evaluate()
    assert world.looks == 0
    alerts.stop()
    with pytest.raises(RuntimeError, match="were stopped"):
        alerts.start()


def test_a_process_with_other_alerts_sends_nothing_of_these_although_its_channel_has_the_same_name(place):
    other = Told()
    stranger = Alerts(place.scheduler, [Alert("other", [Switch(World())], to=["ops"])], {"ops": other})
    place.world.broken = {"a": ""}
    place.alerts.evaluate()
    place.scheduler.clock.advance(60)
    stranger.evaluate()
    assert other.kinds == []
    place.alerts.evaluate()
    assert place.told.kinds == ["firing"]


def test_a_channel_that_is_not_there_is_refused():
    with ManualScheduler() as scheduler, pytest.raises(ValueError, match="'ops'; there are: mail"):
        Alerts(scheduler, [alert(World())], {"mail": Told()})
    assert front.TURN_SHARE < 1
