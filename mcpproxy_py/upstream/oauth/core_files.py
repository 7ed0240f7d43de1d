"""No file of this process's memory is written any more: what is in it is good for somebody's account elsewhere."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from functools import cache
from typing import Final

log = logging.getLogger(__name__)

PR_SET_DUMPABLE: Final = 4


@cache
def write_no_core_files() -> None:
    """From now on, once. The limit is for files that the kernel writes itself; where it hands them to a program
    instead (systemd-coredump, apport), the limit means nothing, and what is not dumpable is not handed over. That also
    keeps other processes of the same account out of the memory. The administrator of the machine still gets in."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        try:
            import ctypes

            done = ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0
        except (ImportError, OSError, AttributeError):
            done = False
        if not done:
            log.warning("a core file of this process would hold the logins at servers: it cannot be made undumpable")
