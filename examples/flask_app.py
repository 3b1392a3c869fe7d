"""A web application with a scheduler in it: ``python examples/flask_app.py``, then visit ``/jobs``.

Needs Flask (``pip install flask``). With ``--check`` it asks itself one question and ends.
"""

from __future__ import annotations

import atexit
import sys
from typing import Any

from goscheduler import BackgroundScheduler

scheduler = BackgroundScheduler(timezone="UTC")


@scheduler.scheduled_job("interval", minutes=10, id="clean-up")
def clean_up() -> None:
    """Delete expired sessions here."""


def create_app() -> Any:
    from flask import Flask, jsonify

    app = Flask(__name__)
    scheduler.start()
    atexit.register(scheduler.shutdown)

    @app.get("/jobs")
    def jobs() -> Any:
        return jsonify([{"id": job.id, "next": str(job.next_run_time)} for job in scheduler.get_jobs()])

    return app


def main() -> None:
    try:
        app = create_app()
    except ImportError:
        print("Flask is not installed: pip install flask")
        return
    if "--check" in sys.argv:
        print(f"/jobs lists {app.test_client().get('/jobs').get_json()[0]['id']}")
    else:
        app.run()


if __name__ == "__main__":
    main()
