"""What excuses a repeat, and until when a process may be believed to have what it has.

==========================================  ====================================================================
fault                                       what it excuses
==========================================  ====================================================================
kill                                        a repeat of what that process had begun
freeze, stall                               the same, from half a lease on; a freeze that is short excuses nothing
a cut of a node or of all                   the same, from half a lease on
reset, drop-replies, a fault of the server  the same, however short: an answer may have been lost
failover                                    also what was confirmed a moment before it
restart                                     a repeat of what had begun and did not end in time
many short stalls                           the same, where the machine may be busy with other things
clock                                       on SQLite alone: leases go by the clock of the machine, which jumps for all
==========================================  ====================================================================
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict

from history import Execution, Fault, History, Hold

FREEZES = frozenset({"freeze", "freeze-in-call", "stall"})
CUTS = frozenset({"blackhole", "cut-off", "slow", "refuse"})
UNKNOWN = frozenset({"reset", "drop-replies"})
SERVER = frozenset({
    "server-kill", "server-away", "start-without-server", "server-freeze", "disk-full", "connections", "failover",
    "foreign-writer",
})  # fmt: skip
HARMLESS = frozenset({"freeze-short", "clock", "restart", "kill"})
KNOWN = FREEZES | CUTS | UNKNOWN | SERVER | HARMLESS
#: Nobody can reach the server while one of these goes on, so no lease can be renewed.
TOTAL = frozenset({"blackhole", "cut-off", "server-away", "server-freeze"})
#: A run with one of these should have seen at least one end that was refused.
BITING = frozenset({"freeze", "freeze-in-call", "blackhole"})

#: Stores whose server tells no time, so that the clocks of the nodes decide what is due.
CLOCKLESS = frozenset({"sqlite", "etcd", "zookeeper"})
#: What the link of the client is called; no node has that name.
CLIENT = "client"
#: Share of a lease from which a standstill may be noticed.
NOTICED = 0.5
#: Share of a lease within which the end of a run is written when nothing but other work is in the way.
WRITING = 1.0
#: How much longer that may take, and from what share of a lease on stalls count together, on a busy machine.
PATIENCE = 3
BUSY = 0.25
#: Seconds before a failover of which the new server may know nothing.
FORGOTTEN = 5.0


class Causes:
    """The disturbances of one history, by the node that they hit."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._lease = history.setup.lease
        self._writing = WRITING * self._lease * (1 if history.setup.timed else PATIENCE)
        self._of: dict[str, list[Fault]] = defaultdict(list)
        nodes = {life.node for life in history.lives} | {call.node for call in history.executions}
        for fault in history.faults:
            # Who stands still may have a file locked for writing, and then nobody can write.
            for_all = history.setup.store == "sqlite" and fault.kind in FREEZES
            for node in nodes:
                if for_all or fault.hits(node):
                    self._of[node].append(fault)
        self._begins = {node: [fault.begin for fault in faults] for node, faults in self._of.items()}
        self._longest = max((fault.end - fault.begin for fault in history.faults), default=0.0)

    def during(self, node: str, begin: float, end: float) -> list[Fault]:
        """Return the faults of a node that overlap a window, in order."""
        begins = self._begins.get(node, [])
        low, high = bisect_left(begins, begin - self._longest), bisect_right(begins, end)
        return [fault for fault in self._of.get(node, [])[low:high] if fault.end >= begin]

    def breaks(self, fault: Fault) -> bool:
        """Tell whether others may have been given what a node had when this fault began."""
        if fault.kind in SERVER or fault.kind in UNKNOWN:
            return True
        if fault.kind == "clock" and self._history.setup.store == "sqlite":  # leases go by the clock of the machine
            return abs(_offset(fault)) >= NOTICED * self._lease
        return fault.kind in FREEZES | CUTS and fault.end - fault.begin >= NOTICED * self._lease

    def of_repeat(self, first: Execution, again: float) -> str | None:
        """Return why something that had been started may be started again, or None if nothing excuses it."""
        return self.of_loss(first.node, first.life, first.t, first.end, again)

    def of_loss(self, node: str, life: int, begin: float, end: float | None, again: float) -> str | None:
        """Return why what a process had from ``begin`` to ``end`` may have been given to others by ``again``."""
        known = self._history.life_of.get((node, life))
        written = again if end is None else min(again, end + self._writing)
        if known is not None and known.killed is not None and known.killed <= written:
            return "kill"
        for fault in self.during(node, begin - self._lease, min(again, written + FORGOTTEN)):
            if fault.kind == "failover" or (fault.begin <= written and self.breaks(fault)):
                return fault.kind
        stopping = None if known is None else known.stopping
        if stopping is not None and stopping <= again and (end is None or end > stopping):
            return "restart"
        if not self._history.setup.timed and self.stood_still(node, begin - self._lease, written) >= BUSY * self._lease:
            return "busy"
        return None

    def stood_still(self, node: str, begin: float, end: float) -> float:
        """Return for how many seconds of a window the machine kept a process from working, faults aside."""
        during = self.during(node, begin, end)
        planned = [fault for fault in during if fault.kind.startswith("freeze")]
        seconds, until = 0.0, begin
        for fault in during:
            if fault.kind == "stall" and not any(each.overlap(fault.begin, fault.end) > 0 for each in planned):
                seconds += max(0.0, min(fault.end, end) - max(fault.begin, until))
                until = max(until, fault.end)
        return seconds

    def gone_by(self, node: str, life: int) -> float:
        """Return until when a process was there at most."""
        known = self._history.life_of.get((node, life))
        over = None if known is None else known.over()
        return self._history.setup.read if over is None else over

    def valid_until(self, call: Execution | Hold) -> float:
        """Return until when a process had a run, a document or a lock for certain and could not have lost it."""
        over = self.gone_by(call.node, call.life)
        until = over if call.end is None else min(call.end, over)
        for fault in self.during(call.node, call.t, until):
            if self.breaks(fault):
                return max(call.t, min(until, fault.begin))
        return until

    def frozen_since(self, node: str, begin: float, end: float) -> float | None:
        """Return since when a process stood still, however shortly, at some moment of a window; None if it did not."""
        for fault in self.during(node, begin, end):
            if fault.kind.startswith("freeze") or fault.kind == "stall":
                return fault.begin
        return None

    def excused_until(self, since: float, allowed: float) -> float:
        """Return when something must have happened that takes ``allowed`` seconds while nothing is disturbed."""
        until = since + allowed
        for fault in self._history.faults:
            if fault.begin > until:
                break
            if fault.end < since or fault.kind in HARMLESS or fault.node == CLIENT:
                continue
            if fault.kind == "stall" and not self.breaks(fault):
                until += fault.end - fault.begin
            else:
                until = max(until, fault.end + allowed)
        return until

    def ahead(self, t: float) -> float:
        """Return by how many seconds a firing may be too early at ``t``, because the clock of some node is ahead.

        What is due is judged by the clock of the server, where it has one.
        """
        if self._history.setup.store not in CLOCKLESS:
            return 0.0
        offsets = [
            _offset(fault)
            for fault in self._history.faults
            if fault.kind == "clock" and fault.begin <= t <= fault.end + self._lease
        ]
        return max([0.0, *offsets])

    def forgetful(self, t: float) -> bool:
        """Tell whether a server may have forgotten something that was confirmed about ``t``."""
        return any(
            fault.kind == "failover" and fault.begin - FORGOTTEN <= t <= fault.end + FORGOTTEN
            for fault in self._history.faults
        )


def _offset(fault: Fault) -> float:
    """Return by how many seconds a clock is ahead."""
    return float((fault.detail or {}).get("seconds", 0.0))
