"""A part of the matrix of strangers: FastMCP 4 with tasks, behind the gate and the direct surface.

One task tool is enough to declare the tasks extension. What the server sends during calls of its other tools reaches
session-based clients all the same; the whole matrix is `python -m tests.wire.strangers`.
"""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

from tests.support.gateway import Running, gateway
from tests.wire.strangers.matrix import CLIENTS, Place, compared, place
from tests.wire.strangers.reasons import reason
from tests.wire.strangers.servers import fastmcp

pytestmark = [pytest.mark.proves("SURF-6", "SURF-10"), pytest.mark.parametrize("client", CLIENTS)]

EQUAL = ("log", "elicitation, form", "sampling", "roots", "list_changed", "tool that can be a task")
SURFACES = ("gate", "direct")


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Running]]:
    with place(fastmcp("--tasks"), "http") as found:
        config = {"surfaces": [*SURFACES], "mcpServers": {found.name: found.entry}}
        with gateway(tmp_path_factory.mktemp("strangers") / "data", config) as running:
            running.wait_for(found.name)
            yield found, running


@pytest.mark.parametrize("kind", EQUAL)
def test_what_comes_of_it_is_as_without_a_gateway(strange: tuple[Place, Running], client: str, kind: str) -> None:
    for surface in SURFACES:
        cell = anyio.run(compared, *strange, client, surface, kind)
        assert cell.equal or reason(cell), cell.difference()
        assert "failed" not in cell.straight, cell.difference()


def test_a_tool_that_is_a_task_works_for_clients_without_tasks(strange: tuple[Place, Running], client: str) -> None:
    """Straight at the server it does not."""
    for surface in SURFACES:
        cell = anyio.run(compared, *strange, client, surface, "tool that is a task")
        assert cell.straight["error"] == -32021
        assert cell.through["structuredContent"] == {"result": "crunched 3 later"}
