"""``jobs backfill``, ``backfills``, ``blackouts`` and ``import-ics``, on a store that no program has open."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from goscheduler.cli.app import app
from goscheduler.testing import ManualClock, ManualScheduler


@pytest.fixture
def run(tmp_path):
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with ManualScheduler(clock=ManualClock(), jobstores={"default": url}, lease=2_592_000) as scheduler:
        scheduler.add_job(print, "cron", hour=9, id="a", args=[""], timezone="UTC")

    def run(*words, code=0):
        result = CliRunner().invoke(app, [*words, "--store", url])
        assert result.exit_code == code, result.output
        return result.stdout, result.stderr

    return run


def test_a_job_is_backfilled_looked_at_and_called_off(run):
    span = ("jobs", "backfill", "a", "--from", "2025-12-01", "--to", "2025-12-04")
    out, err = run(*span, "--dry-run")
    assert (out.count("09:00"), "Nothing is run" in err, "It would be 3 runs" in err) == (3, True, True)
    assert "There are no backfills." in "".join(run("backfills", "list"))
    out, _ = run(*span, "--at-once", "3", "--newest-first", "--reprocess", "failed")
    assert "3 runs of job a, at most 1 at once" in out
    (row,) = json.loads(run("backfills", "list", "--json")[0])
    assert (row["state"], row["waiting"]) == ("going on", 3)
    assert "is cancelled" in run("backfills", "cancel", row["id"])[0]
    assert json.loads(run("backfills", "list", "--json")[0])[0]["state"] == "cancelled"
    assert "split the range" in run(*span[:4], "2020-01-01", *span[5:], code=2)[1]
    assert "nobody" in run("backfills", "cancel", "nobody", code=1)[1]


def test_jobs_are_held_back_for_a_while(run):
    out, _ = run("blackouts", "add", "--to", "2h", "--tag", "billing", "--reason", "the database moves")
    assert "is set: hold all jobs with tag billing" in out
    (row,) = json.loads(run("blackouts", "list", "--json")[0])
    assert (row["state"], row["action"], row["reason"]) == ("in force", "hold", "the database moves")
    assert "is removed" in run("blackouts", "remove", row["id"])[0]
    assert "There are no blackouts." in "".join(run("blackouts", "list"))
    assert "nobody" in run("blackouts", "remove", "nobody", code=1)[1]


def test_a_calendar_file_is_looked_at_and_imported(run, tmp_path):
    file = tmp_path / "team.ics"
    lines = ["BEGIN:VCALENDAR", "BEGIN:VEVENT", "UID:u", "SUMMARY:Team", "DTSTART:20900101T090000Z", "END:VEVENT"]
    file.write_text("\n".join([*lines, "END:VCALENDAR"]))
    out, err = run("import-ics", str(file), "--task", "remind", "--dry-run")
    assert ("Team" in out, "It would be 1 job" in err) == (True, True)
    run("import-ics", str(file), "--task", "remind")
    assert json.loads(run("jobs", "show", "u", "--json")[0])["name"] == "Team"
    run("import-ics", str(file), "--task", "remind", "--replace")
    run("import-ics", str(file), "--task", "remind", code=1)
    file.write_text("\n".join(lines))
    assert "line 6: BEGIN:VCALENDAR has no END" in run("import-ics", str(file), "--task", "remind", code=2)[1]
    assert "cannot be read" in run("import-ics", str(tmp_path / "none.ics"), "--task", "remind", code=2)[1]
