"""The official suite's scenarios of skills: directly, passed through, and where several servers stand side by side.

They are of no revision, so they are run by their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.everything import over_http, over_stdio
from tests.support.gateway import Running, gateway
from tests.wire.suite import failures, lost, run_extension

pytestmark = pytest.mark.proves("SURF-10")

SCENARIOS = ("sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory")
NAMES = "sep-2640-names-should-be-unique"
"""Of one server's list. Two servers may have a skill of one name, and a name is what its file says."""


@pytest.fixture(scope="module")
def everything() -> Iterator[str]:
    """With lists of several pages."""
    with over_http("--page", "2") as url:
        yield url


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, everything: str) -> Iterator[Running]:
    """A server of the same skills stands beside it."""
    servers = {"everything": {"url": everything}, "other": over_stdio(), "plain": over_stdio("--page", "1")}
    config = {"surfaces": ["direct", "passthrough"], "mcpServers": servers}
    with gateway(tmp_path_factory.mktemp("skills") / "data", config) as running:
        running.wait_for(*servers)
        yield running


def test_skills_pass_through_and_stand_side_by_side_as_they_are(
    tmp_path: Path, everything: str, running: Running
) -> None:
    straight = run_extension(everything, SCENARIOS, tmp_path / "straight")
    assert failures(straight) == {}
    assert sum(sum(outcome.passed.values()) for outcome in straight.values()) > 40, "nothing was skipped"
    for name, path in (("through", "/s/everything"), ("over_stdio", "/s/other")):
        found = run_extension(f"{running.mcp}{path}", SCENARIOS, tmp_path / name)
        assert failures(found) == {}, name
        assert {each: found[each].passed for each in found} == {each: straight[each].passed for each in found}, name
    found = run_extension(f"{running.mcp}/direct", SCENARIOS, tmp_path / "direct")
    said = {
        each: [line for line in lines if not line.startswith(NAMES)] for each, lines in lost(straight, found).items()
    }
    assert not any(said.values()), said
