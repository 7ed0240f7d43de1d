"""SIGHUP: for a gateway without a terminal a wish to read its configuration again, else the end of its terminal."""

from __future__ import annotations

import os
import signal
from typing import Final

RELOADS: Final = tuple(
    found
    for name in ("SIGHUP",)
    if (found := getattr(signal, name, None)) is not None and signal.getsignal(found) is not signal.SIG_IGN
)
"""Signals after which the configuration is read again. Whoever had them ignored, as `nohup` does, is obeyed."""


def has_terminal() -> bool:
    """Whether a terminal controls us, and is still there."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except (OSError, AttributeError):
        return False
    return True
