from goscheduler.testing import ManualScheduler
from goscheduler.executors.context import current_run
log=[]
def extract(): log.append("extract")
def transform(): log.append(("transform", dict(current_run().upstream)))
def load(): log.append("load")
with ManualScheduler() as s:
    s.add_job(extract,"interval",hours=1,id="extract")
    s.add_job(transform, after="extract", id="transform", delay="5m")
    s.add_job(load, after=["transform","extract"], id="load")
    print(s.get_job("transform"), s.get_job("transform").state, s.why("transform"), s.why("load"))
    s.advance("3h"); print(log); s.advance("10m"); print(log[-2:])
    print(s.why("transform"), s.why("load"), [j.id for j in s.get_jobs(state="waiting")], s.get_jobs(state="paused"))
    for kw in (dict(after="extrac"), dict(after="x",id="x"), dict(trigger="cron",after="extract")):
        try: s.add_job(load, **kw)
        except Exception as e: print(type(e).__name__, e)
    try: s.reschedule_job("extract", after="load")
    except Exception as e: print(type(e).__name__, e)
    s.remove_job("extract"); s.advance("2m"); print(s.get_job("load"), s.why("load"))
    s.add_job(extract,"interval",hours=1,id="extract"); s.advance("2m"); print(s.get_job("load"), s.why("load"))
    print([j.id for j in s.chain([extract,transform,load],"cron",hour=2,id="nightly", retry=3)])
    log.clear(); s.advance("1d"); print(len(log))
