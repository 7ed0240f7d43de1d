"""What this gateway reaches, laid over what is known: every server once, under one status."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mcpproxy_py.core.catalog.model import Connector, Matching, ServerEntry, connectors, key
from mcpproxy_py.core.catalog.overlay import CONNECTION_STATUSES, classify, mcp_list, mcp_list_catalog, overlay
from mcpproxy_py.core.values import Server, Snapshot
from tests.core.example_snapshot import tool

pytestmark = pytest.mark.proves("CAT-4")


def entry(slug: str, **more: Any) -> ServerEntry:
    said: dict[str, Any] = {"name": f"io.github.x/{slug}", "title": slug.title(), "description": f"Work with {slug}"}
    said |= {"auth": "oauth", "transport": "stdio", "wire": {}, "status": "verified", **more}
    return ServerEntry(slug, **said)


ENTRIES = {one.slug: one for one in (entry("notion"), entry("linear"), entry("slack"), entry("git", tags=("commits",)))}
ON = Connector("notion", True, True, ("search", "create_page"))
OFF = Connector("linear", False, False)
DOWN = Connector("slack", True, False, (), "connection refused")
OWN = Connector("own", True, True, ("run",))
OWN_DOWN = Connector("own-down", True, False, (), "exit 1")
OWN_OFF = Connector("own-off", False, False)
HALF_OFF = Connector("git", False, True)
EVERY = (ON, OFF, DOWN, OWN, OWN_DOWN, OWN_OFF)


def test_the_list_has_exactly_the_documented_keys() -> None:
    answer = mcp_list(EVERY)
    assert list(answer) == ["inventory_version", "summary", "connected_server_names", "enabled_server_names",
                            "registered_tool_count", "servers"]  # fmt: skip
    assert (answer["inventory_version"], answer["registered_tool_count"]) == (1, 3)
    assert answer["connected_server_names"] == ["notion", "own"]
    assert answer["enabled_server_names"] == ["notion", "slack", "own", "own-down"]
    for row in answer["servers"]:
        assert list(row) == ["name", "enabled", "connected", "last_error", "tool_count", "tools"]
    assert answer["servers"][0]["tools"] == ["search", "create_page"]
    assert answer["servers"][2]["last_error"] == "connection refused"


def test_a_gateway_with_nothing_configured_has_an_empty_list() -> None:
    assert mcp_list(())["servers"] == []


DOCUMENTED = ["inventory_version", "connected_server_names", "enabled_server_names", "connected_catalog_server_names",
              "connected_disabled_server_names", "cataloged_not_connected_server_names",
              "cataloged_disabled_server_names", "uncataloged_connected_servers"]  # fmt: skip


def test_the_overlay_has_all_documented_keys_and_the_two_it_lacks() -> None:
    shown = overlay(ENTRIES, EVERY)
    assert [name for name in shown if name in DOCUMENTED] == DOCUMENTED
    assert set(shown) - set(DOCUMENTED) == {
        "uncataloged_not_connected_server_names", "uncataloged_disabled_server_names", "status_counts"
    }  # fmt: skip
    assert list(shown["status_counts"]) == list(CONNECTION_STATUSES)


def test_every_server_stands_under_one_status_and_the_counts_add_up() -> None:
    shown = overlay(ENTRIES, (*EVERY, HALF_OFF))
    assert shown["connected_catalog_server_names"] == ["notion"]
    assert shown["cataloged_disabled_server_names"] == ["linear"]
    assert shown["cataloged_not_connected_server_names"] == ["slack"]
    assert shown["connected_disabled_server_names"] == ["git"]
    assert [row["name"] for row in shown["uncataloged_connected_servers"]] == ["own"]
    assert shown["uncataloged_not_connected_server_names"] == ["own-down"]
    assert shown["uncataloged_disabled_server_names"] == ["own-off"]
    assert set(shown["status_counts"].values()) == {1}
    assert sum(shown["status_counts"].values()) == 7


def test_the_catalog_list_shows_what_one_can_act_on_first_and_what_to_do() -> None:
    answer = mcp_list_catalog(ENTRIES, EVERY)
    assert list(answer) == ["servers", "overlay"]
    rows = {row["server_name"] or row["slug"]: row for row in answer["servers"]}
    assert list(rows)[:2] == ["notion", "own"]
    assert {name: (row["connection_status"], row["execution_available"], row["next_action"])
            for name, row in rows.items()} == {
        "notion": ("connected_enabled", True, "use_tool"),
        "linear": ("cataloged_disabled", False, "ask_human_to_enable"),
        "slack": ("cataloged_not_connected", False, "ask_human_to_connect"),
        "git": ("cataloged_not_connected", False, "ask_human_to_connect"),
        "own": ("uncataloged_connected", True, "use_tool"),
        "own-down": ("uncataloged_not_connected", False, "ask_human_to_connect"),
        "own-off": ("uncataloged_disabled", False, "ask_human_to_enable"),
    }  # fmt: skip


def test_a_query_narrows_the_rows_and_never_the_overlay() -> None:
    answer = mcp_list_catalog(ENTRIES, EVERY, query="commits")
    assert [row["slug"] for row in answer["servers"]] == ["git"]
    assert answer["overlay"] == overlay(ENTRIES, EVERY)
    assert mcp_list_catalog(ENTRIES, EVERY, query="own-down")["servers"][0]["server_name"] == "own-down"
    assert mcp_list_catalog(ENTRIES, EVERY, query="zzz")["servers"] == []


def test_a_limit_says_how_many_rows_it_left_out() -> None:
    answer = mcp_list_catalog(ENTRIES, EVERY, limit=2)
    assert (len(answer["servers"]), answer["omitted"]) == (2, 5)


@pytest.mark.parametrize(
    ("name", "made"), [("  My Server ", "my-server"), ("a__b", "a-b"), ("Ünï", "n"), ("--x--", "x"), ("", "")]
)
def test_a_key_is_trimmed_lower_case_with_single_hyphens(name: str, made: str) -> None:
    assert key(name) == made


@pytest.mark.parametrize("configured", ["notion", "NOTION", "notion_", "io.github.x/notion"])
def test_a_configured_server_is_matched_by_slug_name_or_title(configured: str) -> None:
    one = replace(ON, name=configured)
    matching = Matching(ENTRIES, [one])
    assert matching.entry_of[configured] is ENTRIES["notion"]
    assert matching.connector("Notion") == one


def test_asking_for_tools_looks_for_each_of_them() -> None:
    assert classify(ENTRIES["notion"], ON, ["search"]).rule.next_action == "use_tool"
    found = classify(ENTRIES["notion"], ON, ["notion:search", "delete_page"])
    assert (found.rule.gap, found.available_tools) == ("tool_missing", ("notion:search",))


def test_the_servers_of_a_snapshot_become_plain_facts() -> None:
    snapshot = Snapshot(
        servers={
            "a": Server(
                "a", "connected", {"t": tool("t", server="a"), "no": tool("no", server="a")}, deny_tools=("no",)
            ),
            "b": Server("b", "sleeping", {"t": tool("t", server="b")}),
            "c": Server("c", "disabled"),
            "d": Server("d", "failed", {"t": tool("t", server="d")}, error="token=ghp_" + "a" * 36 + " refused"),
            "e": Server("e", "connecting"),
            "catalog": Server("catalog", "connected"),
        }
    )
    a, b, c, d, e = connectors(snapshot)
    assert a == Connector("a", True, True, ("t",))
    assert (b.connected, b.tools) == (True, ("t",))
    assert (c.enabled, c.connected) == (False, False)
    assert (d.enabled, d.connected, d.tools) == (True, False, ())
    assert (e.enabled, e.connected) == (True, False)


def test_no_secret_in_an_error_is_shown() -> None:
    secret = "ghp_" + "a" * 36
    snapshot = Snapshot(servers={"d": Server("d", "failed", error=f"401 for {secret}")})
    assert secret not in str(mcp_list(connectors(snapshot)))
