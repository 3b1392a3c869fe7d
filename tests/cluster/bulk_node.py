"""A process that acts on many jobs, and tells of each portion. After the second one it waits until it is killed."""

from __future__ import annotations

import argparse
import sys

import cluster_jobs

from goscheduler.observer import Observer
from goscheduler.runs import bulk


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--pipe", type=int, required=True)
    parser.add_argument("act", choices=["pause_jobs", "run_jobs"])
    options = parser.parse_args()
    cluster_jobs.write_to(options.pipe)
    portions = []

    def tell(state: bulk.Bulk) -> None:
        portions.append(state)
        cluster_jobs.say("portion", state.changed + state.unchanged)
        bulk.CLAIM_SECONDS = 0.0  # from the next portion on, so that nobody waits for a claim to lapse
        if len(portions) == 2:
            sys.stdin.read()  # until it is killed

    with Observer(options.url) as observer:
        getattr(observer, options.act)(tag="t", progress=tell)


if __name__ == "__main__":
    main()
