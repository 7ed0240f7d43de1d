"""Nothing that a server or an agent says drives a terminal or forges a line: requests, failures, exports, what is
watched, and the log (CLI-2)."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.gateway import Running, clean_environment, gateway, until
from tests.support.readable import readable
from tests.support.wire import Wire

pytestmark = pytest.mark.proves("CLI-2")
WAIT = 60
MARKS = (
    "\x1b[2J\x1b]0;owned\x07\x9b31m\r\x08\x7f\u202e\u2066\u2069\u200f\u061c\u2028\u200b\ufeff\U000e0041\u200d\u200c"
    "\U000e0141\xad"
)
OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)
WORD = "hostile"
SAYS = f"{WORD}{MARKS}word\nINFO a forged line"
HOSTILE = f"""
import json, sys
marks = {SAYS!r}
sys.stderr.buffer.write((marks + "\\n").encode("utf-8", "surrogatepass"))
sys.stderr.flush()
schema = {{"type": "object", "title": marks, "properties": {{"text": {{"type": "string", "description": marks}}}}}}
says = {{"title": marks, "description": marks, "inputSchema": schema}}
tools = [
    {{"name": "look", "annotations": {{"readOnlyHint": True}}, **says}},
    {{"name": "look" + marks, "annotations": {{"readOnlyHint": True}}, **says}},
    {{"name": "wipe", "annotations": {{"destructiveHint": True}}, **says}},
]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {{"jsonrpc": "2.0", "id": asked["id"]}}
    method, params = asked.get("method"), asked.get("params") or {{}}
    if method == "initialize":
        found = {{"protocolVersion": params["protocolVersion"], "capabilities": {{"tools": {{}}}},
                 "serverInfo": {{"name": marks, "version": marks}}, "instructions": marks}}
    elif method == "tools/list":
        found = {{"tools": tools}}
    elif method == "tools/call":
        text = {{"type": "text", "text": marks + json.dumps(params.get("arguments"), ensure_ascii=False)}}
        found = {{"content": [text], "isError": params["name"] == "wipe", "structuredContent": {{marks: marks}}}}
    else:
        answer["error"] = {{"code": -32601, "message": marks}}
        found = None
    if found is not None:
        answer["result"] = found
    print(json.dumps(answer), flush=True)
"""
DIES = f"import sys; sys.stderr.write({SAYS.splitlines()[0]!r} + chr(10)); sys.exit(3)"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway whose record, lists, log and requests are full of what a terminal would obey."""
    folder = tmp_path_factory.mktemp("terminal")
    (folder / "hostile.py").write_text(HOSTILE)
    environment = {"PYTHONIOENCODING": "utf-8:surrogateescape"}
    servers = {
        "h": {"command": sys.executable, "args": [str(folder / "hostile.py")], "env": environment},
        "dies": {"command": sys.executable, "args": ["-c", DIES], "env": environment, "lazy": True},
    }
    with gateway(folder / "data", {"mcpServers": servers}) as found:
        found.wait_for("h", "catalog")
        until(lambda: found.get("/pins/h")["blocked"], what="the tools to wait: their texts hide characters")
        found.approve_pins("h")  # somebody let them in all the same
        client = Wire(found.mcp, name=SAYS)
        told: dict[str, Any] = {"text": SAYS}
        client.read("h:look", told, intent={"operation_type": "read", "reason": SAYS})
        client.via("read", "h:wipe", told)
        client.via("destructive", "h:wipe", told)
        client.read(f"h:{SAYS}")
        client.read("dies:look")
        client.call("request_capability", {"capability": SAYS})
        client.call("retrieve_tools", {"query": SAYS})
        wish = {"agent_id": SAYS, "mcp_name": "quux", "rationale": SAYS}
        client.via("write", "catalog:mcp_request_capability", wish)
        until(lambda: found.get("/approvals")["approvals"], what="the request")
        until(lambda: (found.data_dir / "logs").exists() or found.get("/servers/h/logs")["lines"], what="the log")
        found.catch_up()
        yield found


def run(running: Running, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mcpproxy_py", *args], timeout=WAIT, capture_output=True, encoding="utf-8",
        env=clean_environment(MCPPROXY_DATA_DIR=str(running.data_dir), PYTHONIOENCODING="utf-8"),
    )  # fmt: skip


def on_a_terminal(running: Running, *args: str) -> str:
    """Everything that would be written to the screen. A dumb one, so that no mark in it is our own."""
    ours, theirs = pty.openpty()
    environment = clean_environment(
        MCPPROXY_DATA_DIR=str(running.data_dir), PYTHONIOENCODING="utf-8", TERM="dumb", NO_COLOR="1"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "mcpproxy_py", *args], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    seen, deadline = b"", time.monotonic() + WAIT
    while time.monotonic() < deadline and readable([ours], deadline - time.monotonic()):
        try:
            chunk = os.read(ours, 65536)
        except OSError:
            break
        if not chunk:
            break
        seen += chunk
    os.close(ours)
    process.wait(WAIT)
    return seen.decode().replace("\r\n", "\n")


COMMANDS: dict[str, tuple[str, ...]] = {
    "activity verify": ("activity", "verify"),
    "approvals list": ("approvals", "list"),
    "approvals show": ("approvals", "show", "{request}"),
    "upstream logs": ("upstream", "logs", "h"),
    "explain a tool that is not there": ("explain", f"h:{WORD}\u202e\x1b[2J"),
    "call that fails": ("call", "tool-destructive", "--tool-name", "h:wipe"),
    "call that is refused": ("call", "tool-read", "--tool-name", f"h:{WORD}\u202e\x1b[2J"),
    "doctor": ("doctor",),
    "config show": ("config", "show"),
}
HAVE_NO_PEERS_TEXT = {"config show", "activity verify", "doctor"}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_prints_what_a_terminal_obeys(running: Running, name: str) -> None:
    """Those that `test_held_terminal` has not."""
    request = running.get("/approvals")["approvals"][0]["approval_id"]
    args = [each.replace("{request}", request) for each in COMMANDS[name]]
    seen = ""
    for form in ("json", "table") if name in HAVE_NO_PEERS_TEXT else ("json", "yaml", "table"):
        ran = run(running, *args, "-o", form)
        assert "Traceback" not in ran.stderr
        for text in (ran.stdout, ran.stderr):
            assert not OBEYED.search(text), (form, OBEYED.findall(text))
        if form == "json" and ran.stdout:
            json.loads(ran.stdout)
        seen += ran.stdout + ran.stderr
    assert WORD in seen or name in HAVE_NO_PEERS_TEXT, "the attack did not get here"


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_an_export_to_a_terminal_does_not_either(running: Running, form: str) -> None:
    seen = on_a_terminal(running, "activity", "export", "--format", form)
    assert WORD in seen and not OBEYED.search(seen), OBEYED.findall(seen)


@pytest.mark.parametrize("form", ["table", "json"])
def test_nor_does_what_is_watched(running: Running, form: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "mcpproxy_py", "activity", "watch", "-o", form], stdout=subprocess.PIPE,
        env=clean_environment(MCPPROXY_DATA_DIR=str(running.data_dir), PYTHONIOENCODING="utf-8"),
    )  # fmt: skip
    seen: list[str] = []
    assert process.stdout

    def read() -> None:
        assert process.stdout
        for line in process.stdout:
            seen.append(line.decode())

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    client = Wire(running.mcp, name=SAYS)
    try:

        def came() -> bool:
            client.read("h:look", {"text": SAYS}, intent={"operation_type": "read", "reason": SAYS})
            return any(WORD in line for line in seen)

        until(came, what="a line of what is watched")
    finally:
        process.kill()
        process.wait()
        reader.join(WAIT)
        process.stdout.close()
    assert not OBEYED.search("".join(seen))


def test_nor_does_the_gateways_own_log(running: Running) -> None:
    assert not OBEYED.search(running.stderr())
    assert not any(line.startswith("INFO a forged line") for line in running.stderr().splitlines())


@pytest.mark.parametrize("style", ["text", "json"])
def test_the_log_of_a_gateway_that_fails_inside_has_none_of_it(style: str) -> None:
    """An error's own text may come from outside, and is printed with its trace."""
    program = (
        "import logging; from mcpproxy_py.app.logs import configure; "
        f"configure('debug', {style!r})\ntry:\n raise ValueError({SAYS!r})\n"
        f"except ValueError:\n logging.getLogger('x').exception('%s', {SAYS!r})"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=WAIT, encoding="utf-8")
    assert WORD in ran.stderr and not OBEYED.search(ran.stderr), OBEYED.findall(ran.stderr)
    assert not any(line.startswith("INFO a forged line") for line in ran.stderr.splitlines())
