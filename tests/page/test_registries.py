"""A server of a registry on the page: asked for by a click, filled in, and added as anything else (USE-2, CAT-5)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support import chromium
from tests.support.chromium import LOOKS, Look
from tests.support.gateway import SERVERS, Running, gateway, until
from tests.support.registry import Registry, npm, registry, row

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.proves("USE-2", "CAT-5")
WEATHER = "io.github.user/weather"
ROWS = (
    row(WEATHER, title="Weather <img src=x onerror=window.pwned=1>", description="Forecasts <script>pwned=1</script>",
        packages=[npm(
            environmentVariables=[{"name": "UNIT", "choices": ["C", "F"], "default": "C"}],
            packageArguments=[
                {"type": "named", "name": "--log", "value": "{log}", "variables": {"log": {}}},
                {"type": "named", "name": "--extra", "value": "{count}", "variables": {"count": {"isRequired": True}}},
            ])]),
    row("com.example/weather-bundle", packages=[{"registryType": "mcpb", "identifier": "https://x.example/x.mcpb"}]),
)  # fmt: skip


@pytest.fixture(scope="module")
def listed() -> Iterator[Registry]:
    with registry(*ROWS) as found:
        yield found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, listed: Registry) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("listed")
    npx = home / "bin" / "npx"
    npx.parent.mkdir()
    npx.write_text(f'#!/bin/sh\nshift 2\nexec {sys.executable} {SERVERS / "plain.py"} "$@"\n')
    npx.chmod(0o700)
    config = {"catalog": {"registries": [listed.url]}, "mcpServers": {}}
    with gateway(home / "data", config, env={"PATH": f"{npx.parent}:/usr/bin:/bin"}) as found:
        yield found


@pytest.mark.parametrize("look", LOOKS[:1], ids=str)
def test_a_registry_is_asked_by_a_click_and_a_server_of_it_added(
    browser: Browser, running: Running, listed: Registry, look: Look
) -> None:
    with chromium.visitor(browser, running, look) as there:
        there.visit("servers?add=catalog&query=weather")
        assert listed.asked == []
        there.page.get_by_role("button", name="Ask the registries now").click()
        there.page.get_by_text(f"{WEATHER}, of", exact=False).wait_for()
        assert len(listed.asked) == 1
        assert "Cannot be added" in there.text()
        assert there.problems() == []
        there.page.get_by_role("link", name="Weather <img", exact=False).click()
        there.page.get_by_label("count", exact=False).fill("{log}")
        there.page.get_by_label("UNIT", exact=False).select_option("F")
        assert there.page.get_by_label("Name here").input_value() == "weather"
        there.page.get_by_label("count", exact=False).fill("2")
        assert there.overflow() == []
        there.page.get_by_role("button", name="See what it changes").click()
        shown = there.page.locator("dialog[open]")
        shown.wait_for()
        there.page.wait_for_timeout(350)
        shown.get_by_role("button").last.click()
        until(lambda: "weather" in json.loads((running.data_dir / "mcp_config.json").read_text())["mcpServers"])
        entry = json.loads((running.data_dir / "mcp_config.json").read_text())["mcpServers"]["weather"]
        assert entry["args"] == ["-y", "@example/weather@1.2.3", "--extra", "2"]
        assert entry["env"] == {"UNIT": "F"}
        assert there.page.evaluate("window.pwned") is None
    running.wait_for("weather")
