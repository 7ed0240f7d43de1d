"""Secrets by reference are filled in or missed loudly, and nothing that is shown gives one away."""

from __future__ import annotations

import json
import sys
import threading
import types
from pathlib import Path
from typing import Any, cast

import pytest

from mcpproxy_py.errors import GatewayError
from mcpproxy_py.settings import Loaded, load, shown, validate_text
from mcpproxy_py.settings.environment import known_keys
from mcpproxy_py.settings.secret_references import PLACES, is_reference
from mcpproxy_py.settings.servers import AssertionSettings, LoginSettings, ServerSettings

pytestmark = pytest.mark.proves("CONF-1")

ENVIRON = {"A": "hunter2", "LONG": "hunter2-of-16-and-more", "URL": "https://user:hunter2@example.com/mcp", "EMPTY": ""}


def loaded(directory: Path, content: Any) -> Loaded:
    config = directory / "c.json"
    config.write_text(json.dumps(content))
    return load(config=config, environ=ENVIRON)


def test_references_are_filled_in_wherever_a_secret_may_stand(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("hunter2\n")
    (tmp_path / "long.txt").write_text("hunter2-of-16-and-more\n")
    settings = loaded(
        tmp_path,
        {
            "mcp_token": "${env:LONG}",
            "api_key": "${file:long.txt}",
            "sealing_keys": ["${env:LONG}", "${file:long.txt}"],
            "activity": {"database_url": "postgresql://me:${env:A}@db/x"},
            "mcpServers": {
                "a": {"command": "c", "args": ["--token", "${env:A}"], "env": {"T": "x-${env:A}-${file:secret.txt}"}},
                "b": {"url": "${env:URL}", "headers": {"Authorization": "Bearer ${env:A}"}},
            },
        },
    ).settings
    assert settings.mcp_token is not None and settings.mcp_token.get_secret_value() == ENVIRON["LONG"]
    assert settings.api_key is not None and settings.api_key.get_secret_value() == ENVIRON["LONG"]
    assert [key.get_secret_value() for key in settings.sealing_keys] == [ENVIRON["LONG"]] * 2
    assert settings.activity.database_url == "postgresql://me:hunter2@db/x"
    a, b = settings.servers["a"], settings.servers["b"]
    assert (a.args, a.env) == (("--token", "hunter2"), {"T": "x-hunter2-hunter2"})
    assert (b.url, b.headers) == (ENVIRON["URL"], {"Authorization": "Bearer hunter2"})


def test_other_texts_with_dollars_stay_as_they_are(tmp_path: Path) -> None:
    content = {"mcpServers": {"a": {"command": "${env:A}", "args": ["${HOME}", "$x", "${}", "{env:A}"]}}}
    server = loaded(tmp_path, content).settings.servers["a"]
    assert (server.command, server.args) == ("${env:A}", ("${HOME}", "$x", "${}", "{env:A}"))


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("${env:NOPE}", "the environment variable NOPE is not set"),
        ("${env:EMPTY}", "the environment variable EMPTY is empty"),
        ("${file:nope}", "cannot be read (No such file or directory)"),
        ("${file:.}", "cannot be read (Is a directory)"),
        ("${file:empty}", "is empty"),
        ("${file:binary}", "is not UTF-8 text"),
        ("${file:large}", "is too large for a secret"),
        ("${vault:x}", "it is not one of ${env:NAME}, ${file:PATH}, ${keyring:NAME}"),
        ("${TOKEN:-none}", "it is not one of"),
    ],
)
def test_a_secret_that_is_missing_is_an_error_and_never_a_blank(tmp_path: Path, reference: str, why: str) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large").write_text("x" * 70_000)
    with pytest.raises(GatewayError) as caught:
        loaded(tmp_path, {"mcp_token": f"0123456789abcdef{reference}"})
    assert f"mcp_token: {reference} has no value: " in caught.value.message
    assert why in caught.value.message


@pytest.mark.proves("UP-12")
@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("${env:NOPE}", "the environment variable NOPE is not set"),
        ("${env:EMPTY}", "the environment variable EMPTY is empty"),
        ("${file:nope}", "nope cannot be read (No such file or directory)"),
    ],
)
def test_a_secret_of_a_server_that_is_missing_is_the_failure_of_that_server_alone(
    tmp_path: Path, reference: str, why: str
) -> None:
    servers = {
        "a": {"url": reference, "headers": {"K": f"Bearer {reference}"}},
        "b": {"command": "x", "env": {"T": "${env:A}"}},
        "c": {"command": "x", "args": ["--token", reference]},
    }
    found = loaded(tmp_path, {"mcpServers": servers})
    missing = found.settings.missing_secrets
    assert set(missing) == {"a", "c"}
    assert f"{why} (url)" in missing["a"] and f"{why} (headers.K)" in missing["a"]
    assert missing["c"].endswith("(args.1)")
    assert found.settings.servers["b"].env == {"T": ENVIRON["A"]}
    assert found.awaited == ((tmp_path / "nope",) * 3 if "file" in reference else ())


def test_a_variable_may_say_what_stands_for_it(tmp_path: Path) -> None:
    args = ["${env:A:-other}", "${env:NONE:-other}", "${env:EMPTY:-}x", "${env:NONE:-a:-b}"]
    server = loaded(tmp_path, {"mcpServers": {"a": {"command": "c", "args": args}}}).settings.servers["a"]
    assert server.args == ("hunter2", "other", "x", "a:-b")
    with pytest.raises(GatewayError, match="mcp_token"):
        loaded(tmp_path, {"mcp_token": "${env:NONE:-}"})


def test_a_default_is_masked_where_a_reference_is_shown() -> None:
    assert is_reference("Bearer ${env:T}") and is_reference("${env:T:-}")
    assert not is_reference("${env:T:-hunter2}")


@pytest.mark.proves("UP-12")
def test_a_reference_of_a_kind_that_does_not_exist_is_a_mistake_and_no_missing_secret(tmp_path: Path) -> None:
    with pytest.raises(GatewayError, match=r"mcpServers\.a\.env\.T: \$\{vault:x\} has no value: it is not one of"):
        loaded(tmp_path, {"mcpServers": {"a": {"command": "x", "env": {"T": "${vault:x}"}}}})


@pytest.mark.proves("UP-12")
def test_the_rest_of_an_entry_is_checked_where_its_secret_is_missing(tmp_path: Path) -> None:
    with pytest.raises(GatewayError) as caught:
        loaded(tmp_path, {"mcpServers": {"a": {"url": "${env:NOPE}/mcp", "tiemout": 5}}})
    assert "did you mean `timeout`" in caught.value.message
    assert "the environment variable NOPE is not set" in caught.value.message


@pytest.mark.proves("UP-12")
def test_a_keyring_that_does_not_answer_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that is locked, and waits for a person who is not there."""
    asked, backend = [], cast(Any, types.ModuleType("keyring"))
    released = threading.Event()

    def get_password(service: str, name: str) -> None:
        asked.append(name)
        released.wait(60)

    backend.get_password = get_password
    monkeypatch.setitem(sys.modules, "keyring", backend)
    monkeypatch.setattr("mcpproxy_py.settings.secret_references.KEYRING_SECONDS", 0.01)
    servers = {name: {"command": "x", "env": {"T": f"${{keyring:{name}}}"}} for name in "ab"}
    try:
        missing = loaded(tmp_path, {"mcpServers": servers}).settings.missing_secrets
    finally:
        released.set()
    assert asked == ["a"]
    assert all("it may wait for somebody to unlock it" in why for why in missing.values()) and len(missing) == 2


@pytest.mark.proves("UP-12")
def test_a_locked_keyring_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class KeyringLocked(Exception): ...

    def get_password(service: str, name: str) -> None:
        raise KeyringLocked("hunter2")

    backend = cast(Any, types.ModuleType("keyring"))
    backend.get_password = get_password
    monkeypatch.setitem(sys.modules, "keyring", backend)
    content = {"mcpServers": {"a": {"command": "x", "env": {"T": "${keyring:t}"}}}}
    why = loaded(tmp_path, content).settings.missing_secrets["a"]
    assert why == "the system keyring did not answer (KeyringLocked); unlock it (env.T)"


def test_a_reference_that_something_stronger_overrides_need_not_lead_anywhere(tmp_path: Path) -> None:
    config = tmp_path / "c.json"
    config.write_text('{"mcp_token": "${env:NOPE}"}')
    settings = load(config=config, environ={"MCPPROXY_MCP_TOKEN": "given-by-the-variable"}).settings
    assert settings.mcp_token is not None and settings.mcp_token.get_secret_value() == "given-by-the-variable"


def test_the_keyring_is_asked_if_its_extra_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = {"mcp_token": "${keyring:gate}"}
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(GatewayError, match=r"mcp_token: .* needs an extra: pip install 'mcpproxy-py\[keyring\]'"):
        loaded(tmp_path, content)
    backend: Any = types.ModuleType("keyring")
    backend.get_password = lambda service, name: {("mcpproxy", "gate"): "from-the-keyring"}.get((service, name))
    monkeypatch.setitem(sys.modules, "keyring", backend)
    token = loaded(tmp_path, content).settings.mcp_token
    assert token is not None and token.get_secret_value() == "from-the-keyring"
    with pytest.raises(GatewayError, match="the keyring holds nothing: keyring set mcpproxy other"):
        loaded(tmp_path, {"mcp_token": "${keyring:other}"})


def test_checking_a_file_needs_none_of_its_secrets() -> None:
    content = {
        "mcp_token": "${env:NOPE}",
        "sealing_keys": ["${env:NOPE}", "a${env:NOPE}"],
        "activity": {"database_url": "${keyring:db}"},
        "mcpServers": {
            "a": {"url": "${env:NOPE}"},
            "b": {"url": "https://${env:HOST}:${env:PORT}/${file:/nope}"},
            "c": {"command": "x", "env": {"T": "${keyring:t}"}},
        },
    }
    assert validate_text(json.dumps(content), origin="f.json") == []


SECRETIVE = {
    "mcp_token": "hunter2-of-the-agents",
    "api_key": "hunter2-of-the-people",
    "sealing_keys": ["hunter2-of-the-gateways", "${env:LONG}"],
    "activity": {"database_url": "postgresql://me:hunter2@db/x"},
    "mcpServers": {
        "a": {
            "command": "c",
            "env": {"PLAIN_NAME": "hunter2"},
            "args": [
                "--api-key", "hunter2", "--token=hunter2", "-e", "GITHUB_TOKEN=hunter2", "--header",
                "Authorization: hunter2", "postgresql://me:hunter2@db/x", "--port", "80", "${env:A}",
            ],
        },
        "b": {"url": "https://me:hunter2@x/mcp?api_key=hunter2&page=2#x", "headers": {"X-Plain": "hunter2"}},
        "c": {"url": "${env:URL}"},
    },
}  # fmt: skip


def test_what_is_shown_holds_no_secret_and_everything_else(tmp_path: Path) -> None:
    settings = loaded(tmp_path, SECRETIVE).settings
    found = shown(settings)
    assert "hunter2" not in json.dumps(found)
    assert (found["mcp_token"], found["api_key"], found["activity"]["database_url"]) == ("***", "***", "***")
    a, b, c = (found["mcpServers"][name] for name in "abc")
    assert a["env"] == {"PLAIN_NAME": "***"}
    assert a["args"][0] == "--api-key" and a["args"][-3:] == ["--port", "80", "${env:A}"]
    assert b["headers"] == {"X-Plain": "***"}
    assert b["url"].startswith("https://***@x/mcp?api_key=***&page=2")
    assert c["url"] == "${env:URL}"


def test_unset_secrets_are_shown_as_unset(tmp_path: Path) -> None:
    found = shown(loaded(tmp_path, {}).settings)
    assert (found["mcp_token"], found["api_key"], found["activity"]["database_url"]) == (None, None, None)


def test_printing_settings_gives_no_secret_away(tmp_path: Path) -> None:
    settings = loaded(tmp_path, SECRETIVE).settings
    assert "hunter2" not in repr(settings) + str(settings) + repr(settings.servers)


def test_what_is_shown_uses_the_keys_of_the_file(tmp_path: Path) -> None:
    tools = {"t": [{"when": {"type": "object"}, "class": "read"}, {"class": "write"}]}
    content = {"intent_declaration": {"schema": "flat"}, "mcpServers": {"a": {"command": "c", "tools": tools}}}
    found = shown(loaded(tmp_path, content).settings)
    assert found["intent_declaration"]["schema"] == "flat"
    assert found["mcpServers"]["a"]["tools"] == tools
    assert "url" not in found["mcpServers"]["a"]
    assert loaded(tmp_path, found).settings.servers["a"].overrides["t"][1] == ("write", None)


def secret_fields() -> dict[str, Any]:
    """Every key that may hold a secret, by the models alone."""
    fields = dict(known_keys())
    fields |= {f"mcpServers.*.{name}": field for name, field in ServerSettings.model_fields.items()}
    fields |= {f"mcpServers.*.auth.{name}": field for name, field in LoginSettings.model_fields.items()}
    provider = AssertionSettings.model_fields
    fields |= {f"mcpServers.*.auth.identity_provider.{name}": field for name, field in provider.items()}
    return {key: field for key, field in fields.items() if "Secret" in repr(field.annotation) or field.repr is False}


def test_every_field_that_may_hold_a_secret_takes_references_and_says_so() -> None:
    found = secret_fields()
    assert {"mcp_token", "api_key", "sealing_keys", "activity.database_url", "mcpServers.*.env"} <= found.keys()
    places = {".".join(place).removesuffix(".*") for place in PLACES}
    assert found.keys() == places
    for key, field in found.items():
        assert "${env:NAME}" in field.description, key
