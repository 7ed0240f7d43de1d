"""One server of each era and one gateway in front of all of them, for the journeys that cross eras."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.journeys.cells import ERAS, TRANSPORTS, Cell, World
from tests.support.everything import over_http, over_stdio
from tests.support.gateway import gateway


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    notes = tmp_path_factory.mktemp("notes")
    with contextlib.ExitStack() as stack:
        urls = {
            era: stack.enter_context(over_http("--era", era, "--notes", str(notes / f"{era}-http"))) for era in ERAS
        }
        yield World(urls, notes)


@pytest.fixture(scope="session")
def behind(servers: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with gateway(tmp_path_factory.mktemp("cells") / "data", configuration(servers)) as running:
        yield World(servers.servers, servers.notes, running.url, running.data_dir)


def configuration(servers: World, **extra: Any) -> Mapping[str, Any]:
    """One gateway with every surface in front of an upstream of each era over each transport."""
    entries: dict[str, Any] = {}
    for era in ERAS:
        entries[f"{era}-http"] = {"url": servers.servers[era], **extra}
        entries[f"{era}-stdio"] = over_stdio("--era", era, "--notes", str(servers.notes / f"{era}-stdio"), **extra)
    assert len(entries) == len(ERAS) * len(TRANSPORTS)
    return {"surfaces": ["gate", "direct", "passthrough"], "mcpServers": entries}


@pytest.fixture
def world(request: pytest.FixtureRequest, cell: Cell) -> World:
    return request.getfixturevalue("servers" if cell.door == "straight" else "behind")
