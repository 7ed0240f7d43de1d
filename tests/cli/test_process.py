"""What only a process of its own can show: exit statuses, pipes, terminals, imports."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from typing import Any

import pytest
import typer

from mcpproxy_py.cli.main import COMMANDS, app, loaded
from mcpproxy_py.cli.reference_page import PAGE, page
from tests.support.readable import readable

TIMEOUT = 60


def finished(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    out, err = process.communicate(timeout=TIMEOUT)
    return process.returncode, out, err


def on_a_terminal(command: Any, *args: str, typed: bytes = b"", env: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit status and everything that a person would have seen."""
    ours, theirs = pty.openpty()
    process = command(*args, stdin=theirs, stdout=theirs, stderr=theirs, env={"TERM": "xterm-256color", **(env or {})})
    os.close(theirs)
    os.write(ours, typed)
    seen, deadline = b"", time.monotonic() + TIMEOUT
    while time.monotonic() < deadline and readable([ours], deadline - time.monotonic()):
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # how Linux says that the other side is closed
            break
        if not chunk:
            break
        seen += chunk
    os.close(ours)
    return process.wait(timeout=TIMEOUT), seen.decode()


SERVERS = {"servers": [{"name": "time", "state": "connected", "transport": "stdio", "tool_count": 2, "error": None}]}
HEAVY = ("mcp", "mcp_types", "starlette", "uvicorn", "sqlalchemy", "alembic", "httpx", "pydantic", "rich", "yaml")


@pytest.mark.proves("CLI-2")
@pytest.mark.parametrize("args", [["--help"], ["--version"], ["upstream", "--help"], ["activity", "list", "--help"]])
def test_help_imports_no_server(command, args) -> None:
    watch = f"""
import sys
from mcpproxy_py.cli.main import main
try:
    main()
except SystemExit:
    print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", watch, *args], capture_output=True, timeout=TIMEOUT, check=False)
    # Typer itself uses pydantic to read the options that stand before a group's name.
    allowed = [b"[]\n", b"['pydantic']\n"] if len(args) > 1 else [b"[]\n"]
    assert done.stderr in allowed
    assert done.stdout


@pytest.mark.proves("CLI-2")
@pytest.mark.parametrize(
    ("args", "status"),
    [(["--version"], 0), (["activity", "show", "missing"], 1), (["tols"], 2), (["status", "-o", "xml"], 2),
     (["call", "tool-write", "--tool-name", "a:b"], 3), (["status", "--listen", "127.0.0.1:1"], 4)],
)  # fmt: skip
def test_exit_statuses(command, gateway, args, status) -> None:
    gateway.refuse("POST", "/call", 423, "FROZEN", "frozen")
    found, _, err = finished(command(*args))
    assert found == status
    assert b"Traceback" not in err


@pytest.mark.proves("CLI-2")
def test_an_unknown_command_names_the_nearest(command) -> None:
    assert b"Did you mean 'tools'?" in finished(command("tols"))[2]
    assert b"Did you mean 'list'?" in finished(command("tools", "lis"))[2]


@pytest.mark.proves("CLI-2")
def test_colour_on_a_terminal_and_none_with_no_color_or_in_a_pipe(command, gateway) -> None:
    gateway.answer("GET", "/servers", SERVERS)
    status, seen = on_a_terminal(command, "upstream", "list")
    assert (status, "\x1b[32mconnected" in seen) == (0, True)
    status, seen = on_a_terminal(command, "upstream", "list", env={"NO_COLOR": "1"})
    assert (status, "connected" in seen, "\x1b[3" in seen) == (0, True, False)
    status, out, _ = finished(command("upstream", "list", env={"FORCE_COLOR": "1", "COLUMNS": "20"}))
    head, row = (
        b"NAME  STATE      TRANSPORT  TOOLS  CLASSES  NO HINTS  SESSIONS  ERROR",
        b"time  connected  stdio      2",
    )
    assert (status, out.splitlines()[0], out.splitlines()[1][: len(row)]) == (0, head, row)


@pytest.mark.proves("CLI-2")
def test_removing_asks_on_a_terminal_and_no_means_no(command, gateway) -> None:
    gateway.answer("GET", "/config", {"mcpServers": {"time": {"command": "uvx\x1b[2J"}}})
    gateway.answer("DELETE", "/servers/time", {"removed": "time"})
    status, seen = on_a_terminal(command, "upstream", "remove", "time", typed=b"n\n")
    assert (status, "Remove the upstream time (uvx)? [y/N]" in seen) == (1, True)
    assert [request.method for request in gateway.seen] == ["GET"]
    status, seen = on_a_terminal(command, "upstream", "remove", "time", typed=b"y\n")
    assert (status, "Removed time." in seen, gateway.seen[-1].method) == (0, True, "DELETE")


@pytest.mark.proves("CLI-2")
def test_a_reader_that_had_enough_is_no_failure(command, gateway) -> None:
    lines = b"".join(b'{"id": "%d"}\n' % n for n in range(200_000))
    gateway.answer("GET", "/activity/export", lines)
    gateway.answer("GET", "/servers", {"servers": SERVERS["servers"] * 20_000})
    for args in (["activity", "export"], ["upstream", "list"], ["upstream", "list", "-o", "json"]):
        process = command(*args)
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=TIMEOUT) == 0


@pytest.mark.proves("CLI-2")
def test_a_pipe_closed_before_the_first_line_is_no_failure_either(command, gateway) -> None:
    gateway.answer("GET", "/servers", SERVERS)
    reading, writing = os.pipe()
    os.close(reading)
    process = command("upstream", "list", stdout=writing)
    os.close(writing)
    assert (process.stderr.read(), process.wait(timeout=TIMEOUT)) == (b"", 0)


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_text_that_the_terminal_cannot_show_does_not_break_the_command(command, gateway, encoding) -> None:
    name = "h\u00e9\ud800\U0001f600"
    gateway.answer("GET", "/servers", {"servers": [{"name": name}]})
    environment = {"PYTHONIOENCODING": encoding}
    for form in ("table", "yaml"):
        assert finished(command("upstream", "list", "-o", form, env=environment))[::2] == (0, b"")
    status, out, _ = finished(command("upstream", "list", "-o", "json", env=environment))
    assert (status, json.loads(out)["servers"][0]["name"]) == (0, name)


@pytest.mark.proves("CLI-2")
def test_the_shell_completes_commands_and_options(command) -> None:
    def completed(words: str) -> list[str]:
        count = str(len(words.split(" ")) - 1)
        environment = {"_MCPPROXY_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": count,
                       "_TYPER_COMPLETE_ARGS": words}  # fmt: skip
        return finished(command(env=environment))[1].decode().split()

    assert completed("mcpproxy to") == ["tools", "token"]
    assert completed("mcpproxy tools s") == ["search", "show", "set"]
    assert "--tool-name" in completed("mcpproxy call tool-read --tool")


@pytest.mark.proves("CLI-2")
def test_every_command_that_prints_data_has_the_shared_options() -> None:
    without_output = {"serve", "stdio", "export"}
    for command in _leaves():
        names = {name for param in command.params for name in param.opts}
        assert {"--data-dir", "--config", "--listen"} <= names, command.name
        assert ("--output" in names) == (command.name not in without_output), command.name


def test_the_listing_says_of_each_command_what_its_own_help_says() -> None:
    for name, entry in COMMANDS.items():
        assert loaded(name).help.splitlines()[0] == entry.help


@pytest.mark.proves("CLI-2")
def test_the_reference_page_is_the_command_tree() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m mcpproxy_py.cli.reference_page"
    for command in _leaves():
        assert command.help, f"{command.name} has no help"
        for param in command.params:
            assert param.help or param.param_type_name == "argument" or getattr(param, "hidden", False), param.name


def _leaves() -> list[Any]:
    assert set(COMMANDS) == set(typer.main.get_command(app).commands)
    found = [loaded(name) for name in COMMANDS]
    return [leaf for command in found for leaf in getattr(command, "commands", {"": command}).values()]


def test_ctrl_c_while_a_call_is_under_way_exits_130(command, gateway) -> None:
    release = time.monotonic() + TIMEOUT
    entered: list[bool] = []

    class Slow(dict):
        def get(self, *key: Any) -> Any:
            entered.append(True)
            while not done and time.monotonic() < release:
                time.sleep(0.01)
            return None

    done: list[bool] = []
    gateway.answers = Slow()
    process = command("call", "tool-write", "--tool-name", "a:b")
    while not entered and time.monotonic() < release:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    status, out, err = finished(process)
    done.append(True)
    assert (status, out, b"Traceback" in err) == (130, b"", False)


@pytest.mark.proves("SURF-5", "CLI-2")
def test_stdio_joins_its_pipes_to_the_socket_the_gateway_announced(command, data_dir, tmp_path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(TIMEOUT)
        (data_dir / "gateway.json").write_text(json.dumps({"pid": os.getpid(), "url": "", "socket": str(path)}))
        process = command("stdio", "--surface", "direct", stdin=subprocess.PIPE)
        peer, _ = listener.accept()
        with peer, peer.makefile("rwb") as lines:
            peer.settimeout(TIMEOUT)
            wish = json.loads(lines.readline())
            assert len(bytes.fromhex(wish.pop("ending"))) == 16, "by which this gateway alone says that it ends"
            assert len(bytes.fromhex(wish.pop("narrow"))) == 16, "by which it alone narrows this stream"
            assert wish == {"surface": "direct", "server": None, "profiles": []}
            lines.write(b"{}\n")
            lines.flush()
            process.stdin.write(b"to the gateway\n")
            process.stdin.flush()
            assert lines.readline() == b"to the gateway\n"
            lines.write(b"to the client\n")
            lines.flush()
            assert process.stdout.readline() == b"to the client\n"
            process.stdin.close()
            assert lines.readline() == b""
    assert process.wait(timeout=TIMEOUT) == 0
    process.stdout.close()
    process.stderr.close()


@pytest.mark.proves("CONF-1", "CONF-3")
def test_serve_tells_a_mistake_in_the_configuration_at_once(run, tmp_path) -> None:
    config = tmp_path / "wrong.json"
    config.write_text('{"listn": "127.0.0.1:0"}')
    ran = run("serve", "--config", str(config))
    assert (ran.status, "did you mean `listen`" in ran.err) == (2, True)
    assert run("serve", "--listen", "nowhere").status == 2


@pytest.mark.proves("CLI-2")
def test_progress_is_shown_on_a_terminal_and_leaves_the_result_alone(command, gateway, tmp_path) -> None:
    gateway.answer("POST", "/call", {"id": "1", "result": {"content": [{"type": "text", "text": "done [bold]it"}]}})
    status, seen = on_a_terminal(command, "call", "tool-read", "--tool-name", "a:[red]b")
    assert (status, "done [bold]it\r\n" in seen) == (0, True)
    assert "Calling a:[red]b" in seen
    gateway.answer("GET", "/activity/export", b'{"id": "\xc2\x9b31m"}\n')
    status, seen = on_a_terminal(command, "activity", "export", "--out", str(tmp_path / "out"))
    assert (status, f"Wrote 16 bytes to {tmp_path / 'out'}" in seen) == (0, True)
    status, seen = on_a_terminal(command, "activity", "export")
    assert (status, seen) == (0, '{"id": "31m"}\r\n')
