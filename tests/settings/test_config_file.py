"""Edits of the configuration file change what they should and nothing else, or do not happen at all."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.settings import ConfigFile, load

pytestmark = pytest.mark.proves("CONF-1", "UP-1")

TEXT = """\
{
  "//": "first",
  "//": "second",
  "listen": "127.0.0.1:9000",
  "mcpServers": {
    "//": "the servers",
    "b": {
      "//": "why b",
      "command": "b",
      "//": "über",
      "args": [
        "1"
      ]
    },
    "// off": {
      "command": "off"
    },
    "a": {
      "command": "a"
    }
  },
  "shutdown_timeout": 2.5
}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "mcp_config.json"
    found.write_text(TEXT, encoding="utf-8")
    return found


def refused(code: Code, edit: Callable[[], Any]) -> str:
    with pytest.raises(GatewayError) as caught:
        edit()
    assert caught.value.code is code
    return caught.value.message


def test_adding_a_server_keeps_comments_order_and_everything_else(path: Path) -> None:
    ConfigFile(path).put_server("c", {"url": "http://x", "timeout": 5})
    last = '    "a": {\n      "command": "a"\n    }'
    added = last + ',\n    "c": {\n      "url": "http://x",\n      "timeout": 5\n    }'
    assert path.read_text(encoding="utf-8") == TEXT.replace(last, added)


def test_removing_a_server_leaves_the_others_and_says_what_it_was(path: Path) -> None:
    file = ConfigFile(path)
    before = path.read_text(encoding="utf-8")
    dropped = file.drop_server("b")
    assert dropped == {"command": "b", "args": ["1"]}
    assert list(file.servers()) == ["a"]
    text = path.read_text(encoding="utf-8")
    assert "why b" not in text and '"// off"' in text and '"second"' in text
    file.put_server("b", dropped)
    assert file.servers() == {"a": {"command": "a"}, "b": dropped}
    assert [line for line in before.splitlines() if "//" in line and "why b" not in line and "über" not in line] == [
        line for line in path.read_text(encoding="utf-8").splitlines() if "//" in line
    ]


def test_disabling_and_enabling_sets_one_key(path: Path) -> None:
    file = ConfigFile(path)
    file.set_enabled("b", False)
    assert file.servers()["b"] == {"command": "b", "args": ["1"], "enabled": False}
    file.set_enabled("b", True)
    assert file.servers()["b"]["enabled"] is True
    assert '"//": "why b"' in path.read_text(encoding="utf-8")


def test_replacing_a_server_keeps_its_place_and_its_comments(path: Path) -> None:
    ConfigFile(path).put_server("b", {"command": "new"}, replace=True)
    text = path.read_text(encoding="utf-8")
    assert '"//": "why b"' in text and '"//": "über"' in text and '"1"' not in text
    assert list(ConfigFile(path).servers()) == ["b", "a"]


def test_the_list_form_stays_a_list(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"mcpServers": [{"//": "x", "name": "a", "command": "a"}, {"name": "b", "command": "b"}]}')
    file = ConfigFile(path)
    file.put_server("c", {"command": "c"})
    file.put_server("a", {"command": "new"}, replace=True)
    file.set_enabled("c", False)
    assert file.drop_server("b") == {"command": "b"}
    assert json.loads(path.read_text())["mcpServers"] == [
        {"name": "a", "//": "x", "command": "new"},
        {"name": "c", "command": "c", "enabled": False},
    ]


@pytest.mark.parametrize("text", [None, "{}", '{"listen": "127.0.0.1:1"}'])
def test_the_first_server_needs_no_section_and_no_file(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "deep" / "er" / "c.json"
    if text is not None:
        path.parent.mkdir(parents=True)
        path.write_text(text)
    ConfigFile(path).put_server("a", {"command": "x"})
    assert load(config=path, environ={}).settings.servers["a"].command == "x"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.proves("OPS-2")
def test_an_edit_leaves_a_backup_and_both_are_for_the_owner_only(path: Path) -> None:
    path.chmod(0o644)
    ConfigFile(path).set_enabled("a", False)
    backup = path.with_name("mcp_config.json.bak")
    assert backup.read_text(encoding="utf-8") == TEXT
    assert [stat.S_IMODE(file.stat().st_mode) for file in (path, backup)] == [0o600, 0o600]
    assert sorted(file.name for file in path.parent.iterdir()) == ["mcp_config.json", "mcp_config.json.bak"]


def test_a_symlink_is_written_through(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "links" / "c.json"
    link.parent.mkdir()
    link.symlink_to(path)
    ConfigFile(link).set_enabled("a", False)
    assert link.is_symlink()
    assert ConfigFile(path).servers()["a"]["enabled"] is False
    assert path.with_name("mcp_config.json.bak").exists()


@pytest.mark.parametrize(
    ("code", "edit", "said"),
    [
        (Code.CONFLICT, lambda file: file.put_server("a", {"command": "x"}), "a server named 'a' exists already"),
        (Code.NOT_FOUND, lambda file: file.drop_server("zz"), "no server named 'zz'"),
        (Code.NOT_FOUND, lambda file: file.drop_server("//"), "no server named '//'"),
        (Code.NOT_FOUND, lambda file: file.set_enabled("// off", True), "no server named '// off'"),
        (
            Code.CONFIG_INVALID,
            lambda file: file.put_server("c", {"comand": "x"}),
            "mcpServers.c.comand is not a known key",
        ),
        (Code.CONFIG_INVALID, lambda file: file.put_server("C c", {"command": "x"}), "the name 'C c' is not valid"),
        (Code.CONFIG_INVALID, lambda file: file.put_server("catalog", {"command": "x"}), "catalog is the built-in"),
        (Code.CONFIG_INVALID, lambda file: file.put_server("c", {"command": "\ud800"}), "lone surrogate"),
        (Code.CONFIG_INVALID, lambda file: file.put_server("c", {"command": "x", "timeout": float("nan")}), "NaN"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_bad_edit_changes_nothing(path: Path, code: Code, edit: Callable[[ConfigFile], Any], said: str) -> None:
    assert said in refused(code, lambda: edit(ConfigFile(path)))
    assert path.read_text(encoding="utf-8") == TEXT
    assert [file.name for file in path.parent.iterdir()] == ["mcp_config.json"]


@pytest.mark.parametrize(
    "text", ['{"mcpServers": ', '{"listn": 1}', '{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}']
)
def test_a_broken_file_is_not_edited(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    refused(Code.CONFIG_INVALID, lambda: ConfigFile(path).put_server("b", {"command": "x"}))
    assert path.read_text() == text


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "c.json"
    assert str(path.parent) in refused(Code.CONFIG_INVALID, lambda: ConfigFile(path).put_server("a", {"command": "x"}))


EDITOR = """
import sys
from pathlib import Path
from mcpproxy_py.settings import ConfigFile
for number in range(8):
    ConfigFile(Path(sys.argv[1])).put_server(f"{sys.argv[2]}{number}", {"command": "x"})
"""


def test_editors_in_several_processes_lose_nothing(path: Path) -> None:
    root = Path(__file__).parents[2]
    editors = [subprocess.Popen([sys.executable, "-c", EDITOR, str(path), letter], cwd=root) for letter in "xy"]
    assert [editor.wait(timeout=60) for editor in editors] == [0, 0]
    assert len(ConfigFile(path).servers()) == 2 + 16


NAMES = st.sampled_from(["a", "b", "c-1", "d_2"])
TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=8)
TOOLS = TEXTS.filter(lambda text: bool(text.strip()) and text[:2] != "//")
CONFIGS = st.fixed_dictionaries(
    {"command": TEXTS.filter(lambda text: bool(text.strip()))},
    optional={
        "args": st.lists(TEXTS.filter(lambda text: "${" not in text), max_size=3),
        "timeout": st.integers(1, 100) | st.floats(0.001, 86_400),
        "lazy": st.booleans(),
        "tools": st.dictionaries(TOOLS, st.sampled_from(["read", "write"]), max_size=2),
    },
)  # fmt: skip
EDITS = st.lists(
    st.tuples(st.just("put"), NAMES, CONFIGS)
    | st.tuples(st.just("drop"), NAMES, st.none())
    | st.tuples(st.just("enabled"), NAMES, st.booleans()),
    max_size=8,
)


@settings(max_examples=40)
@given(comments=st.lists(TEXTS, max_size=3), listed=st.booleans(), edits=EDITS)
def test_any_edits_give_what_a_dictionary_would_and_keep_every_comment(
    comments: list[str], listed: bool, edits: list[tuple[str, str, Any]]
) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "c.json"
        written = "".join(f'"//": {json.dumps(comment)}, ' for comment in comments)
        path.write_text("{" + written + f'"mcpServers": {"[]" if listed else "{}"}' + "}", encoding="utf-8")
        file, model = ConfigFile(path), dict[str, dict[str, Any]]()
        for kind, name, value in edits:
            _apply(file, model, kind, name, value)
        assert {
            name: {k: v for k, v in server.items() if k != "name"} for name, server in file.servers().items()
        } == model
        pairs: list[tuple[str, Any]] = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=list)
        assert [value for key, value in pairs if key == "//"] == comments
        assert set(load(config=path, environ={}).settings.servers) == set(model)


def _apply(file: ConfigFile, model: dict[str, dict[str, Any]], kind: str, name: str, value: Any) -> None:
    if kind == "put":
        file.put_server(name, value, replace=True)
        model[name] = dict(value)
    elif name not in model:
        refused(Code.NOT_FOUND, lambda: file.drop_server(name))
    elif kind == "drop":
        assert file.drop_server(name) == model.pop(name)
    else:
        file.set_enabled(name, value)
        model[name]["enabled"] = value


@pytest.mark.proves("USE-9", "GATE-8")
def test_classes_of_single_tools_are_written_beside_what_is_there(path: Path) -> None:
    file = ConfigFile(path)
    before = file.servers()["b"]
    assert file.set_classes("b", {"look": "read", "st*r": "destructive"}) == {"look": None, "st*r": None}
    assert file.servers()["b"] == {**before, "tools": {"look": "read", "st[*]r": "destructive"}}
    entries = [{"when": {"required": ["x"]}, "class": "read"}, {"class": "write"}]
    assert file.set_classes("b", {"look": entries}) == {"look": "read"}
    assert file.set_classes("b", {"LOOK": "write"}) == {"LOOK": entries}, "the entry that means it, in its spelling"
    assert file.servers()["b"]["tools"] == {"look": "write", "st[*]r": "destructive"}
    file.set_classes("b", {"look": None, "st*r": None, "never": None})
    assert path.read_text(encoding="utf-8") == TEXT


@pytest.mark.proves("USE-9", "GATE-8")
def test_a_glob_of_a_persons_is_not_touched_by_the_class_of_a_tool_that_it_means(path: Path) -> None:
    file = ConfigFile(path)
    file.put_server("c", {"command": "c", "tools": {"get_*": "write", "// why": "because"}})
    file.set_classes("c", {"get_x": "read"})
    file.set_classes("c", {"get_x": None, "get_*": "destructive"})
    assert file.servers()["c"]["tools"] == {"get_*": "write", "get_[*]": "destructive"}
    assert "// why" in path.read_text(encoding="utf-8")


@pytest.mark.proves("USE-9")
def test_classes_that_mean_nothing_or_of_nobody_change_nothing(path: Path) -> None:
    refused(Code.CONFIG_INVALID, lambda: ConfigFile(path).set_classes("b", {"look": "harmless"}))
    refused(Code.CONFIG_INVALID, lambda: ConfigFile(path).set_classes("b", {"look": []}))
    refused(Code.NOT_FOUND, lambda: ConfigFile(path).set_classes("nobody", {"look": "read"}))
    assert path.read_text(encoding="utf-8") == TEXT
