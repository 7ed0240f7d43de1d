"""Who hears of a change: whoever has anything in scope that changed, and nobody else (SEC-2, UP-4)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from mcpproxy_py.core.policy.scope import NOTHING_IN_SCOPE, Access, Scope
from mcpproxy_py.core.search.index import Index, segment
from mcpproxy_py.core.values import Policy, Server, Snapshot, Tool
from mcpproxy_py.serve.mcp.list_changes import ListChangeNotifier
from mcpproxy_py.serve.mcp.subscriptions import LIST_CHANGED, TOOLS_CHANGED, UPDATED, SubscriptionHub
from mcpproxy_py.serve.mcp.surfaces.gate import GateOptions
from tests.core.example_snapshot import tool

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SEC-2", "UP-4")]
HUB, WIKI = Scope(servers=(("hub",),)), Scope(servers=(("wiki",),))
READS = Scope(servers=(("hub",),), ceiling="read")
LISTS = Scope(tools=(("hub:list_*",),))


@dataclass(eq=False)
class Listener:
    topic: str
    scope: Scope | None = None
    heard: list[str] = field(default_factory=list[str])
    told: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def access(self) -> Access | None:
        return None if self.scope is None else Access("token:x", lambda: self.scope)

    def hear(self, method: str, params: Mapping[str, Any], server: str = "") -> None:
        self.heard.append(method)
        self.told.set()


def snapshot(policy: Policy | None = None, **servers: list[Tool]) -> Snapshot:
    listed = {name: Server(name, "connected", {each.name: each for each in tools}) for name, tools in servers.items()}
    return Snapshot(policy or Policy(), listed, Index({name: segment(tools) for name, tools in servers.items()}))


def reading(server: str, name: str) -> Tool:
    return tool(name, {"readOnlyHint": True}, server=server)


def wiping(server: str, name: str) -> Tool:
    return tool(name, {"destructiveHint": True}, server=server)


BEFORE = snapshot(hub=[reading("hub", "list_pages")], wiki=[reading("wiki", "list_pages")])


class Told:
    """A notifier with listeners on a topic, of each scope one, and one that has everything."""

    def __init__(self, topic: str, before: Snapshot = BEFORE) -> None:
        self.hub = SubscriptionHub(10)
        self.notifier = ListChangeNotifier(self.hub)
        self.notifier.snapshot_changed(before)
        self.of = {name: Listener(topic, scope) for name, scope in
                   {"all": None, "hub": HUB, "wiki": WIKI, "reads": READS, "lists": LISTS}.items()}  # fmt: skip
        for listener in self.of.values():
            self.hub.add(listener)

    async def heard(self, method: str = TOOLS_CHANGED) -> set[str]:
        """Once what comes later was told, and as many turns of the loop have passed as there may be scopes."""
        marker = Listener("marker")
        self.hub.add(marker)
        self.hub.tell_changed("marker", TOOLS_CHANGED)
        async with asyncio.timeout(30):
            await marker.told.wait()
        for _ in range(4 * len(self.of)):
            await asyncio.sleep(0)
        return {name for name, listener in self.of.items() if method in listener.heard}


@pytest.mark.parametrize("topic", ["direct", "server/hub"])
@pytest.mark.parametrize(
    ("more", "who"),
    [
        (reading("hub", "list_users"), {"all", "hub", "reads", "lists"}),
        (reading("hub", "get_user"), {"all", "hub", "reads"}),
        (wiping("hub", "list_and_wipe"), {"all", "hub", "lists"}),
        (wiping("hub", "wipe"), {"all", "hub"}),
    ],
)
async def test_a_change_is_told_to_who_has_what_changed(topic: str, more: Tool, who: set[str]) -> None:
    told = Told(topic)
    same = reading("hub", "list_pages")
    told.notifier.snapshot_changed(snapshot(hub=[same, more], wiki=[*BEFORE.servers["wiki"].tools.values()]))
    assert await told.heard() == who


async def test_what_changes_there_and_back_within_a_moment_is_told_to_who_cannot_know_better() -> None:
    told = Told("direct")
    told.notifier.snapshot_changed(snapshot(hub=[], wiki=[reading("wiki", "list_pages")]))
    told.notifier.snapshot_changed(BEFORE)
    assert await told.heard() == {"all"}


async def test_that_tools_changed_as_a_server_says_is_for_who_has_all_of_them() -> None:
    told = Told("server/hub")
    told.notifier.server_said("hub", TOOLS_CHANGED, {})
    assert await told.heard() == {"all", "hub"}


async def test_tools_that_changed_at_another_gateway_change_all_lists_although_the_snapshot_here_stays() -> None:
    told = Told("direct")
    told.notifier.server_said("hub", TOOLS_CHANGED, {})
    assert await told.heard() == set()
    told.notifier.said_elsewhere("hub", TOOLS_CHANGED)
    assert await told.heard() == {"all", "hub"}


@pytest.mark.parametrize("topic", ["direct", "server/hub"])
async def test_other_lists_are_told_of_by_server(topic: str) -> None:
    told = Told(topic)
    told.notifier.server_said("hub", "notifications/prompts/list_changed", {})
    assert await told.heard("notifications/prompts/list_changed") == {"all", "hub", "reads", "lists"}


async def test_a_resource_that_changed_is_told_of_by_server() -> None:
    told = Told("server/hub")
    told.notifier.server_said("hub", UPDATED, {"uri": "x://y"})
    assert await told.heard(UPDATED) == {"all", "hub", "reads", "lists"}


async def test_a_switch_is_told_to_who_it_is_another_for() -> None:
    """Whoever is held to more than the switch asks for sees no difference."""
    told = Told("direct")
    told.of["strict"] = strict = Listener("direct", replace(HUB, unannotated="destructive"))
    told.hub.add(strict)
    told.notifier.snapshot_changed(replace(BEFORE, policy=Policy(unannotated="write")))
    assert await told.heard() == {"all", "hub", "wiki", "reads", "lists"}


async def test_the_gate_tells_who_reads_another_line_of_servers() -> None:
    told = Told("gate")
    told.notifier.settings_changed(GateOptions(in_reach=("hub",)))
    told.notifier.settings_changed(GateOptions(in_reach=("hub", "wiki")))
    assert await told.heard() == {"all", "wiki"}


async def test_a_scope_that_changed_is_told_to_who_has_it() -> None:
    told = Told("direct")
    told.of["hub"].scope = NOTHING_IN_SCOPE
    told.hub.scopes_changed()
    told.hub.scopes_changed()
    assert await told.heard() == {"hub"}
    assert told.of["hub"].heard == list(LIST_CHANGED)
