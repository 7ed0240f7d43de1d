"""Whatever stands in a client's file: an entry of ours that our settings accept, or a reason, and never a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpproxy_py.cli.clients.known import CLIENTS
from mcpproxy_py.cli.importing.convert import converted
from mcpproxy_py.cli.importing.names import free_name, valid_name
from mcpproxy_py.cli.importing.plain_secrets import likeness, plain_secrets, start_shown, with_references
from mcpproxy_py.cli.importing.plan import PresentServers, planned
from mcpproxy_py.cli.importing.reading import ForeignServer
from mcpproxy_py.cli.importing.variables import ImportPlace
from mcpproxy_py.settings import check_name, validate_text

KEYS = st.sampled_from([
    "command", "cmd", "args", "env", "envs", "environment", "url", "httpUrl", "serverUrl", "uri", "headers", "type",
    "transport", "transportType", "source", "enabled", "disabled", "timeout", "tool_timeout_sec", "startup_timeout_sec",
    "cwd", "envFile", "env_keys", "env_vars", "bearer_token_env_var", "env_http_headers", "http_headers", "lazy",
    "includeTools", "excludeTools", "enabled_tools", "autoApprove", "trust", "oauth", "sessions", "max_concurrency",
    "settings", "//",
])  # fmt: skip
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from([
        "npx", "https://a.example/mcp", "https://u:p4ss-W0rd@a.example/sse?token=abcdef123456", "${VAR}", "${VAR:-x}",
        "$VAR", "${env:VAR}", "{env:VAR}", "{file:~/x}", "${input:x}", "${workspaceFolder}", "${file:/x}", "${a:b}",
        "stdio", "http", "sse", "local", "remote", "builtin", "--token", "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "\x1b[31mred", "\0", "\ud800", "./x", "Bearer abcdef0123456789", "../..", "API_KEY", "Authorization",
    ]),
)  # fmt: skip
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=8,
)
LIKELY = st.fixed_dictionaries(
    {},
    optional={
        "command": TEXTS, "args": st.lists(TEXTS, max_size=4), "env": st.dictionaries(TEXTS, TEXTS, max_size=3),
        "url": TEXTS, "headers": st.dictionaries(TEXTS, TEXTS, max_size=3), "timeout": st.floats() | st.integers(),
        "cwd": TEXTS, "includeTools": st.lists(TEXTS, max_size=3), "disabled": st.booleans(),
    },
)  # fmt: skip
ENTRIES = st.one_of(VALUES, st.dictionaries(KEYS, VALUES, max_size=6), LIKELY)
CLIENT = st.sampled_from([*CLIENTS, "file", "nobody"])
PLACE = ImportPlace("/home/me", {"VAR": "value"}, "/home/me", "/work/app", {"x": "answer"}, lambda path: {"A": "b"})


@pytest.mark.proves("USE-1")
@settings(max_examples=400, deadline=None)
@given(client=CLIENT, raw=ENTRIES)
def test_an_entry_is_accepted_by_our_settings_or_refused_with_a_reason(client: str, raw: Any) -> None:
    made = converted(client, "it", raw, PLACE)
    if made.config is None:
        assert made.why and made.why.isprintable()
        return
    text = json.dumps({"mcpServers": {"it": made.config}})
    assert validate_text(text, origin="it") == []
    assert not any(control in " ".join(made.notes) for control in ("\x1b", "\0", "\n"))
    start_shown(made.config)


@settings(max_examples=300, deadline=None)
@given(client=CLIENT, raw=LIKELY)
def test_references_stand_for_the_secrets_and_for_nothing_else(client: str, raw: Any) -> None:
    made = converted(client, "it", raw, PLACE)
    if made.config is None:
        return
    found = plain_secrets(made.config, made.secrets)
    references = {each.place: f"${{keyring:{number}}}" for number, each in enumerate(found)}
    done = with_references(made.config, references, found)
    back = json.dumps(done)
    for each in found:
        assert each.value not in start_shown(done) or len(each.value) < 6
        back = back.replace(json.dumps(references[each.place])[1:-1], json.dumps(each.value)[1:-1])
    assert json.loads(back) == json.loads(json.dumps(made.config))
    assert validate_text(json.dumps({"mcpServers": {"it": done}}), origin="it") == []


@settings(max_examples=300, deadline=None)
@given(name=st.text(max_size=80), taken=st.lists(st.text(max_size=40), max_size=5))
def test_a_name_becomes_valid_and_free(name: str, taken: list[str]) -> None:
    made = valid_name(name)
    assert check_name(made) == made
    free = free_name(made, {made, *taken})
    assert check_name(free) == free and free not in taken


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(CLIENT, st.text(max_size=8), LIKELY), max_size=6), st.booleans())
def test_a_plan_has_a_row_for_each_and_no_name_twice(found: list[tuple[str, str, Any]], replacing: bool) -> None:
    here = {"time": {"command": "uvx", "args": ["mcp-server-time"]}}
    pairs = [
        (ForeignServer(client, Path("/x/file.json"), ("mcpServers", name), raw), converted(client, name, raw, PLACE))
        for client, name, raw in found
    ]
    rows = planned(pairs, PresentServers(here, {"weather"}, ["http://127.0.0.1:8080"]), replacing=replacing)
    assert [row.server for row in rows] == [server for server, _ in pairs]
    names = [row.name for row in rows if row.action == "take"]
    assert len(set(names)) == len(names) and not {"time", "weather", "catalog"} & set(names)
    json.dumps([row.as_json() for row in rows])


def test_likeness_sees_through_secrets() -> None:
    plain = {"command": "x", "args": ["--token", "abcdef123"], "env": {"API_KEY": "k"}}
    kept = {"command": "x", "args": ["--token", "${keyring:it.token}"], "env": {"API_KEY": "${file:/x}"}}
    assert likeness(plain) == likeness(kept) != likeness({**plain, "command": "y"})
