"""Imports point one way: errors <- core <- {settings, store, upstream, providers} <- gateway <- serve <- tracing <- app
<- doctor <- cli."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "mcpproxy_py"
LEVELS: dict[str, int] = {
    "errors": 0, "jsonrpc": 1, "files": 1, "word_vectors": 1, "core": 1,
    "settings": 2, "store": 2, "upstream": 2, "providers": 2,
    "gateway": 3, "bench": 3, "serve": 4, "tracing": 5, "app": 6, "doctor": 7, "cli": 8, "__main__": 9,
}  # fmt: skip
STRANGERS = {"settings", "store", "upstream", "providers"}
CORE_STDLIB = {
    "__future__", "dataclasses", "typing", "collections", "enum", "functools", "itertools", "math", "re", "json",
    "unicodedata", "difflib", "hashlib", "hmac", "bisect", "heapq", "types", "base64", "binascii",
    "contextvars",
}  # fmt: skip


def imports(path: Path, *, top_only: bool = False) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    for node in tree.body if top_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            module = node.module or ""
            yield from ([f"{module}.{alias.name}" for alias in node.names] if module == "mcpproxy_py" else [module])


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.parent != PACKAGE or path.name != "__init__.py"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way_and_neighbouring_rooms_are_strangers(path: Path) -> None:
    here = room(path)
    assert here in LEVELS, f"{here} is a new room: give it a level here and in DESIGN"
    for name in imports(path):
        if not name.startswith("mcpproxy_py."):
            continue
        there = name.split(".")[1]
        if there in (here, "__version__"):
            continue
        assert LEVELS[there] <= LEVELS[here], f"{path.name} reaches up to {name}"
        if here in STRANGERS:
            assert there not in STRANGERS, f"{path.name} knows its neighbour {name}"


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "core").rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE / "core"))
)
def test_the_core_imports_only_a_short_list_from_the_standard_library(path: Path) -> None:
    for name in imports(path):
        assert name.startswith("mcpproxy_py.") or name.split(".")[0] in CORE_STDLIB, f"{path.name} imports {name}"


SDK = {"upstream/transports/sdk_server.py"}
"""Loaded with the first upstream that needs the SDK, and by nobody before."""


@pytest.mark.parametrize(
    "path", [p for p in MODULES if room(p) in STRANGERS], ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_no_room_of_the_running_gateway_imports_the_sdk_as_that_alone_takes_most_of_a_second(path: Path) -> None:
    used = {name.split(".")[0] for name in imports(path)} & {"mcp", "mcp_types"}
    assert not used or path.relative_to(PACKAGE).as_posix() in SDK


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_who_uses_the_sdk_is_imported_late(path: Path) -> None:
    names = {f"mcpproxy_py.{each.removesuffix('.py').replace('/', '.')}" for each in SDK}
    assert not names & {*imports(path, top_only=True)}


HEAVY = ("mcp", "mcp_types", "starlette", "uvicorn", "sqlalchemy", "alembic", "pydantic", "pydantic_settings")


@pytest.mark.parametrize("path", sorted((PACKAGE / "cli").rglob("*.py")), ids=lambda path: path.name)
def test_no_command_imports_a_server_at_the_top(path: Path) -> None:
    for name in imports(path, top_only=True):
        assert name.split(".")[0] not in HEAVY, f"{path.name} imports {name}"
        assert name not in ("mcpproxy_py.app.compose", "mcpproxy_py.settings", "mcpproxy_py.serve"), (
            f"{path.name}: {name}"
        )
