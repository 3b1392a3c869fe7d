"""Faults of processes: killed, stopped, restarted, with a wrong clock."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

from fault import Fault
from scene import until


class Kill(Fault):
    """A process is killed, and started again."""

    name = "kill"
    leases = (0.0, 0.5)

    def begin(self) -> None:
        self.node = self.target()
        self.note("begin", self.node)
        self.node.kill()

    def end(self) -> None:
        self.note("end", self.node)
        self.node.start()


class Freeze(Fault):
    """A process stands still for longer than its lease."""

    name = "freeze"
    leases = (1.4, 1.8)

    def begin(self) -> None:
        self.node = self.target()
        self.note("begin", self.node)
        self.node.freeze()

    def end(self) -> None:
        self.node.thaw()
        self.note("end", self.node)


class FreezeShort(Freeze):
    """A process stands still for less than half of its lease; nothing may come of it."""

    name = "freeze_short"
    leases = (0.3, 0.42)


class FreezeInCall(Freeze):
    """A process stands still for longer than its lease while it is inside a call of the store."""

    name = "freeze_in_call"

    def begin(self) -> None:
        self.node = self.luck.choice(self.scene.living())
        self.note("begin", self.node)
        caught = self._freeze_with_lock() if self.scene.proxy is None else self._freeze_with_request()
        self.note("aimed", self.node, {"inside": caught})
        self.node.freeze()

    def _freeze_with_request(self) -> bool:
        """Stop it as soon as the server has got some request of it, so that it holds what the server lends it."""
        assert self.scene.proxy is not None
        link = self.scene.proxy.links[self.node.name]
        left = self.luck.randrange(8)

        def noticed() -> None:
            nonlocal left
            if left:
                left -= 1
                link.wait_for_request = noticed
            else:
                self.node.signal(signal.SIGSTOP)
                caught.append(True)

        caught: list[bool] = []
        link.wait_for_request = noticed
        until(lambda: caught, self.scene.lease)
        link.wait_for_request = None
        return bool(caught)

    def _freeze_with_lock(self) -> bool:
        """Stop it while it holds the lock for writing to the file."""
        assert self.node.process is not None
        pid = self.node.process.pid
        deadline = time.monotonic() + 2 * self.scene.lease
        while time.monotonic() < deadline:
            if _writes(pid):
                self.node.signal(signal.SIGSTOP)
                self.node.freeze()
                if _writes(pid):
                    return True
                self.node.thaw()
        return False


class Restart(Fault):
    """A process is told to end, and another one takes its place."""

    name = "restart"

    def begin(self) -> None:
        self.node = self.target()
        self.note("begin", self.node)
        self.node.end()
        if not self.node.until_ended(8 * self.scene.lease):
            self.note("hangs", self.node)
            self.node.kill()

    def end(self) -> None:
        self.note("end", self.node)
        self.node.start()


class Clocks(Fault):
    """The clocks of some processes are wrong by some seconds, ahead or behind, and jump."""

    name = "clock"
    leases = (1.5, 2.0)

    def begin(self) -> None:
        living = self.scene.living()
        self.nodes = self.luck.sample(living, max(1, len(living) // 2))
        # The processes of a file are on one machine, and so their clocks jump together.
        together = self.luck.choice((-5.0, 5.0)) if self.scene.proxy is None else None
        if together is not None:
            self.nodes = living
        for node in self.nodes:
            wrong = together or self.luck.choice((-1, 1)) * self.luck.uniform(3.0, 5.0)
            self.note("begin", node, {"seconds": wrong})
            node.set_clock(wrong)

    def end(self) -> None:
        for node in self.nodes:
            node.set_clock(0.0)
            self.note("end", node)


def _writes(pid: int) -> bool:
    """Tell whether a process holds a lock for writing on some file."""
    return bool(re.search(rf"POSIX\s+ADVISORY\s+WRITE\s+{pid}\s", Path("/proc/locks").read_text()))
