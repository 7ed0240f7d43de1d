"""Completion in real shells, of the names that a real gateway knows (USE-6)."""

from __future__ import annotations

import os
import pty
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mcpproxy_py.cli.completion import PATIENCE_VARIABLE, SAFE, catalog_slugs, client_names, fitting, statuses
from tests.support.gateway import clean_environment, gateway, python_server
from tests.support.readable import readable

pytestmark = pytest.mark.proves("USE-6")

Shell = Callable[..., list[str]]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    config = {"mcpServers": {"plain": python_server("plain.py"), "other": python_server("plain.py", lazy=True)}}
    with gateway(tmp_path_factory.mktemp("site") / "data", config) as running:
        yield running.data_dir


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "mcpproxy"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -m mcpproxy_py "$@"\n')
    path.chmod(0o755)
    return path


def environment(program: Path, data_dir: Path, **more: str) -> dict[str, str]:
    path = f"{program.parent}:{os.environ['PATH']}"
    more = {PATIENCE_VARIABLE: "30", **more}
    return clean_environment(PATH=path, MCPPROXY_DATA_DIR=str(data_dir), HOME=str(program.parent), **more)


def script(program: Path, shell: str) -> str:
    env = {**clean_environment(), "_MCPPROXY_COMPLETE": f"source_{shell}"}
    return subprocess.run([program], env=env, capture_output=True, text=True, timeout=60, check=True).stdout


def completed_by_bash(program: Path, data_dir: Path, *words: str, **more: str) -> list[str]:
    """By the installed function, with the words as bash splits them."""
    line = f"""
{script(program, "bash")}
COMP_WORDS=({" ".join(f"'{word}'" for word in words)}); COMP_CWORD={len(words) - 1}
_mcpproxy_completion mcpproxy; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "--norc", "-c", line], env=environment(program, data_dir, **more),
                          capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split()


OFFERED: list[tuple[list[str], set[str]]] = [
    (["upstream", "restart", ""], {"plain", "other"}),
    (["upstream", "restart", "pl"], {"plain"}),
    (["logs", "o"], {"other"}),
    (["tools", "list", "--server", "p"], {"plain"}),
    (["tools", "list", "--server", "=", "p"], {"plain"}),
    (["call", "tool-read", "plain:ec"], {"plain:echo"}),
    (["call", "tool-read", "plain", ":", "ec"], {"echo"}),
    (["call", "tool-read", "--tool-name", "plain", ":", "ec"], {"echo"}),
    (["explain", "plain", ":"], {"echo", "delete_note"}),
    (["activity", "list", "--status", "su"], {"success"}),
    (["activity", "watch", "--tool", "ech"], {"echo"}),
    (["config", "set", "log."], {"log.level", "log.format"}),
    (["config", "get", "mcpServers.plain.conf"], {"mcpServers.plain.confirm", "mcpServers.plain.confirm_by"}),
    (["upstr"], {"upstream"}),
]


@pytest.mark.parametrize(("words", "among"), OFFERED, ids=[" ".join(words) for words, _ in OFFERED])
def test_bash_is_given_what_the_gateway_knows(program: Path, data_dir: Path, words: list[str], among: set[str]) -> None:
    found = set(completed_by_bash(program, data_dir, "mcpproxy", *words))
    assert among <= found
    assert words[-1] in ("", ":") or found == among


def test_a_key_that_is_pressed_completes_a_tool_on_the_line(program: Path, data_dir: Path, tmp_path: Path) -> None:
    """An interactive bash: what stands before the colon is not written a second time."""
    (tmp_path / "completion.sh").write_text(script(program, "bash"))
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        ["bash", "--norc", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env=environment(program, data_dir, TERM="dumb", PS1="> "),
    )  # fmt: skip
    os.close(theirs)

    def reads(until: str, seen: str = "") -> str:
        deadline = time.monotonic() + 60
        while until not in seen:
            assert readable([ours], deadline - time.monotonic()), seen
            seen += os.read(ours, 65536).decode()
        return seen

    try:
        reads("> ")
        os.write(ours, f". {tmp_path}/completion.sh\n".encode())
        reads("> ", reads("\n").partition("\n")[2])
        os.write(ours, b"echo mcpproxy; mcpproxy call tool-read plain:ech\t")
        assert "mcpproxy call tool-read plain:echo " in reads("plain:echo ")
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_is_given_the_same(program: Path, data_dir: Path) -> None:
    env = environment(
        program, data_dir, _MCPPROXY_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="mcpproxy call tool-read plain:ec"
    )
    made = subprocess.run([program], env=env, capture_output=True, text=True, timeout=60, check=True).stdout
    # The names as zsh reads them out of what it evaluates.
    line = f'_arguments() {{ print -r -- "$1" }}; {made}'
    done = subprocess.run(["zsh", "-f", "-c", line], capture_output=True, text=True, timeout=60, check=True)
    assert "plain" in done.stdout and "echo" in done.stdout and "delete" not in done.stdout


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_is_given_the_same(program: Path, data_dir: Path) -> None:
    asked = ("mcpproxy call tool-read plain:ec", "mcpproxy upstream restart pl")
    line = "\n".join([script(program, "fish"), *(f"complete -C '{words}'" for words in asked)])
    done = subprocess.run(["fish", "--no-config", "-c", line], env=environment(program, data_dir), capture_output=True,
                          text=True, timeout=60, check=True)  # fmt: skip
    assert done.stdout.split() == ["plain:echo", "plain"]


EVIL = [
    "$(touch x)",
    "`id`",
    "a;b",
    "a b",
    "a'b",
    'a"b',
    "a\\$(x)",
    "a\nb",
    "a\x1b[2J",
    "-rf",
    "~",
    "*",
    "é",
    "",
    "x" * 300,
    "a|b",
]


@pytest.mark.parametrize("name", EVIL, ids=repr)
def test_a_name_that_a_shell_would_act_on_is_never_offered(name: str) -> None:
    assert fitting([name, "good", 3, None], "") == ["good"]
    assert not SAFE.fullmatch(name)


def test_without_a_gateway_the_servers_of_the_file_are_offered(program: Path, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    (data_dir / "mcp_config.json").write_text('{"mcpServers": {"git": {"command": "x"}, "// c": "", "$(x)": {}}}')
    assert completed_by_bash(program, data_dir, "mcpproxy", "upstream", "remove", "") == ["git"]
    assert completed_by_bash(program, data_dir, "mcpproxy", "call", "tool-read", "") == []
    (data_dir / "mcp_config.json").write_text("{ broken")
    assert completed_by_bash(program, data_dir, "mcpproxy", "upstream", "remove", "") == []


def test_a_gateway_that_does_not_answer_is_not_waited_for_and_one_by_address_is_told_nothing(
    program: Path, tmp_path: Path
) -> None:
    """It listens, takes the connection and says nothing."""
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    (data_dir / "admin.key").write_text("mcpk_" + "t" * 43)
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as private:
        private.bind(str(data_dir / "api.sock"))
        private.listen()
        url = f"http://127.0.0.1:{tcp.getsockname()[1]}"
        (data_dir / "gateway.json").write_text(
            f'{{"pid": {os.getpid()}, "url": "{url}", "rest_socket": "{data_dir}/api.sock"}}'
        )
        tcp.settimeout(0.2)
        quick = {PATIENCE_VARIABLE: "0.5"}
        assert completed_by_bash(program, data_dir, "mcpproxy", "upstream", "remove", "", **quick) == []
        words = ("mcpproxy", "--listen", url.removeprefix("http://"), "upstream", "remove", "")
        assert completed_by_bash(program, data_dir, *words) == []
        with pytest.raises(TimeoutError):
            heard.append(tcp.accept()[0].recv(1))
    assert heard == []


def test_names_that_this_program_knows_itself() -> None:
    assert statuses("bl") == ["blocked"]
    assert client_names("c") == ["claude-code", "claude-desktop", "cline", "codex", "cursor"]
    assert "github" in catalog_slugs("git")
