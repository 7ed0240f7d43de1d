"""A server that corrects a hint by its type alone: `1` becomes `true`, `0` becomes `false`, and back.

For Python these are equal, so a gateway that compares listings with `==` does not notice. Each field that carries a
class or a visibility goes from each odd value to each boolean and back, in one change of one listing. Transitions that
Python takes for none are a listing of their own: any other change in the same listing would reveal them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.attacks.target import Log, fresh, heard
from tests.support.gateway import Running, start, until
from tests.support.wire import HANDSHAKE, MODERN, RpcError, Wire

pytestmark = pytest.mark.proves("UP-10", "SEC-3")

SERVER = "odd"
MISSING = object()
VALUES = (MISSING, 0, 1, 0.0, 1.0, "true", "false", None, [], {})
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
ASKS_USER = "anthropic/requiresUserInteraction"
FIELDS = (*HINTS, ASKS_USER, "taskSupport")


class Transition(NamedTuple):
    name: str
    field: str
    before: Any
    after: Any

    @property
    def is_equal_for_python(self) -> bool:
        return MISSING not in (self.before, self.after) and self.before == self.after

    def tool(self, value: Any) -> dict[str, Any]:
        said = {} if value is MISSING else {self.field: value}
        wire: dict[str, Any] = {
            "name": self.name,
            "description": f"Tool number {self.name}",
            "inputSchema": {"type": "object", "properties": {"mark": {"type": "string"}}},
        }
        if self.field in HINTS:
            return {**wire, "annotations": {"title": self.name, **said}}
        return {**wire, "_meta" if self.field == ASKS_USER else "execution": said}

    @property
    def forbids_reads(self) -> bool:
        return (self.field, self.after) in (("destructiveHint", True), ("readOnlyHint", False)) and type(
            self.after
        ) is bool


def transitions() -> Iterator[Transition]:
    number = 0
    for field in FIELDS:
        for odd in VALUES:
            for boolean in (True, False):
                for before, after in ((odd, boolean), (boolean, odd)):
                    number += 1
                    yield Transition(f"t{number}", field, before, after)


SUBTLE = [each for each in transitions() if each.is_equal_for_python]
PLAIN = [each for each in transitions() if not each.is_equal_for_python]
WAYS = pytest.mark.parametrize(
    ("way", "era", "strict"),
    [
        ("list_changed", MODERN, True),
        ("list_changed", HANDSHAKE, False),
        ("refresh", HANDSHAKE, True),
        ("refresh", MODERN, False),
        ("lazy restart", MODERN, True),
        ("lazy restart", HANDSHAKE, False),
    ],
    ids=lambda each: "" if isinstance(each, bool) else str(each).replace(" ", "_"),
)


def test_the_transitions_are_there() -> None:
    assert {each.field for each in SUBTLE} == set(FIELDS)
    assert sum(each.forbids_reads for each in SUBTLE) >= 4
    assert len(PLAIN) > 150


class Odd:
    """A gateway and a server that says what is in a file."""

    def __init__(self, folder: Path, era: str, strict: bool, lazy: bool) -> None:
        self.folder, self.era, self.strict = folder, era, strict
        self.file = folder / "says.json"
        flags = ["--says", str(self.file), *(["--modern"] if era == MODERN else [])]
        self.log = Log(folder / f"{SERVER}.heard")
        self.config: dict[str, Any] = {
            "mcpServers": {SERVER: heard(folder, SERVER, *flags, lazy=lazy)},
            "surfaces": ["gate", "direct", "passthrough"],
            "intent_declaration": {"strict_server_validation": strict},
        }
        self.says([])
        self.running: Running = start(folder / "data", self.config)
        self.running.post(f"/servers/{SERVER}/restart")  # a lazy server is listed once
        until(lambda: self.log.of("tools/list"), what="the first listing")
        self.wire = Wire(self.running.mcp, era)
        assert self.call("renew", "read") == (True, True)
        self.running.wait_for(SERVER)

    def says(self, after: list[Transition]) -> None:
        """In the same order, which is a difference too."""
        changed = {each.name for each in after}
        listed = [each.tool(each.after if each.name in changed else each.before) for each in transitions()]
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps({"tools": listed}))
        new.replace(self.file)

    def change(self, way: str, after: list[Transition], moved: list[Transition]) -> None:
        heard_before = len(self.log.of("tools/list"))
        if way == "lazy restart":
            self.running.stop()
            self.says(after)
            self.running = start(self.folder / "data", self.config)
            self.wire = Wire(self.running.mcp, self.era)
            return  # the first call wakes it
        self.says(after)
        if way == "list_changed":
            assert self.call("renew", "read") == (True, True)
        else:
            assert self.running.post(f"/servers/{SERVER}/restart").status_code == 200
        until(lambda: len(self.log.of("tools/list")) > heard_before, what="another listing")
        self.running.wait_for(SERVER)
        changed = next(each for each in moved if each.forbids_reads and each.field == "readOnlyHint")
        until(lambda: self.row(changed)["unavailable_reason"] == "changed", timeout=20, what=f"{changed} to be blocked")

    def row(self, of: Transition) -> dict[str, Any]:
        return self.running.get(f"/tools/{SERVER}:{of.name}")

    def call(self, name: str, operation: str) -> tuple[bool, bool]:
        """Whether it was answered without a warning, and whether it reached the server."""
        mark = fresh("odd")
        inner = {"name": f"{SERVER}:{name}", "args": {"mark": mark}, "intent": {"operation_type": operation}}
        answer = self.wire.request("tools/call", {"name": f"call_tool_{operation}", "arguments": inner})
        quiet = answer.get("isError") is not True and "mcpproxy/warning" not in (answer.get("_meta") or {})
        return quiet, bool(self.log.calls(mark))

    def listed(self, surface: str) -> dict[str, dict[str, Any]]:
        rows = Wire(f"{self.running.mcp}/{surface}", self.era).request("tools/list")["tools"]
        return {row["name"].rpartition("__")[2]: row for row in rows}

    def check(self, moved: list[Transition]) -> None:
        """No read reaches a tool that says it is none, and each transition is applied, blocked or waits."""
        for each in moved:
            if each.forbids_reads:
                quiet, reached = self.call(each.name, "read")
                assert not quiet, each
                assert not (self.strict and reached), each
        pin = self.running.get(f"/pins/{SERVER}")
        decided = {row["subject"].removeprefix("tool:") for row in pin["differences"]}
        assert not pin["cut"]
        shown = self.listed(f"s/{SERVER}")
        direct = self.listed("direct")
        for each in moved:
            assert each.name in decided or text(shown[each.name]) == text(each.tool(each.after)), each
            if each.name in direct and each.forbids_reads:
                hints = direct[each.name]["annotations"]
                assert hints.get(each.field) is each.after, each
            if each.name not in decided and each.field in HINTS:
                assert text(direct[each.name]["annotations"].get(each.field)) == text(
                    None if each.after is MISSING else each.after
                ), each


def text(value: Any) -> str:
    """JSON, in which `1.0` stays another text than `true`; whole numbers are written one way."""
    return json.dumps(value, sort_keys=True).replace("1.0", "1").replace("0.0", "0")


@contextmanager
def odd(folder: Path, era: str, strict: bool, lazy: bool) -> Iterator[Odd]:
    with ExitStack() as stack:
        gateway = Odd(folder, era, strict, lazy)
        stack.callback(lambda: gateway.running.stop() if gateway.running.process.poll() is None else None)
        yield gateway


@WAYS
def test_a_hint_that_changes_only_its_type_is_noticed(tmp_path: Path, way: str, era: str, strict: bool) -> None:
    with odd(tmp_path, era, strict, lazy=way == "lazy restart") as gateway:
        gateway.change(way, SUBTLE, moved=SUBTLE)
        gateway.check(SUBTLE)
        gateway.change(way, [*SUBTLE, *PLAIN], moved=PLAIN)
        gateway.check(PLAIN)


def test_at_the_first_listing_only_booleans_are_declarations(tmp_path: Path) -> None:
    """The other way round: what is no boolean declares nothing, whatever it is."""
    with odd(tmp_path, MODERN, strict=True, lazy=False) as gateway:
        for each in (*SUBTLE, *PLAIN):
            if each.field in ("destructiveHint", "readOnlyHint") and type(each.before) is bool:
                destructive = (each.field, each.before) == ("destructiveHint", True)
                reads = (each.field, each.before) == ("readOnlyHint", True)
                row = gateway.row(each)
                assert row["class"] == ("destructive" if destructive else "read" if reads else "write"), each
            elif each.field in HINTS:
                assert gateway.row(each)["class"] == "unknown", each


@pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
def test_an_override_whose_schema_changes_only_a_type_is_read_again(tmp_path: Path, era: str) -> None:
    """`when: {force: {const: 1}}` becomes `{const: true}` in the file: another condition, and so another class."""
    when = lambda const: {"type": "object", "properties": {"force": {"const": const}}, "required": ["force"]}  # noqa: E731
    entry = heard(tmp_path, SERVER, *(["--modern"] if era == MODERN else []))

    def configured(const: Any) -> dict[str, Any]:
        tools = {"put": [{"when": when(const), "class": "destructive"}, {"class": "read"}]}
        return {**entry, "tools": tools}

    running = start(tmp_path / "data", {"mcpServers": {SERVER: configured(1)}, "surfaces": ["gate"]})
    try:
        running.wait_for(SERVER)
        log, wire = Log(tmp_path / f"{SERVER}.heard"), Wire(running.mcp, era)

        def read(force: Any) -> bool:
            mark = fresh("force")
            inner = {"name": f"{SERVER}:put", "args": {"mark": mark, "force": force}}
            asked = {"name": "call_tool_read", "arguments": {**inner, "intent": {"operation_type": "read"}}}
            try:
                wire.request("tools/call", asked)
            except RpcError:
                return False
            return bool(log.calls(mark))

        assert (read(1), read(True)) == (False, True)
        body = {"name": SERVER, "config": configured(True), "replace": True}
        assert running.post("/servers", body).status_code in (200, 201)
        assert (read(1), read(True)) == (True, False)
    finally:
        running.stop()
