"""The profile that a project names: what is read, how far one looks, and what is refused (SURF-12)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcpproxy_py.cli.stdio.project import FILE, LARGEST, ProjectError, profiles_around, profiles_at

pytestmark = pytest.mark.proves("SURF-12")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path.resolve() / "home"
    (made / "work" / "shop" / "web").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(made))
    return made


def names(directory: Path, name: str) -> None:
    (directory / FILE).write_text(f'{{"profile": "{name}"}}')


def test_no_file_is_no_profile(home: Path) -> None:
    assert profiles_around(home / "work" / "shop") == []
    assert profiles_around(Path("/")) == []


def test_all_that_stand_on_the_way_to_the_root_of_the_repository_apply(home: Path) -> None:
    shop = home / "work" / "shop"
    names(home / "work", "beyond")
    names(shop, "shop")
    names(shop / "web", "frontend")
    assert profiles_around(shop / "web") == ["frontend", "shop", "beyond"], "no repository: up to the home directory"
    (shop / ".git").mkdir()
    assert profiles_around(shop / "web") == ["frontend", "shop"]
    (shop / ".git").rmdir()
    (shop / ".git").write_text("gitdir: elsewhere")
    assert profiles_around(shop / "web") == ["frontend", "shop"], "a worktree has a file there"


def test_neither_the_home_directory_is_a_project_nor_what_is_above_one_elsewhere(home: Path) -> None:
    names(home, "everybody")
    names(home.parent, "outside")
    (home.parent / "tmp" / "x").mkdir(parents=True)
    names(home.parent / "tmp", "strangers")
    assert profiles_around(home / "work") == []
    assert profiles_around(home.parent / "tmp" / "x") == []
    assert profiles_around(home.parent / "tmp") == ["strangers"]


def test_roots_are_files_of_this_machine_and_all_of_them_apply(home: Path) -> None:
    names(home / "work" / "shop", "shop")
    (home / "work" / "a b").mkdir()
    names(home / "work" / "a b", "other")
    roots = [(home / "work" / "shop").as_uri(), (home / "work" / "a b").as_uri(), "https://example.com/x", "nonsense",
             "file:relative", f"file://elsewhere{home}/work/shop", (home / "gone").as_uri(), "file:///%00"]  # fmt: skip
    assert profiles_at(roots) == ["shop", "other"]
    assert profiles_at(["vscode-remote://x", "file://[", ""]) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not valid JSON"),
        ("{", "is not valid JSON"),
        ('"frontend"', "holds no object"),
        ("[]", "holds no object"),
        ("{}", "names no profile"),
        ('{"profile": null}', "names no profile"),
        ('{"profile": ["a"]}', "names no profile"),
        ('{"profile": "A B"}', "names no profile"),
        ('{"profile": "../x"}', "names no profile"),
        ('{"profile": "a\\n"}', "names no profile"),
        (f'{{"profile": "{"a" * 33}"}}', "names no profile"),
        ('{"profile": "a", "servers": ["b"]}', "a key that is not known"),
        ('{"profile": "a", "profile": "b"}', "a key stands twice"),
        ("\ufeff{}", "is not valid JSON"),
        ("[" * 4000, "is not valid JSON"),
        (f'{{"profile": "a"}}{" " * LARGEST}', "is larger than"),
        ("x" * 10_000_000, "is larger than"),
    ],
)
def test_a_file_that_is_wrong_is_an_error_with_the_way_out(home: Path, text: str, why: str) -> None:
    (home / "work" / FILE).write_text(text)
    with pytest.raises(ProjectError, match=why) as raised:
        profiles_around(home / "work")
    assert str(home / "work" / FILE) in str(raised.value)
    assert "mcpproxy profiles list" in str(raised.value)


def test_what_is_no_utf8_is_an_error(home: Path) -> None:
    (home / "work" / FILE).write_bytes(b'{"profile": "\xff"}')
    with pytest.raises(ProjectError, match="is not valid JSON"):
        profiles_around(home / "work")


def test_links_are_not_followed_and_what_is_no_file_is_not_read(home: Path) -> None:
    names(home, "target")
    place = home / "work" / FILE
    place.symlink_to(home / FILE)
    with pytest.raises(ProjectError, match="no regular file"):
        profiles_around(home / "work")
    place.unlink()
    place.symlink_to("nowhere")
    with pytest.raises(ProjectError, match="no regular file"):
        profiles_around(home / "work")
    place.unlink()
    place.mkdir()
    with pytest.raises(ProjectError, match="no regular file"):
        profiles_around(home / "work")
    place.rmdir()
    os.mkfifo(place)
    with pytest.raises(ProjectError, match="no regular file"):  # and does not wait for somebody to write
        profiles_around(home / "work")


def test_a_directory_that_is_a_link_is_the_one_it_leads_to(home: Path) -> None:
    names(home / "work" / "shop", "shop")
    (home / "elsewhere").symlink_to(home / "work" / "shop")
    assert profiles_at([(home / "elsewhere").as_uri()]) == ["shop"]
