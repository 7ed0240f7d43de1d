"""What every test shares: one gateway that nobody may change, and the marker that names SPEC codes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.support.gateway import Running, gateway, python_server
from tests.support.wire import HANDSHAKE, MODERN, Wire

# A shell that runs us in the background lets us ignore Ctrl-C, and what we start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
# `nohup` does the same with a hangup, of which a gateway then never hears. Ours is handled, not left to end us: what is
# handled here is as usual in whatever we start.
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)
# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("unhurried")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A strict gateway in front of the plain server and an SDK server. For tests that only ask."""
    seen = tmp_path_factory.mktemp("shared")
    config = {
        "mcpServers": {
            "s": python_server("plain.py", "--log", str(seen / "calls.jsonl"), timeout=20),
            "sdk": python_server("sdk.py"),
        }
    }
    with gateway(seen / "data", config) as running:
        yield running


@pytest.fixture(scope="session")
def upstream_log(shared_gateway: Running) -> Path:
    """Every tools/call that the plain server of the shared gateway received."""
    return shared_gateway.data_dir.parent / "calls.jsonl"


@pytest.fixture(params=[MODERN, HANDSHAKE], ids=["modern", "handshake"])
def client(request: pytest.FixtureRequest, shared_gateway: Running) -> Wire:
    """A client of either era at the shared gateway's gate."""
    return Wire(shared_gateway.mcp, request.param)
