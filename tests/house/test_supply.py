"""What is installed is known: every dependency is bounded above, and locked by hash for CI and the image (SEC-9)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.lock import LOCKS

pytestmark = pytest.mark.proves("SEC-9")

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT: dict[str, Any] = PYPROJECT["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
OURS = canonicalize_name(PROJECT["name"])
_LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;]+)((?: ;[^\\]*)?) \\$")
_HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")


def wanted(*extras: str) -> Iterator[Requirement]:
    """What the project says that it needs, with what its own extras stand for."""
    for text in (*PROJECT["dependencies"], *(each for extra in extras for each in EXTRAS[extra])):
        requirement = Requirement(text)
        if canonicalize_name(requirement.name) == OURS:
            yield from wanted(*requirement.extras)
        else:
            yield requirement


def listed(path: str) -> list[Requirement]:
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]


def sources(name: str) -> list[Requirement]:
    parts = [part for part in LOCKS[name] if part not in ("-c", "requirements/dev.txt")]
    extras = [part for before, part in pairwise(parts) if before == "--extra"]
    found = [each for part in parts if part.endswith(".in") for each in listed(part)]
    return [*(wanted(*extras) if "pyproject.toml" in parts else ()), *found]


def locked(name: str) -> dict[str, set[str]]:
    """Names to their versions: several, where it depends on the Python or the platform."""
    found: dict[str, set[str]] = {}
    for line in (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if match := _LOCKED.match(line):
            found.setdefault(canonicalize_name(match[1]), set()).add(match[2])
    return found


def test_every_dependency_has_an_upper_bound() -> None:
    every = [*wanted(*EXTRAS), *map(Requirement, PYPROJECT["build-system"]["requires"])]
    every += [each for path in (ROOT / "requirements").glob("*.in") for each in listed(f"requirements/{path.name}")]
    unbounded = [str(each) for each in every if not any(part.operator in ("<", "==") for part in each.specifier)]
    assert unbounded == []


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_covers_what_it_is_made_of(name: str) -> None:
    versions = locked(name)
    for requirement in sources(name):
        held = versions.get(canonicalize_name(requirement.name), set())
        assert held, f"requirements/{name}.txt lacks {requirement}: run `python -m tests.house.lock`"
        assert any(requirement.specifier.contains(version) for version in held), (
            f"requirements/{name}.txt has {requirement.name} {held}, and {requirement.specifier} is wanted: "
            "run `python -m tests.house.lock`"
        )
    assert OURS not in versions


@pytest.mark.parametrize("name", LOCKS)
def test_every_line_of_a_lock_is_an_exact_version_with_its_hashes(name: str) -> None:
    lines = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        assert _LOCKED.match(line) or _HASH.match(line), line
        assert not _LOCKED.match(line) or _HASH.match(after), f"no hash: {line}"


@pytest.mark.parametrize("name", ["runtime", "image", "build"])
def test_what_is_shipped_is_what_is_tested(name: str) -> None:
    tested = locked("dev")
    for package, versions in locked(name).items():
        assert versions <= tested.get(package, versions), package


def test_what_builds_the_wheel_is_what_pyproject_asks_for() -> None:
    asked = {str(Requirement(each)) for each in PYPROJECT["build-system"]["requires"]}
    assert asked <= {str(each) for each in listed("requirements/build.in")}


def test_ci_and_the_image_install_from_the_locks_alone() -> None:
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    docker = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    for text, names in ((run, ("dev", "build", "runtime", "image", "tools")), (docker, ("build", "image"))):
        for name in names:
            (line,) = [line for line in text.splitlines() if f"-r requirements/{name}.txt" in line]
            assert "--require-hashes" in line
        for line in text.splitlines():
            if re.search(r"\bpip\"? (install|wheel|download)\b", line) and "README" not in line:
                assert "--require-hashes" in line or "--no-index" in line or "-e '.[dev]'" in line, line
    assert "PIP_NO_INDEX=1" in run, "the README's line and the build have nothing but what was fetched by hash"
    assert "cyclonedx-py" in run
