"""What people see on terminals of 60, 80 and 120 columns, kept as text: `python -m tests.cli.snapshots --write` takes
it anew (USE-6). Everything of ours fits 40 columns too, and no colour is needed to understand it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.cli.snapshots import take
from tests.cli.snapshots.fixture import recorded_gateway
from tests.cli.snapshots.screen import screen
from tests.cli.snapshots.terminal import run

pytestmark = pytest.mark.proves("USE-6")

OURS = (("activity", "list"), ("activity", "list", "--all"), ("activity", "summary"), ("status",))


def kept() -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in take.FOLDER.glob("*.txt")}


def test_what_is_shown_is_what_was_looked_at() -> None:
    taken, known = take.taken(), kept()
    wrong = {name: text for name, text in taken.items() if text != known.get(name)}
    assert wrong == {}, "look at it, then: python -m tests.cli.snapshots --write"


def test_every_snapshot_is_taken_and_none_is_left_over() -> None:
    assert kept().keys() == set(take.FILES)


@pytest.mark.parametrize("name", take.FILES)
def test_no_line_is_wider_than_the_terminal(name: str) -> None:
    assert max(map(cell_len, kept()[name].splitlines())) <= int(name.split(".")[1])


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("terminal") / "data"
    with recorded_gateway(folder):
        yield folder


@pytest.mark.parametrize("words", OURS, ids=" ".join)
def test_a_terminal_of_40_columns_is_enough(data_dir: Path, words: tuple[str, ...]) -> None:
    shown = screen(run(words, 40, take.environment_of(data_dir), take.PROGRAM))
    lines = [line for line in shown.splitlines() if not line.startswith("Hidden:")]
    assert len(lines) > 5
    assert max(map(cell_len, lines)) <= 40


@pytest.mark.proves("CLI-2")
def test_colours_are_there_and_no_color_takes_them_away(data_dir: Path) -> None:
    environment = take.environment_of(data_dir)
    colours = re.compile(r"\x1b\[[0-9;]*3[0-7]m")
    assert not colours.search(run(("activity", "list"), 80, environment, take.PROGRAM))
    del environment["NO_COLOR"]
    assert colours.search(run(("activity", "list"), 80, environment, take.PROGRAM))


def test_the_signs_need_no_more_than_ascii_where_a_terminal_has_no_more(data_dir: Path) -> None:
    environment = {**take.environment_of(data_dir), "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    shown = screen(run(("activity", "list", "--server", "github"), 80, environment, take.PROGRAM))
    assert re.search(r"f43626c0  # r  github:delete_repo", shown)
    assert shown.isascii()


def test_one_record_is_a_page_and_is_found_by_its_short_id(data_dir: Path) -> None:
    shown = screen(run(("activity", "show", "f43626c0"), 80, take.environment_of(data_dir), take.PROGRAM))
    for line in (
        "⊘ blocked  github:delete_repo",
        "reason     tidy up the old fork",
        "decision   refused by class (strict mode)",
    ):
        assert line in shown.splitlines()
    assert "class refused; not reached: freeze" in shown
    assert '  "query": "login fails"' in shown
