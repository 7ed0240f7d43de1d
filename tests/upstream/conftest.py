from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """This room talks to the event loop itself, so it is tested on the one that production uses. `owner.py`, in the
    tests of the process tree, runs it on the standard one."""
    return "asyncio", {"use_uvloop": True}
