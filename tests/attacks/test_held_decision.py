"""The decision, attacked from outside: random asks at a running gateway, of which only those reach the server that were
declared for what the tool does. (`tests/fuzz` asks the decision itself, some millions of times.)

And readings: one ask must not be read in two ways, whichever way its JSON is written.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.attacks.target import ERAS, Log, fresh, heard
from tests.support.gateway import Running, gateway
from tests.support.wire import MODERN, Wire, messages

pytestmark = pytest.mark.proves("GATE-2", "GATE-3", "GATE-9", "GATE-10")

CLASSES = {"look": 0, "put": 1, "wipe": 2}
VARIANTS = ("read", "write", "destructive")
SPELLED = (
    "read",
    "write",
    "destructive",
    "Read",
    "READ",
    "read ",
    "\u0072ead",
    "ｒead",
    "",
    None,
    0,
    True,
    ["read"],
    {"read": 1},
)
NAMES = (*CLASSES, *CLASSES, "Look", "look ", "wipe\u200b", "w\u0456pe")
ASKS = 300


@pytest.fixture(scope="module", params=[True, False], ids=["strict", "permissive"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    here = tmp_path_factory.mktemp("decision")
    config = {
        "mcpServers": {"h": heard(here, "h"), "listed": heard(here, "listed", deny_tools=["look", "wipe"])},
        "surfaces": ["gate", "direct", "passthrough"],
        "intent_declaration": {"strict_server_validation": request.param},
    }  # fmt: skip
    with gateway(here / "data", config) as running:
        running.strict = request.param  # type: ignore[attr-defined]
        yield running


def log_of(running: Running, server: str = "h") -> Log:
    return Log(running.data_dir.parent / f"{server}.heard")


def reached(running: Running, mark: str, server: str = "h") -> list[str]:
    """The tools that were called there with this mark."""
    return [each["name"] for each in log_of(running, server).calls(mark)]


def random_ask(rng: random.Random, mark: str) -> tuple[str, dict[str, Any]]:
    """The outer name and its arguments: mostly nearly right."""
    variant = rng.choice(VARIANTS)
    server = rng.choice(("h", "h", "h", "listed", "H", "h "))
    name = f"{server}:{rng.choice(NAMES)}"
    given: dict[str, Any] = {"name": name, "args": {"mark": mark}}
    said = {"operation_type": variant if rng.random() < 0.6 else rng.choice(SPELLED)}
    way = rng.random()
    if way < 0.6:
        given["intent"] = said
    elif way < 0.7:
        given["intent"] = json.dumps(said)
    elif way < 0.8:
        given["intent_operation_type"] = said["operation_type"]
    elif way < 0.9:
        given |= {"intent": said, "intent_operation_type": rng.choice(SPELLED)}
    if rng.random() < 0.2:
        given["args_json"] = json.dumps({"mark": mark} if rng.random() < 0.5 else {"mark": mark, "more": 1})
    if rng.random() < 0.1:
        given[rng.choice(("variant", "force", "confirm", "operation", "Intent", "_meta", "class"))] = "destructive"
    return f"call_tool_{variant}", given


@ERAS
def test_of_many_random_asks_those_run_that_were_declared_for_what_the_tool_does(running: Running, era: str) -> None:
    rng = random.Random(f"held {era}")
    wire = Wire(running.mcp, era)
    ran = 0
    for number in range(ASKS):
        mark = fresh()
        outer, given = random_ask(rng, mark)
        wire.call(outer, given)
        for tool in reached(running, mark):
            ran += 1
            variant = outer.removeprefix("call_tool_")
            said = given.get("intent")
            said = json.loads(said) if isinstance(said, str) else said
            claims = {(said or {}).get("operation_type"), given.get("intent_operation_type")} - {None}
            assert claims == {variant}, (number, outer, given)
            assert given["name"] == f"h:{tool}", (number, outer, given)
            strict = running.strict  # type: ignore[attr-defined]
            assert not strict or VARIANTS.index(variant) >= CLASSES[tool], (number, outer, given)
        assert not set(reached(running, mark, "listed")) & {"look", "wipe"}, (number, outer, given)
    assert ran > ASKS / 20, "and some of them do run"


@ERAS
def test_permissive_mode_relaxes_the_class_and_nothing_else(running: Running, era: str) -> None:
    """A first round: two keys, lists and a freeze hold in either mode."""
    strict = running.strict  # type: ignore[attr-defined]
    wire = Wire(running.mcp, era)
    relaxed, undeclared, mixed, denied, frozen = (fresh() for _ in range(5))
    answer = wire.via("read", "h:wipe", {"mark": relaxed})
    assert reached(running, relaxed) == ([] if strict else ["wipe"])
    if not strict:
        assert "mcpproxy/warning" in (answer.get("_meta") or {}), "it says so"
    wire.call("call_tool_read", {"name": "h:wipe", "args": {"mark": undeclared}})
    wire.call(
        "call_tool_read", {"name": "h:wipe", "args": {"mark": mixed}, "intent": {"operation_type": "destructive"}}
    )
    wire.via("destructive", "listed:wipe", {"mark": denied})
    assert running.post("/freeze").status_code == 200
    try:
        wire.via("read", "h:wipe", {"mark": frozen})
        wire.via("destructive", "h:wipe", {"mark": frozen})
    finally:
        assert running.post("/unfreeze").status_code == 200
    marker = fresh()
    wire.via("read", "h:look", {"mark": marker})
    assert reached(running, marker) == ["look"]
    assert [reached(running, mark) for mark in (undeclared, mixed, frozen)] == [[], [], []]
    assert reached(running, denied, "listed") == []


# One ask, one reading.


def call_text(variant: str, inner: str) -> str:
    return f'"name":"call_tool_{variant}","arguments":{{{inner}}}'


INTENT = '"intent":{"operation_type":"read"}'
TWICE: dict[str, str] = {
    "outer-name": '"name":"call_tool_destructive",' + call_text("read",
    f'"name":"h:wipe","args":{{"mark":"MARK"}},{INTENT}'),
    "outer-name-later": call_text("read",
    f'"name":"h:wipe","args":{{"mark":"MARK"}},{INTENT}') + ',"name":"call_tool_destructive"',
    "inner-name": call_text("read", f'"name":"h:look","name":"h:wipe","args":{{"mark":"MARK"}},{INTENT}'),
    "inner-name-first": call_text("read", f'"name":"h:wipe","name":"h:look","args":{{"mark":"MARK"}},{INTENT}'),
    "escaped-name": call_text("read", f'"name":"h:look","n\\u0061me":"h:wipe","args":{{"mark":"MARK"}},{INTENT}'),
    "intent": call_text("read",
    '"name":"h:wipe","args":{"mark":"MARK"},"intent":{"operation_type":"destructive"},' + INTENT),
    "in-the-intent": call_text(
        "read",
        '"name":"h:wipe","args":{"mark":"MARK"},"intent":{"operation_type":"destructive","operation_type":"read"}',
    ),
    "args": call_text("read", f'"name":"h:look","args":{{"mark":"x"}},"args":{{"mark":"MARK"}},{INTENT}'),
    "in-the-args": call_text("read", f'"name":"h:look","args":{{"mark":"x","mark":"MARK","n":1,"n":2}},{INTENT}'),
    "args-as-text-too": call_text(
        "read", f'"name":"h:look","args":{{"mark":"MARK"}},"args_json":"{{\\"mark\\":\\"MARK\\",\\"n\\":1}}",{INTENT}'
    ),
    "method": '"method":"tools/list",' + call_text("read", f'"name":"h:wipe","args":{{"mark":"MARK"}},{INTENT}'),
    "arguments": call_text("read", f'"name":"h:wipe","args":{{"mark":"MARK"}},{INTENT}')
    + ',"arguments":{"name":"h:look","args":{"mark":"MARK"},"intent":{"operation_type":"read"}}',
}  # fmt: skip


def post(
    running: Running, era: str, params: str, wrap: Any = lambda body: body.encode(), **headers: str
) -> httpx.Response:
    """A `tools/call` to the last byte as it is written here."""
    wire = Wire(running.mcp, era)
    meta = ""
    if era == MODERN:
        envelope = {
            "io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": wire.info,
        }  # fmt: skip
        meta = f',"_meta":{json.dumps(envelope)}'
        headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "call_tool_read", **headers}
    return wire.post(wrap(f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{{params}{meta}}}}}'), **headers)


@ERAS
@pytest.mark.parametrize("case", TWICE)
def test_a_key_that_comes_twice_is_read_once(running: Running, era: str, case: str) -> None:
    """What is decided, recorded and sent is the same, whichever of the two that is."""
    mark = fresh()
    answer = post(running, era, TWICE[case].replace("MARK", mark))
    assert answer.status_code in (200, 400), answer.text
    sent = [(each["name"], each["arguments"]) for each in log_of(running).calls(mark)]
    strict = running.strict  # type: ignore[attr-defined]
    assert len(sent) <= 1
    rows = [row for row in running.activities(limit=20) if mark in json.dumps(row["arguments"])]
    for tool, arguments in sent:
        (row,) = rows
        assert (row["tool"], row["server"], row["arguments"]) == (tool, "h", arguments)
        assert not strict or tool == "look", "the other reading ran"


NUMBERS = {
    "large": ("123456789012345678901234567890", True), "minus-zero": ("-0", True), "fraction": ("1.0", True),
    "exponent": ("1e2", True), "precise": ("0.1", True), "huge": ("1e400", False), "not-finite": ("NaN", False),
    "infinite": ("-Infinity", False), "octal": ("010", False), "hex": ("0x10", False), "plus": ("+1", False),
    "endless": ("9" * 5000, False), "bare-point": (".5", False), "grouped": ("1_000", False), "full-width": ("１",
    False),
}  # fmt: skip


@ERAS
@pytest.mark.parametrize("case", NUMBERS)
def test_a_number_arrives_as_it_was_written_or_not_at_all(running: Running, era: str, case: str) -> None:
    written, goes = NUMBERS[case]
    mark = fresh()
    inner = f'"name":"h:look","args":{{"mark":"{mark}","n":{written}}},{INTENT}'
    answer = post(running, era, call_text("read", inner))
    sent = log_of(running).calls(mark)
    assert bool(sent) == goes, answer.text
    assert answer.status_code == (200 if goes or case in ("huge", "not-finite", "infinite") else 400)
    if goes:
        assert sent[0]["arguments"]["n"] == json.loads(written)


ENCODINGS = {
    "utf-16": lambda body: body.encode("utf-16"), "utf-16-le": lambda body: body.encode("utf-16-le"),
    "utf-32": lambda body: body.encode("utf-32"), "utf-7": lambda body: body.encode("utf-7").replace(b"{", b"+AHs-"),
    "with-a-mark": lambda body: b"\xef\xbb\xbf" + body.encode(),
    "overlong": lambda body: body.encode().replace(b"h:look", b"h\xc0\xbalook"),
    "latin-1": lambda body: body.replace("h:look", "h:lo\xf6k").encode("latin-1"),
    "surrogates-in-utf-8": lambda body: body.encode().replace(b"h:look", b"h:\xed\xa0\x80look"),
    "nul-inside": lambda body: body.replace("h:look", "h:lo\x00ok").encode(),
    "nul-after": lambda body: body.encode() + b"\x00",
    "two-values": lambda body: body.encode() * 2, "a-comment": lambda body: body.encode() + b"// x",
    "comma": lambda body: body.encode()[:-1] + b",}",
    "single-quotes": lambda body: body.replace('"', "'").encode(), "cut": lambda body: body.encode()[:-2],
}  # fmt: skip


@ERAS
@pytest.mark.parametrize("case", ENCODINGS)
def test_what_is_no_json_in_utf_8_is_no_ask(running: Running, era: str, case: str) -> None:
    mark = fresh()
    inner = f'"name":"h:look","args":{{"mark":"{mark}"}},{INTENT}'
    kind = {"content-type": "application/json; charset=utf-16"} if case.startswith("utf-16") else {}
    answer = post(running, era, call_text("read", inner), ENCODINGS[case], **kind)
    assert answer.status_code == 400, answer.text
    assert messages(answer)[-1]["error"]["code"] == -32700
    assert not log_of(running).calls(mark)
