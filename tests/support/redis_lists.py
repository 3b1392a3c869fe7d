"""Which jobs and runs of a Redis store stand in none of the lists in which somebody would find them."""

from __future__ import annotations

import json

from goscheduler.jobstores.redis.rows import JobHead, RunHead, as_text


def astray(store):
    """Return the ids of what nobody would ever find, read from the keys themselves."""
    return jobs_astray(store._link) | runs_astray(store._link)


def jobs_astray(link):
    """Return the ids of the jobs that have a time and are not in the list of their lane, or whose lane is in none."""
    heads = {job_id: JobHead._make(json.loads(head)) for job_id, head in everything(link, "heads").items()}
    return {
        job_id
        for job_id, head in heads.items()
        if head.due and not is_listed(link, "due", head.lane, job_id)
    }  # fmt: skip


def runs_astray(link):
    """Return the ids of the live runs that no owner has, and of the pending ones that wait nowhere."""
    heads = {run_id: RunHead._make(json.loads(head)) for run_id, head in everything(link, "run_heads").items()}
    return {run_id for run_id, head in heads.items() if not is_in_a_list(link, run_id, head)}


def is_in_a_list(link, run_id, head):
    client, key = link.client, link.key
    if head.owner:
        is_held_by_owner = client.sismember(key(f"owned:{head.owner}"), run_id)
        return is_held_by_owner and client.sismember(key("holders"), head.owner)
    if not head.held:
        return is_listed(link, "ready", head.lane, run_id)
    return (
        client.zscore(key(f"holds:{head.lane}{head.held}"), run_id) is not None
        and client.sismember(key(f"held:{head.held}"), head.lane)
        and client.sismember(key("held"), head.held)
    )


def is_listed(link, kind, lane, name):
    """Tell whether something is in the list of a lane, and the lane is known to be as early as its first one."""
    first = link.client.zrange(link.key(f"{kind}:{lane}"), 0, 0, withscores=True)
    return (
        link.client.zscore(link.key(f"{kind}:{lane}"), name) is not None
        and link.client.zscore(link.key(kind), lane) == first[0][1]
    )


def everything(link, name):
    return {as_text(field): as_text(value) for field, value in link.client.hgetall(link.key(name)).items()}
