"""Random numbers of our own.

A program may seed the module ``random`` and count on what follows, while schedulers draw on threads of their own. And
processes that all seed it alike must not choose the same pauses: they would meet again after each.
"""

from __future__ import annotations

import random

CHANCE = random.SystemRandom()
