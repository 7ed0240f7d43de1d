"""`mcpproxy tools classify` and `tools set`, with a real gateway and servers without hints."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Ran, Run
from tests.support.gateway import Running, clean_environment, gateway, python_server, until
from tests.support.ports import kept_port
from tests.support.wire import Wire

pytestmark = pytest.mark.proves("USE-9")


def tool(name: str, description: str = "", **other: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object"}, **other}


QUERY = {"type": "object", "properties": {"query": {"type": "string"}}}
PLAIN = [tool("list_tables"), tool("add_row"), tool("drop_table"), tool("read_query", inputSchema=QUERY)]
PROPOSED = {"list_tables": "read", "add_row": "write", "drop_table": "destructive", "read_query": "destructive"}
HINTED = [
    tool("get_and_delete", "Gets, and deletes.", annotations={"readOnlyHint": True}),
    tool("get_thing", annotations={"readOnlyHint": True}),
    tool("delete_thing", annotations={"destructiveHint": True}),
    tool("get_other", annotations={"destructiveHint": True}),
    tool("list_more", annotations={"readOnlyHint": "true"}),
]
ODD = [tool("st*r"), tool("//thing"), tool("[a]"), tool("get_th\u0456ng"), tool(" Spaced ")]
SERVERS = {
    "plain": PLAIN, "hinted": HINTED, "odd": ODD, "changed": PLAIN, "asked": PLAIN, "single": PLAIN, "curated": PLAIN,
    "filesystem": [tool("read_file"), tool("write_file")], "kept": PLAIN,
    "doubted": [tool("get_thing", annotations={"readOnlyHint": True})],
}  # fmt: skip
OVERRIDES: dict[str, dict[str, Any]] = {
    "doubted": {"trust_annotations": False},
    "kept": {"tools": {"add_*": "destructive", "list_tables": "write"}},
    "single": {"tools": {"add_row": [{"when": {"required": ["x"]}, "class": "read"}, {"class": "write"}]}},
}


def without_hints(folder: Path, name: str, listed: list[dict[str, Any]], **other: Any) -> dict[str, Any]:
    answers = folder / f"{name}.json"
    answers.write_text(json.dumps({"tools/list": json.dumps({"tools": listed})}))
    log = str(folder / f"{name}.log")
    return python_server("scripted.py", "--log", log, "--answers", str(answers), "--name", name, **other)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("classify")
    servers = {name: without_hints(folder, name, listed, **OVERRIDES.get(name, {})) for name, listed in SERVERS.items()}
    with gateway(folder / "data", {"mcpServers": servers}) as running:
        running.wait_for(*servers)
        yield running


@pytest.fixture
def here(run: Run, running: Running) -> Run:
    def invoke(*args: str, stdin: str | None = None, env: dict[str, str] | None = None) -> Ran:
        return run(*args, "--data-dir", str(running.data_dir), stdin=stdin, env=env)

    return invoke


def row(running: Running, server: str) -> dict[str, Any]:
    return next(row for row in running.get("/servers")["servers"] if row["name"] == server)


def overrides(running: Running, server: str) -> dict[str, Any]:
    return json.loads((running.data_dir / "mcp_config.json").read_text())["mcpServers"][server].get("tools", {})


def classes(running: Running, server: str) -> dict[str, str]:
    rows = running.get("/tools", server=server)["tools"]
    return {row["name"].partition(":")[2]: row["class"] for row in rows}


def proposals(ran: Ran) -> dict[str, str]:
    assert ran.status == 0, ran.err
    return {each["tool"]: each["proposed"] for each in ran.json["proposals"]}


def test_tools_without_hints_are_counted_wherever_a_person_looks(running: Running, here: Run) -> None:
    assert row(running, "plain")["unannotated_tools"] == [each["name"] for each in PLAIN]
    assert row(running, "plain")["unannotated_as"] == "allow"
    assert row(running, "hinted")["unannotated_tools"] == ["list_more"], "a hint that is no boolean says nothing"
    assert row(running, "catalog")["unannotated_tools"] == []
    assert row(running, "kept")["unannotated_tools"] == ["drop_table", "read_query"], "the others have overrides"
    said = "4 tools have no hints; the read door lets them through; see `mcpproxy tools classify plain`"
    assert f"plain: {said}" in running.stderr(), "the log of the gateway, when it connects"
    assert said in " ".join(here("doctor").out.split())


def test_a_dry_run_shows_what_it_would_write_and_writes_nothing(running: Running, here: Run) -> None:
    before = (running.data_dir / "mcp_config.json").read_bytes()
    ran = here("tools", "classify", "plain", "--dry-run")
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in ran.out.splitlines()[1:]}
    assert lines == {
        "plain:add_row": "no hints write its name has “add”",
        "plain:drop_table": "no hints destructive its name has “drop”",
        "plain:list_tables": "no hints read its name has “list”",
        "plain:read_query": "no hints destructive its parameter “query” takes a program",
    }
    assert (running.data_dir / "mcp_config.json").read_bytes() == before
    assert proposals(here("tools", "classify", "plain", "--dry-run", "-o", "json")) == PROPOSED


def test_hints_that_are_not_trusted_are_none(running: Running, here: Run) -> None:
    assert row(running, "doubted")["unannotated_tools"] == ["get_thing"]
    assert "doubted:get_thing not trusted read" in " ".join(
        here("tools", "classify", "doubted", "--dry-run").out.split()
    )


def test_what_is_written_is_what_was_shown_and_can_be_taken_back(running: Running, here: Run) -> None:
    before = json.loads((running.data_dir / "mcp_config.json").read_text())
    ran = here("tools", "classify", "changed", "--yes")
    assert (ran.status, "Wrote 4 overrides." in ran.out) == (0, True), ran.err
    assert "To undo: mcpproxy tools classify --undo" in ran.err
    assert overrides(running, "changed") == PROPOSED
    assert classes(running, "changed") == PROPOSED, "without a restart"
    assert row(running, "changed")["unannotated_tools"] == []
    assert "Every tool has hints or an override." in here("tools", "classify", "changed", "--yes").err

    wire = Wire(running.mcp)
    refused = wire.call("call_tool_read", {"name": "changed:drop_table", "intent": {"operation_type": "read"}})
    assert refused["isError"], "the read door does not let it through any more"

    assert here("tools", "classify", "--undo", "--yes").out.endswith("Took out 4.\n")
    assert json.loads((running.data_dir / "mcp_config.json").read_text()) == before
    again = here("tools", "classify", "--undo", "--yes")
    assert (again.status, "nothing to undo" in again.err) == (1, True)


def test_undo_leaves_what_somebody_changed_since(running: Running, here: Run) -> None:
    assert here("tools", "classify", "asked", "--yes").status == 0
    assert here("tools", "set", "asked:add_row", "destructive").status == 0
    ran = here("tools", "classify", "--undo", "--yes", "-o", "json")
    assert sorted(ran.json["undone"]["asked"]) == ["drop_table", "list_tables", "read_query"]
    assert overrides(running, "asked") == {"add_row": "destructive"}


def test_overrides_of_a_person_and_hints_are_left_alone(running: Running, here: Run) -> None:
    assert set(proposals(here("tools", "classify", "kept", "--dry-run", "-o", "json"))) == {"drop_table", "read_query"}
    assert proposals(here("tools", "classify", "hinted", "--dry-run", "-o", "json")) == {"list_more": "read"}


def test_with_all_only_what_is_higher_than_its_hint(here: Run) -> None:
    found = proposals(here("tools", "classify", "hinted", "--all", "--dry-run", "-o", "json"))
    assert found == {"get_and_delete": "destructive", "list_more": "read"}, "a hint is never lowered"


def test_names_that_a_file_would_read_otherwise_mean_themselves(running: Running, here: Run) -> None:
    ran = here("tools", "classify", "odd", "--yes")
    assert ran.status == 0, ran.err
    assert set(classes(running, "odd").values()) == {"destructive"}
    assert set(overrides(running, "odd")) == {"st[*]r", "[/]/thing", "[[]a]", "get_th\u0456ng", " Spaced "}
    assert row(running, "odd")["unmatched_entries"] == []
    assert here("tools", "classify", "--undo", "--yes").status == 0
    assert overrides(running, "odd") == {}


def test_a_server_that_only_has_a_known_name_gets_no_curated_classes(here: Run) -> None:
    ran = here("tools", "classify", "filesystem", "--dry-run", "-o", "json")
    assert {each["basis"] for each in ran.json["proposals"]} == {"name"}


def test_without_a_yes_nothing_is_written(running: Running, here: Run) -> None:
    before = (running.data_dir / "mcp_config.json").read_bytes()
    for args in (["tools", "classify"], ["tools", "classify", "-o", "json"]):
        ran = here(*args)
        assert (ran.status, "--yes" in ran.err) == (2, True)
    assert (running.data_dir / "mcp_config.json").read_bytes() == before


def test_a_server_that_is_not_there(here: Run) -> None:
    ran = here("tools", "classify", "plian")
    assert (ran.status, "did you mean plain" in ran.err) == (1, True), ran.err


def test_the_class_of_one_tool_with_what_it_changes_and_how_to_undo_it(running: Running, here: Run) -> None:
    ran = here("tools", "set", "single:drop_table", "destructive")
    assert ran.status == 0, ran.err
    assert "single:drop_table: unknown (no hints) -> destructive (by your override)" in ran.out
    assert "To undo: mcpproxy tools set single:drop_table default" in ran.err
    assert classes(running, "single")["drop_table"] == "destructive"

    lower = here("tools", "set", "single:drop_table", "read")
    assert (lower.status, "--yes" in lower.err) == (2, True), "a lowering is asked about"
    assert classes(running, "single")["drop_table"] == "destructive"

    lower = here("tools", "set", "single:drop_table", "read", "--yes", "-o", "json")
    past = {"looked_at": 0, "refused": 0, "allowed": 0, "asked": 0, "examples": []}
    assert lower.json == {
        "tool": "single:drop_table", "class": "read", "before": "destructive", "lowers": True, "past_calls": past,
    }  # fmt: skip
    assert "To undo: mcpproxy tools set single:drop_table destructive" in lower.err
    changes = running.activities(type="config_change")
    assert any("can class it read, before destructive" in json.dumps(each) for each in changes)
    assert here("tools", "set", "single:drop_table", "default", "--yes").status == 0
    assert "drop_table" not in overrides(running, "single")


def test_an_override_that_depends_on_arguments_can_be_put_back(running: Running, here: Run) -> None:
    before = overrides(running, "single")["add_row"]
    ran = here("tools", "set", "single:add_row", "destructive")
    shown = ran.err.partition("of the server: ")[2]
    assert json.loads(shown) == {"add_row": before}
    assert running.post("/servers/single/tools", {"tools": {"add_row": before}}).status_code == 200
    assert overrides(running, "single")["add_row"] == before


@pytest.mark.parametrize(
    ("args", "status", "says"),
    [
        (["plain:nothing", "read"], 1, "There is no tool"),
        (["plain", "read"], 2, "SERVER:TOOL"),
        (["plain:", "read"], 2, "SERVER:TOOL"),
        (["plain:add_row", "harmless"], 2, "harmless"),
    ],
)
def test_what_cannot_be_set_is_told(here: Run, args: list[str], status: int, says: str) -> None:
    ran = here("tools", "set", *args)
    assert (ran.status, says in ran.err) == (status, True), ran.err


@pytest.mark.parametrize(
    ("tools", "status", "code"),
    [
        ({}, 400, "BAD_REQUEST"),
        ({"add_row": "harmless"}, 400, "BAD_REQUEST"),
        ({"": "read"}, 400, "BAD_REQUEST"),
        ({"x" * 257: "read"}, 400, "BAD_REQUEST"),
        ({"add_row": [{"class": "read", "when": {}}]}, 422, "CONFIG_INVALID"),
        ({"add_row": []}, 422, "CONFIG_INVALID"),
    ],
)
def test_rest_refuses_what_is_no_class(running: Running, tools: Any, status: int, code: str) -> None:
    before = (running.data_dir / "mcp_config.json").read_bytes()
    answer = running.post("/servers/plain/tools", {"tools": tools})
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
    assert (running.data_dir / "mcp_config.json").read_bytes() == before
    assert running.post("/servers/nobody/tools", {"tools": {"x": "read"}}).status_code == 404


@pytest.fixture
def dead() -> Iterator[str]:
    with kept_port() as port:
        yield f"127.0.0.1:{port}"


def test_with_no_gateway_the_file_is_changed(tmp_path: Path, run: Run, dead: str) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    config = home / "mcp_config.json"
    config.write_text(f'{{"listen": "{dead}", "mcpServers": {{"s": {{"//": "kept", "command": "s"}}}}}}')
    ran = run("tools", "set", "s:drop_table", "destructive", "--data-dir", str(home))
    assert (ran.status, "No gateway is running" in ran.err) == (0, True), ran.err
    assert json.loads(config.read_text())["mcpServers"]["s"] == {
        "//": "kept", "command": "s", "tools": {"drop_table": "destructive"}
    }  # fmt: skip
    assert run("tools", "set", "s:drop_table", "default", "--yes", "--data-dir", str(home)).status == 0
    assert "tools" not in json.loads(config.read_text())["mcpServers"]["s"]
    missing = run("tools", "set", "t:x", "destructive", "--data-dir", str(home))
    assert (missing.status, "no server named 't'" in missing.err) == (1, True)
    assert run("tools", "classify", "--data-dir", str(home)).status == 4, "the lists are known to a running gateway"


def test_a_stricter_rule_for_tools_without_hints_is_told_as_it_is(tmp_path: Path, run: Run) -> None:
    config = {
        "intent_declaration": {"unannotated": "destructive"},
        "mcpServers": {"plain": without_hints(tmp_path, "plain", PLAIN[:1])},
    }
    with gateway(tmp_path / "data", config) as running:
        running.wait_for("plain")
        assert row(running, "plain")["unannotated_as"] == "destructive"
        said = "1 tool has no hints; it counts as destructive, so only the destructive door lets it through"
        until(lambda: f"plain: {said}" in running.stderr(), what="the log")
        assert said in " ".join(run("doctor", "--data-dir", str(tmp_path / "data")).out.split())


@pytest.mark.parametrize(("answer", "wrote"), [("y", True), ("n", False)])
def test_a_person_is_asked_on_a_terminal(running: Running, answer: str, wrote: bool) -> None:
    ours, theirs = pty.openpty()
    env = clean_environment(MCPPROXY_DATA_DIR=str(running.data_dir), TERM="xterm-256color", COLUMNS="80")
    command = [sys.executable, "-m", "mcpproxy_py", "tools", "classify", "curated"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 4096):
                shown += part
                if b"[y/N]" in shown and answer:
                    os.write(ours, f"{answer}\n".encode())
                    answer = ""
        except OSError:
            pass  # how a terminal says that nobody writes any more
        finally:
            os.close(ours)
        assert process.wait(60) == (0 if wrote else 1)
    text = shown.decode()
    assert "Write 4 overrides (1 read, 1 write, 2 destructive)?" in text
    assert overrides(running, "curated") == (PROPOSED if wrote else {})
    if wrote:
        assert running.post("/servers/curated/tools", {"tools": dict.fromkeys(PROPOSED)}).status_code == 200


def test_of_a_server_whose_tools_are_not_known_nothing_is_claimed(running: Running, here: Run) -> None:
    here("upstream", "add", "dead", "--no-wait", "--no-check", "--url", "http://127.0.0.1:9/mcp")
    try:
        ran = here("tools", "classify", "dead", "--dry-run")
    finally:
        here("upstream", "remove", "dead", "--yes")
    assert ran.status == 0
    assert ran.err.startswith("Nothing to propose.\ndead: ") and "so its tools are not known" in ran.err
