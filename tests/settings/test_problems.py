"""What is wrong is said where it is, with what was expected and what is near, all at once, without secrets."""

# ruff: noqa: E501 (one case, one line)
from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.settings import load, validate_text

pytestmark = pytest.mark.proves("CONF-1")

ONE_OF = "expected exactly one of `command` and `url`, and there is"
NAME = "is not valid; expected a name of 1 to 32 of `a-z 0-9 _ -`"


def server(**config: Any) -> dict[str, Any]:
    return {"mcpServers": {"db": config}}


def override(entries: Any) -> dict[str, Any]:
    return server(command="c", tools={"sql": entries})


WRONG: list[tuple[Any, str]] = [
    # Keys
    ({"listn": "x"}, "f.json: listn is not a known key; did you mean `listen`?"),
    ({"Listen": "127.0.0.1:1"}, "f.json: Listen is not a known key; did you mean `listen`?"),
    ({"mcpservers": {}}, "f.json: mcpservers is not a known key; did you mean `mcpServers`?"),
    ({"limits": {"max_sesions": 1}}, "f.json: limits.max_sesions is not a known key; did you mean `max_sessions`?"),
    (
        {"strict_server_validation": False},
        "strict_server_validation is not a known key; did you mean `intent_declaration.strict_server_validation`?",
    ),
    ({"_env_file": "x"}, "f.json: _env_file is not a known key"),
    ({"zzz": 1}, "zzz is not a known key; known here are activity, allowed_hosts,"),
    ({"mcpServers": {"github": {"comand": "npx"}}}, "mcpServers.github.comand is not a known key; did you mean `command`?"),
    (server(command="c", name="db"), "mcpServers.db.name is not a known key"),
    (override([{"klass": "read"}]), "mcpServers.db.tools.sql.0.class is missing"),
    # Values
    ({"surfaces": ["gate", "passthru"]}, "surfaces.1: 'passthru' is not valid; expected 'gate', 'direct' or 'passthrough'"),
    ({"surfaces": ["gate", "passthru"]}, "; did you mean 'passthrough'?"),
    ({"surfaces": "gate"}, "surfaces: text is not valid; expected a list"),
    ({"require_mcp_auth": "no"}, "require_mcp_auth: 'no' is not valid; expected true or false"),
    ({"require_mcp_auth": 0}, "require_mcp_auth: 0 is not valid; expected true or false"),
    ({"limits": {"max_sessions": 0}}, "limits.max_sessions: 0 is not valid; expected 1 or more"),
    ({"limits": {"max_sessions": 1.5}}, "limits.max_sessions: 1.5 is not valid; expected a whole number"),
    ({"limits": {"max_sessions": True}}, "limits.max_sessions: true is not valid; expected a whole number"),
    ({"limits": []}, "limits: a list is not valid; expected an object"),
    ({"shutdown_timeout": -1}, "shutdown_timeout: -1 is not valid; expected more than 0"),
    ({"log": {"level": "warn"}}, "log.level: 'warn' is not valid; expected 'debug', 'info', 'warning' or 'error'"),
    ({"log": {"level": "warn"}}, "did you mean 'warning'?"),
    ({"intent_declaration": {"schema": "falt"}}, "intent_declaration.schema: 'falt' is not valid; expected 'nested' or 'flat'"),
    *[
        ({"listen": listen}, f"listen: '{listen}' is not valid; expected HOST:PORT such as 127.0.0.1:8080 or [::1]:8080")
        for listen in ("", ":", "65536", ":65536", "127.0.0.1", "127.0.0.1:65536", "::1:80", "[127.0.0.1]:80", "http://x:1", "a b:1", "x:-1", "x:٣")
    ],
    ({"allowed_hosts": ["http://x"]}, "allowed_hosts.0: 'http://x' is not valid; expected a host such as example.com"),
    ({"allowed_origins": ["x.com"]}, "allowed_origins.0: 'x.com' is not valid; expected an origin such as https://example.com"),
    ({"allowed_origins": ["null"]}, "allowed_origins.0: 'null' is not valid"),
    ({"activity": {"database_url": "nowhere"}}, "activity.database_url: *** is not valid; expected a database address"),
    ({"mcp_token": ""}, "mcp_token: *** is not valid; expected a token of visible ASCII characters"),
    ({"api_key": "two words"}, "api_key: *** is not valid; expected a token of visible ASCII characters"),
    # Servers
    ({"mcpServers": {"none": {}}}, f"mcpServers.none: {ONE_OF} neither"),
    ({"mcpServers": {"both": {"command": "a", "url": "http://x"}}}, f"mcpServers.both: {ONE_OF} both"),
    ({"mcpServers": {"a": "npx"}}, "mcpServers.a: text is not valid; expected an object"),
    ({"mcpServers": "x"}, "mcpServers: text is not valid; expected an object"),
    ({"mcpServers": [{"command": "x"}]}, "expected an object by name, or a list of objects that each have a `name`"),
    ({"mcpServers": [{"name": "a", "command": "x"}] * 2}, "mcpServers: expected one server of each name; two servers are named 'a'"),
    ({"mcpServers": {"catalog": {"command": "x"}}}, "the name 'catalog' is not valid; expected another name: catalog is the built-in upstream"),
    *[
        ({"mcpServers": {name: {"command": "x"}}}, NAME)
        for name in ("", "A", "a__b", "-a", "_a", "a.b", "a:b", "ä", "a" * 33, "a\n")
    ],
    (server(command=" "), "mcpServers.db.command: ' ' is not valid; expected text that is not empty"),
    (server(command="c", args="x"), "mcpServers.db.args: text is not valid; expected a list"),
    (server(command="c", args=["a\0b"]), "expected text without NUL characters"),
    (server(command="c", env={"A=B": "x"}), "the name 'A=B' is not valid; expected the name of an environment variable"),
    (server(command="c", env={"PORT": 80}), "mcpServers.db.env.PORT: *** is not valid; expected text"),
    (server(command="c", headers={"A": "b"}), "mcpServers.db: expected no `headers`, because transport is stdio"),
    (server(url="http://x", env={"A": "b"}), "mcpServers.db: expected no `env`, because transport is http"),
    (server(url="x.com/mcp"), "mcpServers.db.url: 'x.com/mcp' is not valid; expected an address such as https://example.com/mcp"),
    (server(url="file:///etc/passwd"), "expected an address such as https://example.com/mcp"),
    (server(url="http://x:99999"), "expected an address such as https://example.com/mcp"),
    (server(url="http://x", headers={"A": "b\r\nC: d"}), "mcpServers.db.headers.A: *** is not valid; expected one line of text"),
    (server(url="http://x", headers={"A b": "c"}), "the name 'A b' is not valid; expected a header name such as Authorization"),
    (server(url="http://x", type="htp"), "mcpServers.db.type: 'htp' is not valid; expected 'stdio', 'http' or 'sse'; did you mean 'http'?"),
    (server(url="http://x", type="stdio"), "mcpServers.db: expected `command`, because transport is stdio"),
    (server(command="x", transport="sse"), "mcpServers.db: expected `url`, because transport is sse"),
    (server(url="http://x", type="http", transport="http"), "expected `transport` or `type`, not both"),
    (server(command="c", timeout=0), "mcpServers.db.timeout: 0 is not valid; expected more than 0"),
    (server(command="c", confirm="always"), "mcpServers.db.confirm: 'always' is not valid; expected 'none', 'write' or 'destructive'"),
    (server(command="c", disabled=True), "mcpServers.db.disabled is not a known key; did you mean `enabled`?"),
    # Overrides
    (override("unknown"), "mcpServers.db.tools.sql: 'unknown' is not valid; expected 'read', 'write' or 'destructive'"),
    (override([]), "mcpServers.db.tools.sql: expected a last entry without `when`"),
    (override([{"when": {}, "class": "read"}]), "mcpServers.db.tools.sql: expected a last entry without `when`"),
    (override([{"class": "read"}, {"class": "write"}]), "expected `when` in every entry but the last"),
    (override([{"when": {"type": "strng"}, "class": "read"}, {"class": "write"}]), "expected a JSON Schema in `when` that compiles"),
    (override([{"when": {"$ref": "http://127.0.0.1:9/x"}, "class": "read"}, {"class": "write"}]), "is not fetched"),
    # References
    (server(command="c", args=["${input:x}"]), "mcpServers.db.args.0: ${input:x} has no value: it is not one of ${env:NAME}"),
    ({"mcp_token": "${env:}"}, "mcp_token: ${env:} has no value"),
    # Text
    ('{"a": 1,}', "f.json: not valid JSON at line 1, column 9: "),
    ('{\n  "listen": "x"\n  "log": {}\n}', "f.json: not valid JSON at line 3, column 3: Expecting ',' delimiter"),
    ("", "f.json: not valid JSON at line 1, column 1: "),
    ("[]", "f.json: expected an object: { ... }"),
    ("[" * 100_000, "f.json: nested deeper than 100 levels"),
    ('{"a": ' * 101 + "1" + "}" * 101, "nested deeper than 100 levels"),
    ('{"shutdown_timeout": NaN}', "f.json: not valid JSON: NaN is not a JSON number"),
    ('{"shutdown_timeout": 1e999}', "f.json: not valid JSON: the number 1e999 is too large"),
    ('{"listen": "\\ud800"}', "f.json: listen holds half of a character (a lone surrogate)"),
    ('{"listen": "127.0.0.1:1", "listen": "0.0.0.0:1"}', "f.json: the key 'listen' stands twice; keep one"),
    ('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}', "f.json: mcpServers: two servers are named 'a'; rename or remove one"),
    ('{"mcpServers": {"a": {"command": "x", "env": {"A": "1", "A": "2"}}}}', "f.json: mcpServers.a.env: the key 'A' stands twice"),
]  # fmt: skip


@pytest.mark.proves("UP-1", "GATE-8")
@pytest.mark.parametrize(("content", "expected"), WRONG, ids=lambda value: str(value)[:50] if value else "empty")
def test_a_wrong_configuration_is_refused_with_what_was_expected(content: Any, expected: str) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    assert expected in "\n".join(validate_text(text, origin="f.json"))


@pytest.mark.parametrize(("content", "expected"), WRONG, ids=lambda value: str(value)[:50] if value else "empty")
def test_loading_refuses_what_validating_refuses(tmp_path: Path, content: Any, expected: str) -> None:
    config = tmp_path / "f.json"
    config.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(GatewayError) as caught:
        load(config=config, environ={})
    assert caught.value.code is Code.CONFIG_INVALID
    assert re.sub(r"^f\.json", str(config), expected) in caught.value.message


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    config = tmp_path / "f.json"
    config.write_text(
        '{"listn": 1, "surfaces": ["x"], "mcpServers": {"a": {}, "a": {"command": "${env:X}", "args": ["${env:X}"]}}}'
    )
    with pytest.raises(GatewayError) as caught:
        load(config=config, environ={"MCPPROXY_LIMITS__MAX_SESSIONS": "many"}, overrides={"shutdown_timeout": "x"})
    message = caught.value.message
    assert message.startswith(f"the configuration ({config}) has 6 problems:\n- ")
    for part in (
        "two servers are named 'a'",
        "listn",
        "surfaces.0",
        "args.0",
        "\n- MCPPROXY_LIMITS__MAX_SESSIONS: 'many'",
    ):
        assert part in message
    assert "\n- --shutdown-timeout: 'x' is not valid; expected a number" in message
    assert len(caught.value.details["problems"]) == 6


SECRETS: list[Any] = [
    {"mcp_token": ["hunter2"]},
    {"mcp_token": "hunter2 "},
    {"mcp_tokn": "hunter2"},
    {"mcp_token": "hunter2"},
    {"sealing_keys": ["hunter2"]},
    {"sealing_keys": ["hunter2 with blanks in it"]},
    {"sealing_keys": "hunter2-but-no-list-of-them"},
    {"sealing_keys": {"a": "hunter2"}},
    {"api_key": {"hunter2": "hunter2"}},
    {"activity": {"database_url": "//user:hunter2@host"}},
    {"activity": "postgresql://user:hunter2@host"},
    {"mcpServers": "hunter2"},
    {"mcpServers": {"a": "TOKEN=hunter2 npx"}},
    server(command="c", env="TOKEN=hunter2"),
    server(command="c", env={"TOKEN": "hunter2\0"}),
    server(command="c", env=["hunter2"]),
    server(command="c", envs={"TOKEN": "hunter2"}),
    server(url="http://x", headers={"Authorization": "hunter2\n"}),
    server(url="http://user:hunter2@x:99999/"),
    server(url="ftp://x/?api_key=hunter2"),
    server(command="c", args=["--token=hunter2\0"]),
    server(command="c", args="--token=hunter2"),
]


@pytest.mark.parametrize("content", SECRETS, ids=str)
def test_no_message_repeats_a_secret(content: Any) -> None:
    problems = validate_text(json.dumps(content), origin="f.json")
    assert problems
    assert "hunter2" not in "\n".join(problems)


WEAK = ("hunter2", "x", "123456789012345", "a" * 64, "ab" * 20, "abcdefg" * 5, "hunter2" * 3, "aaaaabbbbbcccccddddd")


@pytest.mark.proves("CONF-1", "OPS-1")
@pytest.mark.parametrize("secret", WEAK)
@pytest.mark.parametrize("key", ["mcp_token", "api_key", "sealing_keys"])
def test_a_secret_that_can_be_found_by_trying_is_refused_and_not_repeated(
    tmp_path: Path, key: str, secret: str
) -> None:
    def refused(content: Any, environ: dict[str, str]) -> str:
        (tmp_path / "c.json").write_text(json.dumps(content))
        with pytest.raises(GatewayError, match="at least 16 characters that nobody can guess") as caught:
            load(config=tmp_path / "c.json", environ=environ)
        return "\n".join([caught.value.message, json.dumps(caught.value.details), repr(caught.value)])

    def written(value: str) -> Any:
        return {key: [value] if key == "sealing_keys" else value}

    said = [
        refused(written(secret), {}),
        refused(written("${env:S}"), {"S": secret}),
        refused({}, {f"MCPPROXY_{key.upper()}": secret}),
    ]
    for text in (said[0], said[2]):
        assert "***" in text
    assert len(secret) < 3 or secret not in "\n".join(said)


@pytest.mark.parametrize("secret", ["0123456789abcdef", "9f86d081884c7d659a2feaa0c55ad015", "a-key-for-people"])
def test_what_openssl_prints_is_enough(secret: str) -> None:
    assert validate_text(json.dumps({"api_key": secret, "sealing_keys": [secret]}), origin="f.json") == []


def test_a_secret_that_was_filled_in_is_not_repeated_either(tmp_path: Path) -> None:
    config = tmp_path / "f.json"
    config.write_text(json.dumps(server(url="${env:ADDRESS}")))
    with pytest.raises(GatewayError, match=r"mcpServers\.db\.url: '\$\{env:ADDRESS\}' is not valid") as caught:
        load(config=config, environ={"ADDRESS": "hunter2"})
    assert "hunter2" not in caught.value.message


def test_a_long_or_unprintable_value_is_shown_short_and_harmless() -> None:
    (problem,) = validate_text(json.dumps({"listen": "\x1b[31m" + "x" * 5000}), origin="f.json")
    assert "\x1b" not in problem
    assert len(problem) < 250


@pytest.mark.parametrize(
    ("prepare", "expected"),
    [
        (lambda path: path.mkdir(), "cannot be read: Is a directory"),
        (lambda path: path.write_bytes(b'{"a": "\xff"}'), "is not UTF-8 text"),
    ],
    ids=["a directory", "latin-1"],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, prepare: Any, expected: str) -> None:
    config = tmp_path / "f.json"
    prepare(config)
    with pytest.raises(GatewayError, match=re.escape(f"the configuration file {config} {expected}")):
        load(config=config, environ={})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["listen", "limits", "mcpServers", "a", "command", "url", "env", "tools", "when", "class", "//", "type"])
        | st.text(max_size=3),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_no_document_makes_the_check_itself_fail(document: Any) -> None:
    assert isinstance(validate_text(json.dumps(document), origin="f.json"), list)


@given(st.text(alphabet='{}[]",:/\\ \n19eE.-untfalse', max_size=60))
def test_no_text_makes_the_check_itself_fail(text: str) -> None:
    assert isinstance(validate_text(text, origin="f.json"), list)
