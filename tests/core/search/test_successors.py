from __future__ import annotations

import pytest

from mcpproxy_py.core.search.index import Index, segment
from mcpproxy_py.core.values import Tool

pytestmark = pytest.mark.proves("FIND-3")


def listed(**about: str) -> list[Tool]:
    return [Tool("hub", name, {"name": name, "description": text}, "unknown") for name, text in about.items()]


def names(tools: list[Tool], query: str, limit: int = 5, *, left_out: str = "") -> list[str]:
    index = Index({"hub": segment(tools)})
    among = index.mask(lambda _: True)
    if left_out:
        at = next(number for number, tool in enumerate(tools) if tool.name == left_out)
        among &= ~(1 << (16 * at))
    return [hit.tool.name for hit in index.rank(query, limit, among).hits]


@pytest.mark.parametrize(
    "text",
    [
        "Deprecated: use `issue_read` instead. List issues of a repository",
        "[DEPRECATED] List issues of a repository. Replaced by hub:issue_read.",
        "List issues of a repository. This tool is obsolete; please use the new tool issue_read",
    ],
)
def test_a_deprecated_tool_lets_the_one_go_first_that_it_names(text: str) -> None:
    tools = listed(list_issues=text, issue_read="Reads", other="List something")
    assert names(tools, "list issues of a repository", 2) == ["issue_read", "list_issues"]
    assert names(tools, "list issues of a repository", 1) == ["issue_read"]


def test_one_that_cannot_be_had_is_not_put_before_it() -> None:
    tools = listed(list_issues="Deprecated: use issue_read. List issues", issue_read="Reads")
    assert names(tools, "list issues", left_out="issue_read") == ["list_issues"]


def test_who_names_each_other_or_nobody_stays_where_it_is() -> None:
    assert names(listed(list_issues="Deprecated. List issues", read="Reads issues"), "list issues")[0] == "list_issues"
    each_other = listed(list_issues="Deprecated, use read_issues", read_issues="Deprecated, use list_issues")
    assert set(names(each_other, "issues")) == {"list_issues", "read_issues"}
    assert (
        names(listed(list_issues="Use read to look closer. List issues", read="R"), "list issues")[0] == "list_issues"
    )


def test_a_server_cannot_name_the_tool_of_another() -> None:
    mine = [Tool("mine", "list", {"name": "list", "description": "Deprecated: use hub:find. List all"}, "unknown")]
    index = Index({"mine": segment(mine), "hub": segment(listed(find="Finds"))})
    assert [hit.tool.full_name for hit in index.rank("list all", 5).hits] == ["mine:list"]
