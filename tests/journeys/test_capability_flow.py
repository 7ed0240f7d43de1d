"""From a gap to a person's decision, over the wire, in the order in which an agent should look (CAT-4 to CAT-7).

One gateway with a server in each state: `s` connected, `github` catalogued and switched off, `notion` catalogued and
not here, and one that nobody knows.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Running, clean_environment, gateway, python_server
from tests.support.wire import HANDSHAKE, MODERN, Wire, text

CONFIG = {
    "mcpServers": {
        "s": python_server("plain.py"),
        "github": {"url": "http://127.0.0.1:1/mcp", "enabled": False},
    }
}
APPROVAL = {
    "approval_id", "request_type", "requested_by", "target_resource", "rationale", "context", "status",
    "expires_at_ms", "reviewed_by", "reviewed_at_ms", "review_notes",
}  # fmt: skip


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with gateway(tmp_path_factory.mktemp("flow") / "data", CONFIG) as found:
        found.wait_for("catalog")
        yield found


def said(result: dict[str, Any]) -> dict[str, Any]:
    assert not result.get("isError"), text(result)
    assert json.loads(text(result)) == result["structuredContent"]
    return result["structuredContent"]


def request(client: Wire, name: str, **more: Any) -> dict[str, Any]:
    wish = {"agent_id": "self_operator", "mcp_name": name, "rationale": "for the weekly report", **more}
    return client.via("write", "catalog:mcp_request_capability", wish)


def refused(client: Wire, name: str, **more: Any) -> str:
    result = request(client, name, **more)
    assert result["isError"] is True
    return text(result)


def names(running: Running) -> set[str]:
    return {row["context"]["mcp_name"] for row in running.get("/approvals", limit=500)["approvals"]}


# --- the journey ---------------------------------------------------------------------------------------------


@pytest.mark.proves("CAT-4", "CAT-6", "CAT-7", "GAP-1", "FIND-4")
@pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
@pytest.mark.parametrize(
    ("name", "listed", "status", "state", "gap", "action"),
    [
        ("s", True, "uncataloged_connected", "connected_enabled", "unknown", "use_tool"),
        ("github", True, "cataloged_disabled", "cataloged_not_connected", "connector_disabled", "ask_human_to_enable"),
        ("notion", False, "cataloged_not_connected", "cataloged_not_connected", "connector_missing",
         "ask_human_to_connect"),
        ("quux", False, None, "uncataloged", "connector_missing", "file_capability_request"),
    ],
)  # fmt: skip
def test_an_agent_finds_out_what_is_there_asks_for_the_rest_and_sees_a_persons_answer(
    tmp_path: Path, era: str, name: str, listed: bool, status: str | None, state: str, gap: str, action: str
) -> None:
    with gateway(tmp_path / "data", CONFIG) as running:
        running.wait_for("catalog")
        client = Wire(running.mcp, era)
        found = client.call("retrieve_tools", {"query": "ask a person for an MCP server"})["structuredContent"]["tools"]
        assert {"catalog:mcp_list", "catalog:mcp_request_capability"} <= {tool["name"] for tool in found}
        assert {tool["call_with"] for tool in found if tool["name"] == "catalog:mcp_request_capability"} == {
            "call_tool_write"
        }

        before = said(client.read("catalog:mcp_list"))
        assert (name in [row["name"] for row in before["servers"]]) == listed

        known = said(client.read("catalog:mcp_list_catalog", {"query": name, "limit": 200}))
        row = next((row for row in known["servers"] if name in (row["slug"], row["server_name"])), None)
        assert (row and row["connection_status"]) == status
        if row is not None:
            assert row["next_action"] == action
            assert row["execution_available"] == (name == "s")
        assert name not in {row["name"] for row in before["servers"] if row["connected"]} or name == "s"

        answer = said(request(client, name))
        classified = answer["classification"]
        assert (classified["state"], classified["gap"], classified["next_action"]) == (state, gap, action)
        assert (answer["ok"], answer["requested_by"]) == (True, {"kind": "agent"})
        if name == "s":
            assert answer["approval"] is None
            assert "s:echo" in classified["available_tools"]
            assert running.get("/approvals")["approvals"] == []
            return

        approval = answer["approval"]
        assert set(approval) == APPROVAL
        assert (approval["status"], approval["target_resource"]) == (
            "pending",
            {"type": "agent", "id": "self_operator"},
        )
        decided = decide(running, "approve", approval["approval_id"])
        assert decided["status"] == "approved"
        assert decided["reviewed_from"] == "cli"
        assert decided["reviewed_on_terminal"] is False

        assert said(client.read("catalog:mcp_list")) == before, "an approval connects nothing"
        again = said(request(client, name))
        assert again["approval"]["status"] == "approved"
        assert again["approval"]["approval_id"] == approval["approval_id"]
        assert "changes nothing by itself" in again["note"]
        assert decided["connect_command"] == CONNECT[name]
        if name == "notion":
            assert again["connect_command"] == CONNECT[name]


CONNECT = {
    "github": "mcpproxy upstream enable github",
    "notion": "mcpproxy upstream add notion --url https://mcp.notion.com/mcp",
    "quux": None,
}


def decide(running: Running, step: str, approval_id: str, *more: str) -> dict[str, Any]:
    """As a person does it, with the command."""
    command = [sys.executable, "-m", "mcpproxy_py", "approvals", step, approval_id, "-o", "json", *more]
    ran = subprocess.run(
        [*command, "--data-dir", str(running.data_dir)], capture_output=True, timeout=60, env=clean_environment(),
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.proves("CAT-7")
def test_the_server_that_a_person_connects_after_an_approval_is_in_the_agents_next_list(tmp_path: Path) -> None:
    with gateway(tmp_path / "data", {}) as running:
        running.wait_for("catalog")
        client = Wire(running.mcp)
        approval = said(request(client, "plain"))["approval"]
        decide(running, "approve", approval["approval_id"])
        assert said(client.read("catalog:mcp_list"))["connected_server_names"] == []
        assert running.post("/servers", {"name": "plain", "config": python_server("plain.py")}).status_code == 201
        running.wait_for("plain")
        assert said(client.read("catalog:mcp_list"))["connected_server_names"] == ["plain"]
        assert said(request(client, "plain"))["approval"] is None


@pytest.mark.proves("CAT-7")
def test_every_step_is_on_record_with_who_took_it(running: Running) -> None:
    client = Wire(running.mcp)
    approval = said(request(client, "recorded"))["approval"]
    decide(running, "deny", approval["approval_id"], "--notes", "no budget")
    rows = [row for row in running.activities() if approval["approval_id"] in json.dumps(row)]
    asked, decided = rows[-1], rows[0]
    assert (asked["tool"], asked["principal"], asked["status"]) == ("mcp_request_capability", "local", "success")
    assert (decided["type"], decided["tool"], decided["principal"]) == ("approval", "deny_request", "admin")
    assert (decided["source"], decided["client"]["name"]) == ("cli", "cli")
    assert decided["arguments"]["notes"] == "no budget"
    assert decided["arguments"]["terminal"] is False


@pytest.mark.proves("CAT-7")
def test_requests_and_decisions_survive_a_kill(tmp_path: Path) -> None:
    with gateway(tmp_path / "data", {}) as running:
        running.wait_for("catalog")
        client = Wire(running.mcp)
        kept = said(request(client, "kept"))["approval"]["approval_id"]
        denied = said(request(client, "denied"))["approval"]["approval_id"]
        assert running.post(f"/approvals/{denied}/deny", {"notes": "no"}).status_code == 200
        running.kill()
    with gateway(tmp_path / "data", {}) as running:
        running.wait_for("catalog")
        assert {row["approval_id"]: row["status"] for row in running.get("/approvals")["approvals"]} == {
            kept: "pending", denied: "denied",
        }  # fmt: skip
        assert said(request(Wire(running.mcp), "denied"))["approval"]["review_notes"] == "no"


# --- attempts to cheat ---------------------------------------------------------------------------------------


@pytest.mark.proves("CAT-7", "API-2")
def test_no_agent_can_approve_by_any_credential_or_door_of_its_own(tmp_path: Path) -> None:
    token = "a-token-for-agents-0123456789"
    with gateway(tmp_path / "data", {}, env={"MCPPROXY_MCP_TOKEN": token}) as running:
        running.wait_for("catalog")
        client = Wire(running.mcp, token=token)
        approval = said(request(client, "notion"))["approval"]["approval_id"]
        for headers in ({"authorization": f"Bearer {token}"}, {"x-api-key": token}, {}):
            for step in ("approve", "deny"):
                path = f"{running.url}/api/v1/approvals/{approval}/{step}"
                assert post(path, headers).status_code == 401
        for tool in ("approve", "mcp_approve_capability", "mcp_request_capability/approve"):
            assert client.via("destructive", f"catalog:{tool}")["isError"] is True
        for path in (f"/mcp/approvals/{approval}/approve", f"/mcp/request-capability/{approval}/approve"):
            assert post(running.url + path, {"authorization": f"Bearer {token}"}).status_code == 404
        again = said(request(client, "notion", context={"status": "approved", "reviewed_by": "admin"}))
        assert again["approval"]["status"] == "pending"
        assert running.get(f"/approvals/{approval}")["status"] == "pending"


def post(path: str, headers: dict[str, str]) -> httpx.Response:
    return httpx.post(path, json={}, headers=headers, timeout=60, trust_env=False)


@pytest.mark.proves("CAT-6")
def test_changing_names_do_not_get_an_agent_a_second_queue(tmp_path: Path) -> None:
    with gateway(tmp_path / "data", {}) as running:
        running.wait_for("catalog")
        client = Wire(running.mcp)
        same = {said(request(client, "Notion", agent_id=f"a-{n}"))["approval"]["approval_id"] for n in range(3)}
        same |= {said(request(client, spelt))["approval"]["approval_id"] for spelt in (" notion ", "NOTION")}
        assert len(same) == 1
        for number in range(19):
            said(request(client, f"unheard-of-{number}", agent_id=f"agent-{number}"))
        told = refused(client, "one-more", agent_id="yet-another")
        assert "20 of your requests wait for a person already" in told
        assert refused(Wire(running.mcp, name="another-client"), "one-more")
        assert len(running.get("/approvals", status="pending")["approvals"]) == 20


@pytest.mark.proves("CAT-6")
def test_asking_again_after_a_denial_gives_the_denial_back(running: Running) -> None:
    client = Wire(running.mcp)
    approval = said(request(client, "denied-once"))["approval"]["approval_id"]
    running.post(f"/approvals/{approval}/deny", {"notes": "not here"})
    for more in ({}, {"rationale": "really"}, {"agent_id": "b"}, {"requested_tools": ["other"]}):
        again = said(request(client, "Denied  Once", **more))
        assert (again["approval"]["approval_id"], again["approval"]["status"]) == (approval, "denied")
    assert running.post(f"/approvals/{approval}/approve", {}).status_code == 409


@pytest.mark.proves("CAT-6")
@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"catalog_slug": "notoin"}, "No catalog entry has the slug 'notoin'. Did you mean notion"),
        ({"expires_at_ms": 1_000}, "expires_at_ms must be at least a minute from now"),
        ({"expires_at_ms": 32_503_680_000_000}, "expires_at_ms may be at most 30 days from now"),
        ({"rationale": "   \u2003 "}, "rationale is required and must not be empty"),
        ({"context": {"x": "y" * 1_000_000}}, "at most 8000 are allowed"),
        ({"agent_id": ""}, "agent_id is required"),
        ({"name": "***"}, "mcp_name must name a server"),
        ({"status": "approved"}, "status"),
        ({"rationale": "x" * 5_000}, "rationale"),
    ],
)  # fmt: skip
def test_a_request_that_is_wrong_gets_a_clear_error_and_is_not_filed(
    running: Running, more: dict[str, Any], told: str
) -> None:
    before = names(running)
    assert told in refused(Wire(running.mcp), **{"name": "notion", **more})
    assert names(running) == before


@pytest.mark.proves("CAT-6")
def test_two_agents_that_ask_at_once_get_the_same_request(running: Running) -> None:
    clients = [Wire(running.mcp, era, name=f"agent-{number}") for number, era in enumerate((MODERN, HANDSHAKE) * 4)]
    with ThreadPoolExecutor(len(clients)) as pool:
        answers = [*pool.map(lambda client: said(request(client, "wanted-by-all")), clients)]
    assert len({answer["approval"]["approval_id"] for answer in answers}) == 1


@pytest.mark.proves("CAT-6", "GATE-13")
def test_nothing_is_filed_while_the_gateway_is_frozen(tmp_path: Path) -> None:
    with gateway(tmp_path / "data", {}) as running:
        running.wait_for("catalog")
        running.post("/freeze")
        client = Wire(running.mcp)
        assert request(client, "notion")["structuredContent"]["code"] == "FROZEN"
        assert running.get("/approvals")["approvals"] == []
        assert said(client.read("catalog:mcp_list"))["servers"] == []


# --- over plain HTTP, and the stand-alone server -------------------------------------------------------------


@pytest.mark.proves("CAT-5")
def test_an_agent_without_mcp_discovers_and_asks_over_plain_http(running: Running) -> None:
    with httpx.Client(base_url=running.url, trust_env=False, timeout=60, headers={"user-agent": "curl/8"}) as http:
        tools = http.get("/mcp/tools").json()["tools"]
        ids = http.get("/tool/ids").json()["ids"]
        assert [tool["name"] for tool in tools] == ids
        assert {"s:echo", "catalog:mcp_list"} <= set(ids)
        assert all(tool["server"] == "s" for tool in http.get("/mcp/tools", params={"server": "s"}).json()["tools"])
        known = http.get("/mcp/catalog", params={"query": "notion"}).json()
        assert known["servers"][0]["slug"] == "notion"
        assert known["servers"][0]["auth"] in ("oauth", "oauth-or-key", "api-key"), "how one logs in, and no secret"
        assert known["overlay"]["status_counts"]["cataloged_disabled"] == 1

        wish = {"agent_id": "script", "mcp_name": "over-http", "rationale": "the report"}
        answer = http.post("/mcp/request-capability", json=wish).json()
        assert set(answer["approval"]) == APPROVAL
        wrong = http.post("/mcp/request-capability", json={**wish, "rationale": " "})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "INVALID_ARGUMENTS")
        assert http.get("/mcp/nothing").status_code == 404
    row = next(row for row in running.activities(tool="mcp_request_capability") if row["status"] == "success")
    assert (row["source"], row["principal"], row["client"]["name"]) == ("api", "local", "curl")
    assert running.activities(tool="mcp_request_capability", status="error")


@pytest.mark.proves("CAT-5", "API-2")
def test_plain_http_for_agents_takes_the_agent_token_and_not_the_admin_key(tmp_path: Path) -> None:
    token = "a-token-for-agents-0123456789"
    with gateway(tmp_path / "data", {}, env={"MCPPROXY_MCP_TOKEN": token}) as running:
        for path in ("/mcp/tools", "/tool/ids", "/mcp/catalog"):
            statuses = [
                httpx.get(running.url + path, headers=headers, timeout=60, trust_env=False).status_code
                for headers in ({}, {"authorization": f"Bearer {running.key}"}, {"x-api-key": running.key})
            ]
            assert statuses == [401, 401, 401], path
        running.wait_for("catalog")
        with_token = {"authorization": f"Bearer {token}"}
        answer = httpx.get(f"{running.url}/mcp/catalog", headers=with_token, timeout=60, trust_env=False)
        assert answer.status_code == 200


@pytest.mark.proves("SURF-4", "CAT-1")
@pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
def test_the_catalog_is_a_server_of_its_own_behind_its_passthrough_path(running: Running, era: str) -> None:
    client = Wire(f"{running.url}/mcp/s/catalog", era)
    tools = {tool["name"]: tool["annotations"] for tool in client.request("tools/list")["tools"]}
    assert len(tools) == 7
    assert [name for name, hints in tools.items() if not hints["readOnlyHint"]] == ["mcp_request_capability"]
    assert {(hints["destructiveHint"], hints["openWorldHint"]) for hints in tools.values()} == {(False, False)}
    found = said(client.call("lookup_capability", {"agent": "claude-code", "capability": "mcp"}))
    assert found["capability"]["name"] == "MCP Support"
    assert client.http.get(f"{running.url}/mcp/s/s").status_code == 404


@pytest.mark.proves("SURF-5", "CAT-1")
def test_the_catalog_is_a_server_over_stdio(running: Running) -> None:
    hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "ide", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "mcp_list", "arguments": {}}},
    ]
    command = [sys.executable, "-m", "mcpproxy_py", "stdio", "--server", "catalog", "--data-dir", str(running.data_dir)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_environment()) as process:
        assert process.stdin
        assert process.stdout
        try:
            process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
            process.stdin.flush()
            answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        finally:
            process.kill()
    assert answers[0]["result"]["serverInfo"]["name"] == "catalog"
    assert "s" in said(answers[1]["result"])["connected_server_names"]


@pytest.mark.proves("CAT-3")
def test_data_of_the_operators_own_lies_over_the_shipped_and_a_bad_file_fails_the_catalog_alone(tmp_path: Path) -> None:
    own = tmp_path / "data" / "catalog"
    own.mkdir(parents=True, mode=0o700)
    (own / "aliases.json").write_text("not json")
    with gateway(tmp_path / "data", {"mcpServers": {"s": python_server("plain.py")}}) as running:
        running.wait_for("catalog", state="failed")
        rows = {row["name"]: row for row in running.get("/servers")["servers"]}
        assert "aliases.json" in rows["catalog"]["error"]
        assert "not JSON" in rows["catalog"]["error"]
        client = Wire(running.mcp)
        assert not client.read("s:hint_t_f").get("isError")
        (own / "aliases.json").write_text(json.dumps({"aliases": {"gizmo": "Debugging"}}))
        running.wait_for("catalog")
        found = said(client.read("catalog:lookup_capability", {"agent": "claude-code", "capability": "gizmo"}))
        assert found["capability"]["name"] == "Debugging"


# --- what was missing ----------------------------------------------------------------------------------------


@pytest.mark.proves("MISS-1", "MISS-3")
def test_what_agents_missed_is_reported_with_explicit_requests_first(tmp_path: Path) -> None:
    config = {"mcpServers": {"s": python_server("plain.py")}, "surfaces": ["gate", "direct"]}
    with gateway(tmp_path / "data", config) as running:
        running.wait_for("catalog")
        client = Wire(running.mcp)
        for words in ("send an SMS to a customer", "send SMS to customers"):
            client.call("request_capability", {"capability": words})
        client.call("retrieve_tools", {"query": "zzyzx quuxify"})
        for _ in range(2):
            client.read("s:hint_t_t")
        Wire(f"{running.url}/mcp/direct").call("s__hint_t_f", {"intent": "there is no tool for invoices, so I look"})
        running.catch_up()
        report = running.get("/gaps")
        kinds = [(gap["capability"], gap["kinds"]) for gap in report["gaps"]]
        assert kinds[0] == ("send SMS to customers", {"request": 2})
        assert ("zzyzx quuxify", {"unmet_search": 1}) in kinds
        assert ("s:hint_t_t", {"refused": 2}) in kinds
        assert ("there is no tool for invoices, so I look", {"passive": 1}) in kinds
        leads_to = running.get(f"/activity/{report['gaps'][0]['examples'][0]['id']}")
        assert leads_to["tool"] == "request_capability"


@pytest.mark.proves("MISS-1")
def test_the_two_ways_to_ask_name_each_other(running: Running) -> None:
    gate = {tool["name"]: tool for tool in Wire(running.mcp).request("tools/list")["tools"]}
    catalog = {tool["name"]: tool for tool in Wire(f"{running.url}/mcp/s/catalog").request("tools/list")["tools"]}
    assert "catalog:mcp_request_capability" in gate["request_capability"]["description"]
    assert "request_capability" in catalog["mcp_request_capability"]["description"]


@pytest.mark.proves("CAT-8")
def test_the_benchmark_measures_the_catalog_of_a_running_gateway(running: Running) -> None:
    command = [sys.executable, "-m", "mcpproxy_py", "catalog", "bench", "--gateway", "-o", "json"]
    ran = subprocess.run(
        [*command, "--data-dir", str(running.data_dir)], capture_output=True, timeout=120, env=clean_environment()
    )
    assert ran.returncode == 0, ran.stderr
    (offline,) = json.loads(ran.stdout)["runs"]
    measured = {one["metric"]: one["value"] for one in offline["metrics"]}
    assert measured["argument accuracy"] > 0.9
    assert measured["tokens of the raw JSON (worst scenario)"] < 0.5
    assert len(running.activities(server="catalog", client="cli")) > 40
