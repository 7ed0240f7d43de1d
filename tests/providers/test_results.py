"""What a tool answers, and that nothing internal leaks (PROV-3)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from mcpproxy_py.providers import Error, Link, Raw, Structured, Text, ToolError, ToolSpec
from mcpproxy_py.providers.results import Unsendable, as_wire, check_size
from tests.providers.helpers import Tools, of, served, text

pytestmark = [pytest.mark.proves("PROV-3"), pytest.mark.anyio]


class Model(BaseModel):
    a: int = 1


@dataclasses.dataclass
class Data:
    a: int = 1


LINK = Link("file:///a", "a", mime_type="text/plain")
WIRE_LINK = {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain"}


def item(said: str) -> dict[str, str]:
    return {"type": "text", "text": said}


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (None, {"content": [item("Success")]}),
        ("a", {"content": [item("a")]}),
        (Text("a"), {"content": [item("a")]}),
        (Error("no"), {"content": [item("no")], "isError": True}),
        (LINK, {"content": [WIRE_LINK]}),
        ([Text("a"), Error("no"), LINK, "b"], {"content": [item("a"), item("Error: no"), WIRE_LINK, item("b")]}),
        (Structured({"a": 1}), {"content": [item('{"a":1}')], "structuredContent": {"a": 1}}),
        (Structured({"a": 1}, "one"), {"content": [item("one")], "structuredContent": {"a": 1}}),
        ({"a": 1}, {"content": [item('{"a":1}')], "structuredContent": {"a": 1}}),
        (Model(), {"content": [item('{"a":1}')], "structuredContent": {"a": 1}}),
        (Data(), {"content": [item('{"a":1}')], "structuredContent": {"a": 1}}),
        (["a", "b"], {"content": [item('["a","b"]')]}),
        (3, {"content": [item("3")]}),
        (Raw({"content": [], "_meta": {"x": 1}}), {"content": [], "_meta": {"x": 1}}),
    ],
)
def test_each_kind_of_result_goes_out_in_its_own_way(value: Any, wire: dict[str, Any]) -> None:
    assert as_wire(value) == wire


@pytest.mark.parametrize(
    "value",
    [object(), {"a": object()}, Text(3), Structured([1]), Raw({"content": 3}), Raw({}), Link("", "x"), Link("u", 3),
     {1, 2, object()}, print, "".join],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
async def test_garbage_is_a_tool_error_that_shows_nothing_of_it(value: Any) -> None:
    result = await (await served(Tools(ToolSpec("f", lambda: value)))).call_tool("f", {})
    assert result["isError"] is True
    assert text(result) == "Tool 'f' gave an answer that cannot be sent; the gateway's log says why"


SCALARS = st.none() | st.booleans() | st.floats() | st.integers() | st.text() | st.binary()
KEYS = st.integers() | st.text()


@given(st.recursive(SCALARS, lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(KEYS, inner)))
def test_whatever_comes_back_is_a_result_that_can_be_sent_or_is_refused(value: Any) -> None:
    try:
        result = as_wire(value)
        check_size(result, 10**9)
    except Unsendable:
        return
    assert isinstance(result["content"], list)


async def test_an_exception_shows_nothing_of_itself(caplog: pytest.LogCaptureFixture) -> None:
    def f() -> None:
        raise RuntimeError("password hunter2 at /home/me")

    result = await (await of(f)).call_tool("f", {})
    assert result == {"content": [item("Tool 'f' failed; the gateway's log says why")], "isError": True}
    assert "hunter2" in caplog.text


async def test_a_tool_error_says_what_its_author_wrote() -> None:
    def f() -> None:
        raise ToolError("there is no such city")

    assert await (await of(f)).call_tool("f", {}) == {"content": [item("there is no such city")], "isError": True}


async def test_a_result_larger_than_allowed_is_refused() -> None:
    def f(n: int) -> str:
        return "x" * n

    made = await of(f, max_result_bytes=1000)
    assert "isError" not in await made.call_tool("f", {"n": 900})
    assert (await made.call_tool("f", {"n": 1000}))["isError"]


async def test_half_a_character_cannot_be_sent() -> None:
    def f() -> str:
        return "\ud800"

    assert (await (await of(f)).call_tool("f", {}))["isError"]


async def test_what_breaks_the_promised_schema_is_not_sent() -> None:
    def number() -> int:
        return "three"  # type: ignore[return-value]

    made = await of(number)
    assert (await made.call_tool("number", {}))["isError"]
    promise = {"type": "object", "required": ["a"]}
    for value in ({"b": 1}, "text", None):
        spec = ToolSpec("f", lambda value=value: value, input_schema={"type": "object"}, output_schema=promise)
        assert (await (await served(Tools(spec))).call_tool("f", {}))["isError"]
    spec = ToolSpec("f", lambda: Error("no"), output_schema=promise)
    assert text(await (await served(Tools(spec))).call_tool("f", {})) == "no"
