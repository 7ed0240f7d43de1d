"""The same tool behind the wire of either era (PROV-4): who is asked, how a round goes out, how it comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from mcpproxy_py.core.values import Caller
from mcpproxy_py.core.values import ClientInfo as ClaimedClient
from mcpproxy_py.providers import Accept, Context
from tests.providers.helpers import accept, of, text

pytestmark = [pytest.mark.proves("PROV-4"), pytest.mark.anyio]


@dataclass
class Client:
    """A client as the gateway hands it on."""

    live: bool = True
    capabilities: Mapping[str, Any] = field(default_factory=lambda: {"elicitation": {}})
    fails: bool = False
    noted: list[tuple[str, Any]] = field(default_factory=list)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self.noted.append((method, params))

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        assert method == "elicitation/create"
        if self.fails:
            raise ConnectionError("gone, with a password in the reason")
        return accept()


@dataclass
class Call:
    channel: Client
    input_responses: Mapping[str, Any] | None = None
    request_state: str | None = None
    caller: Caller = field(default_factory=lambda: Caller("local", "mcp", ClaimedClient("ide")))


async def delete(name: str, ctx: Context) -> str:
    ctx.progress(1, 2)
    ctx.log("info", "asking")
    return "deleted" if isinstance(await ctx.elicit(f"Delete {name}?"), Accept) else "kept"


async def test_a_live_client_is_asked_while_the_call_is_open() -> None:
    client = Client()
    assert text(await (await of(delete)).call_tool("delete", {"name": "a"}, Call(client))) == "deleted"
    assert client.noted == [
        ("notifications/progress", {"progress": 1, "total": 2}),
        ("notifications/message", {"level": "info", "logger": "delete", "data": "asking"}),
    ]


async def test_another_client_gets_a_round_and_calls_again() -> None:
    made, client = await of(delete), Client(live=False)
    first = await made.call_tool("delete", {"name": "a"}, Call(client))
    assert first["resultType"] == "input_required"
    assert first["inputRequests"] == {
        "q1": {
            "method": "elicitation/create",
            "params": {"message": "Delete a?", "requestedSchema": {"type": "object", "properties": {}}},
        }
    }
    again = Call(client, {"q1": {"action": "decline"}}, first["requestState"])
    assert text(await made.call_tool("delete", {"name": "a"}, again)) == "kept"


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}, {"elicitation": None}, {"sampling": {}}])
@pytest.mark.parametrize("live", [True, False])
async def test_a_client_that_draws_no_forms_is_not_asked(capabilities: Mapping[str, Any], live: bool) -> None:
    result = await (await of(delete)).call_tool("delete", {"name": "a"}, Call(Client(live, capabilities)))
    assert "this client cannot be asked" in text(result)


async def test_a_client_that_goes_away_fails_the_call_in_words_of_ours() -> None:
    result = await (await of(delete)).call_tool("delete", {"name": "a"}, Call(Client(fails=True)))
    assert text(result) == "The person behind this client could not be asked"


@pytest.mark.parametrize("state", ["", "null", "[]", "{", '"x"'])
async def test_a_state_that_is_none_of_ours_is_refused(state: str) -> None:
    result = await (await of(delete)).call_tool("delete", {"name": "a"}, Call(Client(live=False), {}, state))
    assert text(result) == "This requestState is not one that this tool gave"
