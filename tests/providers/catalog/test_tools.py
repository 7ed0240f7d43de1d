"""The seven tools, called as the gateway calls them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import jsonschema_rs
import pytest

from mcpproxy_py.core.catalog.approval_rules import (
    ApprovalDecision,
    ApprovalRequest,
    CapabilityWish,
    NotAccepted,
    Submitted,
    decide,
    submit,
)
from mcpproxy_py.core.catalog.model import Connector
from mcpproxy_py.core.policy.scope import Access
from mcpproxy_py.core.values import Caller, ClientInfo
from mcpproxy_py.errors import GatewayError
from mcpproxy_py.providers.catalog.data_files import DataError
from mcpproxy_py.providers.catalog.load import load
from mcpproxy_py.providers.catalog.provider import CatalogProvider, ServedCatalog

NOW = 1_800_000_000_000
READERS = ["lookup_capability", "compare_capability", "list_capabilities", "get_sources", "mcp_list",
           "mcp_list_catalog"]  # fmt: skip
ASK = {"agent_id": "self_operator", "mcp_name": "notion", "rationale": "Need the strategy notes"}


class Asker:
    caller = Caller("p", "mcp", ClientInfo())


@dataclass
class Shelf:
    """Requests in memory, by the same rules as any store."""

    kept: dict[str, ApprovalRequest] = field(default_factory=dict)

    async def submit(self, wish: CapabilityWish, principal: str) -> Submitted | NotAccepted:
        made = submit(wish, principal, self.kept.values(), new_id=str(len(self.kept)), now_ms=NOW)
        if isinstance(made, Submitted):
            self.kept[made.request.id] = made.request
        return made

    def decide(self, approval_id: str, step: Any) -> None:
        after = decide(self.kept[approval_id], step, ApprovalDecision("ada", "cli", True, NOW))
        assert isinstance(after, ApprovalRequest)
        self.kept[approval_id] = after


@dataclass
class Bench:
    """A provider over servers that a test can change."""

    servers: list[Connector] = field(default_factory=list)
    shelf: Shelf = field(default_factory=Shelf)

    def __post_init__(self) -> None:
        self.provider = CatalogProvider(load(), self._visible, self.shelf)

    def _visible(self, access: Access | None) -> Sequence[Connector]:
        return tuple(self.servers)

    async def __call__(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The structured answer, checked against the outputSchema and against the text beside it."""
        result = await self.provider.call(tool, arguments, Asker())
        assert "isError" not in result, result
        definition = next(one for one in self.provider.tools() if one["name"] == tool)
        jsonschema_rs.validate(definition["outputSchema"], result["structuredContent"])
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return result["structuredContent"]

    async def refused(self, tool: str, /, **arguments: Any) -> str:
        result = await self.provider.call(tool, arguments, Asker())
        assert result["isError"] is True and "structuredContent" not in result
        return result["content"][0]["text"]


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.anyio
@pytest.mark.proves("CAT-9", "PERF-6")
async def test_who_lists_the_tools_does_not_wait_for_names_by_meaning_and_who_calls_one_has_them(bench: Bench) -> None:
    made: list[bool] = []

    def make(by_meaning: bool) -> CatalogProvider:
        made.append(by_meaning)
        if len(made) == 2:
            raise DataError("aliases.json: damaged meanwhile")
        return bench.provider

    served = ServedCatalog(make)
    assert len(await served.list_tools()) == 7 and made == [False]
    with pytest.raises(GatewayError, match="damaged meanwhile"):
        await served.call_tool("mcp_list_catalog", {}, Asker())
    assert len(await served.list_tools()) == 7
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(served.call_tool, "mcp_list_catalog", {}, Asker())
        tasks.start_soon(served.run)
    assert made == [False, True, True]


@pytest.mark.proves("CAT-1", "CAT-4")
def test_there_are_seven_tools_with_schemas_for_both_directions(bench: Bench) -> None:
    tools = bench.provider.tools()
    assert [tool["name"] for tool in tools] == [*READERS, "mcp_request_capability"]
    for tool in tools:
        jsonschema_rs.validator_for(tool["inputSchema"])
        jsonschema_rs.validator_for(tool["outputSchema"])
        assert tool["inputSchema"]["additionalProperties"] is False
        assert tool["outputSchema"]["type"] == "object"
    tools[0]["inputSchema"]["properties"].clear()
    assert bench.provider.tools()[0]["inputSchema"]["properties"]


@pytest.mark.proves("CAT-1", "CAT-4")
@pytest.mark.parametrize(
    ("tool", "parameters", "required"),
    [("lookup_capability", {"agent", "capability"}, {"agent", "capability"}),
     ("compare_capability", {"capability", "agents"}, {"capability"}),
     ("list_capabilities", {"agent", "category"}, set()),
     ("get_sources", {"agent", "capability"}, set()),
     ("mcp_list", set(), set()),
     ("mcp_list_catalog", {"query", "limit"}, set()),
     ("mcp_request_capability", {"agent_id", "mcp_name", "rationale", "catalog_slug", "requested_tools", "context",
                                 "expires_at_ms"}, {"agent_id", "mcp_name", "rationale"})],
)  # fmt: skip
def test_the_parameters_are_the_documented_ones(bench: Bench, tool: str, parameters: set, required: set) -> None:
    schema = next(one for one in bench.provider.tools() if one["name"] == tool)["inputSchema"]
    assert set(schema["properties"]) == parameters
    assert set(schema.get("required", ())) == required


@pytest.mark.proves("CAT-1", "CAT-4")
def test_six_tools_only_read_and_one_writes_without_destroying(bench: Bench) -> None:
    hints = {tool["name"]: tool["annotations"] for tool in bench.provider.tools()}
    for name in READERS:
        assert (hints[name]["readOnlyHint"], hints[name]["openWorldHint"]) == (True, False)
    request = hints["mcp_request_capability"]
    assert (request["readOnlyHint"], request["destructiveHint"]) == (False, False)


@pytest.mark.proves("CAT-1")
@pytest.mark.anyio
async def test_every_capability_of_every_agent_can_be_looked_up_and_fits_its_schema(bench: Bench) -> None:
    catalog = load()
    for term in catalog.names.terms:
        await bench("compare_capability", capability=term.name)
        await bench("get_sources", capability=term.name)
        for agent in catalog.agents:
            answer = await bench("lookup_capability", agent=agent, capability=term.name)
            assert answer["capability"]["name"] == term.name
    for agent in catalog.agents:
        await bench("list_capabilities", agent=agent)
        await bench("get_sources", agent=agent)
    await bench("list_capabilities", category="model")
    await bench("get_sources")
    assert "matches" in await bench("lookup_capability", agent="claude-code", capability="code")


@pytest.mark.proves("CAT-1", "CAT-4")
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [("lookup_capability", {"agent": "claude-code", "capabilty": "mcp"}, "did you mean capability?"),
     ("lookup_capability", {"agent": "claude-code"}, "capability"),
     ("lookup_capability", {"agent": 7, "capability": "mcp"}, "agent"),
     ("lookup_capability", {"agent": "cursor", "capability": "mcp"}, "gemini-cli"),
     ("compare_capability", {"capability": "mcp", "agents": []}, "agents"),
     ("list_capabilities", {}, "At least one parameter"),
     ("list_capabilities", {"agent": None, "category": None}, "At least one parameter"),
     ("mcp_list", {"query": "x"}, "unknown parameter 'query'"),
     ("mcp_list_catalog", {"limit": 0}, "limit"),
     ("mcp_list_catalog", {"limit": 10**9}, "limit"),
     ("mcp_request_capability", {**ASK, "rationale": "  "}, "rationale"),
     ("mcp_request_capability", {**ASK, "rationale": "x" * 1_000_000}, "rationale"),
     ("mcp_request_capability", {**ASK, "context": {"x": "y" * 1_000_000}}, "context"),
     ("mcp_request_capability", {**ASK, "expires_at_ms": 1}, "expires_at_ms"),
     ("mcp_request_capability", {**ASK, "catalog_slug": "notoin"}, "Did you mean notion"),
     ("mcp_request_capability", {**ASK, "catalog_slug": "linear"}, "ask for one server"),
     ("mcp_request_capability", {**ASK, "approve": True}, "unknown parameter 'approve'"),
     ("mcp_request_capability", {**ASK, "status": "approved"}, "unknown parameter 'status'"),
     ("lookup_capabilities", {}, "Did you mean lookup_capability?")],
)  # fmt: skip
async def test_a_wrong_call_is_an_error_in_words_and_files_nothing(bench: Bench, tool, arguments, said) -> None:
    message = await bench.refused(tool, **arguments)
    assert said in message
    assert len(message) < 1000
    assert bench.shelf.kept == {}


@pytest.mark.proves("CAT-4")
@pytest.mark.anyio
async def test_the_list_holds_what_is_configured_and_the_catalog_what_is_known(bench: Bench) -> None:
    bench.servers.append(Connector("time", True, True, ("now",)))
    assert [row["name"] for row in (await bench("mcp_list"))["servers"]] == ["time"]
    known = await bench("mcp_list_catalog", query="current time zones")
    assert known["servers"][0]["slug"] == "time"
    assert known["servers"][0]["execution_available"] is True
    assert known["overlay"]["connected_catalog_server_names"] == ["time"]
    everything = await bench("mcp_list_catalog", limit=200)
    assert len(everything["servers"]) >= 100


@pytest.mark.proves("CAT-4", "GAP-1")
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("server", "name", "action"),
    [(None, "notion", "ask_human_to_connect"),
     (None, "in-house-thing", "file_capability_request"),
     (Connector("notion", False, False), "notion", "ask_human_to_enable"),
     (Connector("notion", True, False, (), "refused"), "notion", "ask_human_to_connect"),
     (Connector("in-house-thing", False, False), "In House Thing", "ask_human_to_enable")],
)  # fmt: skip
async def test_a_gap_is_filed_and_classified(bench: Bench, server: Connector | None, name: str, action: str) -> None:
    bench.servers[:] = [server] if server else []
    answer = await bench("mcp_request_capability", **{**ASK, "mcp_name": name})
    assert list(answer) == ["ok", "approval", "requested_by", "classification", "note"]
    assert (answer["ok"], answer["approval"]["status"]) == (True, "pending")
    assert answer["requested_by"] == {"kind": "agent"}
    assert answer["classification"]["next_action"] == action
    assert answer["classification"]["approval_needed"] is True
    assert "Nothing is connected" in answer["note"]


@pytest.mark.proves("CAT-6")
@pytest.mark.anyio
async def test_a_server_that_is_there_needs_no_approval(bench: Bench) -> None:
    bench.servers.append(Connector("notion", True, True, ("search",)))
    answer = await bench("mcp_request_capability", **ASK, requested_tools=["notion:search"])
    assert answer["approval"] is None
    assert answer["classification"]["next_action"] == "use_tool"
    assert answer["classification"]["available_tools"] == ["notion:search"]
    assert bench.shelf.kept == {}


@pytest.mark.proves("CAT-6")
@pytest.mark.anyio
async def test_a_tool_that_a_connected_server_lacks_can_be_asked_for(bench: Bench) -> None:
    bench.servers.append(Connector("notion", True, True, ("search",)))
    answer = await bench("mcp_request_capability", **ASK, requested_tools=["delete_everything"])
    assert answer["classification"]["gap"] == "tool_missing"
    assert answer["approval"]["context"]["requested_tools"] == ["delete_everything"]


@pytest.mark.proves("CAT-6", "CAT-7")
@pytest.mark.anyio
async def test_an_approval_changes_nothing_by_itself_and_shows_the_command_that_would(bench: Bench) -> None:
    first = await bench("mcp_request_capability", **ASK)
    assert "connect_command" not in first
    bench.shelf.decide(first["approval"]["approval_id"], "approve")
    again = await bench("mcp_request_capability", **ASK)
    assert again["approval"]["approval_id"] == first["approval"]["approval_id"]
    assert again["approval"]["status"] == "approved"
    assert "changes nothing by itself" in again["note"]
    assert again["connect_command"] == "mcpproxy upstream add notion --url https://mcp.notion.com/mcp"
    assert (await bench("mcp_list"))["servers"] == []


@pytest.mark.proves("CAT-6")
@pytest.mark.anyio
async def test_asking_again_after_a_denial_gets_the_denial_back_under_any_name(bench: Bench) -> None:
    first = await bench("mcp_request_capability", **ASK)
    bench.shelf.decide(first["approval"]["approval_id"], "deny")
    for words in ({}, {"agent_id": "another"}, {"mcp_name": "Notion"}, {"catalog_slug": "notion"}):
        again = await bench("mcp_request_capability", **{**ASK, **words})
        assert again["approval"]["approval_id"] == first["approval"]["approval_id"]
        assert again["approval"]["status"] == "denied"
    assert len(bench.shelf.kept) == 1


@pytest.mark.proves("CAT-6")
@pytest.mark.anyio
async def test_the_twenty_first_pending_request_is_refused_in_words(bench: Bench) -> None:
    for number in range(20):
        await bench("mcp_request_capability", **{**ASK, "mcp_name": f"thing-{number}", "agent_id": f"a-{number}"})
    assert "at most 20" in await bench.refused("mcp_request_capability", **ASK)
    assert len(bench.shelf.kept) == 20
