"""The official conformance suite, run against an address, and what it said, scenario by scenario."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.node import environment, node, packages

HERE = Path(__file__).parent
REVISIONS = ("2025-11-25", "2026-07-28")
TIMEOUT = 600
SCENARIO_TIMEOUT_MS = 120_000
"""The suite's own is 30 seconds, in which a client also has to start."""
BAD = ("FAILURE", "WARNING")
"""The suite's own list of expected failures counts a warning as a failure, and so do we."""


@dataclass(frozen=True)
class Outcome:
    """What one scenario said."""

    passed: Counter[str]
    """Check by check: the same check may be made several times in one scenario."""
    failed: tuple[str, ...]
    seen: frozenset[str]


Report = Mapping[str, Outcome]


def run(url: str, revision: str, output: Path) -> Report:
    """Every scenario that a revision requires or lists, none of which may be allowed to fail."""
    options = ["--url", url, "--requirements", revision, "--output-dir", str(output)]
    allowed = ["--expected-failures", str(HERE / "expected-failures.yaml")]
    found = _suite("server", *options, *allowed)
    report = {_scenario(path): _outcome(path) for path in sorted(output.iterdir())}
    assert report, f"the suite did not run:\n{found.stdout[-2000:]}\n{found.stderr[-2000:]}"
    assert "Stale baseline entries" not in found.stdout, found.stdout[-2000:]
    return report


def run_extension(url: str, scenarios: Iterable[str], output: Path) -> Report:
    """Scenarios of an extension, which are in the requirements of no revision."""
    of_the_latest = ("--spec-version", REVISIONS[-1], "--force")
    return {each: run_scenario(url, each, output / each, *of_the_latest) for each in scenarios}


def run_scenario(url: str, scenario: str, output: Path, *options: str) -> Outcome:
    """One scenario for servers."""
    found = _suite("server", "--url", url, "--scenario", scenario, *options, "--output-dir", str(output))
    paths = list(output.rglob("checks.json"))
    assert len(paths) == 1, f"the suite did not run:\n{found.stdout[-2000:]}\n{found.stderr[-2000:]}"
    return _outcome(paths[0].parent)


def run_client(command: str, revision: str | None, scenario: str, output: Path, env: Mapping[str, str]) -> Outcome:
    """One scenario for clients; the suite starts the command with the address of its server. Extensions are of no
    revision."""
    options = ["--command", command, "--scenario", scenario, *(["--spec-version", revision] if revision else [])]
    found = _suite("client", *options, "--output-dir", str(output), **env)
    paths = list(output.rglob("checks.json"))
    assert len(paths) == 1, f"the suite did not run:\n{found.stdout[-2000:]}\n{found.stderr[-2000:]}"
    return _outcome(paths[0].parent)


def _suite(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    script = packages(HERE / "npm") / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    patient = ["--require", str(HERE / "npm" / "patient.cjs")]
    return subprocess.run(
        [node(), *patient, str(script), *args, "--timeout", str(SCENARIO_TIMEOUT_MS)],
        env={**environment(), **env},
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )


def _scenario(path: Path) -> str:
    found = re.fullmatch(r"server-(.+?)-\d{4}-\d\d-\d\dT[\d-]+Z", path.name)
    assert found, path
    return found[1]


def _outcome(path: Path) -> Outcome:
    if not (written := path / "checks.json").exists():
        return Outcome(Counter(), ("unfinished: the suite gave this scenario up",), frozenset())
    checks: list[dict[str, Any]] = json.loads(written.read_text())
    passed = Counter(check["id"] for check in checks if check["status"] == "SUCCESS")
    failed = tuple(_said(check) for check in checks if check["status"] in BAD)
    return Outcome(passed, failed, frozenset(check["id"] for check in checks))


def _said(check: Mapping[str, Any]) -> str:
    return f"{check['id']}: {check.get('errorMessage')} {json.dumps(check.get('details'))[:600]}"


def failures(report: Report, only: Iterable[str] | None = None) -> dict[str, tuple[str, ...]]:
    """The scenarios that failed, with what the failing checks said."""
    names = report if only is None else [name for name in report if name in set(only)]
    return {name: report[name].failed for name in names if report[name].failed}


def lost(direct: Report, through: Report) -> dict[str, tuple[str, ...]]:
    """What passes directly and does not pass here: failed checks, and checks that were never reached.

    The second kind matters: a scenario whose checks are all left out does not fail. Where a server fails some checks of
    a scenario itself, the others are still compared.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name, expected in direct.items():
        if name not in through:
            found[name] = ("was not run",)
            continue
        got, excused = through[name], {_check(line) for line in expected.failed}
        failed = [line for line in got.failed if _check(line) not in excused]
        unreached = [f"{check} was not reached" for check in expected.passed if check not in got.seen]
        if gone := (*failed, *unreached):
            found[name] = gone
    return found


def _check(line: str) -> str:
    return line.partition(":")[0]
