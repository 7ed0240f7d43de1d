"""What may travel beside the arguments of a call: what the protocol defines, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.attacks.target import (
    ALL_SURFACES,
    DOORS,
    ERAS,
    Outcome,
    Target,
    accepts,
    ask,
    fresh,
    heard,
    heard_over_http,
    params,
    retry,
    turn,
)
from tests.support.gateway import gateway
from tests.support.peer import META, Message
from tests.support.wire import HANDSHAKE, MODERN

pytestmark = [pytest.mark.anyio, pytest.mark.proves("GATE-15")]
SERVERS = pytest.mark.parametrize("server", ["modern", "modern-http", "handshake", "handshake-http"])
STDIO = pytest.mark.parametrize("server", ["modern", "handshake"])
PASSES = {"progressToken", "traceparent"}
TRACE = {
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate": "vendor=attack",
    "baggage": "user=attack",
}
RELAYED: dict[str, Message] = {
    "resources/read": {"uri": "note://1"},
    "prompts/get": {"name": "hello"},
    "completion/complete": {"ref": {"type": "ref/prompt", "name": "hello"}, "argument": {"name": "a", "value": "b"}},
    "x/unknown": {"some": "thing"},
    "resources/list": {},
    "resources/templates/list": {},
    "prompts/list": {},
}
HANDSHAKE_ONLY: dict[str, Message] = {
    "resources/subscribe": {"uri": "note://1"},
    "logging/setLevel": {"level": "debug"},
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("meta")
    with ExitStack() as stack:
        servers = {
            "modern": heard(folder, "modern", "--modern"),
            "handshake": heard(folder, "handshake"),
            "modern-http": stack.enter_context(heard_over_http(folder, "modern-http", "--modern")),
            "handshake-http": stack.enter_context(heard_over_http(folder, "handshake-http")),
        }
        config = {"surfaces": ALL_SURFACES, "mcpServers": servers}
        yield Target(stack.enter_context(gateway(folder / "data", config)), folder, servers)


def smuggled(word: str) -> dict[str, Any]:
    """Keys that nobody defined, in the shapes in which a server might look for them."""
    return {
        "evil": word,
        "evil.example/command": {"run": [word]},
        "anthropic/requiresUserInteraction": word,
        "mcpproxy/approved": word,
        "Traceparent": word,
        "progresstoken": word,
        "": word,
        word: True,
    }


def foreign(sent: Message) -> set[str]:
    return {key for key in sent.get("_meta") or {} if key not in PASSES and not key.startswith(META)}


# H8: `_meta`.


@ERAS
@DOORS
@SERVERS
async def test_what_nobody_defined_never_reaches_a_server(target: Target, era: str, door: str, server: str) -> None:
    mark, word, log = fresh(), fresh("smuggled"), target.log(server)
    async with target.client(door, server, era) as peer:
        assert (await ask(peer, params(door, server, "wipe", mark), **smuggled(word))).ok
    (sent,) = log.calls(mark)
    assert not foreign(sent)
    assert not log.has(word)


@ERAS
@DOORS
@SERVERS
async def test_it_holds_in_later_rounds(target: Target, era: str, door: str, server: str) -> None:
    mark, word, log = fresh(), fresh("smuggled"), target.log(server)
    async with target.client(door, server, era, accepts(fresh("said"))) as peer:
        assert (await ask(peer, params(door, server, "wipe_ask", mark, rounds=2), **smuggled(word))).ok
    assert not [key for sent in log.calls(mark) for key in foreign(sent)]
    assert not log.has(word)


@ERAS
@STDIO
@pytest.mark.parametrize("method", list(RELAYED))
async def test_it_holds_for_every_method_of_a_passthrough(target: Target, era: str, server: str, method: str) -> None:
    word, log, cursor = fresh("smuggled"), target.log(server), fresh("page")
    asked = {**RELAYED[method], **({"cursor": cursor} if method.endswith("list") else {})}
    before = len(log.of(method))
    async with target.client("passthrough", server, era) as peer:
        assert (await ask(peer, asked, method, **smuggled(word))).ok
    sent = [each.get("params") or {} for each in log.of(method)[before:]]
    assert sent and not [key for each in sent for key in foreign(each)]
    assert not log.has(word)


@pytest.mark.parametrize("method", list(HANDSHAKE_ONLY))
async def test_and_for_those_of_a_session(target: Target, method: str) -> None:
    word, log = fresh("smuggled"), target.log("handshake")
    asked = {**HANDSHAKE_ONLY[method], **({"uri": f"note://{fresh()}"} if "uri" in HANDSHAKE_ONLY[method] else {})}
    async with target.client("passthrough", "handshake", HANDSHAKE) as peer:
        assert (await ask(peer, asked, method, **smuggled(word))).ok
    assert log.of(method)
    assert not log.has(word)


@ERAS
@pytest.mark.parametrize("method", ["resources/read", "prompts/get"])
@STDIO
async def test_and_for_what_the_direct_surface_routes(target: Target, era: str, server: str, method: str) -> None:
    word, log = fresh("smuggled"), target.log(server)
    async with target.client("direct", server, era) as peer:
        assert (await ask(peer, {}, "resources/list")).ok
        asked = {"uri": "note://1"} if method == "resources/read" else {"name": f"{server}__hello"}
        found = await ask(peer, asked, method, **smuggled(word))
        assert found.ok, found
    assert not log.has(word)


@ERAS
@DOORS
@STDIO
async def test_nor_does_what_stands_beside_name_and_arguments(target: Target, era: str, door: str, server: str) -> None:
    mark, word, log = fresh(), fresh("smuggled"), target.log(server)
    asked = {**params(door, server, "wipe", mark), "task": {"ttl": word}, "extra": word, "Arguments": {"x": word}}
    async with target.client(door, server, era) as peer:
        await turn(peer, asked)
    await target.marker(door, server, era)
    assert not log.has(word)
    assert all(set(sent) <= {"name", "arguments", "_meta"} for sent in log.calls(mark))


@ERAS
@DOORS
@SERVERS
async def test_what_the_protocol_defines_arrives(target: Target, era: str, door: str, server: str) -> None:
    mark, log, token = fresh(), target.log(server), fresh("token")
    async with target.client(door, server, era) as peer:
        found = await ask(peer, params(door, server, "report", mark), progressToken=token, **TRACE)
        assert found.ok
        told = await peer.hear("notifications/progress", progressToken=token)
        assert told["params"]["progress"] == 1
    (sent,) = log.calls(mark)
    assert sent["_meta"]["traceparent"] == TRACE["traceparent"]
    assert not sent["_meta"].keys() & {"tracestate", "baggage"}, "those are free text"
    (row,) = target.ended(mark)
    assert row["metadata"]["forwarded"] == {"traceparent": TRACE["traceparent"]}
    assert sent["_meta"]["progressToken"] != token, "the token is ours, theirs is put back"


@DOORS
@pytest.mark.parametrize("server", ["modern", "modern-http"])
async def test_the_log_level_arrives_where_the_era_has_one(target: Target, door: str, server: str) -> None:
    mark = fresh()
    async with target.client(door, server, MODERN) as peer:
        assert (await ask(peer, params(door, server, "look", mark), **{f"{META}logLevel": "debug"})).ok
    (sent,) = target.log(server).calls(mark)
    assert sent["_meta"][f"{META}logLevel"] == "debug"


@ERAS
@DOORS
@pytest.mark.parametrize("key", ["traceparent", "tracestate", "baggage", f"{META}logLevel", "progressToken"])
async def test_what_the_protocol_defines_is_text_or_nothing(target: Target, era: str, door: str, key: str) -> None:
    """Under a permitted key, too, only what it is defined to hold gets through: no object in which to hide another."""
    mark, word, log = fresh(), fresh("smuggled"), target.log("modern")
    async with target.client(door, "modern", era) as peer:
        hidden: dict[str, Any] = {key: {"hidden": [word]}}
        await turn(peer, params(door, "modern", "wipe", mark), **hidden)
    await target.marker(door, "modern", era)
    assert not log.has(word)


def deep(levels: int, word: str) -> Any:
    found: Any = word
    for _ in range(levels):
        found = {"a": found}
    return found


@ERAS
@DOORS
@pytest.mark.parametrize("kind", ["deep", "big"])
async def test_a_deep_or_big_meta_costs_nobody_anything(target: Target, era: str, door: str, kind: str) -> None:
    """It is dropped, or its request is refused; it is neither sent nor recorded, and the next call works."""
    mark, word, log = fresh(), fresh("smuggled"), target.log("modern")
    value = deep(200, word) if kind == "deep" else [word] * 100_000
    async with target.client(door, "modern", era) as peer:
        for _ in range(3):
            await turn(peer, params(door, "modern", "wipe", mark), evil=value)
    await target.marker(door, "modern", era)
    assert not log.has(word)
    assert word not in target.journal()
    assert len(target.rows(mark)) <= 3, "a record for each call and no more"


async def test_rest_takes_nothing_beside_the_call(target: Target) -> None:
    log, call = target.log("modern"), {"variant": "destructive", "intent": {"operation_type": "destructive"}}
    for key in ("_meta", "meta", "inputResponses", "requestState", "carried", "capabilities"):
        mark, word = fresh(), fresh("smuggled")
        body = {**call, "name": "modern:wipe", "args": {"mark": mark}, key: {"one": word}}
        assert target.running.post("/call", body).status_code in (400, 422)
        assert not log.has(word)
        assert not log.calls(mark)


# H8: answers to questions that nobody asked.


def refused_as_invalid(found: Outcome) -> None:
    assert not found.ok, found
    assert found.code in ("INVALID_ARGUMENTS", "-32602"), found


def passed_on(era: str, door: str) -> bool:
    """A modern client may send answers with its first round to a modern server as it is, and the conformance suite does
    (SURF-7): they are bounded and on record there like arguments. A handshake server gets the request without them."""
    return era == MODERN and door == "passthrough"


ANSWERS: list[Any] = [
    {"one": {"action": "accept", "content": {"answer": "WORD"}}},
    {"WORD": {"action": "accept"}},
    {},
    [{"answer": "WORD"}],
    "WORD",
    0,
    False,
]


def filled(value: Any, word: str) -> Any:
    return json.loads(json.dumps(value).replace("WORD", word))


@ERAS
@DOORS
@STDIO
async def test_answers_in_a_first_round_are_ignored_or_on_record(
    target: Target, era: str, door: str, server: str
) -> None:
    log = target.log(server)
    async with target.client(door, server, era, accepts(fresh("said"))) as peer:
        for said, state in [*((each, {}) for each in ANSWERS), (ANSWERS[0], {"requestState": None})]:
            mark, word = fresh(), fresh("smuggled")
            asked = {**params(door, server, "wipe_ask", mark), "inputResponses": filled(said, word), **state}
            found = await turn(peer, asked)
            if passed_on(era, door):
                assert not log.has(word) or word in target.journal(), "sent and not on record"
                assert isinstance(said, dict) or server == "handshake" or not log.calls(mark)
                continue
            assert not log.has(word)
            assert not [sent for sent in log.calls(mark) if "inputResponses" in sent and "requestState" not in sent]
            if era == MODERN:
                assert found.result["resultType"] == "input_required", "ignored, and the server asks its question"
                assert log.calls(mark)
                assert word not in str(log.calls(mark))


@ERAS
@pytest.mark.parametrize(("method", "asked"), [("prompts/get", {"name": "ask"}), ("resources/read", {"uri": "ask"})])
async def test_it_holds_for_whatever_takes_rounds(target: Target, era: str, method: str, asked: Message) -> None:
    word, log, before = fresh("smuggled"), target.log("modern"), len(target.log("modern").of(method))
    unasked = {**asked, "inputResponses": {"one": {"action": "accept", "content": {"answer": word}}}}
    async with target.client("passthrough", "modern", era, accepts(fresh("said"))) as peer:
        await turn(peer, unasked, method)
    await target.marker("passthrough", "modern", era)
    if era == MODERN:  # passed on, like any parameter
        assert word in target.journal()
    else:
        assert not log.has(word)
        assert len(log.of(method)) <= before + 1


STATES: list[Any] = ["", "WORD", "asked-1", "a.b", "WORD.WORD", 5, True, ["WORD"], {"WORD": "WORD"}, "x" * 300_000]


@ERAS
@DOORS
@STDIO
@pytest.mark.parametrize("answered", [True, False], ids=["answered", "alone"])
async def test_a_state_that_nobody_made_is_refused(
    target: Target, era: str, door: str, server: str, answered: bool
) -> None:
    log = target.log(server)
    async with target.client(door, server, era) as peer:
        for state in STATES:
            mark, word = fresh(), fresh("smuggled")
            asked = {**params(door, server, "wipe", mark), "requestState": filled(state, word)}
            if answered:
                asked["inputResponses"] = filled(ANSWERS[0], word)
            found = await turn(peer, asked)
            assert not log.has(word)
            assert not log.later_rounds(mark)
            if era == MODERN:
                refused_as_invalid(found)
                assert not log.calls(mark)


@DOORS
@pytest.mark.parametrize(
    "said",
    [
        {"one": {"action": "accept", "content": {"answer": "DEEP"}}},
        {"one": {"action": "accept", "content": {"answer": "BIG"}}},
        [{"action": "accept", "content": {"answer": "WORD"}}],
        "WORD",
        17,
    ],
    ids=["deep", "big", "list", "text", "number"],
)
async def test_the_answers_of_a_later_round_are_bounded(target: Target, door: str, said: Any) -> None:
    """As arguments are: in depth, in size, and an object."""
    mark, word, log = fresh(), fresh("smuggled"), target.log("modern")
    first = params(door, "modern", "wipe_ask", mark)
    answers = filled(said, word)
    if isinstance(answers, dict):
        value = answers["one"]["content"]["answer"]
        answers["one"]["content"]["answer"] = {"DEEP": deep(150, word), "BIG": word * 150_000}[value]
    async with target.client(door, "modern", MODERN) as peer:
        again = retry(first, await turn(peer, first), "")
        refused = await turn(peer, {**again, "inputResponses": answers})
    await target.marker(door, "modern", MODERN)
    assert not log.has(word)
    assert not log.later_rounds(mark)
    refused_as_invalid(refused)


@pytest.mark.parametrize("server", ["modern", "handshake"])
@DOORS
async def test_and_those_of_a_client_of_the_handshake_era(target: Target, door: str, server: str) -> None:
    mark, word, log = fresh(), fresh("smuggled"), target.log(server)

    async def person(method: str, asked: Any) -> Any:
        return {"action": "accept", "content": {"answer": deep(150, word)}}

    async with target.client(door, server, HANDSHAKE, person) as peer:
        await ask(peer, params(door, server, "wipe_ask", mark))
    await target.marker(door, server, HANDSHAKE)
    assert not log.has(word)


@STDIO
async def test_an_answer_from_a_session_that_was_not_asked_goes_nowhere(target: Target, server: str) -> None:
    """To a question with an id that it guesses, which is another client's."""
    mark, word, log = fresh(), fresh("smuggled"), target.log(server)

    async with target.client("passthrough", server, HANDSHAKE) as thief:

        async def person(method: str, asked: Any) -> Any:
            for guess in (*range(1, 20), *(f"q{number}" for number in range(1, 20))):
                answer = {"action": "accept", "content": {"answer": word}}
                await thief.link.send({"jsonrpc": "2.0", "id": guess, "result": answer}, {})
            return {"action": "decline"}

        async with target.client("passthrough", server, HANDSHAKE, person) as peer:
            await ask(peer, params("passthrough", server, "wipe_ask", mark))
    await target.marker("passthrough", server, HANDSHAKE)
    assert not log.has(word)
