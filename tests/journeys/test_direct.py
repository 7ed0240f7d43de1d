"""The direct surface: every tool under its own name, decided and recorded as everywhere, nothing declared."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.servers.odd import LONG
from tests.support.gateway import Running, clean_environment, gateway, python_server
from tests.support.links import StdioLink
from tests.support.peer import connected
from tests.support.wire import HANDSHAKE, MODERN, RpcError, Wire, text

TOKEN = "agent-token-0123456789abcdef"
FIT = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def configuration(home: Path, **extra: Any) -> dict[str, Any]:
    """`one` is believed, and overridden in places; `two` has the same tools and is not believed."""

    def odd(name: str, **more: Any) -> dict[str, Any]:
        return python_server("odd.py", "--name", name, "--log", str(home / f"{name}.jsonl"), timeout=20, **more)

    overrides = {"write_note": "destructive", "delete_note": "read"}
    servers = {
        "one": odd("one", tools=overrides, deny_tools=["forbidden"]),
        "two": odd("two", trust_annotations=False),
    }
    return {"surfaces": ["gate", "direct"], "mcpServers": servers, **extra}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("direct")
    with gateway(home / "data", configuration(home), env={"MCPPROXY_MCP_TOKEN": TOKEN}) as found:
        found.wait_for("catalog")
        yield found


@pytest.fixture(params=[MODERN, HANDSHAKE], ids=["modern", "handshake"])
def client(request: pytest.FixtureRequest, running: Running) -> Wire:
    return direct(running, request.param)


def direct(running: Running, era: str = MODERN) -> Wire:
    return Wire(f"{running.mcp}/direct", era, token=TOKEN)


def listed(client: Wire) -> dict[str, dict[str, Any]]:
    return {tool["name"]: tool for tool in client.request("tools/list")["tools"]}


def altered(client: Wire, beginning: str) -> list[str]:
    """The names that begin like this and end in a digest."""
    return [name for name in listed(client) if re.fullmatch(rf"{re.escape(beginning)}.*_[0-9a-f]{{10}}", name)]


def received(running: Running, server: str, tool: str) -> list[dict[str, Any]]:
    """The arguments with which this server was called."""
    log = running.data_dir.parent / f"{server}.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return [row.get("arguments", {}) for row in rows if row["name"] == tool]


def last(running: Running, tool: str, **filters: Any) -> dict[str, Any]:
    return running.activities(tool=tool, limit=1, **filters)[0]


def refusal(result: dict[str, Any]) -> dict[str, Any]:
    """What a refusal says, where it must be said: an output schema may bind what is structured."""
    assert result["isError"] is True
    assert "structuredContent" not in result
    assert text(result).startswith(result["_meta"]["mcpproxy/refusal"]["message"])
    return result["_meta"]["mcpproxy/refusal"]


# Names.


@pytest.mark.proves("SURF-2")
def test_two_servers_with_the_same_tool_are_two_tools_and_each_call_reaches_its_own(
    client: Wire, running: Running
) -> None:
    mark = f"for two, {client.era}"
    assert {"one__echo", "two__echo"} <= listed(client).keys()
    assert json.loads(text(client.call("two__echo", {"text": mark}))) == {"text": mark}
    assert {"text": mark} in received(running, "two", "echo")
    assert {"text": mark} not in received(running, "one", "echo")


@pytest.mark.proves("SURF-2")
def test_names_that_do_not_fit_are_altered_the_same_way_for_everyone_and_can_be_called(
    client: Wire, running: Running
) -> None:
    assert all(FIT.fullmatch(name) for name in listed(client))
    long, odd = altered(client, "one__a_tool_"), altered(client, "one__gr__e____")
    assert (len(set(long)), len(odd)) == (2, 1), "each of the two with the same beginning has its own"
    assert listed(client).keys() == listed(direct(running)).keys()
    for name, tool in zip([*long, *odd], [LONG, f"{LONG}_and_on", "größe/α β"], strict=True):
        assert not client.call(name, {"text": client.era}).get("isError")
        assert {"text": client.era} in received(running, "one", tool)


@pytest.mark.proves("SURF-2")
def test_underscores_of_a_tools_own_name_are_never_taken_for_the_separator(client: Wire, running: Running) -> None:
    (led,) = altered(client, "one___led")
    for name, tool in ((led, "_led"), ("one__in__two", "in__two")):
        assert not client.call(name, {"text": client.era}).get("isError")
        assert {"text": client.era} in received(running, "one", tool)


@pytest.mark.proves("SURF-9", "SURF-2")
def test_the_list_does_not_vary_with_the_connection_and_says_how_long_it_holds(client: Wire, running: Running) -> None:
    found = client.request("tools/list")
    assert found == client.request("tools/list") == direct(running, client.era).request("tools/list")
    if client.era == MODERN:
        assert (found["ttlMs"] > 0, found["cacheScope"]) == (True, "private")


# Hints.


@pytest.mark.proves("SURF-2")
def test_hints_are_the_servers_own_unless_the_operator_decided_otherwise(client: Wire) -> None:
    tools = listed(client)
    assert tools["one__echo"]["annotations"] == {"readOnlyHint": True}
    assert tools["one__draft"]["annotations"]["draftHint"] == {"level": [1, None, 2.5]}
    assert "annotations" not in tools["one__hint_n_n"]
    assert hints(tools["one__write_note"]) == (False, True), "the override"
    assert hints(tools["one__delete_note"]) == (True, False), "the override, the other way"


@pytest.mark.proves("SURF-2")
def test_a_server_that_is_not_believed_cannot_show_a_tool_as_reading(client: Wire) -> None:
    tools = listed(client)
    assert hints(tools["two__echo"])[0] is False
    assert hints(tools["two__delete_note"])[1] is True, "what raises the class is believed"


@pytest.mark.proves("SURF-2")
@pytest.mark.parametrize(("setting", "shown"), [("write", (False, False)), ("destructive", (False, True))])
def test_what_unannotated_tools_count_as_is_what_their_hints_show(
    tmp_path: Path, setting: str, shown: tuple[bool, bool]
) -> None:
    config = configuration(tmp_path, intent_declaration={"unannotated": setting})
    with gateway(tmp_path / "data", config) as running:
        tools = listed(Wire(f"{running.mcp}/direct"))
        assert hints(tools["one__hint_n_n"]) == shown
        assert hints(tools["two__echo"]) == shown, "not believed, so it counts as unannotated"
        assert tools["one__echo"]["annotations"] == {"readOnlyHint": True}


def hints(tool: dict[str, Any]) -> tuple[Any, Any]:
    said = tool["annotations"]
    return said.get("readOnlyHint"), said.get("destructiveHint")


# What is decided and recorded.


@pytest.mark.proves("SURF-2", "SURF-4")
def test_a_denied_tool_is_not_listed_and_not_called(client: Wire, running: Running) -> None:
    assert "one__forbidden" not in listed(client)
    assert "two__forbidden" in listed(client)
    said = refusal(client.call("one__forbidden", {}))
    assert (said["code"], said["tool"]) == ("TOOL_UNAVAILABLE", "one:forbidden")
    assert received(running, "one", "forbidden") == []
    assert last(running, "forbidden")["status"] == "blocked"


@pytest.mark.proves("SURF-2", "ACT-1")
@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("one__echo", "read"),
        ("one__hint_f_f", "write"),
        ("one__hint_n_n", "write"),
        ("one__write_note", "destructive"),
        ("two__echo", "write"),
        ("two__hint_t_t", "destructive"),
    ],
)
def test_the_variant_is_what_the_tools_class_implies_and_on_record_as_implied(
    client: Wire, running: Running, name: str, variant: str
) -> None:
    assert not client.call(name, {}).get("isError")
    server, _, tool = name.partition("__")
    row = last(running, tool, server=server)
    assert (row["surface"], row["status"], row["principal"]) == ("direct", "success", "agent")
    assert row["metadata"]["tool_variant"] == f"call_tool_{variant}"
    assert row["metadata"]["intent"] == {"operation_type": variant, "source": "implied"}


@pytest.mark.proves("SURF-2", "SURF-8")
def test_a_frozen_gateway_reads_and_does_nothing_else(client: Wire, running: Running) -> None:
    assert running.post("/freeze").status_code == 200
    try:
        assert not client.call("one__echo", {"text": "still"}).get("isError")
        before = len(received(running, "one", "hint_f_f"))
        for name in ("one__hint_f_f", "one__hint_n_n", "two__echo"):
            assert refusal(client.call(name, {}))["code"] == "FROZEN"
        assert len(received(running, "one", "hint_f_f")) == before
        assert client.request("prompts/get", {"name": "one__greet"})["messages"]
    finally:
        assert running.post("/unfreeze").status_code == 200
    assert not client.call("one__hint_f_f", {}).get("isError")


# The intent that nobody has to give.


@pytest.mark.proves("MISS-2")
def test_an_optional_intent_is_added_to_each_schema_and_never_required(client: Wire) -> None:
    tools = listed(client)
    for name, tool in tools.items():
        if name not in ("request_capability", "one__own_intent", "two__own_intent"):
            assert tool["inputSchema"]["properties"]["intent"]["type"] == "string", name
            assert "intent" not in tool["inputSchema"].get("required", []), name
    assert tools["one__own_intent"]["inputSchema"]["properties"]["intent"] == {"type": "integer"}
    assert tools["one__strict"]["inputSchema"]["additionalProperties"] is False


@pytest.mark.proves("MISS-2")
def test_what_an_agent_says_it_intends_is_recorded_and_nobody_else_sees_it(client: Wire, running: Running) -> None:
    said, mark = f"to see whether it holds ({client.era})", f"passive {client.era}"
    result = client.call("one__strict", {"text": mark, "intent": said})
    assert result["structuredContent"] == {"args": {"text": mark}}, "the schema allows nothing more"
    assert received(running, "one", "strict")[-1] == {"text": mark}
    row = last(running, "strict")
    assert row["metadata"]["intent"] == {"operation_type": "read", "reason": said, "source": "passive"}
    assert row["arguments"] == {"text": mark}
    assert not client.call("one__strict", {"text": mark}).get("isError")
    assert last(running, "strict")["metadata"]["intent"]["source"] == "implied"


@pytest.mark.proves("MISS-2")
def test_a_tools_own_intent_is_its_own(client: Wire, running: Running) -> None:
    assert not client.call("one__own_intent", {"intent": 7}).get("isError")
    assert received(running, "one", "own_intent")[-1] == {"intent": 7}
    assert last(running, "own_intent")["metadata"]["intent"]["source"] == "implied"
    assert refusal(client.call("one__own_intent", {"intent": "seven"}))["code"] == "INVALID_ARGUMENTS"


@pytest.mark.proves("MISS-2", "SEC-5")
@pytest.mark.parametrize(
    ("said", "code"),
    [(7, "INVALID_INTENT"), (None, "INVALID_INTENT"), ({"operation_type": "read"}, "INVALID_INTENT"),
     ("x" * 1001, "REASON_TOO_LONG")],
)  # fmt: skip
def test_an_intent_that_is_no_short_text_is_refused_and_not_sent_on(
    client: Wire, running: Running, said: Any, code: str
) -> None:
    before = len(received(running, "one", "echo"))
    assert refusal(client.call("one__echo", {"text": "x", "intent": said}))["code"] == code
    assert len(received(running, "one", "echo")) == before


# Wishes, and what does not exist.


@pytest.mark.proves("SURF-2", "MISS-1")
def test_a_wish_can_be_made_here_too(client: Wire, running: Running) -> None:
    assert next(iter(listed(client))) == "request_capability"
    wish = f"draw a chart ({client.era})"
    assert not client.call("request_capability", {"capability": wish}).get("isError")
    row = last(running, "request_capability")
    assert (row["surface"], row["server"], row["arguments"]["capability"]) == ("direct", None, wish)


@pytest.mark.proves("SURF-2", "GATE-5")
@pytest.mark.parametrize("name", ["one__nothing", "nobody__echo", "echo", "__", "one__", "call_tool_read", "one:echo"])
def test_an_unknown_tool_is_an_error_of_the_protocol(client: Wire, running: Running, name: str) -> None:
    with pytest.raises(RpcError) as caught:
        client.call(name, {})
    assert caught.value.code == -32602
    assert running.activities(limit=1)[0]["error"]["code"] == "TOOL_NOT_FOUND"


@pytest.mark.proves("SURF-2", "GATE-5")
def test_a_name_that_is_nearly_right_is_answered_with_one_that_can_be_called_here(client: Wire) -> None:
    with pytest.raises(RpcError, match="one__write_note") as caught:
        client.call("one__write_not", {})
    assert caught.value.data["nearest"][0] == "one__write_note"


@pytest.mark.proves("SURF-2", "GATE-5")
def test_arguments_that_miss_the_schema_or_are_no_object_are_refused(client: Wire) -> None:
    for arguments in ({"text": 7}, {}, {"text": "x", "more": 1}, [], "text", 7):
        assert refusal(client.call("one__strict", arguments))["code"] == "INVALID_ARGUMENTS"


# Prompts and resources.


@pytest.mark.proves("SURF-2")
def test_prompts_of_all_servers_are_there_under_their_servers_names(client: Wire, running: Running) -> None:
    assert {row["name"] for row in client.request("prompts/list")["prompts"]} >= {"one__greet", "two__greet"}
    found = client.request("prompts/get", {"name": "two__greet"})
    assert found["messages"][0]["content"]["text"] == "Greetings from two."
    row = running.activities(type="prompt_get", limit=1)[0]
    assert (row["surface"], row["server"], row["tool"]) == ("direct", "two", "greet")
    for name in ("greet", "nobody__greet", "two__nothing", "two__"):
        with pytest.raises(RpcError) as caught:
            client.request("prompts/get", {"name": name})
        assert caught.value.code == -32602


@pytest.mark.proves("SURF-8")
@pytest.mark.parametrize("door", ["", "/direct"], ids=["gate", "direct"])
@pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
def test_a_resource_that_a_result_named_is_read_from_the_server_that_named_it(
    running: Running, door: str, era: str
) -> None:
    client = Wire(f"{running.mcp}{door}", era, token=TOKEN)
    for server in ("one", "two"):
        uri = f"link://{server}/{era}{door}"  # their templates begin with odd://
        unknown(client, uri)
        name_it(client, server, uri)
        for each in (uri, f"{uri}/kept"):
            assert client.request("resources/read", {"uri": each})["contents"][0]["text"] == f"{server}: {each}"
        row = running.activities(type="resource_read", limit=1)[0]
        assert (row["server"], row["tool"]) == (server, f"{uri}/kept")


@pytest.mark.proves("SURF-8")
def test_a_resource_that_a_listing_or_a_prompt_named_can_be_read(client: Wire) -> None:
    assert {row["uri"] for row in client.request("resources/list")["resources"]} >= {
        "odd://one/listed", "odd://two/listed"
    }  # fmt: skip
    client.request("prompts/get", {"name": "two__greet"})
    for server, uri in (("one", "odd://one/listed"), ("two", "odd://two/listed"), ("two", "odd://two/prompted")):
        assert client.request("resources/read", {"uri": uri})["contents"][0]["text"] == f"{server}: {uri}"
    assert client.request("resources/templates/list")["resourceTemplates"]


def name_it(client: Wire, server: str, uri: str) -> None:
    if client.url.endswith("/direct"):
        client.call(f"{server}__link", {"uri": uri})
    else:
        client.via("write", f"{server}:link", {"uri": uri})


def unknown(client: Wire, uri: str) -> None:
    with pytest.raises(RpcError) as caught:
        client.request("resources/read", {"uri": uri})
    assert (caught.value.code, caught.value.data["uri"]) == (-32602, uri)


# The same over `mcpproxy stdio`.


@contextmanager
def command(running: Running) -> Iterator[StdioLink]:
    arguments = ["stdio", "--surface", "direct", "--data-dir", str(running.data_dir)]
    yield StdioLink([sys.executable, "-m", "mcpproxy_py", *arguments], env=clean_environment())


@pytest.mark.anyio
@pytest.mark.proves("SURF-2", "SURF-5", "SURF-8", "MISS-2")
@pytest.mark.parametrize("era", [MODERN, HANDSHAKE], ids=["modern", "handshake"])
async def test_it_is_the_same_through_the_command(running: Running, era: str) -> None:
    theirs = listed(direct(running))
    with command(running) as link:
        async with connected(link, era) as peer:
            assert {tool["name"]: tool for tool in (await peer.request("tools/list"))["tools"]} == theirs
            found = await peer.call("one__strict", {"text": "piped", "intent": "to see"})
            assert found["structuredContent"] == {"args": {"text": "piped"}}
            row = last(running, "strict")
            assert (row["principal"], row["metadata"]["intent"]["source"]) == ("local", "passive")
            assert refusal(await peer.call("one__forbidden"))["code"] == "TOOL_UNAVAILABLE"
            greeting = await peer.request("prompts/get", {"name": "one__greet"})
            assert greeting["messages"][0]["content"]["text"] == "Greetings from one."
            with pytest.raises(RpcError, match="not found"):
                await peer.call("one__nothing")


@pytest.mark.anyio
@pytest.mark.proves("SURF-8", "SEC-5")
async def test_what_was_named_to_one_principal_is_unknown_to_another(running: Running) -> None:
    """The agent comes with its token, whoever opens the socket is local."""
    uri = "link://one/for-the-agent"
    agent = direct(running)
    name_it(agent, "one", uri)
    assert agent.request("resources/read", {"uri": uri})["contents"]
    with command(running) as link:
        async with connected(link) as peer:
            with pytest.raises(RpcError, match="no result or listing has named"):
                await peer.request("resources/read", {"uri": uri})
