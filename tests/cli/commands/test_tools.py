from __future__ import annotations

import pytest

TOOL = {
    "name": "github:list_issues", "server": "github", "description": "\n List issues.\nMore of it.", "annotations": {},
    "class": "read", "class_origin": "server", "call_with": "call_tool_read", "inputSchema": {"type": "object"},
    "callable": True, "unavailable_reason": None,
}  # fmt: skip


@pytest.mark.proves("CLI-2")
def test_tools_list_is_aligned_text_with_one_line_to_a_tool(run, gateway) -> None:
    away = {**TOOL, "name": "x:y", "class": "unknown", "callable": False, "unavailable_reason": "server_down",
            "description": "d" * 500}  # fmt: skip
    gateway.answer("GET", "/tools", {"tools": [TOOL, away], "next_cursor": None})
    assert run("tools", "list", "--server", "github").out.splitlines() == [
        "NAME                CLASS    CALL WITH       CALLABLE     DESCRIPTION",
        "github:list_issues  read     call_tool_read  yes          List issues.",
        "x:y                 unknown  call_tool_read  server_down  " + "d" * 500,
    ]
    assert gateway.seen[-1].query == {"server": "github"}


def test_tools_list_follows_every_page(run, gateway) -> None:
    pages = [
        {"tools": [{**TOOL, "name": f"a:{n}"}], "next_cursor": cursor} for n, cursor in enumerate(["c1", "c2", None])
    ]
    gateway.answer("GET", "/tools", *pages)
    answer = run("tools", "list", "-o", "json").json
    assert [tool["name"] for tool in answer["tools"]] == ["a:0", "a:1", "a:2"]
    assert answer["next_cursor"] is None
    assert [seen.query.get("cursor") for seen in gateway.seen] == [None, "c1", "c2"]


def test_a_cursor_that_leads_to_itself_does_not_go_round_for_ever(run, gateway) -> None:
    gateway.answer("GET", "/tools", {"tools": [TOOL], "next_cursor": "again"})
    assert len(run("tools", "list", "-o", "json").json["tools"]) == 2


def test_tools_search_passes_every_option_on(run, gateway) -> None:
    hit = {**TOOL, "score": 0.75, "signature": "list_issues(repo)"}
    gateway.answer("GET", "/tools/search", {"tools": [hit], "total": 1, "unavailable": {"server_down": 2}})
    ran = run("tools", "search", "open issues", "--limit", "3", "--detail", "compact", "--server", "github",
              "--read-only-only", "--exclude-destructive")  # fmt: skip
    assert gateway.seen[-1].query == {
        "query": "open issues", "limit": "3", "detail": "compact", "server": "github",
        "read_only_only": "true", "exclude_destructive": "true",
    }  # fmt: skip
    assert ran.out.splitlines()[1] == "0.75   github:list_issues  call_tool_read  list_issues(repo)"
    assert ran.err == "Not callable now, left out: 2 server_down\n"


def test_tools_show_prints_the_schema_below_the_description(run, gateway) -> None:
    gateway.answer("GET", "/tools/github:list/issues", TOOL)
    out = run("tools", "show", "github:list/issues").out
    assert "class               read\n" in out
    assert "\nList issues.\nMore of it.\n\nInput schema:\n{\n" in out


def test_an_empty_answer_says_so_beside_the_data(run, gateway) -> None:
    gateway.answer("GET", "/tools", {"tools": [], "next_cursor": None})
    ran = run("tools", "list")
    assert (ran.status, ran.out, ran.err) == (0, "", "No tools.\n")


@pytest.mark.proves("CLI-2")
def test_yaml_keeps_the_order_of_the_answer(run, gateway) -> None:
    import yaml

    answer = {"tools": [{**TOOL, "description": "é\x1b[31m"}], "next_cursor": None}
    gateway.answer("GET", "/tools", answer)
    out = run("tools", "list", "-o", "yaml").out
    assert yaml.safe_load(out) == answer
    assert out.startswith("tools:\n- name: github:list_issues\n  server: github\n")
    assert "\x1b" not in out


@pytest.mark.proves("CLI-2")
def test_a_tool_name_in_a_table_cannot_drive_the_terminal_or_break_its_line(run, gateway) -> None:
    gateway.answer("GET", "/tools", {"tools": [{**TOOL, "name": "a:\x1b[2Jb\nc\td[red]"}], "next_cursor": None})
    assert run("tools", "list").out.splitlines()[1].startswith("a:b c d[red]  read")


@pytest.mark.parametrize("arguments", [["--limit", "0"], ["--limit", "51"], ["--detail", "huge"]])
def test_a_wrong_option_value_is_wrong_usage(run, gateway, arguments) -> None:
    assert run("tools", "search", "x", *arguments).status == 2
    assert gateway.seen == []
