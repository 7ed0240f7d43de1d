"""The routing headers and their spelling, against the SDK's and by example."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp.shared import inbound as sdk

from mcpproxy_py.core.protocol import headers
from mcpproxy_py.core.protocol.headers import decode_header_value, duplicated_routing_header, encode_header_value

values = (
    st.text()
    | st.text(st.characters(min_codepoint=0x1E, max_codepoint=0x80), max_size=8)
    | st.text().map(lambda inner: f"=?base64?{inner}?=")
    | st.text("ABab01+/=", max_size=8).map(lambda inner: f"=?base64?{inner}?=")
)
lines = st.lists(
    st.tuples(st.sampled_from(["mcp-name", "Mcp-Name", "MCP-METHOD", "mcp-method", "accept", "Mcp-Param-X"]), st.text())
)


@given(values)
@example("=?base64?=")
@example(" a")
@example("a\n")
def test_a_text_is_spelled_as_the_sdk_spells_it_and_comes_back_whole(text: str) -> None:
    spelled = encode_header_value(text)
    assert spelled == sdk.encode_header_value(text)
    assert decode_header_value(spelled) == text


@given(st.none() | values)
@example("=?base64?YQ==\n?=")
@example("=?base64?YR==?=")
@example("=?base64?/w==?=")
def test_a_header_is_read_as_the_sdk_reads_it(value: str | None) -> None:
    try:
        theirs = sdk.decode_header_value(value)
    except ValueError:  # base64 that is not even ASCII is an exception in the SDK
        theirs = None
    assert decode_header_value(value) == theirs


@given(lines)
def test_a_routing_header_sent_twice_is_found_as_the_sdk_finds_it(sent: list[tuple[str, str]]) -> None:
    assert duplicated_routing_header(sent) == sdk.find_duplicated_routing_header(sent)


@pytest.mark.parametrize(
    ("text", "spelled"),
    [("get_time", "get_time"), ("two words", "two words"), ("", ""), (" edge", "=?base64?IGVkZ2U=?="),
     ("ö", "=?base64?w7Y=?="), ("a\r\nx: y", "=?base64?YQ0KeDogeQ==?="),
     ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?=")],
)  # fmt: skip
def test_a_text_that_would_not_survive_the_way_is_wrapped(text: str, spelled: str) -> None:
    assert encode_header_value(text) == spelled


def test_the_names_are_those_of_the_sdk() -> None:
    assert headers.PROTOCOL_VERSION == sdk.MCP_PROTOCOL_VERSION_HEADER
    assert headers.METHOD == sdk.MCP_METHOD_HEADER
    assert headers.NAME == sdk.MCP_NAME_HEADER
    core = {method: name for method, name in headers.NAMED_BY.items() if not method.startswith("tasks/")}
    assert core == sdk.NAME_BEARING_METHODS, "the SDK does not know the extension of tasks"
