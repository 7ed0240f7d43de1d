"""The page stays small, its modules short, and without what could make HTML of somebody's text (USE-2)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[2] / "mcpproxy_py" / "serve" / "page" / "static"
FILES = sorted(path for path in STATIC.rglob("*") if path.is_file())
MOST_BYTES = 250_000
MOST_LINES = 300
MOST_ENTRIES = 15
WIDER = {"parts": 21}
"""Folders with more, and how many they may have."""
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|\beval\(|new Function"
    r"|srcdoc|javascript:|setAttribute\(\s*[\"'](on|style)"
)
pytestmark = pytest.mark.proves("USE-2")


def test_all_of_the_page_is_small() -> None:
    assert sum(path.stat().st_size for path in FILES) <= MOST_BYTES


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".js"], ids=lambda path: path.name)
def test_a_module_is_short_and_never_makes_html_of_text(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < MOST_LINES
    assert FORBIDDEN.findall(text) == []
    assert re.findall(r"(?:from|import)\s*\(?[\"'](?!\.)", text) == [], "nothing comes from elsewhere"


def test_nothing_is_inline_or_from_elsewhere() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"style=|\son\w+=|<script(?![^>]*\ssrc=\"/ui/)|https?:", page) == []
    style = (STATIC / "style.css").read_text(encoding="utf-8")
    assert "url(" not in style and "@import" not in style


def test_no_folder_of_it_has_more_than_one_can_look_over() -> None:
    folders = {STATIC, *(path for path in STATIC.rglob("*") if path.is_dir())}
    counted = {folder.name: len(list(folder.iterdir())) for folder in folders}
    assert {name: count for name, count in counted.items() if count > WIDER.get(name, MOST_ENTRIES)} == {}
    assert {name for name in WIDER if counted[name] <= MOST_ENTRIES} == set(), "take these out of WIDER"
