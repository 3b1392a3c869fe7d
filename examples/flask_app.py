"""A web application with a scheduler in it: ``python examples/flask_app.py``, then visit ``/jobs``.

Needs Flask (``pip install "goscheduler[flask]"``). With ``--check`` it asks itself one question and ends.
"""

from __future__ import annotations

import sys
from typing import Any


def create_app() -> Any:
    from flask import Flask, jsonify

    from goscheduler.contrib.flask import Scheduler

    scheduler = Scheduler()

    @scheduler.task("interval", minutes=10, id="clean-up")
    def clean_up() -> None:
        """Delete expired sessions here, in the application context."""

    app = Flask(__name__)
    app.config["SCHEDULER_TIMEZONE"] = "UTC"
    scheduler.init_app(app)
    scheduler.start()

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
