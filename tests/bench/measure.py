"""What the benchmarks share: percentiles, rounds side by side, and figures with their spread."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COUNTED = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
"""Before a command, so that its instructions are counted."""
RESTLESS = """
import os
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
parent = os.getppid()
while os.getppid() == parent:
    pass
"""
RESULTS = Path(__file__).parents[2] / "bench-results"


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def instructions_in(said: str) -> int:
    """What valgrind counted, from what it wrote on stderr."""
    return int(re.findall(r"Collected : (\d+)", said)[0])


def spread(values: Sequence[float], digits: int = 2) -> str:
    """The median of the rounds, and between what they lay."""
    low, high = min(values), max(values)
    return f"{statistics.median(values):.{digits}f} [{low:.{digits}f} to {high:.{digits}f}]"


def likely(values: Sequence[float]) -> tuple[float, float, float]:
    """The median of the rounds, and between what the true one lies in 19 of 20 cases, whatever the noise is like."""
    ordered, half = sorted(values), 0.98 * math.sqrt(len(values))
    low, high = math.floor(len(values) / 2 - half), math.ceil(len(values) / 2 + half)
    return statistics.median(ordered), ordered[max(0, low)], ordered[min(len(ordered) - 1, high)]


def cpu_seconds(pid: int) -> float:
    """What a process has had of the processors until now, in all its threads; NaN where nobody tells. To be read while
    it has nothing to do: of what runs at this moment, the last part is counted later."""
    try:
        tasks = [each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/schedstat")]
        return sum(int(each.split()[0]) for each in tasks) / 1e9 if tasks else math.nan
    except (OSError, ValueError):
        return math.nan


def figures(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "rounds": len(values)}


def python_of(checkout: Path) -> str:
    """The interpreter of a checkout that has one of its own, else this one."""
    own = checkout / ".venv" / "bin" / "python"
    return str(own) if own.exists() else sys.executable


@contextmanager
def awake(wanted: bool) -> Iterator[None]:
    """Keeps every core busy with something that gives way to everything else, where that is `wanted`. A virtual machine
    gives a core that has nothing to do away, and gets it back late and with another's caches: what is measured one call
    at a time is then the machine's as much as ours. Tails are worse with it, since giving way takes a moment too."""
    many = (os.cpu_count() or 1) if wanted else 0
    busy = [subprocess.Popen([sys.executable, "-S", "-c", RESTLESS]) for _ in range(many)]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


def report(name: str, found: dict[str, Any]) -> None:
    """Write the figures where a later run can be compared with them."""
    RESULTS.mkdir(exist_ok=True)
    machine = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"on": machine, **found}, indent=2) + "\n")
    print(f"\nwritten to {path}", file=sys.stderr)
