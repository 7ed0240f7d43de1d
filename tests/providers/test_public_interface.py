"""What an author of a provider imports is exported, has types, and is marked as typed (PROV-1)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import mcpproxy_py
from mcpproxy_py import providers
from tests.providers import typed_example
from tests.providers.helpers import served
from tests.providers.typed_example import Notes

EXAMPLE = Path(typed_example.__file__)
pytestmark = pytest.mark.proves("PROV-1")


def test_the_package_says_that_it_has_types() -> None:
    assert (Path(mcpproxy_py.__file__).parent / "py.typed").is_file()


def test_every_exported_name_is_there() -> None:
    assert sorted(providers.__all__) == providers.__all__
    assert [name for name in providers.__all__ if not hasattr(providers, name)] == []


def _problems(folder: Path, text: str) -> list[str]:
    """What a strict type checker says of a provider of somebody's own."""
    (folder / "own.py").write_text(text)
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict", "include": ["own.py"]}))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", "-p", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    return [each["message"] for each in json.loads(done.stdout)["generalDiagnostics"]]


def test_a_provider_passes_a_strict_type_checker_and_a_wrong_one_does_not(tmp_path: Path) -> None:
    right = EXAMPLE.read_text()
    assert _problems(tmp_path, right) == []
    wrong = right.replace("ctx.progress(0, 1)", 'ctx.progress("half")').replace('ctx.log("info"', 'ctx.log("loud"')
    assert len(_problems(tmp_path, wrong)) == 2


@pytest.mark.anyio
async def test_the_example_is_served_like_any_other() -> None:
    provider = await served(Notes())
    assert [tool["name"] for tool in await provider.list_tools()] == ["read", "drop", "where"]
    refused = await provider.call_tool("read", {"title": "x"})
    assert refused["isError"] and refused["content"][0]["text"] == "there is no note x"
    assert (await provider.call_tool("where", {}))["content"][0]["uri"] == "note://nobody"
