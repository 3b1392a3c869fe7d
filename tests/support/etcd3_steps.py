"""What a program does that has a client of etcd3 and no etcd3gw: ``python etcd3_steps.py host port path``."""

from __future__ import annotations

import base64
import sys
import threading

import etcd3
import pytest

from goscheduler import BackgroundScheduler
from goscheduler._drivers.etcd.clients import wire_of
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import StoreUnavailable
from goscheduler.jobstores.etcd import EtcdJobStore
from goscheduler.locks import acquire
from goscheduler.locks._find import backend_for
from goscheduler.locks.etcd import EtcdLocks
from goscheduler.runs.queries import Count, JobQuery
from goscheduler.testing import ManualScheduler
from goscheduler.testing.contract import JobMaker

PATIENCE = 60
fired = threading.Event()


def fire():
    fired.set()


def main(host, port, path):
    client = etcd3.client(host=host, port=int(port))
    fire_a_job(client, path)
    find_jobs(EtcdJobStore(path, client=client))
    renew_a_lease(EtcdJobStore(path, client=client))
    hear_of_a_change(wire_of(client), base64.b64encode(f"{path}/heard".encode()).decode())
    hold_a_lock(client, path)
    refuse_a_server_that_is_not_there()
    client.close()
    assert "etcd3gw" not in sys.modules


def fire_a_job(client, path):
    scheduler = BackgroundScheduler(jobstores={"default": EtcdJobStore(path, client=client)})
    scheduler.start()
    scheduler.add_job(fire, "interval", hours=1, id="hourly")
    scheduler.modify_job("hourly", next_run_time=SYSTEM_CLOCK.now())
    assert fired.wait(PATIENCE)
    scheduler.shutdown()
    other = BackgroundScheduler(jobstores={"default": EtcdJobStore(path, client=client)})
    other.start(paused=True)
    assert [job.id for job in other.get_jobs()] == ["hourly"]
    assert [record.job_id for record in other.runs(outcome="succeeded")] == ["hourly"]
    other.remove_job("hourly")
    other.shutdown()


def find_jobs(store):
    store.start(None, "default")
    make_job = JobMaker(ManualScheduler())
    for ids in (["a", "b"], ["a", "b", "c"], ["b", "c"]):
        found = [job.id for job in store.find_jobs(JobQuery()).jobs]
        for job_id in set(ids) - set(found):
            store.add_job(make_job(job_id))
        store.remove_jobs(sorted(set(found) - set(ids)))
        assert [job.id for job in store.find_jobs(JobQuery(sort="id")).jobs] == ids
        assert store.count_jobs(JobQuery(), 10) == Count(len(ids))
    store.remove_all_jobs()
    store.shutdown()


def renew_a_lease(store):
    leases, now = store._heartbeats, SYSTEM_CLOCK.now()
    assert leases.renew("me", "here", now, 30, False)
    assert leases.renew("me", "here", now, 30, True)
    assert {name: found.text for name, found in leases.alive(now).items()} == {"me": "here"}
    leases.stop("me")
    assert leases.alive(now) == {}


def hear_of_a_change(wire, key):
    words, heard = [], threading.Condition()

    def hear(word):
        with heard:
            words.append(word)
            heard.notify_all()

    watch = wire.watch(key, hear)
    watch.start()
    with heard:
        assert heard.wait_for(lambda: words == [""], PATIENCE), words
    wire.post("kv/put", {"key": key, "value": base64.b64encode(b"news").decode()}, (5, 5))
    with heard:
        assert heard.wait_for(lambda: words == ["", "news"], PATIENCE), words
    watch.stop()
    watch.join(PATIENCE)
    assert not watch.is_alive()


def hold_a_lock(client, path):
    assert type(backend_for(client)) is EtcdLocks
    locks = EtcdLocks(client, path)
    held = acquire(locks, "report", 30)
    assert acquire(locks, "report", 30) is None
    assert held.extend(1)
    after = acquire(locks, "report", 30, wait=PATIENCE)  # when its lease is over
    assert after.fence > held.fence
    assert not held.extend()
    assert locks.try_acquire("report", after.token, 30, 5) == after.fence
    assert after.release()


def refuse_a_server_that_is_not_there():
    with pytest.raises(StoreUnavailable, match="no etcd answers at localhost:1"):
        EtcdJobStore(client=etcd3.client(port=1)).start(None, "default")


if __name__ == "__main__":
    main(*sys.argv[1:])
    print("done")
