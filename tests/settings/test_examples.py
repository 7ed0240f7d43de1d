"""The examples, the JSON Schema and the reference page say what the models say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from mcpproxy_py.settings import Settings, json_schema, load, validate_text
from mcpproxy_py.settings.environment import known_keys, variable_for
from mcpproxy_py.settings.reference_page import reference
from tests.settings.test_problems import WRONG

ENTRIES = [{"when": {"a": 1}, "class": "read"}, {"class": "write"}]
ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "config").glob("*.json"))


def example(name: str) -> Settings:
    return load(
        config=ROOT / "config" / f"{name}.json", environ={"MCPPROXY_MCP_TOKEN": "a-token-of-the-agents"}
    ).settings


@pytest.mark.proves("USE-4")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_loads_is_explained_and_fits_the_schema(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert validate_text(text, origin=path.name) == []
    assert text.count('"//"') >= 4
    assert list(jsonschema_rs.validator_for(json_schema()).iter_errors(json.loads(text))) == []
    assert all(server.lazy for server in example(path.stem).servers.values())


@pytest.mark.proves("GATE-3", "GATE-8")
def test_the_strict_example_is_strict_and_falls_back_to_destructive() -> None:
    settings = example("strict")
    assert settings.intent_declaration.strict_server_validation
    assert settings.intent_declaration.unannotated == "write"
    entries = settings.servers["database"].overrides["execute_sql"]
    assert entries[-1] == ("destructive", None)
    tool_class, when = entries[0]
    assert tool_class == "read" and when is not None
    reads = jsonschema_rs.validator_for(dict(when)).is_valid
    assert reads({"sql": " SELECT 1"})
    assert not any(reads(args) for args in ({"sql": "select 1; drop table x"}, {"sql": "selection"}, {"sql": 1}, {}))


@pytest.mark.proves("GATE-3", "GATE-1")
def test_the_permissive_example_relaxes_phase_two() -> None:
    declared = example("permissive").intent_declaration
    assert not declared.strict_server_validation
    assert (declared.missing, declared.schema_) == ("infer", "flat")


@pytest.mark.proves("USE-4", "SEC-1")
def test_the_docker_example_listens_everywhere_and_has_a_token() -> None:
    settings = example("docker")
    assert (settings.address, settings.data_dir) == (("0.0.0.0", 8080), Path("/data"))
    assert settings.listens_publicly and settings.mcp_token is not None
    assert "${env:MCPPROXY_MCP_TOKEN}" in (ROOT / "config" / "docker.json").read_text()


@pytest.mark.proves("USE-4", "ACT-6")
def test_the_example_of_several_replicas_acknowledges_what_all_can_see_and_can_be_reached() -> None:
    settings = example("replicas")
    assert settings.activity.ack == "commit"
    assert settings.listens_publicly and settings.allowed_hosts, "a load balancer elsewhere can reach it"


@pytest.mark.proves("CONF-1")
@pytest.mark.parametrize(
    "content",
    [
        {},
        {"$schema": "x", "//": 1, "// more": {"a": 1}, "limits": {"//": ""}},
        {"mcpServers": [{"name": "a", "command": "x"}]},
        {"mcpServers": {"//": "x", "a": {"//": "y", "url": "http://x", "type": "sse", "headers": {"//": 1}}}},
        {"mcpServers": {"a": {"command": "x", "tools": {"t": "read", "u": ENTRIES}}}},
    ],
)  # fmt: skip
def test_the_schema_accepts_what_the_loader_accepts(content: Any) -> None:
    assert list(jsonschema_rs.validator_for(json_schema()).iter_errors(content)) == []
    assert validate_text(json.dumps(content), origin="f") == []


@pytest.mark.proves("CONF-1")
def test_the_schema_never_accepts_an_unknown_key_a_bad_choice_or_a_wrong_type() -> None:
    """Rules between keys, such as command or url, are beyond it; those are for `config validate`."""
    validator = jsonschema_rs.validator_for(json_schema())
    telling = (
        "is not a known key",
        "expected 'gate'",
        "true or false",
        "a whole number",
        "expected a list",
        "the name 'a__b'",
    )
    wrong = [
        content
        for content, expected in WRONG
        if not isinstance(content, str) and any(part in expected for part in telling)
    ]
    assert len(wrong) > 15
    assert [content for content in wrong if validator.is_valid(content)] == []


def test_the_reference_page_is_the_one_the_models_print() -> None:
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    assert page == reference(), "run: python -m mcpproxy_py.settings.reference_page docs/reference/configuration.md"


def test_the_reference_names_every_key_with_its_variable_and_what_it_means() -> None:
    page = reference()
    for key, field in known_keys():
        assert field.description
        assert f"`{key}`<br>{field.description}" in page
        assert f"`{variable_for(key)}`" in page


def test_the_reference_prints_without_arguments() -> None:
    command = [sys.executable, "-m", "mcpproxy_py.settings.reference_page"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=True)
    assert found.stdout.decode() == reference()


def test_every_json_example_in_the_reference_is_valid() -> None:
    _, _, rest = reference().partition("```json\n")
    tools = json.loads("{" + rest.partition("```")[0] + "}")["tools"]
    content = {"mcpServers": {"a": {"command": "x", "tools": tools}}}
    assert validate_text(json.dumps(content), origin="f") == []
    assert tools["execute_sql"][-1] == {"class": "destructive"}
