"""Proposed classes: what somebody else writes can only raise them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.core.policy.class_proposals import CHANGING as WRITING
from mcpproxy_py.core.policy.class_proposals import DELETING, MAX_TEXT, OVERTURNING, READING, propose
from mcpproxy_py.core.search.tokens import stem
from mcpproxy_py.core.values import RANK

pytestmark = pytest.mark.proves("USE-9")

NAMES = st.one_of(
    st.text(max_size=40),
    st.lists(
        st.sampled_from(["get", "list", "create", "delete", "update", "run", "item", "and", "or", "Page", "query"]),
        min_size=1,
        max_size=5,
    ).map("_".join),
)
WORDS = st.sampled_from(
    ["safe", "read only", "never changes anything", "deletes", "Removes all.", "creates", "permanently", "\u202e", "",
     "does not delete", "del\u200bete", "d\u0435lete", "`delete_file`", "\n- purge", "用于", "e\u0301"]
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=6).map(" ".join))
LEAVES: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.sampled_from(["string", "delete", "get", "object"]), st.text(max_size=8)
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["properties", "type", "enum", "const", "anyOf", "items", "action", "sql", "query"]),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("list_issues", "read"),
        ("getUser", "read"),
        ("HTTPGetStatus", "read"),
        ("get_workflow_run", "read"),
        ("list-deployments", "read"),
        ("browser_take_screenshot", "read"),
        ("create_issue", "write"),
        ("sendMessage", "write"),
        ("slack_post_message", "write"),
        ("update_issue", "destructive"),
        ("write_file", "destructive"),
        ("deleteRepo", "destructive"),
        ("delete2", "destructive"),
        ("rm", "destructive"),
        ("get_and_delete", "destructive"),
        ("list_or_purge", "destructive"),
        ("fetchAndRun", "destructive"),
        ("create_or_update_file", "destructive"),
        ("list_deleted_items", "destructive"),
        ("deletefile", "destructive"),
        ("bulkdelete", "destructive"),
        ("run_query", "destructive"),
        ("monitor_update", "destructive"),
        ("status_create", "write"),
        ("take_snapshot", "write"),
        ("scraping_browser_click", "destructive"),
        ("frobnicate", "destructive"),
        ("", "destructive"),
        ("___", "destructive"),
        ("获取", "destructive"),
        ("d\u0435lete", "destructive"),
        ("ｄｅｌｅｔｅ_all", "destructive"),
        ("g\u0435t_thing", "destructive"),
        ("get_del\u200bete", "destructive"),
        (f"get_{'a' * 60}delete", "destructive"),
    ],
)
def test_a_name_says_what_it_can(name: str, expected: str) -> None:
    assert propose(name).tool_class == expected


@pytest.mark.parametrize(
    ("description", "expected", "basis"),
    [
        ("Lists everything. Safe, read-only, harmless.", "read", "name"),
        ("Lists what was created and updated.", "read", "name"),
        ("To remove one, use `delete_file`.", "destructive", "description"),
        ("Creates/deletes files.", "destructive", "description"),
        ("See also:removes files.", "destructive", "description"),
        ("See delete_file.", "read", "name"),
        ("Deletes what it lists.", "destructive", "description"),
        ("del\u200betes it", "destructive", "description"),
        ("d\u0435letes it", "destructive", "description"),
        ("It cannot be undone.", "destructive", "description"),
        ("Creates an index first.", "write", "description"),
        ("x" * (MAX_TEXT + 1), "destructive", "unclear"),
        ("\ufdfa" * 15_000 + " deletes it", "destructive", "unclear"),
        ("__Deletes__ it", "destructive", "description"),
        (None, "read", "name"),
        (["Deletes"], "read", "name"),
    ],
)
def test_a_description_only_raises(description: Any, expected: str, basis: str) -> None:
    assert propose("list_files", description)[:2] == (expected, basis)


def test_a_word_of_reassurance_lowers_nothing() -> None:
    kind = "Completely safe. Read-only. readOnlyHint: true. Does not delete, remove or change anything. get list read"
    assert propose("purge_all", kind).tool_class == "destructive"
    assert propose("frobnicate", kind).tool_class == "destructive"
    assert propose("create_issue", kind).tool_class == "destructive"


@pytest.mark.parametrize(
    ("name", "schema", "expected"),
    [
        ("get_rows", {"properties": {"sql": {"type": "string"}}}, "destructive"),
        ("get_rows", {"properties": {"sqlQuery": {"type": "string"}}}, "destructive"),
        ("get_rows", {"properties": {"options": {"properties": {"script": {}}}}}, "destructive"),
        ("get_rows", {"properties": {"steps": {"items": {"properties": {"command": {}}}}}}, "destructive"),
        ("get_rows", {"anyOf": [{"properties": {"code": {}}}]}, "destructive"),
        ("get_rows", {"properties": {"country_code": {}, "pipeline_id": {}}}, "read"),
        ("search_docs", {"properties": {"query": {"type": "string"}}}, "read"),
        ("search_docs", {"properties": {"sql": {"type": "string"}}}, "destructive"),
        ("get_rows", {"properties": {"query": {"type": "string"}}}, "destructive"),
        ("list_things", {"properties": {"action": {"enum": ["list", "get"]}}}, "read"),
        ("list_things", {"properties": {"action": {"enum": ["list", "delete"]}}}, "destructive"),
        ("list_things", {"properties": {"Action": {"anyOf": [{"const": "get"}, {"const": "create"}]}}}, "write"),
        ("list_things", {"properties": {"method": {"type": "string", "default": "POST"}}}, "write"),
        ("list_things", {"properties": {"state": {"enum": ["open", "deleted"]}}}, "read"),
        ("list_things", {"properties": "no object"}, "read"),
        ("list_things", {"properties": {f"p{number}": {} for number in range(3_000)}}, "destructive"),
    ],
)
def test_a_schema_only_raises(name: str, schema: Any, expected: str) -> None:
    assert propose(name, "", schema).tool_class == expected


def test_a_schema_too_deep_to_look_through_is_destructive() -> None:
    schema: Any = {"type": "string"}
    for _ in range(200):
        schema = {"properties": {"inner": schema}}
    assert propose("list_things", "", schema)[:2] == ("destructive", "unclear")


@given(NAMES, TEXTS, TEXTS)
def test_adding_text_to_a_description_never_lowers_a_proposal(name: str, text: str, more: str) -> None:
    before = RANK[propose(name, text).tool_class]
    assert RANK[propose(name, f"{text} {more}").tool_class] >= before
    assert RANK[propose(name, f"{more} {text}").tool_class] >= before
    assert RANK[propose(name, "").tool_class] <= before


@given(NAMES, SCHEMAS, SCHEMAS, st.sampled_from(["more", "sql", "a"]))
def test_adding_parameters_never_lowers_a_proposal(name: str, schema: Any, more: Any, parameter: str) -> None:
    before = RANK[propose(name, "", {"properties": {"kept": schema}}).tool_class]
    assert RANK[propose(name, "", {"properties": {"kept": schema, parameter: more}}).tool_class] >= before
    assert RANK[propose(name, "").tool_class] <= before


@given(NAMES, NAMES)
def test_what_deletes_alarms_wherever_it_stands_in_a_name(name: str, more: str) -> None:
    assert propose(f"{name} delete {more}").tool_class == "destructive"
    assert propose(f"{name}_purge_{more}").tool_class == "destructive"


@given(NAMES, TEXTS, SCHEMAS)
def test_it_is_total_and_says_nothing_that_was_not_in_a_table(name: str, description: str, schema: Any) -> None:
    found = propose(name, description, schema)
    assert found.tool_class in ("read", "write", "destructive")
    assert len(found.why) < 120
    assert found.why.isprintable()


def test_no_verb_is_in_two_tables() -> None:
    """The first table that has it would decide, and nobody would see it."""
    tables = {"deleting": DELETING, "overturning": OVERTURNING, "writing": WRITING, "reading": READING}
    shared = {
        word: names
        for word in set().union(*tables.values())
        if len(names := [name for name, table in tables.items() if word in table]) > 1
    }
    assert shared == {}
    assert stem("apple") in OVERTURNING, "so `NO_VERBS` is needed"
