from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.core.policy.decide import decide
from mcpproxy_py.core.policy.surface_tools import definitions
from mcpproxy_py.core.policy.tool_class import class_of
from mcpproxy_py.core.search.index import Index, segment
from mcpproxy_py.core.search.tool_search import found, retrieve_tools, unavailable_reason
from mcpproxy_py.core.values import LocalAnswer, Policy, Refusal, Server, Snapshot, Tool
from mcpproxy_py.errors import Code
from tests.core.example_snapshot import ask, tool


def world() -> Snapshot:
    tools = {
        "git": [tool("create_issue", {"readOnlyHint": False}, server="git", wire={"description": "Create an issue"}),
                tool("list_issues", {"readOnlyHint": True}, server="git"),
                tool("delete_issue", {"destructiveHint": True, "draft": "x"}, server="git")],
        "lazy": [tool("issue_stats", server="lazy")],
        "down": [tool("issue_report", server="down")],
        "off": [tool("issue_export", server="off")],
    }  # fmt: skip
    states: dict[str, Any] = {"git": "connected", "lazy": "sleeping", "down": "failed", "off": "disabled"}
    servers = {name: Server(name, states[name], {t.name: t for t in listed}) for name, listed in tools.items()}
    return Snapshot(Policy(), servers, Index({name: segment(listed) for name, listed in tools.items()}))


def find(**params: Any) -> dict[str, Any]:
    here = world()
    decision = decide(ask({"query": "issue", **params}, "retrieve_tools"), here)
    assert isinstance(decision, LocalAnswer)
    return retrieve_tools(here, decision.params)


@pytest.mark.proves("FIND-1")
def test_a_result_has_every_field_the_specification_names() -> None:
    found = find(limit=50)
    row = next(row for row in found["tools"] if row["name"] == "git:delete_issue")
    assert set(row) == {
        "name", "description", "inputSchema", "score", "confidence", "server", "annotations", "call_with",
    }  # fmt: skip
    assert row["annotations"] == {"destructiveHint": True, "draft": "x"}
    assert row["call_with"] == "call_tool_destructive"
    assert 0 < row["score"] <= 1
    scores = [row["score"] for row in found["tools"]]
    assert scores == sorted(scores, reverse=True)
    sure = [row["confidence"] for row in found["tools"]]
    assert sure == sorted(sure, reverse=True)
    assert found["fits"] is True
    assert found["total"] == len(found["tools"]) == 4
    assert "Intent must match tool variant" in found["usage_instructions"]


@pytest.mark.proves("FIND-1")
def test_compact_gives_a_signature_for_the_schema_and_keeps_call_with() -> None:
    for row in find(detail="compact")["tools"]:
        assert "inputSchema" not in row
        assert row["signature"].startswith(row["name"].partition(":")[2])
        assert row["call_with"].startswith("call_tool_")


@pytest.mark.proves("FIND-1")
def test_all_details_satisfy_the_one_output_schema() -> None:
    schema = definitions()[0]["outputSchema"]
    for detail in ("full", "compact", "auto"):
        assert jsonschema_rs.is_valid(schema, find(detail=detail))


@pytest.mark.proves("FIND-1")
def test_auto_gives_the_first_in_full_and_the_rest_as_signatures() -> None:
    first, *rest = find(detail="auto")["tools"]
    assert "inputSchema" in first and "signature" not in first
    assert rest and all("signature" in row and "inputSchema" not in row for row in rest)


@pytest.mark.proves("FIND-1")
def test_named_tools_come_in_full_and_what_is_not_there_is_named() -> None:
    names = ["git:list_issues", "git:nothing", "down:issue_report", "nowhere:x", "git:list_issues", "", "git"]
    found = find(query=None, names=names, detail="compact")
    assert [row["name"] for row in found["tools"]] == ["git:list_issues"]
    assert "inputSchema" in found["tools"][0]
    assert found["missing"] == ["git:nothing", "down:issue_report", "nowhere:x", "", "git"]
    assert found["unavailable"] == {"server_down": 1}
    assert jsonschema_rs.is_valid(definitions()[0]["outputSchema"], found)
    none = find(names=["git:nothing"])
    assert none["tools"] == [] and none["fits"] is False
    assert find(names=["git:delete_issue"], exclude_destructive=True)["missing"] == ["git:delete_issue"]


@pytest.mark.proves("FIND-5")
@pytest.mark.parametrize("query", ["xylophone", "\N{SNOWMAN}", "\x01\x02", "z", "图书馆", "q" * 4000])
def test_a_query_that_nothing_fits_says_so_and_where_to_go(query: str) -> None:
    found = find(query=query)
    assert found["fits"] is False
    assert "request_capability" in found["usage_instructions"]
    assert not any("inputSchema" in row for row in found["tools"])


def _with_owner(name: str, about: str, **more: Any) -> Tool:
    schema = {"type": "object", "properties": {"owner": {"type": "string", "description": about}, **more}}
    return tool(name, server="hub", wire={"description": "An issue", "inputSchema": schema})


@pytest.mark.proves("FIND-1")
def test_what_tools_of_one_answer_take_alike_is_said_once() -> None:
    text = "The account that owns the repository, by its name and not by its address; " * 3
    tools = [_with_owner("get_issue", text), _with_owner("set_issue", text), _with_owner("end_issue", "short")]
    before = [dict(each.wire["inputSchema"]["properties"]) for each in tools]
    here = Snapshot(Policy(), {"hub": Server("hub", "connected", {t.name: t for t in tools})},
                    Index({"hub": segment(tools)}))  # fmt: skip
    names = [each.full_name for each in tools]
    found = retrieve_tools(here, {"names": names, "read_only_only": False, "exclude_destructive": False})
    first, second, third = (row["inputSchema"]["properties"]["owner"] for row in found["tools"])
    assert first == {"type": "string", "description": text}
    assert second == {"$ref": "hub:get_issue#/properties/owner"}
    assert third == {"type": "string", "description": "short"}
    assert "$ref" in found["usage_instructions"]
    assert [each.wire["inputSchema"]["properties"] for each in tools] == before


@pytest.mark.proves("FIND-2")
def test_what_cannot_be_called_is_left_out_and_counted_with_its_reason() -> None:
    found = find(limit=50)
    assert {row["server"] for row in found["tools"]} == {"git", "lazy"}
    assert found["unavailable"] == {"server_disabled": 1, "server_down": 1}


@pytest.mark.proves("FIND-2")
@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"read_only_only": True}, {"git:list_issues"}),
        ({"exclude_destructive": True}, {"git:create_issue", "git:list_issues", "lazy:issue_stats"}),
        ({"server": "lazy"}, {"lazy:issue_stats"}),
    ],
)
def test_filters_apply_before_the_cut(filters: dict[str, Any], names: set[str]) -> None:
    assert {row["name"] for row in find(limit=50, **filters)["tools"]} == names
    one = find(limit=1, **filters)
    assert len(one["tools"]) == 1
    assert one["total"] == len(names)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "query is required"),
        ({"query": "   "}, "must not be empty"),
        ({"query": 5}, "must be string, not number"),
        ({"query": "x", "limit": 0}, "between 1 and 50"),
        ({"query": "x", "limit": 51}, "between 1 and 50"),
        ({"query": "x", "limit": True}, "must be integer, not boolean"),
        ({"query": "x", "limit": 2.5}, "must be integer"),
        ({"query": "x", "detail": "short"}, "must be full or compact"),
        ({"query": "x", "read_only": True}, "did you mean read_only_only?"),
        ({"query": "x" * 5000}, "at most 4000"),
        ({"names": []}, "query is required"),
        ({"names": "git:x"}, "must be array, not string"),
        ({"names": ["git:x", 5]}, "must hold strings, not number"),
        ({"names": ["x"] * 21}, "at most 20"),
    ],
)
def test_a_wrong_parameter_is_refused_with_what_is_wrong(params: dict[str, Any], words: str) -> None:
    decision = decide(ask(params, "retrieve_tools"), world())
    assert isinstance(decision, Refusal)
    assert decision.code is Code.INVALID_ARGUMENTS
    assert words in decision.message


NAMES = [f"{verb}_note" for verb in ("read", "list", "edit", "drop", "mail")]
some_names = st.lists(st.sampled_from(NAMES), max_size=3).map(tuple)
HINTS: list[dict[str, Any]] = [{}, {"readOnlyHint": True}, {"readOnlyHint": False}, {"destructiveHint": True}]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["connected", "sleeping", "connecting", "failed", "disabled"]),
            st.none() | some_names,
            some_names,
            st.lists(st.sampled_from(HINTS), min_size=5, max_size=5),
        ),
        min_size=1,
        max_size=5,
    ),
    st.fixed_dictionaries(
        {"server": st.sampled_from([None, "s0", "s1", "nowhere"]), "read_only_only": st.booleans(),
         "exclude_destructive": st.booleans(), "limit": st.integers(1, 12)},
    ),
)  # fmt: skip
@pytest.mark.proves("FIND-2")
def test_what_is_left_out_and_counted_is_what_asking_about_each_tool_alone_leaves_out(
    servers: list[Any], filters: dict[str, Any]
) -> None:
    tools = {
        f"s{at}": [tool(name, hints, server=f"s{at}") for name, hints in zip(NAMES, row[3], strict=True)]
        for at, row in enumerate(servers)
    }
    known = {
        name: Server(name, row[0], {each.name: each for each in listed}, allow_tools=row[1], deny_tools=row[2])
        for (name, listed), row in zip(tools.items(), servers, strict=True)
    }
    here = Snapshot(Policy(), known, Index({name: segment(listed) for name, listed in tools.items()}))
    ranking, unavailable = found(here, {"query": "note", **filters})

    def wanted(each: Tool) -> bool:
        highest = class_of(each, None)[0]
        of_kind = highest == "read" if filters["read_only_only"] else highest != "destructive"
        filtered = filters["read_only_only"] or filters["exclude_destructive"]
        return filters["server"] in (None, each.server) and (of_kind or not filtered)

    reasons = [unavailable_reason(known[each.server], each) for row in tools.values() for each in row if wanted(each)]
    assert unavailable == {reason: reasons.count(reason) for reason in set(reasons) if reason}
    assert ranking.total == reasons.count(None)
    assert len(ranking.hits) == min(ranking.total, filters["limit"])
    assert all(wanted(hit.tool) for hit in ranking.hits)
    assert all(unavailable_reason(known[hit.tool.server], hit.tool) is None for hit in ranking.hits)
