from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.core.search.tool_search import signature
from mcpproxy_py.core.values import Tool


def signed(properties: Any, required: Any = (), name: str = "f") -> str:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return signature(Tool("s", name, {"inputSchema": schema}, "unknown"))


def test_a_schema_becomes_one_line_in_its_own_order() -> None:
    shown = signed(
        {
            "title": {"type": "string"},
            "body": {"type": "string"},
            "labels": {"type": "array", "items": {"type": "string"}},
        },
        ["title"],
        "create_issue",
    )
    assert shown == "create_issue(title: string, body?: string, labels?: string[])"


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"type": ["string", "null"]}, "string|null"),
        ({"enum": ["open", "closed", 3, None, True]}, '"open"|"closed"|3|null|true'),
        ({"enum": list(range(20))}, "0|1|2|3|4|5|…"),
        ({"const": "x"}, '"x"'),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer|null"),
        ({"type": "array", "items": {"type": ["string", "integer"]}}, "(string|integer)[]"),
        ({"type": "array"}, "any[]"),
        ({"type": "object", "properties": {"deep": {}}}, "object"),
        ({"$ref": "https://evil.example/schema"}, "any"),
        ({"type": "strange"}, "any"),
        ({"type": [[]]}, "any"),
        ({"enum": [1 << 20_000]}, "integer"),
        (True, "any"),
        (None, "any"),
        ("string", "any"),
    ],
)
def test_a_type_is_said_shortly_or_called_any(schema: Any, shown: str) -> None:
    assert signed({"p": schema}) == f"f(p?: {shown})"


@pytest.mark.parametrize("wire", [{}, {"inputSchema": None}, {"inputSchema": []}, {"inputSchema": {"properties": 1}}])
def test_a_tool_without_a_readable_schema_takes_nothing(wire: dict[str, Any]) -> None:
    assert signature(Tool("s", "f", wire, "unknown")) == "f()"


def test_many_parameters_and_deep_types_are_cut() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(5_000):
        deep = {"type": "array", "items": deep}
    assert signed({"p": deep}) == "f(p?: any[][][])"
    assert signed({f"p{number}": {} for number in range(10_000)}).endswith(", …)")


def test_a_name_with_a_line_feed_stays_on_the_line() -> None:
    assert signed({"a\nb": {"const": "c\x1bd"}}, name="f\r\ng") == 'f  g(a b?: "c d")'


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=90),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "enum", "const", "anyOf", "oneOf", "items", "properties", "required"]) | st.text(),
            inner,
        )
    ),
    max_leaves=20,
)


@given(json_values, json_values)
def test_any_schema_gives_one_short_printable_line(properties: Any, schema: Any) -> None:
    for wire in ({"inputSchema": schema}, {"inputSchema": {"properties": {"p": schema}}}, {"inputSchema": properties}):
        shown = signature(Tool("s", "f", wire, "unknown"))
        assert shown.isprintable()
        assert len(shown) < 5_000
