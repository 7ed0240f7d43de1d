"""Whoever took over a session must not open another door with it, lead the record elsewhere, or have it say less."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Running, gateway, python_server

pytestmark = pytest.mark.proves("API-1", "SEC-1")

SHUT: dict[str, Any] = {
    "listen": "0.0.0.0:8080", "data_dir": "/tmp/elsewhere", "require_mcp_auth": False, "mcp_token": "x" * 32,
    "api_key": "x" * 32, "sealing_keys": ["y" * 32], "allowed_hosts": ["*"], "allowed_origins": ["https://evil.example"],
    "auth.jwt.issuer": "https://evil.example", "auth": {}, "auth.jwt": {}, "activity.database_url": "postgresql://evil/x",
    "activity.mask_patterns": [], "mcpServers": {}, "mcpServers.s.command": "evil", "providers": {}, "profiles": {},
}  # fmt: skip


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("settings")
    config = {"mcpServers": {"s": python_server("plain.py", "--log", str(path / "calls"))}, "require_mcp_auth": True,
              "mcp_token": "the-token-of-the-agents-1234"}  # fmt: skip
    with gateway(path / "data", config) as found:
        yield found


@pytest.mark.parametrize("path", ["/settings", "/preview/settings"])
@pytest.mark.parametrize("key", SHUT)
def test_no_door_no_secret_and_no_place_of_the_record_is_changed_over_rest(
    running: Running, key: str, path: str
) -> None:
    file = Path(running.data_dir) / "mcp_config.json"
    before = file.read_text()
    for settings in ({key: SHUT[key]}, {key: None}, {"log.level": "error", key: SHUT[key]}):
        answer = running.post(path, {"settings": settings})
        assert answer.status_code in (400, 409), answer.text
    assert file.read_text() == before


@pytest.mark.parametrize(
    "settings",
    [{"activity": {"database_url": "postgresql://evil/x"}}, {"limits": {}}, {"log": {"level": "error"}}, {"": 1},
     {"log.level.x": 1}, {"LISTEN": "0.0.0.0:1"}, {"li\u0455ten": "0.0.0.0:1"}, {"__proto__": 1}, {"log..level": 1},
     {'"listen"': "0.0.0.0:1"}],
)  # fmt: skip
def test_no_spelling_of_a_key_gets_around_that(running: Running, settings: dict[str, Any]) -> None:
    file = Path(running.data_dir) / "mcp_config.json"
    before = file.read_text()
    assert running.post("/settings", {"settings": settings}).status_code in (400, 409, 422)
    assert file.read_text() == before


def test_an_agents_token_opens_none_of_it(running: Running) -> None:
    token = running.post("/tokens", {"name": "an-agent"}).json()["token"]
    server = {"action": "add", "name": "x", "config": {"command": "true"}}
    with httpx.Client(base_url=f"{running.url}/api/v1", headers={"Authorization": f"Bearer {token}"}) as agent:
        for method, path, body in (
            ("GET", "/settings", None), ("POST", "/settings", {"settings": {"log.level": "error"}}),
            ("POST", "/preview/settings", {"settings": {"log.level": "error"}}), ("POST", "/preview/server", server),
            ("POST", "/preview/tools", {"server": "s", "tools": {"write_note": "read"}}), ("GET", "/health", None),
            ("GET", "/catalog", None), ("GET", "/catalog/github", None), ("GET", "/servers/s/logs", None),
        ):  # fmt: skip
            assert agent.request(method, path, json=body).status_code == 401, path


def test_no_secret_comes_back_with_settings_previews_or_health(running: Running) -> None:
    entry = {"url": "https://user:hush-hush@example.com/mcp?api_key=hush-hush", "headers": {"X-Key": "hush-hush"}}
    shown = running.post("/preview/server", {"action": "add", "name": "new", "config": entry})
    everything = [shown.text, running.client.get("/api/v1/settings").text, running.client.get("/api/v1/health").text]
    assert shown.status_code == 200
    assert not any("hush-hush" in text or "the-token-of-the-agents" in text for text in everything)
