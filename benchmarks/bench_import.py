"""How long the import takes that starts every program, on top of the bare interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from functools import partial

from measure import Row, Sample, compare, print_table, take_turns

BARE = "pass"
PACKAGE = "import goscheduler"
OURS = "from goscheduler import BackgroundScheduler"
THEIRS = "from apscheduler.schedulers.background import BackgroundScheduler"


def main(rounds: int = 30) -> list[Row]:
    statements = (BARE, PACKAGE, OURS, THEIRS)
    with tempfile.TemporaryDirectory() as bytecode:
        timed = partial(milliseconds, bytecode=bytecode)
        for statement in statements:
            timed(statement)  # from here on nobody has to compile
        found = take_turns(rounds, statements, timed)
    bare = Sample(tuple(found[BARE])).median
    package, ours, theirs = (
        Sample(tuple(value - bare for value in found[statement]), "{:.1f}", " ms")
        for statement in (PACKAGE, OURS, THEIRS)
    )
    return [
        compare("import BackgroundScheduler", ours, theirs, at_least=1, lower_is_better=True),
        Row("import goscheduler alone", str(package), "–", "–", "", None),
    ]


def milliseconds(statement: str, bytecode: str) -> float:
    """Return the wall time of an interpreter that does nothing but ``statement``.

    Bytecode is kept in the folder ``bytecode``, for both contenders, even where the environment forbids to write any.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = bytecode
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], env=environment, check=True)
    return (time.perf_counter() - begin) * 1000


if __name__ == "__main__":
    print_table(main())
