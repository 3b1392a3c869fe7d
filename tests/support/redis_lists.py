"""Which jobs and runs of a Redis store stand in none of the lists in which somebody would find them."""

from __future__ import annotations

import json
from collections import defaultdict

from goscheduler.jobstores.redis.facts import facts_of, outcome_label
from goscheduler.jobstores.redis.rows import JobState, RunState, as_text


def astray(store):
    """Return the ids of what nobody would ever find, read from the keys themselves."""
    return jobs_astray(store._scripts) | runs_astray(store._scripts)


def jobs_astray(scripts):
    """Return the ids of the jobs that have a time and are not in the list of their lane, or whose lane is in none."""
    states = {job_id: JobState._make(json.loads(state)) for job_id, state in everything(scripts, "heads").items()}
    return {
        job_id
        for job_id, state in states.items()
        if state.due and not is_listed(scripts, "due", state.lane, job_id)
    }  # fmt: skip


def runs_astray(scripts):
    """Return the ids of the live runs that no owner has, and of the pending ones that wait nowhere."""
    states = {run_id: RunState._make(json.loads(state)) for run_id, state in everything(scripts, "run_heads").items()}
    return {run_id for run_id, state in states.items() if not is_in_a_list(scripts, run_id, state)}


def is_in_a_list(scripts, run_id, state):
    client, key = scripts.client, scripts.key
    if state.owner:
        is_held_by_owner = client.sismember(key(f"owned:{state.owner}"), run_id)
        return is_held_by_owner and client.sismember(key("holders"), state.owner)
    if not state.blocked_on:
        return is_listed(scripts, "ready", state.lane, run_id)
    return (
        client.zscore(key(f"holds:{state.lane}{state.blocked_on}"), run_id) is not None
        and client.sismember(key(f"held:{state.blocked_on}"), state.lane)
        and client.sismember(key("held"), state.blocked_on)
    )


def is_listed(scripts, kind, lane, name):
    """Tell whether something is in the list of a lane, and the lane is known to be as early as its first one."""
    first = scripts.client.zrange(scripts.key(f"{kind}:{lane}"), 0, 0, withscores=True)
    return (
        scripts.client.zscore(scripts.key(f"{kind}:{lane}"), name) is not None
        and scripts.client.zscore(scripts.key(kind), lane) == first[0][1]
    )


def lists_for_people(store):
    """Return the sorted sets that people find jobs by, as they are and as they should be."""
    scripts = store._scripts
    client, key = scripts.client, scripts.key
    names = [as_text(name) for kind in ("kinds", "labels", "idle") for name in client.smembers(key(kind))]
    kinds = ("kind", "tag", "pause", "outcome", "idle")
    keys = [as_text(found) for kind in kinds for found in client.keys(key(f"{kind}:*"))]
    assert sorted(map(key, names)) == sorted(keys), "every list is known, and no other"
    actual = {name: {as_text(job_id) for job_id in client.zrange(key(name), 0, -1)} for name in names}
    expected = defaultdict(set)
    for job_id, text in everything(scripts, "heads").items():
        state, job = JobState._make(json.loads(text)), store.lookup_job(job_id)
        labels = json.loads(facts_of(job).split("\n")[0])
        if not state.due:
            labels.append(state.idle_list)
        if job.stats.last_outcome is not None:
            labels.append(outcome_label(job.stats.last_outcome))
        for label in labels:
            expected[label].add(job_id)
    assert everything(scripts, "facts").keys() == everything(scripts, "heads").keys()
    return actual, dict(expected)


def everything(scripts, name):
    return {as_text(field): as_text(value) for field, value in scripts.client.hgetall(scripts.key(name)).items()}
