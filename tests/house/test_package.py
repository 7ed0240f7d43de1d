"""What a package index shows: a description without dead links, classifiers that hold, and the project's addresses."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.node import lacking

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ADDRESS = "https://git.example/acme/mcpproxy"
LINKS = re.compile(r"\]\(([^)\s]+)\)")


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    if importlib.util.find_spec("hatchling") is None:
        lacking("hatchling is not installed: pip install -r requirements/build.in")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_index_shows_no_link_that_leads_nowhere(hook: ModuleType) -> None:
    shown = hook.described(README, "", "1.2.3")
    assert all(target.startswith(("https://", "#")) for target in LINKS.findall(shown))
    assert "Connect an IDE" in shown, "the text of a link stays"


def test_with_an_address_the_links_lead_to_this_version_in_the_repository(hook: ModuleType) -> None:
    shown = hook.described(README, ADDRESS, "1.2.3")
    targets = [target.removeprefix(f"{ADDRESS}/blob/v1.2.3/") for target in LINKS.findall(shown)]
    ours = [target for target in targets if not target.startswith(("https://", "#"))]
    assert len(ours) > 10
    assert [target for target in ours if not (ROOT / target.partition("#")[0]).exists()] == []


@pytest.mark.parametrize(("address", "urls"), [("", False), (ADDRESS, True), (f" {ADDRESS}/ ", True)])
def test_addresses_are_named_only_where_they_are_known(
    hook: ModuleType, monkeypatch: pytest.MonkeyPatch, address: str, urls: bool
) -> None:
    monkeypatch.setenv("MCPPROXY_REPOSITORY_URL", address)
    metadata: dict[str, object] = {}
    hook.CustomMetadataHook(str(ROOT), {}).update(metadata)
    assert ("urls" in metadata) is urls
    assert not urls or hook.addresses(ADDRESS) == metadata["urls"]


@pytest.mark.parametrize("address", ["http://git.example/x", "javascript:alert(1)", "https://a b", "https://a)b"])
def test_what_is_no_address_is_refused(hook: ModuleType, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("MCPPROXY_REPOSITORY_URL", address)
    with pytest.raises(ValueError, match="https address"):
        hook.CustomMetadataHook(str(ROOT), {}).update({})


def test_the_classifiers_say_what_holds() -> None:
    classifiers = set(PROJECT["classifiers"])
    assert "Typing :: Typed" in classifiers and (ROOT / "mcpproxy_py" / "py.typed").is_file()
    assert not [each for each in classifiers if each.startswith("License ::")], "the SPDX expression says it (PEP 639)"
    assert PROJECT["license"] == "MIT" and PROJECT["license-files"] == ["LICENSE"]
    assert not [each for each in classifiers if "Windows" in each or "OS Independent" in each], "it is not tested there"
