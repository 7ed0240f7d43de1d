"""The official scenarios of tasks at the direct surface, whose tools have their server's name in front (SURF-10)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.everything import over_http
from tests.support.gateway import gateway
from tests.wire.renaming import renaming
from tests.wire.suite import run_extension

SCENARIOS = (
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-mrtr-composition",
)
"""All but `tasks-required-task-error`, since a client without the extension gets the result here, and
`tasks-status-notifications`, which is optional and not served."""


@pytest.fixture(scope="module")
def directly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("directly")
    with over_http() as upstream, contextlib.ExitStack() as stack:
        config = {"surfaces": ["direct"], "mcpServers": {"everything": {"url": upstream}}}
        with gateway(folder / "data", config) as running:
            yield stack.enter_context(renaming(f"{running.mcp}/direct"))


@pytest.mark.proves("SURF-10")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_an_official_scenario_of_tasks_passes_directly(directly: str, scenario: str, tmp_path: Path) -> None:
    found = run_extension(directly, [scenario], tmp_path)[scenario]
    assert found.passed, "something was checked"
    assert found.failed == ()
