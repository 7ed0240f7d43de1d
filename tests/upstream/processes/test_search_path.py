"""Where commands are looked for beyond the gateway's own PATH, with real shells and real directories (UP-12)."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from mcpproxy_py.errors import UpstreamFailure
from mcpproxy_py.upstream.processes import search_path
from mcpproxy_py.upstream.processes.command import on_own_path, resolve, working_directory
from mcpproxy_py.upstream.processes.search_path import LoginShell, ask, beyond, is_trusted, login_shell, well_known
from mcpproxy_py.upstream.spec import UpstreamSpec

pytestmark = pytest.mark.proves("UP-12")

BASH = shutil.which("bash") or "/bin/bash"


def program(place: Path, name: str) -> Path:
    place.mkdir(parents=True, exist_ok=True, mode=0o755)
    made = place / name
    made.write_text("#!/bin/sh\n")
    made.chmod(0o755)
    return made


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of nobody's, and no answer of a shell from before."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", BASH)
    for name in ("NVM_DIR", "FNM_DIR", "VOLTA_HOME", "ASDF_DATA_DIR", "MISE_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(search_path, "_LOGIN", LoginShell())
    return tmp_path


def test_the_login_shell_is_asked_whatever_its_start_files_print(home: Path) -> None:
    (home / ".bash_profile").write_text(
        'echo "Welcome! mcpproxy-<not me>"; printf "no newline"; export PATH="/from/the profile:$PATH"\n'
        "trap 'echo goodbye' EXIT\n"
    )
    said = ask(BASH, {"HOME": str(home), "PATH": "/usr/bin:/bin"}, 30)
    assert said is not None
    assert said.startswith("/from/the profile:/")
    assert "\n" not in said


@pytest.mark.parametrize("profile", ["sleep 60", "exec sleep 60", "while :; do echo junk; done"])
def test_a_shell_that_does_not_answer_is_waited_for_so_long_and_not_longer(home: Path, profile: str) -> None:
    (home / ".bash_profile").write_text(f"{profile}\n")
    begun = time.monotonic()
    assert ask(BASH, {"HOME": str(home), "PATH": "/usr/bin:/bin"}, 0.3) is None
    assert time.monotonic() - begun < 30


def test_a_shell_that_is_told_to_end_can_let_go_of_its_locks(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As pyenv's start file: killed at once, it leaves a lock behind for which every later shell waits a minute."""
    monkeypatch.setattr(search_path, "GRACE", 0.2)
    lock = home / "lock"
    (home / ".bash_profile").write_text(f"trap 'rm {lock}; exit' HUP; touch {lock}; sleep 300 & wait\n")
    assert ask(BASH, {"HOME": str(home), "PATH": "/usr/bin:/bin"}, 0.5) is None
    deadline = time.monotonic() + 30
    while lock.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not lock.exists()


@pytest.mark.parametrize("shell", ["/bin/false", "/usr/sbin/nologin", "bash", "/no/such/bash", str(Path(__file__))])
def test_what_is_no_shell_that_can_be_asked_is_not_run(shell: str) -> None:
    assert login_shell({"SHELL": shell}) is None


def test_the_shell_is_asked_once(home: Path) -> None:
    count = home / "count"
    (home / ".bash_profile").write_text(f"echo x >> {count}\n")
    login = LoginShell()
    for _ in range(3):
        assert login.path({"HOME": str(home), "SHELL": BASH, "PATH": "/usr/bin:/bin"})[0] == BASH
    assert len(count.read_text().splitlines()) == 1


def test_directories_that_others_can_write_to_are_left_out(tmp_path: Path) -> None:
    mine, worlds, groups = (tmp_path / name for name in ("mine", "worlds", "groups"))
    for place, mode in ((mine, 0o755), (worlds, 0o757), (groups, 0o775)):
        place.mkdir()
        place.chmod(mode)
    assert is_trusted(str(mine))
    assert not is_trusted(str(worlds))
    assert is_trusted(str(groups)), "one's own group"
    assert not is_trusted("/tmp")
    assert not is_trusted(str(tmp_path / "none"))
    if os.geteuid() == 0:
        os.chown(groups, 0, 12345)
        assert not is_trusted(str(groups))
        os.chown(mine, 12345, 0)
        assert not is_trusted(str(mine))


@pytest.mark.parametrize(
    ("alias", "chosen"),
    [("v18.1.0", "v18.1.0"), ("18", "v18.1.0"), ("lts/hydrogen", "v18.1.0"), ("node", "v22.3.0"), (None, "v22.3.0"),
     ("../../../etc/passwd", "v22.3.0"), ("9", "v22.3.0")],
)  # fmt: skip
def test_of_nvms_versions_it_is_that_of_the_default_alias_or_the_newest(
    tmp_path: Path, alias: str | None, chosen: str
) -> None:
    for version in ("v9.11.2", "v18.1.0", "v22.3.0", "system"):
        program(tmp_path / ".nvm/versions/node" / version / "bin", "npx")
    if version := alias:
        (tmp_path / ".nvm/alias/lts").mkdir(parents=True)
        (tmp_path / ".nvm/alias/default").write_text(f"{version}\n")
        (tmp_path / ".nvm/alias/lts/hydrogen").write_text("v18.1.0\n")
    if alias == "9":
        shutil.rmtree(tmp_path / ".nvm/versions/node/v9.11.2")
    found = [one for one in well_known({"HOME": str(tmp_path)}) if ".nvm" in one]
    assert found == [str(tmp_path / ".nvm/versions/node" / chosen / "bin")]


def test_the_usual_places_are_those_that_exist(tmp_path: Path) -> None:
    for place in (".local/bin", ".cargo/bin", ".volta/bin", ".asdf/shims", ".local/share/mise/shims",
                  ".local/share/fnm/node-versions/v20.1.0/installation/bin"):  # fmt: skip
        (tmp_path / place).mkdir(parents=True)
    found = [one.removeprefix(f"{tmp_path}/") for one in well_known({"HOME": str(tmp_path)}) if str(tmp_path) in one]
    assert found == [".local/bin", ".cargo/bin", ".local/share/fnm/node-versions/v20.1.0/installation/bin",
                     ".volta/bin", ".asdf/shims", ".local/share/mise/shims"]  # fmt: skip


def test_a_command_beyond_the_own_path_is_found_with_its_neighbours(home: Path) -> None:
    theirs = program(home / ".nvm/versions/node/v22.3.0/bin", "npx-of-tests")
    spec = UpstreamSpec("s", command="npx-of-tests")
    env = {"PATH": "/usr/bin:/bin"}
    assert not on_own_path(spec, env)
    found = resolve(spec, env)
    assert found.program == str(theirs)
    assert found.path is not None
    assert found.path.startswith("/usr/bin:/bin:")
    assert str(theirs.parent) in found.path.split(":")


def test_the_shells_path_goes_before_the_usual_places(home: Path) -> None:
    program(home / ".local/bin", "tool-of-tests")
    chosen = program(home / "chosen", "tool-of-tests")
    (home / ".bash_profile").write_text(f"PATH={chosen.parent}:relative:$PATH\n")
    found = resolve(UpstreamSpec("s", command="tool-of-tests"), {"PATH": "/usr/bin:/bin"})
    assert found.program == str(chosen)
    assert "relative" not in (found.path or "").split(":")


def test_a_command_on_the_own_path_asks_nobody(home: Path) -> None:
    (home / ".bash_profile").write_text(f"touch {home / 'asked'}\n")
    mine = program(home / "mine", "tool-of-tests")
    assert resolve(UpstreamSpec("s", command="tool-of-tests"), {"PATH": str(mine.parent)}) == (str(mine), None)
    assert not (home / "asked").exists()


def test_an_entrys_own_path_is_all_there_is(home: Path) -> None:
    program(home / ".local/bin", "tool-of-tests")
    spec = UpstreamSpec("s", command="tool-of-tests", env={"PATH": "/usr/bin"})
    with pytest.raises(UpstreamFailure, match="looked only in the PATH that its `env` gives"):
        resolve(spec, {"PATH": "/usr/bin"})


def test_who_does_not_find_it_says_where_it_looked_and_what_installs_it(home: Path) -> None:
    (home / ".local/bin").mkdir(parents=True)
    with pytest.raises(UpstreamFailure) as failed:
        resolve(UpstreamSpec("s", command="uvx-of-tests"), {"PATH": "/usr/bin:/bin"})
    assert failed.value.message.startswith(
        "command not found: uvx-of-tests (install it, or give its full path); looked"
    )
    for place in ("PATH (/usr/bin, /bin)", "login shell (bash)", "~/.local/bin"):
        assert place in failed.value.message
    assert beyond("/usr/bin:/bin").shell == BASH


def test_a_server_without_a_cwd_runs_in_a_directory_without_a_project(tmp_path: Path) -> None:
    work = tmp_path / "data" / "work"
    spec = UpstreamSpec("s", command="x", work_dir=str(work))
    assert [working_directory(spec), working_directory(spec)] == [str(work), str(work)]
    assert work.stat().st_mode & 0o777 == 0o700
    assert (work / "package.json").read_text() == '{"private": true}\n'
    assert working_directory(UpstreamSpec("s", command="x", cwd="/", work_dir=str(work))) == "/"
    assert working_directory(UpstreamSpec("s", command="x")) is None


@pytest.mark.parametrize("arg", [".", "..", "./server.py", "../x", "server.py"])
def test_a_relative_path_without_a_cwd_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arg: str
) -> None:
    project = tmp_path / "project"
    program(project, "server.py")
    monkeypatch.chdir(project)
    spec = UpstreamSpec("s", command="sh", args=("-x", arg), work_dir=str(tmp_path / "work"))
    with pytest.raises(UpstreamFailure, match="is a relative path, and servers run in"):
        resolve(spec, os.environ)
    with pytest.raises(UpstreamFailure, match="is a relative path"):
        resolve(UpstreamSpec("s", command="./server.py", work_dir=str(tmp_path / "work")), os.environ)
    here = UpstreamSpec("s", command="sh", args=("-x", arg), cwd=str(project), work_dir=str(tmp_path / "work"))
    assert os.path.basename(resolve(here, os.environ).program) == "sh"


def test_a_relative_path_below_the_working_directory_and_what_is_no_path_are_left_alone(tmp_path: Path) -> None:
    work = tmp_path / "work"
    program(work, "mine.sh")
    for args in (("./mine.sh",), ("-m", "package.module"), ("@scope/name@1.2",), ("--dir=./x",), ("",)):
        assert resolve(UpstreamSpec("s", command="sh", args=args, work_dir=str(work)), os.environ)
