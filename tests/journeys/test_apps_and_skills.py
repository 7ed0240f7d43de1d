"""Apps and skills of real servers, for hosts that show and load them: on direct, passed through, and with tokens whose
scope hides a server (SURF-10, SEC-2)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.everything import over_stdio
from tests.support.gateway import Running, gateway
from tests.support.peer import META
from tests.support.wire import HANDSHAKE, MODERN, RpcError, Wire, text

pytestmark = pytest.mark.proves("SURF-10")

ERAS = pytest.mark.parametrize("era", [MODERN, HANDSHAKE], ids=["modern", "handshake"])
SKILLS, UI = f"{META}skills", f"{META}ui"
SKILL = "skill://brew-tea/SKILL.md"
PAGE = "ui://everything/clock"


def configuration() -> dict[str, Any]:
    servers = {"kitchen": over_stdio("--page", "1"), "shed": over_stdio()}
    profiles = {"tea": {"servers": ["kitchen"]}, "nothing": {"servers": ["catalog"]}}
    return {"surfaces": ["gate", "direct", "passthrough"], "mcpServers": servers, "profiles": profiles}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with gateway(tmp_path_factory.mktemp("apps") / "data", configuration()) as found:
        found.wait_for("kitchen", "shed")
        yield found


@contextmanager
def client_at(url: str, era: str = MODERN, token: str | None = None) -> Iterator[Wire]:
    client = Wire(url, era, token=token)
    try:
        yield client
    finally:
        client.http.close()


def token(running: Running, *servers: str) -> str:
    terms = {"name": "-".join(servers) or "none", "servers": [*servers], "operations": ["read", "write"]}
    answer = running.post("/tokens", terms)
    assert answer.status_code == 201, answer.text
    return answer.json()["token"]


@pytest.fixture(scope="module")
def tokens(running: Running) -> dict[str, str]:
    every = token(running, "kitchen", "shed")
    return {"kitchen": token(running, "kitchen"), "catalog": token(running, "catalog"), "all": every}


def declared(client: Wire) -> dict[str, Any]:
    if client.era == MODERN:
        return client.request("server/discover")["capabilities"].get("extensions", {})
    client.request("ping")
    return client.welcome["capabilities"].get("extensions", {})


def all_skills(client: Wire) -> dict[str, dict[str, Any]]:
    found, page = {}, client.request("skills/list")
    while True:
        found |= {each["uri"]: each for each in page["skills"]}
        if "nextCursor" not in page:
            return found
        page = client.request("skills/list", {"cursor": page["nextCursor"]})


def at(server: str, uri: str) -> str:
    return uri.replace("://", f"://{server}.mcpproxy/")


@ERAS
@pytest.mark.parametrize("server", ["kitchen", "shed"])
def test_a_host_loads_a_skill_and_every_file_is_what_its_digest_says(
    running: Running, tokens: dict[str, str], era: str, server: str
) -> None:
    for path, called in (("direct", lambda uri: at(server, uri)), (f"s/{server}", lambda uri: uri)):
        with client_at(f"{running.mcp}/{path}", era, tokens["all"]) as client:
            assert declared(client)[SKILLS] == {"directoryRead": True}
            entry = all_skills(client)[called(SKILL)]
            assert client.request("skills/get", {"uri": entry["uri"]})["skill"] == entry
            assert len(entry["resources"]) == 3
            for file in entry["resources"]:
                said = client.request("resources/read", {"uri": file["uri"]})["contents"][0]
                assert said["uri"] == file["uri"]
                raw = said["text"].encode()
                assert (len(raw), f"sha256:{hashlib.sha256(raw).hexdigest()}") == (file["size"], file["digest"])
            inside = client.request("resources/directory/read", {"uri": called("skill://brew-tea/leaves")})["resources"]
            assert [(row["name"], row["mimeType"]) for row in inside] == [
                ("green.md", "text/markdown"), ("rare", "inode/directory"),
            ]  # fmt: skip
            assert inside[0]["uri"] == called("skill://brew-tea/leaves/green.md")


@ERAS
def test_a_host_shows_an_app_whose_page_calls_what_no_model_sees(
    running: Running, tokens: dict[str, str], era: str
) -> None:
    for path, prefix, called in (
        ("direct", "kitchen__", lambda uri: at("kitchen", uri)),
        ("s/kitchen", "", lambda uri: uri),
    ):
        with client_at(f"{running.mcp}/{path}", era, tokens["all"]) as client:
            assert UI in declared(client)
            listed = {each["name"]: each for each in all_tools(client)}
            about = listed[f"{prefix}show_clock"]["_meta"]["ui"]
            assert about == {"resourceUri": called(PAGE)}
            assert listed[f"{prefix}set_clock"]["_meta"]["ui"] == {**about, "visibility": ["app"]}
            page = client.request("resources/read", {"uri": about["resourceUri"]})["contents"][0]
            assert page["mimeType"] == "text/html;profile=mcp-app"
            assert page["_meta"]["ui"]["csp"] == {"connectDomains": ["https://time.example"], "resourceDomains": []}
            assert page["_meta"]["ui"]["permissions"] == {"clipboardWrite": {}}
            said = client.request("tools/call", {"name": f"{prefix}set_clock", "arguments": {"hour": 7}})
            assert text(said) == "It is 7 now."
    row = next(row for row in running.activities() if row["tool"] == "set_clock")
    assert (row["surface"], row["status"], row["metadata"]["decision"]["risk"]) == ("passthrough", "success", "write")


def all_tools(client: Wire) -> list[dict[str, Any]]:
    return client.request("tools/list")["tools"]


@ERAS
@pytest.mark.proves("SEC-2")
def test_what_is_out_of_scope_is_answered_like_what_there_is_not(
    running: Running, tokens: dict[str, str], era: str
) -> None:
    """Held against a server that nobody has configured, word for word."""
    with client_at(f"{running.mcp}/direct", era, tokens["kitchen"]) as client:
        found = all_skills(client)
        assert found and all(uri.startswith("skill://kitchen.mcpproxy/") for uri in found)
        assert {
            row["uri"].split("/")[2]
            for row in client.request("resources/list")["resources"]
            if "mcpproxy" in row["uri"]
        } == {"kitchen.mcpproxy"}
        for method, uri in (
            ("skills/get", SKILL), ("resources/directory/read", "skill://brew-tea"), ("resources/read", SKILL),
            ("resources/read", PAGE),
        ):  # fmt: skip
            hidden, missing = (refusal(client, method, at(server, uri)) for server in ("shed", "nobody"))
            assert hidden.replace("shed", "nobody") == missing
            client.request(method, {"uri": at("kitchen", uri)})
    with client_at(f"{running.mcp}/direct", era, tokens["catalog"]) as client:
        assert not {SKILLS, UI} & declared(client).keys()
        for method in ("skills/list", "skills/get", "resources/directory/read"):
            hidden = refusal(client, method, at("kitchen", SKILL))
            assert hidden.replace(method, "skills/nothing") == refusal(client, "skills/nothing", at("kitchen", SKILL))


def refusal(client: Wire, method: str, uri: str) -> str:
    with pytest.raises(RpcError) as caught:
        client.request(method, {"uri": uri})
    return f"{caught.value.code} {caught.value} {caught.value.data}"


@ERAS
def test_a_profile_has_the_apps_and_skills_of_its_servers_only(
    running: Running, tokens: dict[str, str], era: str
) -> None:
    with client_at(f"{running.mcp}/p/tea/direct", era, tokens["all"]) as client:
        assert {SKILLS, UI} <= declared(client).keys()
        assert all(uri.startswith("skill://kitchen.mcpproxy/") for uri in all_skills(client))
    with client_at(f"{running.mcp}/p/nothing/direct", era, tokens["all"]) as client:
        assert not {SKILLS, UI} & declared(client).keys()


def test_what_a_host_remembers_is_read_after_a_restart(tmp_path: Path) -> None:
    remembered = [at("kitchen", "skill://brew-tea/leaves/green.md"), at("kitchen", PAGE)]
    for _ in range(2):
        with gateway(tmp_path / "data", configuration()) as running, client_at(f"{running.mcp}/direct") as client:
            running.wait_for("kitchen")
            for uri in remembered:
                assert client.request("resources/read", {"uri": uri})["contents"][0]["uri"] == uri
