"""A browser for each module, and one gateway with something to see for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support import chromium
from tests.support.gateway import Running, gateway, python_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium.browser() as running:
        yield running


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway for one module, which it may change."""
    home = tmp_path_factory.mktemp("looked-at")
    config = {"mcpServers": {"s": python_server("plain.py", "--log", str(home / "calls.jsonl"), timeout=20)}}
    with gateway(home / "data", config) as running:
        yield running


@pytest.fixture
def visitor(browser: Browser, looked_at: Running) -> Iterator[chromium.Visitor]:
    """Signed in, in a wide and light window."""
    with chromium.visitor(browser, looked_at) as there:
        yield there
