"""Makes the modules of the other test folders importable, for programs that no test runner has started."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent / folder) for folder in ("servers", "tools")]
