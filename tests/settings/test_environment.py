"""Variables: how names become keys, how texts become values, and what happens to names that mean nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpproxy_py.errors import GatewayError
from mcpproxy_py.settings import Loaded, Settings, load
from mcpproxy_py.settings.environment import EnvironmentSource, known_keys, variable_for

pytestmark = pytest.mark.proves("CONF-1")

PREFIX = "MCPPROXY_"


def under(directory: Path, **variables: str) -> Loaded:
    return load(data_dir=directory, environ={PREFIX + name: text for name, text in variables.items()})


@pytest.mark.parametrize(
    ("name", "text", "layer"),
    [
        ("LISTEN", "0.0.0.0:1", {"listen": "0.0.0.0:1"}),
        ("listen", "0.0.0.0:1", {"listen": "0.0.0.0:1"}),
        ("REQUIRE_MCP_AUTH", "Yes", {"require_mcp_auth": True}),
        ("REQUIRE_MCP_AUTH", "0", {"require_mcp_auth": False}),
        ("SHUTDOWN_TIMEOUT", "2.5", {"shutdown_timeout": 2.5}),
        ("LIMITS__MAX_SESSIONS", "7", {"limits": {"max_sessions": 7}}),
        ("LIMITS", '{"max_sessions": 7}', {"limits": {"max_sessions": 7}}),
        ("INTENT_DECLARATION__STRICT_SERVER_VALIDATION", "false",
         {"intent_declaration": {"strict_server_validation": False}}),
        ("INTENT_DECLARATION__SCHEMA", "flat", {"intent_declaration": {"schema": "flat"}}),
        ("SURFACES", "gate, direct", {"surfaces": ["gate", "direct"]}),
        ("SURFACES", '["gate"]', {"surfaces": ["gate"]}),
        ("ALLOWED_HOSTS", "a.example", {"allowed_hosts": ["a.example"]}),
        ("API_KEY", "1234567890123456", {"api_key": "1234567890123456"}),
        ("MCPSERVERS", '{"a": {"command": "x", "//": "y"}}', {"mcpServers": {"a": {"command": "x"}}}),
        ("MCPSERVERS__GITHUB", '{"command": "x"}', {"mcpServers": {"github": {"command": "x"}}}),
        ("MCPSERVERS__GITHUB__ENV__GITHUB_TOKEN", "x", {"mcpServers": {"github": {"env": {"GITHUB_TOKEN": "x"}}}}),
        ("MCPSERVERS__A__ENV__X__Y", "1", {"mcpServers": {"a": {"env": {"X__Y": "1"}}}}),
        ("MCPSERVERS__A__TOOLS__dropAll", "destructive", {"mcpServers": {"a": {"tools": {"dropAll": "destructive"}}}}),
        ("MCPSERVERS__A__TYPE", "sse", {"mcpServers": {"a": {"type": "sse"}}}),
        ("MCPSERVERS__A__ALLOW_TOOLS", "x,y", {"mcpServers": {"a": {"allow_tools": ["x", "y"]}}}),
        ("LISTEN", "", {}),
        ("CONFIG", "/x", {}),
    ],
)  # fmt: skip
def test_a_variable_sets_the_key_it_names(name: str, text: str, layer: dict[str, Any]) -> None:
    source = EnvironmentSource({PREFIX + name: text})
    assert source() == layer
    assert (source.warnings, source.problems) == ([], [])


def test_every_setting_can_be_given_by_its_variable() -> None:
    for key, _ in known_keys():
        source = EnvironmentSource({variable_for(key): "1"})
        assert source.warnings == []
        assert [".".join(path) for path in source.variables] == [key]


def test_parts_of_a_structure_go_on_top_of_the_whole() -> None:
    source = EnvironmentSource({"MCPPROXY_LOG": '{"level": "info", "format": "json"}', "MCPPROXY_LOG__LEVEL": "debug"})
    assert source() == {"log": {"level": "debug", "format": "json"}}


def test_a_variable_reaches_one_server_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "mcp_config.json").write_text('{"mcpServers": [{"name": "a", "command": "x"}]}')
    found = under(tmp_path, MCPSERVERS__A__LAZY="true", MCPSERVERS__A__ENV__TOKEN="t")
    assert found.settings.servers["a"].lazy
    assert found.settings.servers["a"].env == {"TOKEN": "t"}
    assert found.sources["mcpServers.a.command"] == "file"
    assert found.sources["mcpServers.a.env.TOKEN"] == "env"


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        ("LISTN", "MCPPROXY_LISTN is not a setting and was ignored; did you mean MCPPROXY_LISTEN?"),
        ("LIMITS__MAX_SESION", "did you mean MCPPROXY_LIMITS__MAX_SESSIONS?"),
        ("LISTEN__PORT", "MCPPROXY_LISTEN__PORT is not a setting and was ignored"),
        ("MCPSERVERS__A__COMAND", "MCPPROXY_MCPSERVERS__A__COMAND is not a setting and was ignored"),
        ("SERVICE_HOST", "MCPPROXY_SERVICE_HOST is not a setting and was ignored"),
        ("PORT_8080_TCP_ADDR", "MCPPROXY_PORT_8080_TCP_ADDR is not a setting and was ignored"),
        ("", "MCPPROXY_ is not a setting"),
        ("_X", "MCPPROXY__X is not a setting"),
    ],
)
def test_an_unknown_variable_is_a_warning_and_no_error(tmp_path: Path, name: str, warning: str) -> None:
    found = under(tmp_path, **{name: "tcp://10.0.0.1:8080"})
    assert found.settings.model_dump() == Settings(data_dir=tmp_path).model_dump()
    assert warning in "\n".join(found.warnings)
    assert "tcp://" not in "\n".join(found.warnings)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("LISTEN", "80:", "MCPPROXY_LISTEN: '80:' is not valid; expected HOST:PORT"),
        ("REQUIRE_MCP_AUTH", "maybe", "MCPPROXY_REQUIRE_MCP_AUTH: 'maybe' is not valid; expected true or false"),
        ("LIMITS__MAX_SESSIONS", "9" * 5000, "MCPPROXY_LIMITS__MAX_SESSIONS: "),
        ("SHUTDOWN_TIMEOUT", "inf", "MCPPROXY_SHUTDOWN_TIMEOUT: "),
        ("SHUTDOWN_TIMEOUT", "nan", "MCPPROXY_SHUTDOWN_TIMEOUT: "),
        ("MCP_TOKEN", "two words", "MCPPROXY_MCP_TOKEN: *** is not valid"),
        ("LOG", "{", "MCPPROXY_LOG: not valid JSON at line 1, column 2"),
        ("LOG", '{"level": "info", "level": "debug"}', "MCPPROXY_LOG: the key 'level' stands twice"),
        ("LOG", '{"levl": "info"}', "MCPPROXY_LOG: levl is not a known key; did you mean `level`?"),
        ("LOG", "3", "MCPPROXY_LOG: 3 is not valid; expected an object"),
        ("LISTEN", "\udcff", "MCPPROXY_LISTEN holds half of a character"),
        ("MCPSERVERS__A__LAZY", "true", "MCPPROXY_MCPSERVERS__A__LAZY: expected exactly one of `command` and `url`"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_variable(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(GatewayError) as caught:
        under(tmp_path, **{name: text})
    assert message in caught.value.message


def test_broken_json_in_a_variable_does_not_spill_its_secrets(tmp_path: Path) -> None:
    with pytest.raises(GatewayError) as caught:
        under(tmp_path, MCPSERVERS='{"a": {"env": {"TOKEN": "hunter2"}}')
    assert "hunter2" not in caught.value.message


def test_the_process_environment_is_read_when_none_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPPROXY_SHUTDOWN_TIMEOUT", "3")
    assert load(data_dir=tmp_path).settings.shutdown_timeout == 3


@pytest.mark.parametrize("text", ["9000", ":9000", "127.0.0.1:9000"])
def test_a_port_alone_is_one_of_this_machine(tmp_path: Path, text: str) -> None:
    found = under(tmp_path, LISTEN=text).settings
    assert (found.listen, found.address, found.listens_publicly) == ("127.0.0.1:9000", ("127.0.0.1", 9000), False)
