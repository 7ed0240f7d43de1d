from __future__ import annotations

from typing import Any

import pytest

from mcpproxy_py.upstream.session import negotiate
from tests.upstream.helpers import LONG


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is slow to start because the machine is busy would be taken for one of the older era."""
    monkeypatch.setattr(negotiate, "PROBE_TIMEOUT", LONG)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """This room talks to the event loop itself, so it is tested on the one that production uses. `owner.py`, in the
    tests of the process tree, runs it on the standard one."""
    return "asyncio", {"use_uvloop": True}
