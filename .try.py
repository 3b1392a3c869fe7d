from goscheduler.testing import ManualScheduler
from goscheduler.testing.contract_following import *
import logging
logging.basicConfig(level=logging.WARNING)
from goscheduler.schedulers import _following as F
orig=F.Following._follow
def f(self, alias, store, job_id):
    j=store.lookup_job(job_id); n=j.next_run_time
    print(self._engine.clock.now().time(), "follow", job_id, n and n.time())
    orig(self, alias, store, job_id)
    j=store.lookup_job(job_id); n=j.next_run_time
    print("   ->", n and n.time())
F.Following._follow=f
os=F.Following.settled
def st(self, alias, s):
    print(self._engine.clock.now().time(), "settled", [(x.attempt.run.job.id, x.follow_up) for x in s], self._followers)
    os(self, alias, s)
F.Following.settled=st
with ManualScheduler() as scheduler:
        scheduler.add_job(first, "interval", hours=1, id="first")
        scheduler.add_job(second, after="first", id="second", delay="5m")
        scheduler.add_job(third, after=["first", "second"], id="third")
        scheduler.advance("1h"); scheduler.advance("5m"); print(calls)

        scheduler.advance("2h"); print(calls)
