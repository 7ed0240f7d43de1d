"""Providers by module and by entry point (PROV-5)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mcpproxy_py.app.builtin_upstreams import provider_specs
from mcpproxy_py.errors import GatewayError
from mcpproxy_py.providers import Loader, ProviderError, load
from mcpproxy_py.settings import Settings, validate_text

pytestmark = [pytest.mark.proves("PROV-5"), pytest.mark.anyio]
SOURCE = """
from mcpproxy_py.providers import ToolSpec
class P:
    def tools(self): return [ToolSpec("f", lambda: None)]
p = P()
def make(): return P()
class Inner: p = P()
n = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"a_provider_of_a_test_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return name


@pytest.mark.parametrize("path", ["p", "P", "make", "Inner.p"])
async def test_an_object_a_class_or_a_function_gives_the_provider(module: str, tmp_path: Path, path: str) -> None:
    served = Loader(tmp_path, max_result_bytes=1000).served({"x": f"{module}:{path}"})
    assert [tool["name"] for tool in await served["x"].list_tools()] == ["f"]
    assert sys.path[-1] == str(tmp_path), "a file beside the configuration must not hide an installed module"


@pytest.mark.parametrize(
    ("target", "words"),
    [("no_such_module_here:p", "there is no module 'no_such_module_here'"), ("json:nothing", "has no 'nothing'"),
     ("json:dumps", "missing 1 required"), ("math:pi", "has no method `tools`"), ("", "no package installed here")],
)  # fmt: skip
def test_what_is_no_provider_says_so(target: str, words: str) -> None:
    with pytest.raises((ProviderError, TypeError), match=words):
        load(target)


def test_what_a_provider_itself_lacks_is_not_blamed_on_the_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lacking_provider.py").write_text("import no_such_module_here")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_module_here"):
        load("lacking_provider:p")


async def test_a_module_that_was_mended_loads_at_the_next_attempt(module: str, tmp_path: Path) -> None:
    late = f"{module}_late"
    served = Loader(tmp_path, max_result_bytes=1000).served({"x": f"{late}:p"})["x"]
    with pytest.raises(GatewayError, match="there is no module"):
        await served.list_tools()
    (tmp_path / f"{late}.py").write_text("def (")
    with pytest.raises(GatewayError, match="SyntaxError"):
        await served.list_tools()
    (tmp_path / f"{late}.py").write_text(SOURCE)
    assert await served.list_tools()


def test_a_provider_that_stays_configured_is_kept(tmp_path: Path) -> None:
    loader = Loader(tmp_path, max_result_bytes=1000)
    first = loader.served({"a": "m:p", "b": "m:p"})
    assert first["a"] is not first["b"]
    second = loader.served({"a": "m:p", "b": "m:q"})
    assert second["a"] is first["a"]
    assert second["b"] is not first["b"]


def settings(**values: object) -> Settings:
    return Settings.model_validate(values)


def test_installed_providers_are_served_unless_they_are_turned_off_or_take_a_name() -> None:
    installed = {"a": "m:a", "b": "m:b", "catalog": "m:c", "Bad Name": "m:d", "s": "m:s"}
    made = settings(mcpServers={"s": {"command": "x"}}, providers={"b": {"enabled": False}, "own": "n:p", "gone": {}})
    specs = provider_specs(made, installed)
    assert {name: (spec.command, spec.enabled) for name, spec in specs.items()} == {
        "a": ("m:a", True), "b": ("m:b", False), "own": ("n:p", True), "gone": ("", True),
    }  # fmt: skip
    assert all(spec.transport == "local" for spec in specs.values())


def test_a_provider_is_handled_as_it_is_configured() -> None:
    handled = {
        "object": "n:p",
        "timeout": 3.0,
        "tools": {"f": "write"},
        "deny_tools": ["g"],
        "trust_annotations": False,
    }
    spec = provider_specs(settings(providers={"own": handled}), {})["own"]
    assert (spec.timeout, spec.deny_tools, spec.trust_annotations) == (3.0, ("g",), False)
    assert spec.overrides == {"f": (("write", None),)}


@pytest.mark.parametrize(
    ("providers", "words"),
    [
        ('{"dice": "dice"}', "module:object such as weather:provider"),
        ('{"dice": "dice.py:p"}', None),
        ('{"dice": "../dice:p"}', "module:object"),
        ('{"catalog": "a:b"}', "catalog is the built-in upstream"),
        ('{"A b": "a:b"}', "a name of 1 to 32"),
        ('{"dice": {"objekt": "a:b"}}', "object"),
        ('{"dice": 3}', "dice"),
        ('["a:b"]', "providers"),
        ('{"s": "a:b"}', "s is both a server and a provider"),
    ],
)
def test_a_wrong_configuration_of_providers_is_named(providers: str, words: str | None) -> None:
    text = f'{{"mcpServers": {{"s": {{"command": "x"}}}}, "providers": {providers}}}'
    problems = validate_text(text, origin="x")
    assert (words in problems[0]) if words else problems == []
