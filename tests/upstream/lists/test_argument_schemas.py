"""Argument schemas come from servers, so from anybody."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.core.pending_checks import CheckVerdict, PendingCheck
from mcpproxy_py.core.policy.tool_class import class_of
from mcpproxy_py.upstream.lists.build_tools import BadSchema, build_tools
from mcpproxy_py.upstream.schemas.argument_check import compile_check
from mcpproxy_py.upstream.schemas.check_workers import CheckWorkers
from mcpproxy_py.upstream.spec import UpstreamSpec

pytestmark = pytest.mark.proves("SEC-5")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec=None)), inner, max_size=4),
    max_leaves=20,
)


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"properties": {"a": schema}}
    return schema


def doubling(levels: int, ref: str = "#/$defs/d{}") -> dict[str, Any]:
    defs: dict[str, Any] = {
        f"d{n}": {"$anchor": f"d{n}", "allOf": [{"$ref": ref.format(n + 1)}] * 2} for n in range(levels)
    }
    defs[f"d{levels}"] = {"$anchor": f"d{levels}", "type": "object"}
    return {"properties": {"x": {"$ref": ref.format(0)}}, "$defs": defs}


@pytest.fixture
def tempting_server() -> Iterator[tuple[str, list[str]]]:
    """Somewhere inside; it notes who came."""
    visits: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            visits.append(self.path)
            self.send_error(404)

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", visits
    server.shutdown()
    server.server_close()
    thread.join(10)


def test_the_first_thing_wrong_is_named_with_its_place_and_without_its_value() -> None:
    violation = compile_check({"properties": {"a": {"items": {"properties": {"pin": {"type": "integer"}}}}}})
    assert violation({"a": [{"pin": 1}]}) is None
    assert violation({"a": [{"pin": "s3cret"}]}) == 'a[0].pin: the value is not of type "integer"'


def test_a_missing_argument_is_named() -> None:
    violation = compile_check({"type": "object", "required": ["query"]})
    assert violation({}) == 'arguments: "query" is a required property'


def test_a_schema_that_points_elsewhere_causes_no_request(tempting_server: tuple[str, list[str]]) -> None:
    origin, visits = tempting_server
    for schema in (
        {"$ref": f"{origin}/schema"},
        {"$schema": f"{origin}/meta"},
        {"$id": f"{origin}/base/", "$ref": "other.json"},
        {"properties": {"a": {"$dynamicRef": f"{origin}/dynamic#x"}}},
        {"$ref": "file:///etc/passwd"},
    ):
        with pytest.raises(BadSchema):
            compile_check(schema)
    assert visits == []


@pytest.mark.parametrize(
    "schema",
    [
        nested(300),
        nested(100_000),
        doubling(40),
        doubling(40, "#d{}"),
        {"type": 12},
        {"pattern": "("},
        {"description": "\ud800"},
        {"enum": [{"a": [1, 2, 3]}] * 60_000},
    ],
    ids=["deep", "very deep", "doubling", "doubling by anchors", "bad type", "bad pattern", "surrogate", "large"],
)
def test_a_schema_that_cannot_be_compiled_safely_is_refused_with_a_reason(schema: dict[str, Any]) -> None:
    with pytest.raises(BadSchema) as reason:
        compile_check(schema)
    assert 5 < len(str(reason.value)) <= 300


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"properties": {"a": {"$ref": "#"}, "b": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}},
    ],
)
def test_a_schema_that_refers_to_itself_is_checked(schema: dict[str, Any]) -> None:
    found = compile_check(schema)({"a": {"b": None}})
    assert (checked_apart(found).wrong if isinstance(found, PendingCheck) else found) is None


def checked_apart(pending: PendingCheck) -> CheckVerdict:
    async def run() -> CheckVerdict:
        workers = CheckWorkers()
        try:
            return await workers.check("s", pending)
        finally:
            await workers.aclose()

    return anyio.run(run)


def test_a_pattern_that_backtracks_for_ever_is_given_up() -> None:
    violation = compile_check({"properties": {"a": {"pattern": "^(?:(a+)\\1?)+$"}}})
    found = violation({"a": "a" * 60 + "!"})
    assert isinstance(found, PendingCheck)
    assert checked_apart(found).cannot is not None


@given(st.dictionaries(st.text(st.characters(codec=None)), JSON, max_size=5))
def test_no_arguments_make_the_check_raise(args: dict[str, Any]) -> None:
    schema = {"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": ["integer", "object"]}}
    found = compile_check(schema)(args)
    assert found is None or isinstance(found, PendingCheck) or (isinstance(found, str) and 0 < len(found) < 1000)


def test_deep_arguments_are_checked_without_a_crash() -> None:
    args: dict[str, Any] = {}
    for _ in range(5000):
        args = {"a": args}
    found = compile_check({"properties": {"a": {"$ref": "#"}}})(args)
    assert isinstance(found, PendingCheck)
    assert checked_apart(found).cannot is not None


def tools(listed: list[Any], **spec: Any) -> dict[str, Any]:
    return build_tools(UpstreamSpec("s", **spec), listed)


@pytest.mark.proves("UP-6")
def test_entries_that_are_no_tools_are_skipped_and_the_rest_is_kept_whole() -> None:
    good = {"name": "good", "inputSchema": {"type": "object"}, "x-new": {"a": [1]}}
    bad: list[Any] = [{}, {"name": 3}, {"name": ""}, {"name": "n" * 257, "inputSchema": {}}, {"name": "no schema"},
                      {"name": "bell\a", "inputSchema": {}}, {"name": "sur\ud800", "inputSchema": {}},
                      {"name": "s", "inputSchema": []}]  # fmt: skip
    built = tools([*bad, good, {**good, "x-new": "second"}])
    assert list(built) == ["good"]
    assert built["good"].wire is good


def test_a_tool_whose_schema_does_not_compile_stays_callable_and_says_why() -> None:
    tool = tools([{"name": "t", "inputSchema": {"$ref": "http://127.0.0.1:1/"}}])["t"]
    assert tool.violation is None
    assert tool.unchecked


@pytest.mark.proves("GATE-8")
@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"sql": "SELECT 1"}, "read"),
        ({"sql": "DROP x"}, "destructive"),
        ({"sql": "\ud800"}, "destructive"),
        (None, "destructive"),
    ],
)
def test_an_override_may_depend_on_the_arguments(args: dict[str, Any] | None, expected: str) -> None:
    reads = {"properties": {"sql": {"pattern": "^SELECT"}}, "required": ["sql"]}
    tool = tools([{"name": "t", "inputSchema": {}}], overrides={"t": (("read", reads), ("destructive", None))})["t"]
    assert class_of(tool, args) == (expected, "override")


@pytest.mark.proves("GATE-8")
def test_an_override_whose_condition_is_unusable_counts_as_destructive() -> None:
    broken = {"$ref": "http://127.0.0.1:1/"}
    tool = tools([{"name": "t", "inputSchema": {}}], overrides={"t": (("read", broken), ("read", None))})["t"]
    assert class_of(tool, {}) == ("destructive", "override")
