"""What was frozen or thawed in quick turns, by one person and by several, holds from the answer on: whatever the
gateway reads again of it must not undo what was said since."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.attacks.target import Target, fresh, heard, over_rest
from tests.support.gateway import gateway

pytestmark = pytest.mark.proves("GATE-14")

TURNS = 60


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder: Path = tmp_path_factory.mktemp("freezing")
    servers = {"h": heard(folder, "h")}
    with gateway(folder / "data", {"mcpServers": servers}) as running:
        yield Target(running, folder, servers)


def code(target: Target, mark: str) -> str | None:
    """Of a write: `None` when it was done."""
    answer = over_rest(target.running, "h", "put", mark).json()
    return answer.get("code") or (answer.get("error") or {}).get("code")


def test_a_freeze_right_after_a_thaw_holds(target: Target) -> None:
    marks = [fresh() for _ in range(TURNS)]
    for mark in marks:
        target.thaw()
        target.freeze()
        assert code(target, mark) == "FROZEN"
    target.thaw()
    assert not [mark for mark in marks if target.log("h").has(mark)]


def test_a_thaw_right_after_a_freeze_holds(target: Target) -> None:
    for _ in range(TURNS):
        target.freeze()
        target.thaw()
        mark = fresh()
        assert code(target, mark) is None
        assert target.log("h").has(mark)


def test_a_freeze_holds_while_others_have_just_thawed(target: Target) -> None:
    """Whose freeze was answered last of all, finds it in force."""
    for _ in range(TURNS):
        with ThreadPoolExecutor(4) as people:
            for ended in [people.submit(target.thaw) for _ in range(3)]:
                ended.result()
            people.submit(target.freeze).result()
        mark = fresh()
        assert code(target, mark) == "FROZEN"
        assert not target.log("h").has(mark)
    target.thaw()
