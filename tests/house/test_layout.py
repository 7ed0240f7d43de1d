"""The package can be found through: few entries at a level, no module too long, and one name for one class.

All is computed from the tree. What is over a limit is listed with today's figure, and the lists only ever shrink: an
exception that nobody needs any more is taken out.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "mcpproxy_py"

MOST_ENTRIES = 15
WIDER: dict[str, int] = {".": 17}
"""Levels with more, and how many they may have."""
HISTORY = "migrations/versions"
"""Here one is added for each change of the tables, and none goes."""

MOST_LINES = 400
LONGER: dict[str, int] = {
    "bench/models.py": 408, "core/policy/rungs.py": 413, "gateway/gateway.py": 425, "upstream/session/rpc.py": 541,
}  # fmt: skip
"""Modules with more, and how many they may have."""

SHARED_NAMES: set[str] = set()
"""Names that more than one class has."""


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def levels() -> dict[str, int]:
    """How many modules and packages there are in each package, `__init__` apart."""
    counted: Counter[str] = Counter()
    for path in {each for module in modules() for each in (module, *module.parents) if PACKAGE in each.parents}:
        if path.name != "__init__.py":
            counted[path.parent.relative_to(PACKAGE).as_posix()] += 1
    return {level: count for level, count in counted.items() if not level.endswith(HISTORY)}


def lines() -> dict[str, int]:
    return {path.relative_to(PACKAGE).as_posix(): len(path.read_text().splitlines()) for path in modules()}


def class_names() -> Iterator[str]:
    for path in modules():
        yield from (node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef))


def shared() -> set[str]:
    return {name for name, count in Counter(class_names()).items() if count > 1}


def over(found: dict[str, int], most: int, exceptions: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in found.items() if count > exceptions.get(name, most)}


def unneeded(found: dict[str, int], most: int, exceptions: dict[str, int]) -> set[str]:
    return {name for name in exceptions if found.get(name, 0) <= most}


def test_no_level_has_more_entries_than_one_can_look_over() -> None:
    found = levels()
    assert over(found, MOST_ENTRIES, WIDER) == {}, "put what belongs together into a package"
    assert unneeded(found, MOST_ENTRIES, WIDER) == set(), "take these out of WIDER"


def test_no_module_is_too_long() -> None:
    found = lines()
    assert over(found, MOST_LINES, LONGER) == {}
    assert unneeded(found, MOST_LINES, LONGER) == set(), "take these out of LONGER"


def test_a_class_has_its_name_for_itself() -> None:
    assert shared() - SHARED_NAMES == set(), "one name means one thing: find another, HOUSE's glossary has the field's"
    assert SHARED_NAMES - shared() == set(), "take these out of SHARED_NAMES"
