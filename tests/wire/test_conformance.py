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
from tests.wire.renaming import renaming
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
    "sep-2575-server-sends-tools-list-changed-on-subscription",
)
"""Checks of `server-stateless` that call a tool of a given name, which the gate does not have."""
SHARED = "a session that many clients share declares what any of them can do"
ACROSS_ERAS: Mapping[str, Mapping[str, str]] = {
    "2026-07-28": {
        "input-required-result-basic-elicitation": "wants the key `user_name`; a handshake server names no key",
        "input-required-result-multiple-input-requests": "wants three questions at once; they come in turn",
        "input-required-result-ignore-extra-params": "answers under the key `user_name` too",
        "input-required-result-capability-check": SHARED,
    },
    "2025-11-25": {
        "server-sse-polling": "a modern upstream answers in one piece: there is nothing to poll for",
    },
}
"""What an upstream that is spoken to in the other era cannot show, and why. One that knows both is spoken to in the
modern one."""


SHARED_CHECKS = ("sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400")
"""Single checks of `server-stateless`, for the same reason."""
SLOW_CHECKS: Mapping[str, tuple[str, ...]] = {"stdio": ("sep-2575-server-no-log-without-loglevel",)}
"""It waits for half a second, and a session of its own is a process that has to start."""
NOT_DIRECTLY = (
    "sep-2322-ignore-unexpected-params",  # answers are taken with the state that asked for them only (GATE-15)
    "sep-2575-server-sends-tools-list-changed-on-subscription",  # the list is the same: its server only says so
    "sep-2663-server-returns-missing-capability",  # a client without the extension gets the task's result
)
"""Checks that cannot hold at the direct surface, with the reason."""
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
    config = {"surfaces": SURFACES, "limits": {"input_timeout": 20}, "mcpServers": {"everything": entry}}
    with gateway(tmp_path / "data", config) as running:
        yield f"{running.mcp}/s/everything"


def whole(revision: str, missing: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of a server that knows both eras: everything but what only the handshake era has."""
    excused = ACROSS_ERAS[revision] if revision == "2025-11-25" else {}
    return {name: why for name, why in missing.items() if name not in excused}


@pytest.mark.parametrize("revision", REVISIONS)
def test_our_own_server_passes_every_scenario_directly(direct: Callable[[str], Report], revision: str) -> None:
    assert failures(direct(revision)) == {}


@pytest.mark.proves("SURF-7")
@pytest.mark.parametrize("revision", REVISIONS)
def test_what_passes_directly_passes_through_to_an_http_upstream(
    tmp_path: Path, everything: str, direct: Callable[[str], Report], suite: Suite, revision: str
) -> None:
    with behind(tmp_path, {"url": everything}) as url:
        assert whole(revision, lost(direct(revision), suite(url, revision))) == {}


@pytest.mark.proves("SURF-7")
def test_an_upstream_of_the_handshake_era_gives_its_clients_all_it_has(
    tmp_path: Path, direct: Callable[[str], Report], suite: Suite
) -> None:
    with over_http("--era", "handshake") as upstream, behind(tmp_path, {"url": upstream}) as url:
        assert lost(direct("2025-11-25"), suite(url, "2025-11-25")) == {}


@pytest.mark.proves("SURF-7")
@pytest.mark.parametrize("revision", REVISIONS)
def test_what_passes_directly_passes_through_to_a_stdio_upstream(
    tmp_path: Path, direct: Callable[[str], Report], suite: Suite, revision: str
) -> None:
    with behind(tmp_path, over_stdio()) as url:
        assert whole(revision, lost(direct(revision), suite(url, revision))) == {}


@pytest.mark.proves("SURF-6")
@pytest.mark.parametrize("transport", ["http", "stdio"])
@pytest.mark.parametrize(("revision", "era"), [("2026-07-28", "handshake"), ("2025-11-25", "modern")])
def test_a_client_of_one_era_gets_through_to_an_upstream_of_the_other(
    tmp_path: Path, direct: Callable[[str], Report], suite: Suite, revision: str, era: str, transport: str
) -> None:
    with contextlib.ExitStack() as stack:
        # The suite calls several tools at once: on one pipe nobody could tell whom a question is for.
        entry = over_stdio("--era", era, sessions="exclusive")
        if transport == "http":
            entry = {"url": stack.enter_context(over_http("--era", era))}
        url = stack.enter_context(behind(tmp_path, entry))
        missing = lost(direct(revision), suite(url, revision))
    meaningful = {name for name in missing if name not in ACROSS_ERAS[revision] and not name.startswith(EXTENSION)}
    excused = (*SHARED_CHECKS, *SLOW_CHECKS.get(transport, ()))
    said = {name: [line for line in missing[name] if not line.startswith(excused)] for name in meaningful}
    assert {name: lines for name, lines in said.items() if lines} == {}


@pytest.mark.proves("SURF-2")
@pytest.mark.parametrize("revision", REVISIONS)
def test_what_passes_directly_passes_at_the_direct_surface(
    tmp_path: Path, everything: str, direct: Callable[[str], Report], suite: Suite, revision: str
) -> None:
    config = {
        "surfaces": ["direct"],
        "limits": {"input_timeout": 20},
        "mcpServers": {"everything": {"url": everything}},
    }
    with gateway(tmp_path / "data", config) as running, renaming(f"{running.mcp}/direct") as url:
        missing = lost(direct(revision), suite(url, revision))
    found = {name: [line for line in lines if not line.startswith(NOT_DIRECTLY)] for name, lines in missing.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


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
