"""A client's file is edited and every other byte stays: what is put in is there, and taking it out leaves what was."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpproxy_py.cli.clients import diff, documents
from mcpproxy_py.cli.clients.documents import Syntax
from mcpproxy_py.cli.clients.editing import edits, toml_edit
from mcpproxy_py.cli.clients.editing.values import Addition, EditRefused, Undo
from mcpproxy_py.errors import GatewayError

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


TOML_ENTRY = {"command": "/opt/mcpproxy", "args": ["stdio"], "tools": {"call_tool_read": {"approval_mode": "approve"}}}
TABLE = Addition(("mcp_servers", "mcpproxy"), TOML_ENTRY)
EXTENSION = Addition(("extensions", "mcpproxy"), {"enabled": True, "cmd": "/opt/mcpproxy", "args": ["stdio"]})
ALWAYS = Addition(("user", "always_allow"), "mcpproxy__call_tool_read", is_item=True)
TOMLS = [
    "", "\ufeff", "# only a comment", 'model = "x"', "[a]\r\nb = 1\r\n", "mcp_servers.foo.command = 'x'\n",
    '[mcp_servers.foo]\ncommand = "x"\n\n# of the next\n[tui]\n', "[[x]]\na = 1\n", "[mcp_servers]\n",
    'a = """\n[mcp_servers.mcpproxy]\n"""\n',
]  # fmt: skip
YAMLS = [
    "", "# only a comment\n", "GOOSE_MODE: auto", "extensions:\n  d:\n    enabled: true\n    # note\n\n# tail\nx: 1\n",
    "extensions: {}\nx: 1\n", "extensions:\nuser:\n", "extensions: # none\n", "{a: 1}", "---\na: 1\n",
    "a: 1\r\nextensions:\r\n    d: {e: 1}\r\n", "user:\n  always_allow:\n  - a\n  # note\n  ask_before: [x]\n",
    "user: {always_allow: [a, b]}\n", "user:\n    always_allow:\n        - 'a'\n        - b",
    "extensions:\n  a: |\n    t\n",
]  # fmt: skip


@pytest.mark.parametrize("text", TOMLS)
def test_toml_holds_what_was_put_in_and_is_as_before_when_it_is_taken_out(text: str) -> None:
    edited, undo = edits.add(text, Syntax.TOML, TABLE, FILE)
    assert undo is not None
    assert tomllib.loads(edited.removeprefix("\ufeff"))["mcp_servers"]["mcpproxy"] == TOML_ENTRY
    assert edited.startswith(text)
    assert edits.take_out(edited, Syntax.TOML, undo, FILE) == text


@pytest.mark.parametrize("text", YAMLS)
@pytest.mark.parametrize("addition", [EXTENSION, ALWAYS], ids=["object", "item"])
def test_yaml_holds_what_was_put_in_and_is_as_before_when_it_is_taken_out(text: str, addition: Addition) -> None:
    edited, undo = edits.add(text, Syntax.YAML, addition, FILE)
    assert undo is not None
    found = at(yaml.safe_load(edited), addition.path)
    assert addition.value in found if addition.is_item else found == addition.value
    assert edits.take_out(edited, Syntax.YAML, undo, FILE) == text


@pytest.mark.parametrize(
    ("text", "syntax", "addition"),
    [
        ("[mcp_servers.mcpproxy]\na = 1\n# of the next\n[b]\n", Syntax.TOML, TABLE),
        ('[mcp_servers."mcpproxy"]\na = 1\n[mcp_servers.mcpproxy.env]\nB = "c"\n', Syntax.TOML, TABLE),
        ("extensions:\n  mcpproxy:\n    cmd: old\n  b: {c: 1}\n# tail\n", Syntax.YAML, EXTENSION),
        ('{"mcpServers": {"mcpproxy": {"a": 1}, // x\n "b": {}}}', Syntax.JSON, SERVER),
    ],
)
def test_an_entry_of_that_name_is_replaced_and_comes_back(text: str, syntax: Syntax, addition: Addition) -> None:
    before = documents.parse(text, syntax, FILE)
    edited, undo = edits.add(text, syntax, addition, FILE)
    assert undo is not None and at(documents.parse(edited, syntax, FILE), addition.path) == addition.value
    again = edits.take_out(edited, syntax, undo, FILE)
    assert documents.parse(again, syntax, FILE) == before
    assert again.count("# tail") == text.count("# tail") and again.count("# of the next") == text.count("# of the next")


@pytest.mark.parametrize(
    ("text", "syntax", "addition"),
    [
        ("mcp_servers = {gh = {command = 'x'}}\n", Syntax.TOML, TABLE),
        ("[mcp_servers]\nmcpproxy = {command = 'o'}\n", Syntax.TOML, TABLE),
        ("extensions: []\n", Syntax.YAML, EXTENSION), ("- a\n", Syntax.YAML, EXTENSION),
        ("user:\n  always_allow: all\n", Syntax.YAML, ALWAYS), ("a: 1\n...\n", Syntax.YAML, EXTENSION),
        ('{"mcpServers": [1]}', Syntax.JSON, SERVER), ('{"permissions": {"allow": "all"}}', Syntax.JSON, ALLOW),
    ],
)  # fmt: skip
def test_a_shape_that_is_not_known_is_refused(text: str, syntax: Syntax, addition: Addition) -> None:
    with pytest.raises(GatewayError):
        edits.add(text, syntax, addition, FILE)


@pytest.mark.parametrize("text", ['{"mcpServers": {}}', '{\n  "mcpServers": {"a": {"b": 1}}, // x\n}\n', ""])
def test_servers_that_others_add_after_ours_stay(text: str) -> None:
    edited, undo = edits.add(text, Syntax.JSON, SERVER, FILE)
    theirs, _ = edits.add(edited, Syntax.JSON, Addition(("mcpServers", "theirs"), {"command": "x"}), FILE)
    assert undo is not None
    left = documents.parse(edits.take_out(theirs, Syntax.JSON, undo, FILE), Syntax.JSON, FILE)
    assert "mcpproxy" not in left["mcpServers"] and left["mcpServers"]["theirs"] == {"command": "x"}


SECRETS = {"API_KEY": "hunter2hunter2", "Authorization": "Bearer abc.def.ghi", "X": "plain-but-in-env"}


@pytest.mark.parametrize("syntax", [Syntax.JSON, Syntax.YAML, Syntax.TOML])
def test_a_difference_shows_no_secret_of_the_lines_around_it(syntax: Syntax) -> None:
    entry = {"command": "npx", "args": ["--api-key", "sk-abcdefghijklmnop123456"], "env": SECRETS, "headers": SECRETS,
             "url": "https://user:pa55word@x/mcp?api_key=hunter2hunter2"}  # fmt: skip
    write = {Syntax.JSON: json.dumps, Syntax.YAML: yaml.safe_dump, Syntax.TOML: lambda data: as_toml(data["s"])}[syntax]
    shown = diff.masked(write({"s": {"a": entry}}), syntax)
    for secret in (*SECRETS.values(), "abc.def.ghi", "sk-abcdefghijklmnop123456", "pa55word"):
        assert secret not in shown
    assert "npx" in shown and "API_KEY" in shown
    kept = '{"headers": {"Authorization": "Bearer ${TOKEN}"}, "env": {"A": "$B", "C": "{env:D}"}}'
    assert diff.masked(kept, Syntax.JSON) == kept


def as_toml(servers: dict[str, Any]) -> str:
    return "\n".join(toml_edit.table_text(("s", name), value) for name, value in servers.items())


@pytest.mark.parametrize("syntax", [Syntax.JSON, Syntax.YAML, Syntax.TOML])
def test_a_difference_far_down_has_its_line_numbers_and_no_secret_beside_it(syntax: Syntax) -> None:
    rows = {f"k{number}": number for number in range(200)}
    entry = {"cmd": "x", "env": {"API_KEY": "hunter2hunter2"}}
    before, after = ({**rows, "s": {**entry, "cmd": said}} for said in ("x", "changed"))
    write = {Syntax.JSON: lambda data: json.dumps(data, indent=1),
             Syntax.YAML: lambda data: yaml.safe_dump(data, sort_keys=False),
             Syntax.TOML: lambda data: toml_edit.table_text(("t",), data)}[syntax]  # fmt: skip
    lines = diff.difference(FILE, write(before), write(after), syntax, None)
    text = "\n".join(lines)
    assert "hunter2" not in text and "API_KEY" in text and len(lines) < 16
    changed = next(number for number, line in enumerate(write(after).splitlines(), 1) if "changed" in line)
    first = int(lines[2].split("+")[1].split(",")[0])
    assert lines[2].startswith("@@") and first <= changed <= first + 3
