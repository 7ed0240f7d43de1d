"""The official suite's scenarios of logins: the gateway is the client, `mcpproxy upstream login` the person (UP-9)."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway import Running, gateway
from tests.support.node import packages
from tests.wire.as_client import GATEWAY, KEY
from tests.wire.as_login_client import DATA_DIR
from tests.wire.suite import HERE, run_client

UNSCORED = [(None, "auth/client-credentials-jwt"), (None, "auth/client-credentials-basic"),
            (None, "auth/enterprise-managed-authorization"),
            ("2025-03-26", "auth/2025-03-26-oauth-metadata-backcompat")]  # fmt: skip
"""Not required, and they work all the same. Not so `dpop`, `dpop-nonce` and `wif-jwt-bearer`, which are extensions, and
`2025-03-26-oauth-endpoint-fallback`, where a server without any metadata is logged in to only if its entry says
`auth: {"type": "oauth"}`."""


def scored() -> list[tuple[str, str]]:
    """As the suite's own lists have it, so that none is forgotten."""
    folder = packages(HERE / "npm") / "@modelcontextprotocol" / "conformance" / "requirements"
    found: list[tuple[str, str]] = []
    for revision in ("2025-11-25", "2026-07-28"):
        text = (folder / f"{revision}.yaml").read_text()
        section = re.search(r"^client:\n((?:  .*\n|\s*#.*\n|\n)*)", text, re.MULTILINE)
        assert section
        found += [(revision, name) for name in re.findall(r"- (auth/\S+)", section[1])]
    return found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with gateway(tmp_path_factory.mktemp("logins") / "data", {"mcpServers": {}}) as found:
        yield found


def test_the_suite_scores_as_many_scenarios_as_we_know_of() -> None:
    names = scored()
    assert [sum(revision == each for each, _ in names) for revision in ("2025-11-25", "2026-07-28")] == [14, 25]


@pytest.mark.proves("UP-9")
@pytest.mark.parametrize(("revision", "scenario"), [*scored(), *UNSCORED])
def test_a_login_goes_as_the_suite_wants_it(
    running: Running, tmp_path: Path, revision: str | None, scenario: str
) -> None:
    command = f"{sys.executable} -m tests.wire.as_login_client"
    env = {GATEWAY: running.url, KEY: running.key, DATA_DIR: str(running.data_dir)}
    outcome = run_client(command, revision, scenario, tmp_path, env)
    assert outcome.failed == ()
    assert outcome.passed
