"""A restart in place: the same process with the same command, environment and terminal.

So it is the same for a gateway in a terminal, one that an IDE started and one that systemd or launchd looks after, and
what only the gateway's environment holds, such as a token, is still there.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Final, NoReturn

SIGNAL: Final = signal.SIGUSR2


def replace_process() -> NoReturn:
    """Run our own command from its beginning, as the same process. Whatever was open is closed by the kernel."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
