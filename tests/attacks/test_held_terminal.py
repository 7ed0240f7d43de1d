"""Nothing that a server or an agent writes can drive the terminal of whoever looks at it: real commands on a real
terminal, over a record that a hostile server and a hostile agent wrote."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.attacks.site import LOOK, HttpHeard, response, result_of, site
from tests.support.gateway import Running, clean_environment, gateway, python_server, until
from tests.support.wire import Wire

pytestmark = pytest.mark.proves("CLI-1", "SEC-5")

MARK = "evil"
DRIVING = [
    "\x1b[2J", "\x1b[31m", "\x1b]0;title\x07", "\x1b]8;;http://h/\x1b\\link\x1b]8;;\x1b\\", "\x1b]52;c;ZXZpbA==\x07",
    "\x1bc", "\x1b(0",
    "\x9b2J", "\x90q\x9c", "\r\x1b[K", "\x08\x08\x08", "\x07", "\x00", "\x7f", "\x1b[8m", "\x1b[?1049h",
    "\x1bP$q\x1b\\",
]  # fmt: skip
MISLEADING = ["\u202e", "\u2066", "\u200f", "\u061c", "\u2028", "\u200b", "\ufeff", "\U000e0041"]
HOSTILE = "".join(f"{each}{MARK}" for each in (*DRIVING, *MISLEADING))
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)
OURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[hl]|\x1b\[2?K|\x1b\[1A|\r")
"""The colours, and what a spinner needs."""
RUNNER = """
import json, sys
from mcpproxy_py.cli.main import main
for args in json.loads(sys.argv[1]):
    sys.argv = ["mcpproxy", *args]
    print("<<<", json.dumps(args), flush=True)
    try:
        main()
    except SystemExit:
        pass
    sys.stdout.flush()
    print(">>>", flush=True)
"""


def hostile_answer(heard: HttpHeard) -> list[Any] | None:
    args = (heard.message.get("params") or {}).get("arguments") or {}
    if heard.asked != "tools/call":
        return None
    if args.get("how") == "error":
        error = {"code": -32000, "message": HOSTILE, "data": {HOSTILE: HOSTILE}}
        return [response(json.dumps({"jsonrpc": "2.0", "id": heard.message["id"], "error": error}).encode())]
    content = [{"type": "text", "text": HOSTILE}, {"type": "resource_link", "uri": f"x:{MARK}\x1b[2J", "name": HOSTILE},
               {"type": HOSTILE}]  # fmt: skip
    return [response(result_of(heard, {"content": content, "structuredContent": {HOSTILE: [HOSTILE]}}))]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    here = tmp_path_factory.mktemp("terminal")
    with site() as hostile:
        hostile.answers["x"] = hostile_answer
        hostile.tools["x"] = [
            {**LOOK, "description": HOSTILE, "title": HOSTILE, "inputSchema": {"type": "object", "description": HOSTILE,
             "properties": {HOSTILE: {"type": "string"}}}},
            {**LOOK, "name": f"n{HOSTILE}"}, {**LOOK, "name": "[red]markup[/red]",
            "description": "[bold]x[/bold] :smile:"},
        ]  # fmt: skip
        dying = python_server("dies.py", HOSTILE.replace("\x00", ""))
        config = {"mcpServers": {"h": {"url": f"{hostile.url}/x"}, "dies": dying}}
        with gateway(here / "data", config, wait=False) as running:
            running.wait_for("h")
            until(lambda: running.get("/pins/h")["blocked"], what="the tools to wait: their texts hide characters")
            running.approve_pins("h")  # somebody let them in all the same
            wire = Wire(running.mcp, name=HOSTILE)
            wire.call("call_tool_read", {"name": "h:look", "args": {"how": "text", HOSTILE: HOSTILE},
                                         "intent": {"operation_type": "read", "reason": HOSTILE}})  # fmt: skip
            wire.read("h:look", {"how": "error"})
            wire.read("h:gone\u00e9", {"how": "error"})
            wire.call("call_tool_read", {"name": f"h:{HOSTILE}", "intent": {"operation_type": HOSTILE}})
            wire.call("request_capability", {"capability": HOSTILE, "rationale": HOSTILE})
            running.catch_up()
            yield running


def on_a_terminal(running: Running, *commands: list[str]) -> dict[str, str]:
    """What each of these prints where a person looks at it."""
    ours, theirs = pty.openpty()
    env = clean_environment(
        MCPPROXY_DATA_DIR=str(running.data_dir), TERM="xterm-256color", COLUMNS="400", LC_ALL="C.UTF-8"
    )
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER, json.dumps(commands)], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
        env=env
    ) as process:  # fmt: skip
        os.close(theirs)
        shown = bytearray()
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:
            pass  # how a terminal says that nobody writes any more
        finally:
            os.close(ours)
        process.wait(60)
    text = bytes(shown).decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    found = re.findall(r"<<< (\[.*?\])\n(.*?)>>>\n", text, re.DOTALL)
    assert len(found) == len(commands), text[-3000:]
    return {" ".join(json.loads(command)): printed for command, printed in found}


def ids(running: Running) -> list[str]:
    return [row["id"] for row in running.activities()]


def commands(running: Running) -> list[list[str]]:
    own = [
        ["status"], ["upstream", "list"], ["tools", "list"], ["tools", "search", "look"], ["tools", "show", "h:look"],
        ["tools", "classify", "--all", "--dry-run"],
        ["activity", "list"], ["activity", "summary"], ["approvals", "list"], ["gaps", "report"],
        ["upstream", "logs", "dies"], ["explain", "h:look", "--args", json.dumps({HOSTILE: 1})],
        ["call", "tool-read", "h:look", "--args", '{"how": "text"}'], ["call", "tool-read", "h:look", "--args",
        '{"how": "error"}'],
        *(["activity", "show", row] for row in ids(running)),
    ]  # fmt: skip
    return [[*form, *command] for form in ([], ["-o", "json"], ["-o", "yaml"]) for command in own]


def test_no_command_passes_on_what_a_terminal_would_obey(running: Running) -> None:
    shown = on_a_terminal(running, *commands(running))
    seen = 0
    for command, printed in shown.items():
        seen += MARK in printed
        left = OURS.sub("", printed)
        assert "\x1b" not in left, f"{command}: {left!r}"
        assert (wrong := FORBIDDEN.search(left)) is None, f"{command}: {wrong[0]!r} in {left!r}"
        assert "\x1b[31mevil" not in printed and "\x1b[8mevil" not in printed, command
    assert seen > len(shown) / 2, "and the words themselves are shown"


def test_what_looks_like_markup_is_shown_as_it_is(running: Running) -> None:
    (printed,) = on_a_terminal(running, ["tools", "list"]).values()
    assert "[red]markup[/red]" in printed
    assert ":smile:" in printed


def test_what_is_printed_for_programs_says_exactly_what_was_written(running: Running) -> None:
    """Escaped, and not left out: a program gets back what the server said."""
    (row,) = [each for each in running.activities() if HOSTILE in each["arguments"]]
    shown = on_a_terminal(
        running, ["-o", "json", "activity", "show", row["id"]], ["-o", "yaml", "activity", "show", row["id"]]
    )
    as_json, as_yaml = shown.values()
    assert json.loads(as_json)["arguments"] == row["arguments"]
    assert yaml.safe_load(as_yaml)["arguments"] == row["arguments"]


def test_a_tool_whose_name_would_drive_a_terminal_does_not_exist(running: Running) -> None:
    names = [tool["name"] for tool in running.get("/tools", server="h")["tools"]]
    assert names == ["h:[red]markup[/red]", "h:look"]
