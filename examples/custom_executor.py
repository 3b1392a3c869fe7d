"""An executor of your own, written as for APScheduler 3: run the job, then report its outcome."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from datetime import datetime

from goscheduler import BackgroundScheduler
from goscheduler.executors.base import BaseExecutor, run_job
from goscheduler.job import Job


class ThreadPerJobExecutor(BaseExecutor):
    """Starts a thread for every run."""

    def _do_submit_job(self, job: Job, run_times: Sequence[datetime]) -> None:
        threading.Thread(target=self._work, args=(job, run_times), name=f"for-{job.id}").start()

    def _work(self, job: Job, run_times: Sequence[datetime]) -> None:
        try:
            events = run_job(job, job._jobstore_alias, run_times, self._logger.name)
        except BaseException:
            self._run_job_error(job.id, *sys.exc_info()[1:])
        else:
            self._run_job_success(job.id, events)


ran = threading.Event()


def where_am_i() -> None:
    print(f"Running on the thread {threading.current_thread().name}")
    ran.set()


scheduler = BackgroundScheduler(executors={"default": ThreadPerJobExecutor()})
scheduler.start()
scheduler.add_job(where_am_i, id="lookout")
ran.wait(timeout=60)
scheduler.shutdown()
