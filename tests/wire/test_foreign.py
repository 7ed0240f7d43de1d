"""Servers of somebody else's behind a passthrough surface: what passes directly passes through (SURF-7)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.wire.foreign import npm_everything, npm_everything_on_a_pipe, python_sdk
from tests.wire.suite import REVISIONS, Report, lost, run
from tests.wire.through import behind

pytestmark = pytest.mark.proves("SURF-7")

NO_SUCH_TOOL: Mapping[str, str] = {
    "server-sse-polling": "the scenario's tool is unknown; that is refused at once, and there is no stream to look at",
}
"""What the npm package passes by accident."""
Direct = Callable[[str], Report]


@pytest.fixture(scope="module")
def sdk_server() -> Iterator[str]:
    with python_sdk() as url:
        yield url


@pytest.fixture(scope="module")
def npm_server() -> Iterator[str]:
    with npm_everything() as url:
        yield url


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_python_sdks_own_server_loses_nothing(tmp_path: Path, sdk_server: str, revision: str) -> None:
    direct = run(sdk_server, revision, tmp_path / "direct")
    assert sum(not outcome.failed for outcome in direct.values()) >= 33, "the server itself does not pass"
    with behind(tmp_path, {"url": sdk_server}) as url:
        assert lost(direct, run(url, revision, tmp_path / "through")) == {}


@pytest.fixture(scope="module")
def npm_direct(npm_server: str, tmp_path_factory: pytest.TempPathFactory) -> Direct:
    return functools.cache(lambda revision: run(npm_server, revision, tmp_path_factory.mktemp("direct")))


@pytest.mark.parametrize("pipe", [False, True], ids=["http", "stdio"])
def test_the_reference_server_from_npm_loses_nothing(
    tmp_path: Path, npm_server: str, npm_direct: Direct, pipe: bool
) -> None:
    direct = npm_direct("2025-11-25")
    assert sum(not outcome.failed for outcome in direct.values()) >= 10, "the server itself does not pass"
    with behind(tmp_path, npm_everything_on_a_pipe() if pipe else {"url": npm_server}) as url:
        missing = lost(direct, run(url, "2025-11-25", tmp_path / "through"))
    assert {name: lines for name, lines in missing.items() if name not in NO_SUCH_TOOL} == {}
