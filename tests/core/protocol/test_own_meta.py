"""Keys of `_meta` that are ours to write, in whatever spelling and at whatever depth somebody else writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py import jsonrpc
from mcpproxy_py.core.policy import tool_results
from mcpproxy_py.core.protocol.own_meta import is_own, may_hold_own, remove_own

pytestmark = pytest.mark.proves("GATE-5")

OURS = [
    "mcpproxy/refusal", "mcpproxy", "MCPPROXY/x", "McpProxy.y/x", "ｍｃｐproxy/x", "mcpproxy／x", "mcp\u200bproxy/x",
    "\ufeffmcpproxy/x", " mcpproxy/x", "mcpproxy:x", "mcpproxy-x/y",
]  # fmt: skip
OTHERS = ["vendor/x", "mcpproxying/x", "x.mcpproxy/y", "io.github.mcpproxy/catalog", "progressToken", ""]


@pytest.mark.parametrize("key", [*OURS, tool_results.REFUSAL_KEY, tool_results.WARNING_KEY, tool_results.CONFIRM_KEY])
def test_what_could_be_taken_for_ours_is_ours(key: str) -> None:
    assert is_own(key)


@pytest.mark.parametrize("key", OTHERS)
def test_others_keep_theirs(key: str) -> None:
    assert not is_own(key)


KEYS = st.sampled_from([*OURS, *OTHERS, "_meta", "a"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([*OURS, "_meta", "é"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


def left(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(left, value))
    if not isinstance(value, dict):
        return 0
    meta = value.get("_meta")
    here = sum(map(is_own, meta)) if isinstance(meta, dict) else 0
    return here + sum(map(left, value.values()))


def cleaned(value: Any, meta: bool = False) -> Any:
    """The same by another way."""
    if isinstance(value, list):
        return [cleaned(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: cleaned(each, key == "_meta") for key, each in value.items() if not (meta and is_own(key))}


@given(JSON, st.booleans())
def test_whatever_a_server_writes_and_however_none_is_left_and_nothing_else_is_lost(value: Any, escaped: bool) -> None:
    text = json.dumps(value, ensure_ascii=escaped)
    if escaped:
        text = text.replace("mcp", "\\u006dcp").replace("_meta", "\\u005fmeta")
    read = jsonrpc.decode(text.encode())
    assert left(read) == 0
    assert read == cleaned(value)


@given(JSON)
def test_what_holds_one_is_looked_at(value: Any) -> None:
    """The quick look at the bytes never says no where there is one."""
    for escaped in (True, False):
        assert left(value) == 0 or may_hold_own(json.dumps(value, ensure_ascii=escaped).encode())
    many = left(value)
    assert (remove_own(value) == 0) == (many == 0)
