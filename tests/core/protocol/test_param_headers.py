"""Arguments repeated as headers, against the SDK's and by example."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp.shared import inbound as sdk

from mcpproxy_py.core.protocol.constants import HEADER_MISMATCH
from mcpproxy_py.core.protocol.headers import (
    ParamHeader,
    declared,
    disagreement,
    encode_header_value,
    mirrors,
    param_headers,
)

NAMES = ("a", "b", "c")
HUGE = 10**5000
"""More digits than Python writes, so Hypothesis must not meet it in a list of samples, which it prints."""
huge = st.builds(lambda: HUGE)

marks = st.sampled_from(["One", "Two", "one", "X-3"]) | st.sampled_from(["", "no token", "é", 1, None]) | huge
kinds = st.sampled_from(["string", "integer", "boolean"]) | st.sampled_from(["number", "object", ["string"], None, 1])
single = st.sampled_from(["items", "not", "if", "additionalProperties", "contentSchema", "default", "const", "$ref"])
listed = st.sampled_from(["allOf", "anyOf", "oneOf", "prefixItems", "enum", "examples"])
mapped = st.sampled_from(["properties", "patternProperties", "dependentSchemas", "$defs", "definitions", "default"])


def leaves(mark: st.SearchStrategy[Any], kind: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({}, optional={"x-mcp-header": mark, "type": kind})


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        st.tuples(single, inner).map(lambda pair: {pair[0]: pair[1]})
        | st.tuples(listed, st.lists(inner, max_size=2)).map(lambda pair: {pair[0]: pair[1]})
        | st.tuples(mapped | single | listed, st.dictionaries(st.sampled_from(NAMES), inner, max_size=2)).map(
            lambda pair: {pair[0]: pair[1]}
        )
    )


schemas = st.recursive(leaves(marks, kinds) | st.booleans() | st.none() | st.just([]), nested, max_leaves=8)

# Schemas that ask rightly, most of the time: a level or two of properties and distinct names for the headers.
good_leaf = leaves(st.sampled_from(["One", "Two", "X-3"]), st.sampled_from(["string", "integer", "boolean"]))
good_object = st.dictionaries(st.sampled_from(NAMES), good_leaf, max_size=3).map(lambda held: {"properties": held})
good_schemas = st.dictionaries(st.sampled_from(NAMES), good_leaf | good_object, max_size=3).map(
    lambda held: {"type": "object", "properties": held}
)
scalars = (
    st.sampled_from(["x", " é", "", 0, 42, 42.0, -1, 2**70, 1.5, 1e22, True, False, None])
    | huge
    | st.text(max_size=3)
    | st.integers()
    | st.floats()
)
arguments = st.dictionaries(
    st.sampled_from(NAMES),
    scalars | st.dictionaries(st.sampled_from(NAMES), scalars, max_size=3) | st.just([]),
    max_size=3,
)
said = st.sampled_from(["42", "42.0", "42.5", "42.", "-0", "4e1", "true", "=?base64?eA==?=", "=?base64?eB==?=", "x"])
headers = st.dictionaries(
    st.sampled_from(["Mcp-Param-One", "mcp-param-one", "mcp-param-two", "MCP-PARAM-X-3", "accept"]),
    said | st.text(st.characters(codec="ascii"), max_size=3) | st.just("9" * 5000),
    max_size=3,
)


@given(schemas | good_schemas)
def test_a_schema_asks_for_the_headers_that_the_sdk_finds_in_it(schema: Any) -> None:
    rightly = sdk.find_invalid_x_mcp_header(schema) is None
    theirs = sdk.x_mcp_header_map(schema) if rightly else {}
    assert {mirror.path: mirror.header for mirror in mirrors(schema)} == {
        path: f"Mcp-Param-{token}" for path, token in theirs.items()
    }


@given(good_schemas, arguments)
def test_a_call_sends_the_headers_that_the_sdk_sends(schema: dict[str, Any], args: dict[str, Any]) -> None:
    theirs = {} if sdk.find_invalid_x_mcp_header(schema) else sdk.mcp_param_headers(sdk.x_mcp_header_map(schema), args)
    assert param_headers(mirrors(schema), args) == theirs


@given(good_schemas | schemas, arguments, headers, st.booleans())
def test_headers_and_arguments_disagree_where_the_sdk_says_so(
    schema: Any, args: dict[str, Any], sent: dict[str, str], honest: bool
) -> None:
    sent = {**(param_headers(mirrors(schema), args) if honest else {}), **sent}
    theirs = sdk.validate_mcp_param_headers(schema, args, sent)
    ours = disagreement(mirrors(schema), args, sent.items())
    assert (ours and (ours.code, ours.data)) == (theirs and (theirs.code, theirs.data))


@given(good_schemas, arguments)
@example({"properties": {"a": {"type": "integer", "x-mcp-header": "One"}}}, {"a": HUGE})
def test_what_a_call_sends_agrees_with_what_it_says(schema: dict[str, Any], args: dict[str, Any]) -> None:
    declared = mirrors(schema)
    assert disagreement(declared, args, param_headers(declared, args).items()) is None


REGION = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "page": {"type": "object", "properties": {"size": {"type": "integer", "x-mcp-header": "Size"}}},
    },
}
ARGS = {"region": "Köln", "page": {"size": 42}, "q": "x"}


def test_the_arguments_a_tool_asks_for_go_out_as_headers() -> None:
    assert set(mirrors(REGION)) == {
        ParamHeader(("region",), "Mcp-Param-Region"),
        ParamHeader(("page", "size"), "Mcp-Param-Size", integer=True),
    }
    assert param_headers(mirrors(REGION), ARGS) == {
        "Mcp-Param-Region": encode_header_value("Köln"),
        "Mcp-Param-Size": "42",
    }


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"mcp-param-region": None}, "is missing"),
        ({"mcp-param-region": "Bonn"}, "must say what the argument region says"),
        ({"mcp-param-region": "=?base64?S/ZsbiA?="}, "must say what the argument region says"),
        ({"mcp-param-size": "42.5"}, "must say what the argument page.size says"),
        ({"mcp-param-size": "42.00"}, None),
    ],
)
def test_a_header_that_does_not_repeat_its_argument_is_refused(
    change: dict[str, str | None], complaint: str | None
) -> None:
    honest = {name.lower(): value for name, value in param_headers(mirrors(REGION), ARGS).items()}
    sent = [(name, value) for name, value in {**honest, **change}.items() if value is not None]
    found = disagreement(mirrors(REGION), ARGS, sent)
    assert (found is None) if complaint is None else (found is not None and complaint in found.message)


def test_a_header_without_its_argument_is_refused_as_a_proxy_may_have_routed_by_it() -> None:
    found = disagreement(mirrors(REGION), {}, [("Mcp-Param-Region", "x")])
    assert found is not None and found.code == HEADER_MISMATCH


def test_a_header_sent_twice_is_refused_even_when_both_say_the_same() -> None:
    found = disagreement(mirrors(REGION), {"region": "x"}, [("Mcp-Param-Region", "x"), ("mcp-param-region", "x")])
    assert found is not None and "only once" in found.message


@pytest.mark.parametrize(
    "schema",
    [
        {"x-mcp-header": "A", "type": "string"},
        {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}},
        {"properties": {"a": {"items": {"type": "string", "x-mcp-header": "A"}}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": "A: b"}}},
        {"properties": {n: {"type": "string", "x-mcp-header": h} for n, h in (("a", "A"), ("b", "a"))}},
    ],
)
def test_a_schema_that_asks_wrongly_anywhere_gets_no_headers_at_all(schema: dict[str, Any]) -> None:
    right = {"properties": {"z": {"type": "string", "x-mcp-header": "Z"}}}
    both = {**schema, "properties": {**schema.get("properties", {}), **right["properties"]}}
    assert mirrors(right) and not mirrors(both)
    assert isinstance(declared(both), str), "and the reason is told"


def test_a_schema_ten_thousand_levels_deep_is_walked_like_any_other() -> None:
    schema: dict[str, Any] = {"type": "string", "x-mcp-header": "Deep"}
    for _ in range(10_000):
        schema = {"properties": {"a": schema}}
    assert [len(mirror.path) for mirror in mirrors(schema)] == [10_000]
