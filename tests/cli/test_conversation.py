"""What `mcpproxy stdio` remembers of a conversation, line by line (USE-7)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpproxy_py.cli.stdio.conversation import Conversation, OtherGateway, not_sent, read_line

pytestmark = pytest.mark.proves("USE-7")

MODERN_KEY = "io.modelcontextprotocol/subscriptionId"


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


def sent(talk: Conversation, **message: Any) -> None:
    request = read_line(line(**message))
    assert talk.may_send(request)
    talk.sending(request)


def shaken(version: str = "2025-11-25") -> Conversation:
    talk = Conversation()
    sent(talk, id=0, method="initialize", params={"protocolVersion": version, "capabilities": {"roots": {}}})
    assert talk.heard(line(id=0, result={"protocolVersion": version, "capabilities": {}}))
    sent(talk, method="notifications/initialized")
    return talk


def decoded(lines: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(each) for each in lines]


@pytest.mark.parametrize("request_id", [1, "1", "mcpproxy-1", 12345678901234567890, 'é\n"', ""])
def test_what_was_answered_does_not_fail_and_what_was_not_does(request_id: int | str) -> None:
    talk = Conversation()
    for each in (request_id, "other"):
        sent(talk, id=each, method="tools/list")
    assert talk.heard(line(id=request_id, result={})) == [line(id=request_id, result={})]
    told, again = talk.cut()
    assert ([each["id"] for each in decoded(told)], again) == (["other"], [])
    assert talk.cut() == ([], [])


@pytest.mark.parametrize(
    ("method", "params", "acted"),
    [("tools/call", {"name": "call_tool_read"}, False), ("tools/call", {"name": "call_tool_write"}, True),
     ("tools/call", {"name": "s__delete"}, True), ("tools/call", [], True), ("resources/read", {"uri": "x"}, False),
     ("some/thing", {}, True)],
)  # fmt: skip
def test_an_error_says_whether_the_server_may_have_acted(method: str, params: Any, acted: bool) -> None:
    talk = Conversation()
    sent(talk, id=1, method=method, params=params)
    [told] = decoded(talk.cut()[0])
    assert (told["error"]["code"], told["error"]["data"]["may_have_acted"]) == (-32000, acted)
    assert ("may have acted" in told["error"]["message"]) == acted
    waited = json.loads(not_sent(read_line(line(id=1, method=method, params=params)), "No gateway"))
    assert waited["error"]["data"] == {"code": "NOT_REACHABLE", "may_have_acted": False}


def test_a_cancelled_request_gets_no_error() -> None:
    talk = Conversation()
    sent(talk, id=1, method="tools/call", params={"name": "x"})
    sent(talk, method="notifications/cancelled", params={"requestId": 1})
    assert talk.cut() == ([], [])


def test_an_answer_is_passed_on_only_to_the_gateway_that_asked() -> None:
    talk = Conversation()
    question, answer = (
        line(id="mcpproxy-a-1", method="elicitation/create"),
        read_line(line(id="mcpproxy-a-1", result={})),
    )
    assert not talk.may_send(answer)
    assert talk.heard(question) == [question]
    assert talk.may_send(answer)
    [cancelled] = decoded(talk.cut()[0])
    assert (cancelled["method"], cancelled["params"]["requestId"]) == ("notifications/cancelled", "mcpproxy-a-1")
    assert not talk.may_send(answer)


def test_the_handshake_is_replayed_under_another_id_and_its_answer_is_kept_from_the_client() -> None:
    talk = shaken()
    sent(talk, id=1, method="logging/setLevel", params={"level": "error"})
    sent(talk, id=2, method="logging/setLevel", params={"level": "debug"})
    talk.heard(line(id=1, result={}))
    talk.heard(line(id=2, error={"code": -1, "message": "no"}))
    talk.cut()
    greeting = talk.greeting()
    assert greeting is not None
    said = json.loads(greeting[0])
    assert said["id"] == greeting[1] != 0
    assert said["params"] == {"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}}
    offers = {"tools": {"listChanged": True}, "prompts": {}}
    news = talk.welcomed({"id": said["id"], "result": {"protocolVersion": "2025-11-25", "capabilities": offers}})
    assert [each["method"] for each in decoded(news)] == ["notifications/tools/list_changed"]
    replayed = decoded(talk.resumption())
    assert [each["method"] for each in replayed] == ["notifications/initialized", "logging/setLevel"]
    assert replayed[1]["params"] == {"level": "error"}
    assert talk.heard(line(id=replayed[1]["id"], result={})) == []
    assert talk.cut() == ([], []), "what is ours is nobody's failure"


def test_a_handshake_that_was_not_answered_is_sent_again_as_it_was() -> None:
    talk = Conversation()
    sent(talk, id=0, method="initialize", params={"protocolVersion": "2025-11-25"})
    told, again = talk.cut()
    assert (told, [each.line for each in again], talk.greeting()) == (
        [], [line(id=0, method="initialize", params={"protocolVersion": "2025-11-25"})], None
    )  # fmt: skip


def test_another_revision_ends_it_and_an_error_is_tried_again() -> None:
    talk = shaken()
    talk.cut()
    talk.greeting()
    with pytest.raises(OtherGateway):
        talk.welcomed({"result": {"protocolVersion": "2024-11-05"}})
    with pytest.raises(ConnectionError, match="not yet"):
        talk.welcomed({"error": {"code": -1, "message": "not yet"}})


def test_a_stream_is_opened_again_and_acknowledged_once() -> None:
    talk = Conversation()
    sent(talk, id=7, method="subscriptions/listen", params={"notifications": {"toolsListChanged": True}})
    sent(talk, id=8, method="subscriptions/listen", params={"notifications": {"toolsListChanged": True}})
    ack = line(
        method="notifications/subscriptions/acknowledged",
        params={"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["a"]}, "_meta": {MODERN_KEY: 7}},
    )
    assert talk.heard(ack) == [ack]
    assert talk.cut() == ([], [])
    assert talk.stops_listening(8)
    assert not talk.stops_listening(8)
    assert [each["id"] for each in decoded(talk.resumption())] == [7]
    news = decoded(talk.heard(ack))
    assert [each["method"] for each in news] == ["notifications/tools/list_changed", "notifications/resources/updated"]
    assert all(each["params"]["_meta"] == {MODERN_KEY: 7} for each in news)
    assert talk.heard(ack) == [ack]


@pytest.mark.parametrize("junk", [b"", b"{", b"[1]", b"null", b'"x"', b"[" * 100_000, b"\xff\xfe", b'{"id":true}',
    b'{"id":{},"method":"x"}', b'{"method":7}', b'{"id":1.5,"method":"x"}', b'{"id":null,"result":{}}'])  # fmt: skip
def test_junk_from_either_side_is_passed_on_or_dropped_and_never_remembered(junk: bytes) -> None:
    talk = shaken()
    found = read_line(junk + b"\n")
    if talk.may_send(found):
        talk.sending(found)
    assert talk.heard(junk + b"\n") == [junk + b"\n"]
    assert talk.cut() == ([], [])


def test_what_never_left_may_be_sent_elsewhere_unless_the_client_was_told() -> None:
    talk = Conversation()
    request = read_line(line(id=1, method="tools/list"))
    talk.sending(request)
    assert talk.not_sent(request)
    talk.sending(request)
    talk.cut()
    assert not talk.not_sent(request)
