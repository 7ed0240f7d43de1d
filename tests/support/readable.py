"""Which files can be read now, by `poll`: `select` takes no descriptor above 1,023, and a long run gets there."""

from __future__ import annotations

import select
from collections.abc import Sequence
from typing import Any


def readable(files: Sequence[Any], wait: float) -> list[Any]:
    """Those of them that have something, or have ended, after at most `wait` seconds."""
    by_descriptor = {file if isinstance(file, int) else file.fileno(): file for file in files}
    poll = select.poll()
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLIN)
    return [by_descriptor[descriptor] for descriptor, _ in poll.poll(max(wait, 0) * 1000)]
