"""Where settings come from, and which source wins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.settings import Loaded, Settings, load, shown

pytestmark = pytest.mark.proves("CONF-1")


def loaded(directory: Path, content: Any = None, environ: dict[str, str] | None = None, **overrides: Any) -> Loaded:
    """Load a data directory whose file holds `content`."""
    if content is not None:
        (directory / "mcp_config.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return load(data_dir=directory, environ=environ or {}, overrides=overrides)


@pytest.mark.proves("CONF-2", "CONF-3", "SURF-4", "SEC-1")
def test_nothing_configured_gives_safe_defaults(tmp_path: Path) -> None:
    found = loaded(tmp_path)
    assert not found.exists
    assert found.path == tmp_path / "mcp_config.json"
    assert found.settings.address == ("127.0.0.1", 8080)
    assert found.settings.surfaces == ("gate",)
    assert not found.settings.listens_publicly
    assert found.settings.intent_declaration.strict_server_validation
    assert found.settings.intent_declaration.missing == "refuse"
    assert found.settings.activity.on_failure == "refuse"
    assert found.settings.servers == {}
    assert set(found.sources.values()) == {"flag", "default"}


@pytest.mark.proves("CONF-3")
def test_the_data_directory_defaults_to_one_in_the_home_directory() -> None:
    assert Settings().data_dir == Path("~/.mcpproxy").expanduser()


@pytest.mark.proves("CONF-3")
def test_flags_win_over_variables_and_variables_over_the_file(tmp_path: Path) -> None:
    content = {"listen": "127.0.0.1:1", "shutdown_timeout": 1, "log": {"level": "debug", "format": "json"}}
    environ = {"MCPPROXY_LISTEN": "127.0.0.1:2", "MCPPROXY_LOG__LEVEL": "error"}
    found = loaded(tmp_path, content, environ, listen="127.0.0.1:3")
    assert (found.settings.listen, found.settings.shutdown_timeout) == ("127.0.0.1:3", 1)
    assert (found.settings.log.level, found.settings.log.format) == ("error", "json")
    expected = {"listen": "flag", "log.level": "env", "log.format": "file", "shutdown_timeout": "file"}
    assert expected.items() <= found.sources.items()
    assert found.sources["limits.max_sessions"] == "default"


def test_every_shown_key_has_a_source(tmp_path: Path) -> None:
    found = loaded(tmp_path, {"mcpServers": {"a": {"url": "http://x", "type": "sse"}}})
    assert found.sources["mcpServers.a.transport"] == "file"
    assert found.sources["mcpServers.a.lazy"] == "default"
    assert {key.split(".")[0] for key in found.sources} == set(shown(found.settings))


def test_a_flag_that_was_not_given_overrides_nothing(tmp_path: Path) -> None:
    assert loaded(tmp_path, {"listen": "127.0.0.1:1"}, listen=None).settings.listen == "127.0.0.1:1"


@pytest.mark.proves("CONF-3")
def test_variables_choose_the_data_directory_and_the_file(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text('{"shutdown_timeout": 3}')
    found = load(environ={"MCPPROXY_DATA_DIR": str(tmp_path)})
    assert (found.settings.data_dir, found.path) == (tmp_path, tmp_path / "mcp_config.json")
    found = load(environ={"MCPPROXY_DATA_DIR": str(tmp_path), "MCPPROXY_CONFIG": str(elsewhere)})
    assert (found.path, found.settings.shutdown_timeout, found.warnings) == (elsewhere, 3, ())


def test_a_file_asked_for_by_name_has_to_exist(tmp_path: Path) -> None:
    with pytest.raises(GatewayError, match=r"there is no configuration file .*missing\.json") as caught:
        load(config=tmp_path / "missing.json", environ={})
    assert caught.value.code is Code.CONFIG_INVALID


def test_directories_in_the_file_start_where_the_file_is(tmp_path: Path) -> None:
    config = tmp_path / "c.json"
    config.write_text('{"data_dir": "state", "mcpServers": {"a": {"command": "x", "cwd": "work"}}}')
    settings = load(config=config, environ={}).settings
    assert settings.data_dir == tmp_path / "state"
    assert settings.servers["a"].cwd == str(tmp_path / "work")


def test_comments_and_the_schema_key_mean_nothing(tmp_path: Path) -> None:
    text = """{"$schema": "./s.json", "//": "one", "//": "two", "// off": {"listen": 5},
               "mcpServers": {"//": "none", "// b": {"nonsense": 1},
                              "a": {"//": "x", "command": "c", "env": {"// X": "1"},
                                    "tools": {"//": "y", "t": [{"//": "z", "class": "read"}]}}}}"""
    settings = loaded(tmp_path, text).settings
    assert list(settings.servers) == ["a"]
    assert settings.servers["a"].env == {}
    assert settings.servers["a"].overrides == {"t": (("read", None),)}


def test_a_byte_order_mark_is_no_problem(tmp_path: Path) -> None:
    assert loaded(tmp_path, '\ufeff{"shutdown_timeout": 3}').settings.shutdown_timeout == 3


@pytest.mark.proves("UP-1")
def test_a_list_of_servers_reads_like_the_mapping(tmp_path: Path) -> None:
    listed = loaded(tmp_path, {"mcpServers": [{"name": "a", "command": "c"}, {"name": "b", "url": "http://x"}]})
    mapped = loaded(tmp_path, {"mcpServers": {"a": {"command": "c"}, "b": {"url": "http://x"}}})
    assert listed.settings.servers == mapped.settings.servers


@pytest.mark.proves("UP-1")
@pytest.mark.parametrize(
    ("server", "transport"),
    [
        ({"command": "c"}, "stdio"),
        ({"url": "http://x/mcp"}, "http"),
        ({"type": "stdio", "command": "c"}, "stdio"),
        ({"type": "http", "url": "http://x"}, "http"),
        ({"type": "streamable-http", "url": "http://x"}, "http"),
        ({"type": "streamableHttp", "url": "http://x"}, "http"),
        ({"transport": "sse", "url": "http://x"}, "sse"),
        ({"type": "sse", "url": "http://x"}, "sse"),
    ],
)
def test_every_spelling_of_a_transport_is_understood(tmp_path: Path, server: dict[str, Any], transport: str) -> None:
    assert loaded(tmp_path, {"mcpServers": {"a": server}}).settings.servers["a"].transport == transport


@pytest.mark.proves("UP-1")
def test_a_server_has_the_documented_defaults(tmp_path: Path) -> None:
    server = loaded(tmp_path, {"mcpServers": {"a": {"command": "c"}}}).settings.servers["a"]
    assert (server.enabled, server.lazy, server.trust_annotations) == (True, False, True)
    assert (server.timeout, server.connect_timeout, server.max_concurrency) == (60.0, 10.0, 64)
    assert (server.sessions, server.allow_tools, server.deny_tools, server.confirm) == ("auto", None, (), "none")


@pytest.mark.proves("GATE-8")
def test_an_override_may_be_a_class_or_depend_on_the_arguments(tmp_path: Path) -> None:
    when = {"properties": {"sql": {"pattern": "^select"}}}
    tools = {"drop": "destructive", "sql": [{"when": when, "class": "read"}, {"class": "destructive"}]}
    server = loaded(tmp_path, {"mcpServers": {"a": {"command": "c", "tools": tools}}}).settings.servers["a"]
    assert server.overrides == {
        "drop": (("destructive", None),),
        "sql": (("read", when), ("destructive", None)),
    }


@pytest.mark.parametrize(
    ("listen", "address", "public"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080), False),
        ("127.9.9.9:0", ("127.9.9.9", 0), False),
        ("localhost:80", ("localhost", 80), False),
        ("[::1]:8080", ("::1", 8080), False),
        ("0.0.0.0:8080", ("0.0.0.0", 8080), True),
        ("[::]:8080", ("::", 8080), True),
        ("192.168.1.5:1", ("192.168.1.5", 1), True),
        ("example.com:65535", ("example.com", 65535), True),
        ("localhost.example.com:1", ("localhost.example.com", 1), True),
    ],
)
@pytest.mark.proves("SEC-1")
def test_an_address_is_public_unless_it_is_certainly_loopback(
    listen: str, address: tuple[str, int], public: bool
) -> None:
    settings = Settings(listen=listen)
    assert (settings.address, settings.listens_publicly) == (address, public)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Settings().listen = "0.0.0.0:1"
    with pytest.raises(ValidationError):
        Settings().limits.max_sessions = 1


def test_settings_built_by_hand_do_not_depend_on_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPPROXY_LISTEN", "0.0.0.0:1")
    assert Settings().listen == "127.0.0.1:8080"
