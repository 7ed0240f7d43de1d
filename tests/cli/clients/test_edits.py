"""A client's file is edited and every other byte stays: what is put in is there, and taking it out leaves what was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpproxy_py.cli.clients import documents
from mcpproxy_py.cli.clients.documents import Syntax
from mcpproxy_py.cli.clients.editing import edits
from mcpproxy_py.cli.clients.editing.values import Addition, EditRefused, Undo

pytestmark = pytest.mark.proves("USE-1")

ENTRY = {"type": "stdio", "command": "/opt/mcp proxy/bin/mcpproxy", "args": ["stdio", "--data-dir", "/däta"]}
SERVER = Addition(("mcpServers", "mcpproxy"), ENTRY)
ALLOW = Addition(("permissions", "allow"), "mcp__mcpproxy__call_tool_read", is_item=True)
ASK = Addition(("permissions", "ask"), "mcp__mcpproxy__call_tool_write", is_item=True)
FILE = Path("/home/somebody/settings")

KEYS = st.sampled_from(["mcpServers", "permissions", "allow", "mcpproxy", "other", 'odd "key"', "ключ", "//", ""])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 10**20), st.floats(allow_nan=False, allow_infinity=False),
    st.text(alphabet='ab/*,:{}[]"\\\n\té\u2028', max_size=8),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(KEYS, below, max_size=4)),
    max_leaves=10,
)
SPACES = st.sampled_from(
    ["", "", " ", "\n", "\r\n", "\n  ", "\n\t", "  // a note, with {\n", "/* a */", " /* b\n c */ "]
)


@st.composite
def jsonc_texts(draw: st.DrawFn) -> str:
    """An object, printed as nobody would: space and comments anywhere, trailing commas now and then."""

    def printed(value: Any) -> str:
        if not isinstance(value, dict | list):
            return json.dumps(value, ensure_ascii=draw(st.booleans()))
        if isinstance(value, dict):
            items = [f"{json.dumps(key)}{space()}:{space()}{printed(below)}" for key, below in value.items()]
        else:
            items = [printed(below) for below in value]
        body = "".join(
            f"{space()}{item}{space()}{',' if number < len(items) or draw(st.booleans()) else ''}"
            for number, item in enumerate(items, 1)
        )
        return ("{%s}" if isinstance(value, dict) else "[%s]") % (body + space())

    def space() -> str:
        return draw(SPACES)

    value = draw(st.dictionaries(KEYS, VALUES, max_size=4))
    nothing = not value and draw(st.booleans())
    return draw(st.sampled_from(["", "\ufeff"])) + space() + ("" if nothing else printed(value)) + space()


@given(text=jsonc_texts(), additions=st.permutations([SERVER, ALLOW, ASK]))
@settings(max_examples=300, deadline=None)
def test_json_holds_what_was_put_in_and_is_byte_for_byte_as_before_when_it_is_taken_out(
    text: str, additions: list[Addition]
) -> None:
    before = documents.parse(text, Syntax.JSON, FILE)
    undos: list[Undo] = []
    edited = text
    for addition in additions:
        try:
            edited, undo = edits.add(edited, Syntax.JSON, addition, FILE)
        except EditRefused:
            assert not isinstance(at(before, addition.path[:-1]), dict) or addition.is_item
            continue
        undos += [undo] if undo else []
        found = at(documents.parse(edited, Syntax.JSON, FILE), addition.path)
        assert addition.value in found if addition.is_item else found == addition.value
    after = documents.parse(edited, Syntax.JSON, FILE)
    for key in before.keys() - {"mcpServers", "permissions"}:
        assert after[key] == before[key]
    for undo in reversed(undos):
        edited = edits.take_out(edited, Syntax.JSON, Undo.from_json(json.loads(json.dumps(undo.as_json()))), FILE)
    assert edited == text


def at(data: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        data = data.get(key, {}) if isinstance(data, dict) else None
    return data
