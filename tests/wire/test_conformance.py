"""The official suite: directly, through a passthrough surface, and at the gate itself (SURF-7).

What passes directly passes through the gateway, scenario by scenario, check by check.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.everything import over_http, over_stdio
from tests.support.gateway import gateway
from tests.wire.suite import REVISIONS, Report, failures, lost, run

SURFACES = ["gate", "passthrough"]
AT_THE_GATE = {
    "2025-11-25": (
        "server-initialize",
        "server-session-lifecycle",
        "ping",
        "tools-list",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
    ),
    "2026-07-28": (
        "server-stateless",
        "tools-list",
        "caching",
        "http-header-validation",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
        "input-required-result-unsupported-methods",
    ),
}
"""The scenarios that need no particular tool."""
NEEDS_A_TOOL = (
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-server-no-log-without-loglevel",
)
"""Checks of `server-stateless` that call a tool of a given name, which the gate does not have."""
ACROSS_ERAS: Mapping[str, Mapping[str, str]] = {
    "2026-07-28": {
        "input-required-result-basic-elicitation": "wants the key `user_name`; a handshake server names no key",
        "input-required-result-multiple-input-requests": "wants three questions at once; they come in turn",
    },
    "2025-11-25": {},
}
"""What an upstream that lacks the era of the client cannot show, and why."""


EXTENSION = "tasks-"
"""Scenarios of an extension of the modern wire, which a handshake upstream cannot have."""

Suite = Callable[[str, str], Report]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return lambda url, revision: run(url, revision, tmp_path_factory.mktemp("suite"))


@pytest.fixture(scope="module")
def everything() -> Iterator[str]:
    with over_http() as url:
        yield url


@pytest.fixture(scope="module")
def direct(everything: str, suite: Suite) -> Callable[[str], Report]:
    """What our own server says directly, found out once for each revision that somebody asks about."""
    return functools.cache(lambda revision: suite(everything, revision))


@contextlib.contextmanager
def behind(tmp_path: Path, entry: Mapping[str, Any]) -> Iterator[str]:
    """The address of a passthrough surface in front of an upstream."""
    config = {"surfaces": SURFACES, "mcpServers": {"everything": entry}}
    with gateway(tmp_path / "data", config) as running:
        yield f"{running.mcp}/s/everything"


@pytest.mark.parametrize("revision", REVISIONS)
def test_our_own_server_passes_every_scenario_directly(direct: Callable[[str], Report], revision: str) -> None:
    assert failures(direct(revision)) == {}


@pytest.mark.proves("SURF-7")
@pytest.mark.parametrize("revision", REVISIONS)
def test_what_passes_directly_passes_through_to_an_http_upstream(
    tmp_path: Path, everything: str, direct: Callable[[str], Report], suite: Suite, revision: str
) -> None:
    with behind(tmp_path, {"url": everything}) as url:
        assert lost(direct(revision), suite(url, revision)) == {}


@pytest.mark.proves("SURF-7")
@pytest.mark.parametrize("revision", REVISIONS)
def test_what_passes_directly_passes_through_to_a_stdio_upstream(
    tmp_path: Path, direct: Callable[[str], Report], suite: Suite, revision: str
) -> None:
    with behind(tmp_path, over_stdio()) as url:
        assert lost(direct(revision), suite(url, revision)) == {}


@pytest.mark.proves("SURF-6")
@pytest.mark.parametrize("transport", ["http", "stdio"])
@pytest.mark.parametrize(("revision", "era"), [("2026-07-28", "handshake"), ("2025-11-25", "modern")])
def test_a_client_of_one_era_gets_through_to_an_upstream_of_the_other(
    tmp_path: Path, direct: Callable[[str], Report], suite: Suite, revision: str, era: str, transport: str
) -> None:
    with contextlib.ExitStack() as stack:
        entry = over_stdio("--era", era)
        if transport == "http":
            entry = {"url": stack.enter_context(over_http("--era", era))}
        url = stack.enter_context(behind(tmp_path, entry))
        missing = lost(direct(revision), suite(url, revision))
    meaningful = {name for name in missing if name not in ACROSS_ERAS[revision] and not name.startswith(EXTENSION)}
    assert {name: missing[name] for name in meaningful} == {}


@pytest.mark.proves("SURF-6", "SURF-9")
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_gate_passes_every_scenario_that_needs_no_particular_tool(
    tmp_path: Path, suite: Suite, revision: str
) -> None:
    with gateway(tmp_path / "data", {"mcpServers": {"everything": over_stdio()}}) as running:
        report = suite(running.mcp, revision)
    failed = failures(report, AT_THE_GATE[revision])
    ours = {name: [line for line in said if line.split(":")[0] not in NEEDS_A_TOOL] for name, said in failed.items()}
    assert {name: said for name, said in ours.items() if said} == {}
