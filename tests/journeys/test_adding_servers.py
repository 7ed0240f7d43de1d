"""Adding a server, and what comes of it: real gateways, real servers that work, fail, hang and lack a secret."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mcpproxy_py.cli.main import app
from tests.support.gateway import SERVERS, Running, clean_environment, gateway, python_server, until

GIT = str(Path(sys.executable).parent / "mcp-server-git")
SECRET = "hunter2-is-in-the-file"
# It answers the old handshake, and ends when it is asked anything else first, as servers of some SDKs do.
DIES_WHEN_PROBED = f"""
import json, sys
sys.path.insert(0, {str(SERVERS)!r})
from plain import made, options, serve
line = sys.stdin.readline()
if json.loads(line)["method"] != "initialize":
    sys.exit("Error: unexpected method")
print(json.dumps({{"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {{
    "protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}},
    "serverInfo": {{"name": "p", "version": "1"}}}}}}), flush=True)
serve(made(options().parse_args([])))
"""
TALKS_AND_HANGS = "echo 'Welcome to my server!'; cat > /dev/null"
OLD_NODE = (
    "import sys; sys.stderr.write('chrome-devtools-mcp requires Node 22 or later\\nNode.js v18.2.0\\n'); sys.exit(1)"
)
EPILOGUE = "import sys; sys.stderr.write('npm error could not determine executable to run\\n" \
    "npm error A complete log of this run can be found in: /x/_logs/y.log\\n'); sys.exit(1)"  # fmt: skip
TRACEBACK = "raise RuntimeError('GITHUB_TOKEN is not set')"


@dataclass
class Ran:
    status: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    config = {
        "mcpServers": {
            "s": python_server("plain.py"),
            "miss": python_server("plain.py", "--pid-file", "${env:NOT_SET_ANYWHERE}", lazy=True),
            "idle": {**python_server("plain.py", env={"TOKEN": "${env:NOT_SET_ANYWHERE}"}), "enabled": False},
            "late": python_server("plain.py", env={"TOKEN": "${file:late.txt}"}),
        }
    }
    data_dir = tmp_path_factory.mktemp("adding") / "data"
    data_dir.mkdir(mode=0o700)
    (data_dir / "mcp_config.json").write_text(json.dumps(config))
    npx = data_dir.parent / "bin" / "npx"  # nothing is downloaded here
    npx.parent.mkdir()
    npx.write_text("#!/bin/sh\nexit 1\n")
    npx.chmod(0o700)
    with gateway(data_dir, env={"PATH": f"{npx.parent}{os.pathsep}{os.environ['PATH']}"}) as running:
        running.wait_for("s")
        yield running


@pytest.fixture
def run(running: Running, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in [name for name in os.environ if name.startswith("MCPPROXY_")]:
        monkeypatch.delenv(name)

    def invoke(*args: str) -> Ran:
        result = CliRunner().invoke(app, list(args), env={"MCPPROXY_DATA_DIR": str(running.data_dir)})
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return invoke


def entries(running: Running) -> dict[str, Any]:
    return json.loads((running.data_dir / "mcp_config.json").read_text())["mcpServers"]


def row(running: Running, name: str) -> Mapping[str, Any]:
    return next(row for row in running.get("/servers")["servers"] if row["name"] == name)


def python(program: str) -> list[str]:
    return ["--", sys.executable, "-c", program]


# Secrets.


@pytest.mark.proves("UP-12", "USE-6")
def test_a_secret_that_is_missing_fails_its_own_server_and_no_other(running: Running) -> None:
    assert row(running, "s")["state"] == "connected"
    missing = row(running, "miss")
    assert (missing["state"], missing["error"]) == (
        "failed", "the environment variable NOT_SET_ANYWHERE is not set (args.2)",
    )  # fmt: skip
    assert missing["restarts"] == 0 and not (running.data_dir / "logs" / "miss.log").exists()  # it was never started
    assert row(running, "idle")["state"] == "disabled"


@pytest.mark.proves("UP-12")
def test_a_file_that_was_missing_is_read_when_it_appears(running: Running) -> None:
    failed = row(running, "late")
    assert failed["state"] == "failed" and "late.txt cannot be read (No such file" in failed["error"]
    (running.data_dir / "late.txt").write_text(SECRET)
    running.wait_for("late")
    assert SECRET not in running.stderr() + json.dumps(running.get("/config")) + json.dumps(running.get("/servers"))


@pytest.mark.proves("UP-12")
def test_restarting_reads_a_secret_again(running: Running, run: Run) -> None:
    kept = running.data_dir / "renewed.txt"
    kept.write_text("first")
    added = run("upstream", "add", "renewed", "--env", "TOKEN=${file:renewed.txt}", "--", sys.executable,
                str(SERVERS / "plain.py"))  # fmt: skip
    assert added.status == 0, added.err
    kept.unlink()
    ran = run("upstream", "restart", "renewed")
    assert ran.status == 1
    assert f"renewed: failed: the file {kept} cannot be read (No such file or directory) (env.TOKEN)" in ran.out
    kept.write_text("second")
    ran = run("upstream", "restart", "renewed")
    assert (ran.status, "renewed: connected, " in ran.out) == (0, True)
    run("upstream", "remove", "renewed", "--yes")


@pytest.mark.proves("UP-12", "CONF-1")
def test_an_entry_whose_secret_is_missing_is_refused_before_it_is_written(running: Running, run: Run) -> None:
    before = (running.data_dir / "mcp_config.json").read_bytes()
    words = ("upstream", "add", "secretive", "--env", "TOKEN=${env:NOT_SET_ANYWHERE}")
    ran = run(*words, "--", sys.executable, str(SERVERS / "plain.py"))
    assert (ran.status, ran.out) == (2, "")
    assert "the environment variable NOT_SET_ANYWHERE is not set (env.TOKEN)" in ran.err and "--no-check" in ran.err
    assert (running.data_dir / "mcp_config.json").read_bytes() == before

    body = {"name": "secretive", "config": {"command": "x", "env": {"T": "${file:nowhere}"}}}
    refused = running.post("/servers", body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "CONFIG_INVALID")
    assert (running.data_dir / "mcp_config.json").read_bytes() == before

    ran = run(*words, "--no-check", "--", sys.executable, str(SERVERS / "plain.py"))
    assert (ran.status, "secretive" in entries(running)) == (1, True)
    assert "secretive: failed: the environment variable NOT_SET_ANYWHERE is not set (env.TOKEN)" in ran.out
    assert run("upstream", "edit", "secretive", "--unset", "env.TOKEN").status == 0
    run("upstream", "remove", "secretive", "--yes")


@pytest.mark.proves("CONF-1")
def test_validate_says_what_a_start_would_find_and_what_the_running_gateway_knows(running: Running, run: Run) -> None:
    added = run("upstream", "add", "lists", "--deny-tool", "nonsense*", "--allow-tool", "echo", "--", sys.executable,
                str(SERVERS / "plain.py"))  # fmt: skip
    assert added.status == 0
    assert "lists: none of its tools is meant by deny_tools: nonsense*" in added.err
    ran = run("config", "validate")
    assert ran.status == 2
    assert "server miss will fail: the environment variable NOT_SET_ANYWHERE is not set (args.2)" in ran.err
    assert "idle" not in ran.err
    assert "server lists: none of its tools is meant by deny_tools: nonsense*" in ran.err
    assert run("config", "validate", "--without-secrets").status == 0
    assert "deny_tools: nonsense*" in run("doctor").out
    assert "none of its tools is meant by deny_tools: nonsense*" in run("upstream", "list").err
    run("upstream", "remove", "lists", "--yes")


# What came of it.


@pytest.mark.proves("USE-6")
def test_adding_waits_and_says_what_it_found(running: Running, run: Run) -> None:
    ran = run("upstream", "add", "git", "--", GIT)
    assert (ran.status, ran.out) == (0, "Added git.\ngit: connected, 12 tools (7 read, 4 write, 1 destructive)\n")
    found = row(running, "git")
    assert found["tools_by_class"] == {"read": 7, "write": 4, "destructive": 1, "unknown": 0}
    shown = run("upstream", "show", "git").out
    assert "connected since" in shown and '"command"' in shown and "12 tools (7 read" in shown
    asked = json.loads(run("upstream", "show", "git", "-o", "json").out)
    assert asked["server"]["name"] == "git" and asked["config"] == {"command": GIT}
    run("upstream", "remove", "git", "--yes")


@pytest.mark.proves("USE-6")
def test_tools_without_hints_are_counted(running: Running, run: Run) -> None:
    ran = run("upstream", "restart", "s")
    counted = row(running, "s")["tools_by_class"]
    assert counted["unknown"] > 0
    assert ran.out.endswith(f" destructive), {counted['unknown']} without hints\n")


@pytest.mark.proves("USE-6", "UP-12")
@pytest.mark.parametrize(
    ("program", "says"),
    [
        (OLD_NODE, "exit status 1; it last wrote: chrome-devtools-mcp requires Node 22 or later"),
        (EPILOGUE, "exit status 1; it last wrote: npm error could not determine executable to run"),
        (TRACEBACK, "exit status 1; it last wrote: RuntimeError: GITHUB_TOKEN is not set"),
        ("print('no MCP here')", "exit status 0; it wrote to stdout, where only MCP messages belong: no MCP here"),
    ],
)
def test_a_server_that_ends_at_once_says_why_in_its_own_words(run: Run, program: str, says: str) -> None:
    ran = run("upstream", "add", "dies", *python(program))
    assert (ran.status, ran.out.splitlines()[0]) == (1, "Added dies.")
    assert ran.out.splitlines()[1] == f"dies: failed: the command ended with {says}"
    assert "mcpproxy upstream logs dies" in ran.err and "mcpproxy upstream remove dies" in ran.err
    assert run("upstream", "remove", "dies", "--yes").status == 0


@pytest.mark.proves("USE-6")
def test_a_server_that_does_not_survive_the_first_question_has_not_failed(run: Run) -> None:
    ran = run("upstream", "add", "old", *python(DIES_WHEN_PROBED))
    assert ran.status == 0, ran.out + ran.err
    assert "old: connected, " in ran.out
    run("upstream", "remove", "old", "--yes")


@pytest.mark.proves("USE-6")
def test_a_server_that_prints_text_and_never_answers_is_told_from_one_that_is_slow(run: Run) -> None:
    config = {"command": "sh", "args": ["-c", TALKS_AND_HANGS], "connect_timeout": 0.5}
    ran = run("upstream", "add", "talks", "--json", json.dumps(config))
    assert ran.status == 1
    assert "talks: failed: it did not finish connecting within 3 s; it wrote to stdout, where only MCP messages " \
        "belong: Welcome to my server!" in ran.out  # fmt: skip
    assert "[stdout] Welcome to my server!" in run("upstream", "logs", "talks").out
    run("upstream", "remove", "talks", "--yes")


@pytest.mark.proves("USE-6")
def test_a_command_that_is_not_there_is_told(run: Run) -> None:
    ran = run("upstream", "add", "nobody", "--", "command-of-nobody")
    assert (ran.status, "nobody: failed: command not found: command-of-nobody (install it" in ran.out) == (1, True)
    run("upstream", "remove", "nobody", "--yes")


@pytest.mark.proves("USE-6")
def test_waiting_has_an_end_and_need_not_begin(running: Running, run: Run) -> None:
    ran = run("upstream", "add", "hangs", "--wait-for", "0", "--", sys.executable, str(SERVERS / "hangs.py"))
    assert (ran.status, ran.out) == (1, "Added hangs.\nhangs: still connecting\n")
    assert "It stays configured" in ran.err
    again = run("upstream", "add", "hangs", "--replace", "--no-wait", "--", sys.executable, str(SERVERS / "hangs.py"))
    assert (again.status, again.out, again.err) == (0, "Added hangs.\n", "")
    assert run("upstream", "add", "hangs", "--", "x").status == 1
    asked = run("upstream", "restart", "hangs", "--wait-for", "0", "-o", "json")
    assert (asked.status, json.loads(asked.out)["server"]["state"]) == (1, "connecting")
    run("upstream", "remove", "hangs", "--yes")


@pytest.mark.proves("USE-6")
def test_ctrl_c_stops_waiting_and_leaves_the_server_configured(running: Running, run: Run) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "mcpproxy_py", "upstream", "add", "patient", "--", sys.executable,
         str(SERVERS / "hangs.py")],
        env=clean_environment(MCPPROXY_DATA_DIR=str(running.data_dir)), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "Added patient.\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "patient is configured and goes on connecting; `mcpproxy upstream show patient`" in errors
    assert "patient" in entries(running)
    run("upstream", "remove", "patient", "--yes")


# Changing one.


@pytest.mark.proves("USE-6", "CONF-1")
def test_an_entry_is_edited_by_flags_and_its_secrets_stay(running: Running, run: Run) -> None:
    program = ("--", sys.executable, str(SERVERS / "plain.py"))
    run("upstream", "add", "edited", "--env", f"TOKEN={SECRET}", "--env", "TZ=UTC", "--timeout", "7", *program)
    ran = run("upstream", "edit", "edited", "--env", "LANG=C", "--unset", "env.TZ", "--unset", "timeout", "--cwd", ".")
    assert ran.status == 0, ran.err
    entry = entries(running)["edited"]
    assert entry["env"] == {"TOKEN": SECRET, "LANG": "C"}
    assert "timeout" not in entry and entry["cwd"] == os.getcwd()
    shown = run("upstream", "show", "edited").out
    assert SECRET not in shown and '"TOKEN": "***"' in shown
    wrong = run("upstream", "edit", "edited", "--sessions", "sharde")
    assert (wrong.status, "did you mean 'shared'" in wrong.err) == (2, True)
    assert run("upstream", "edit", "edited", "--unset", "env.NOPE").status == 2
    assert run("upstream", "edit", "edited", "--env", "NEW=***").status == 2
    assert entries(running)["edited"] == entry
    assert run("upstream", "edit", "edited").status == 2  # there is no terminal for an editor
    run("upstream", "remove", "edited", "--yes")


@pytest.mark.proves("USE-6")
def test_a_header_is_written_as_in_http_or_as_a_pair(running: Running, run: Run) -> None:
    ran = run("upstream", "add", "web", "--url", "http://127.0.0.1:9/mcp", "--header", "X-One: a=b", "--header",
              "X-Two=c:d", "--no-wait")  # fmt: skip
    assert ran.status == 0
    assert entries(running)["web"]["headers"] == {"X-One": "a=b", "X-Two": "c:d"}
    bad = run("upstream", "edit", "web", "--header", SECRET)
    assert (bad.status, SECRET in bad.err, "expected 'K: V' or K=V" in bad.err) == (2, False, True)
    run("upstream", "remove", "web", "--yes")


@pytest.mark.proves("USE-6")
def test_a_snippet_of_a_client_is_taken_as_it_is(running: Running, run: Run) -> None:
    snippet = json.dumps({"mcpServers": {"Some Name": {"type": "stdio", "command": "x", "args": ["y"]}}})
    assert run("upstream", "add", "pasted", "--json", snippet, "--no-wait").status == 0
    assert entries(running)["pasted"] == {"type": "stdio", "command": "x", "args": ["y"]}
    two = json.dumps({"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}})
    ran = run("upstream", "add", "pasted2", "--json", two)
    assert (ran.status, "mcpproxy import" in ran.err) == (2, True)
    run("upstream", "remove", "pasted", "--yes")


@pytest.mark.proves("USE-6")
@pytest.mark.parametrize(("name", "near"), [("My Server", "my-server"), ("a__b", "a-b"), ("_x", "x"), ("ä", "")])
def test_a_name_that_cannot_be_is_refused_with_one_that_can(run: Run, name: str, near: str) -> None:
    ran = run("upstream", "add", name, "--", "x")
    assert (ran.status, f"such as {near}" in ran.err) == (2, bool(near))
    both = run("upstream", "add", "both", "--json", '{"command": "x", "url": "http://h"}')
    assert (both.status, "exactly one of `command` and `url`" in both.err) == (2, True)


# From the catalog.


@pytest.mark.proves("USE-6", "CAT-6")
def test_a_server_of_the_catalog_needs_only_what_it_needs(running: Running, run: Run) -> None:
    unknown = run("upstream", "add", "--from-catalog", "brave-serch")
    assert (unknown.status, "did you mean brave-search" in unknown.err) == (1, True)
    lacking = run("upstream", "add", "--from-catalog", "brave-search")
    assert (lacking.status, "brave-search needs BRAVE_API_KEY" in lacking.err) == (2, True)
    assert "--env 'BRAVE_API_KEY=${env:BRAVE_API_KEY}'" in lacking.err
    unset = run("upstream", "add", "--from-catalog", "brave-search", "--env", "BRAVE_API_KEY=${env:NOT_SET_ANYWHERE}")
    assert (unset.status, "brave-search" in entries(running)) == (2, False)
    given = run("upstream", "add", "--from-catalog", "brave-search", "--env", f"BRAVE_API_KEY={SECRET}", "--lazy",
                "--no-wait")  # fmt: skip
    assert given.status == 0, given.err
    entry = entries(running)["brave-search"]
    assert (entry["command"], entry["env"], entry["lazy"]) == ("npx", {"BRAVE_API_KEY": SECRET}, True)
    run("upstream", "remove", "brave-search", "--yes")

    where = run("upstream", "add", "docs", "--from-catalog", "filesystem", "--arg", "/tmp", "--no-wait")
    assert where.status == 0, where.err
    assert entries(running)["docs"]["args"] == ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"]
    run("upstream", "remove", "docs", "--yes")


@pytest.mark.proves("USE-6")
def test_the_catalog_is_searched_by_words(run: Run) -> None:
    found = json.loads(run("catalog", "servers", "browser", "-o", "json").out)["servers"]
    assert {"playwright", "chrome-devtools"} <= {entry["slug"] for entry in found}
    assert len(json.loads(run("catalog", "servers", "-o", "json").out)["servers"]) == 147
    none = run("catalog", "servers", "no-such-thing-at-all")
    assert (none.status, none.out) == (0, "")


@pytest.mark.proves("UP-12", "CONF-1")
def test_a_secret_elsewhere_in_the_configuration_still_fails_the_start(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    (data_dir / "mcp_config.json").write_text('{"mcp_token": "${env:NOT_SET_ANYWHERE}", "listen": "127.0.0.1:0"}')
    done = subprocess.run(
        [sys.executable, "-m", "mcpproxy_py", "serve"], env=clean_environment(MCPPROXY_DATA_DIR=str(data_dir)),
        capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 2
    assert "mcp_token: ${env:NOT_SET_ANYWHERE} has no value" in done.stderr


@pytest.mark.proves("UP-12", "CONF-1")
def test_what_was_written_wrong_by_hand_is_mended_through_the_gateway_that_does_not_use_it(
    running: Running, run: Run
) -> None:
    path = running.data_dir / "mcp_config.json"
    before = path.read_text()
    document = json.loads(before)
    document["mcpServers"]["bad"] = {**python_server("plain.py"), "tiemout": 3}
    path.write_text(json.dumps(document))
    until(lambda: running.get("/status")["config_error"], what="the gateway to have seen it")
    other = run("upstream", "disable", "s")
    assert (other.status, "did you mean `timeout`" in other.err, "mcpproxy config edit" in other.err) == (2, True, True)
    mended = run("upstream", "edit", "bad", "--unset", "tiemout")
    assert (mended.status, "bad: connected, " in mended.out) == (0, True), mended.err
    assert running.get("/status")["config_error"] is None
    assert run("upstream", "remove", "bad", "--yes").status == 0
    assert json.loads(path.read_text()) == json.loads(before)


@pytest.mark.proves("UP-12")
def test_a_file_edited_by_hand_may_lose_a_secret_too(running: Running) -> None:
    path = running.data_dir / "mcp_config.json"
    before = path.read_text()
    document = json.loads(before)
    document["mcpServers"]["s"]["env"] = {"TOKEN": "${env:NOT_SET_ANYWHERE}"}
    path.write_text(json.dumps(document))
    running.wait_for("s", state="failed")
    assert running.get("/status")["config_error"] is None
    path.write_text(before)
    running.wait_for("s")
    until(lambda: row(running, "s")["error"] is None, what="no error any more")
