"""A server that acts and then answers as if it had not: the record and the agent say that the call was sent.

A status of HTTP, a redirect or a request to log in comes from the server, so none of them proves that nothing was done.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.attacks.site import CLOSE, LOOK, HttpHeard, Site, response, result_of, site
from tests.attacks.target import Target, fresh
from tests.support.gateway import gateway
from tests.support.wire import HANDSHAKE, MODERN, RpcError, Wire, text

pytestmark = [pytest.mark.proves("GATE-14", "ACT-1")]
WIPE = {"name": "wipe", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": True}}
SESSION = "mcp-session-id: 5e5510"
LOGIN = 'www-authenticate: Bearer error="invalid_token"'
SCOPE = 'www-authenticate: Bearer error="insufficient_scope", scope="more"'
ANSWERS: dict[str, list[Any]] = {
    "400": [response(b"", status="400 Bad Request")],
    "401": [response(b"", status="401 Unauthorized")],
    "401-login": [response(b"", LOGIN, status="401 Unauthorized")],
    "403": [response(b"", status="403 Forbidden")],
    "403-scope": [response(b"", SCOPE, status="403 Forbidden")],
    "404": [response(b"", status="404 Not Found")],
    "404-session": [response(b"", status="404 Not Found")],
    "404-json": [response(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"gone"}}', status="404 No")],
    "405": [response(b"", status="405 Method Not Allowed")],
    "409": [response(b"", status="409 Conflict")],
    "429": [response(b"", "retry-after: 1", status="429 Too Many Requests")],
    "500": [response(b"", status="500 Oops")],
    "503": [response(b"", status="503 Away")],
    "302-away": [response(b"", "location: http://127.0.0.1:1/x", status="302 Found")],
    "307-nowhere": [response(b"", "location: /cut", status="307 Temporary Redirect"), CLOSE],
    "no-such-method": [],
    "hangs-up": [CLOSE],
}
DOORS = ("gate", "direct", "passthrough", "rest")
WAYS = [(door, era) for door in DOORS for era in (MODERN, HANDSHAKE) if (door, era) != ("rest", HANDSHAKE)]
"""REST knows no revision of the protocol."""


@dataclass
class Acting:
    """A web server at which each case is a server of the gateway's."""

    site: Site
    target: Target

    def calls(self, case: str, mark: str) -> list[HttpHeard]:
        return [each for each in self.site.heard if each.asked == "tools/call" and mark in each.body.decode()]


def answer_of(case: str, heard: HttpHeard) -> list[Any] | None:
    message = heard.message
    if heard.asked == "initialize" and case == "404-session":
        about = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "x"}}
        return [response(result_of(heard, about), SESSION)]
    if heard.asked != "tools/call":
        return None
    if heard.path == "/cut":
        return [CLOSE]
    if case == "no-such-method":
        error = {"code": -32601, "message": "Method not found"}
        return [response(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())]
    return ANSWERS[case]


@pytest.fixture(scope="module")
def acting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Acting]:
    folder = tmp_path_factory.mktemp("acting")
    with site() as web:
        for case in ANSWERS:
            web.answers[case] = lambda heard, case=case: answer_of(case, heard)
            web.tools[case] = [WIPE, LOOK]
        web.answers["cut"] = lambda heard: [CLOSE]
        servers = {case: {"url": f"{web.url}/{case}/mcp"} for case in ANSWERS}
        config = {"surfaces": ["gate", "direct", "passthrough"], "mcpServers": servers}
        with gateway(folder / "data", config, wait=False) as running:
            for case in ANSWERS:
                running.wait_for(case, state="connected")
            yield Acting(web, Target(running, folder))


def said_to_the_agent(acting: Acting, case: str, door: str, era: str, mark: str) -> str:
    running, args = acting.target.running, {"mark": mark}
    call = {"name": f"{case}:wipe", "args": args, "intent": {"operation_type": "destructive"}}
    if door == "rest":
        return running.post("/call", {**call, "variant": "destructive"}).text
    name, path = {
        "gate": ("call_tool_destructive", "/mcp"),
        "direct": (f"{case}__wipe", "/mcp/direct"),
        "passthrough": ("wipe", f"/mcp/s/{case}"),
    }[door]
    try:
        return text(Wire(f"{running.url}{path}", era).call(name, call if door == "gate" else args))
    except RpcError as error:
        return str(error)


@pytest.mark.parametrize(("door", "era"), WAYS)
@pytest.mark.parametrize("case", ANSWERS)
def test_a_call_that_was_sent_is_never_on_record_as_kept_from_its_server(
    acting: Acting, case: str, door: str, era: str
) -> None:
    acting.target.running.wait_for(case, state="connected")
    mark = fresh()
    told = said_to_the_agent(acting, case, door, era, mark)
    assert acting.calls(case, mark), "it was sent"
    (row,) = acting.target.ended(mark)
    assert row["status"] == "error", row
    assert "nothing had been sent" not in told
    if case not in ("no-such-method", "404-json"):  # those are answers of the protocol, in the server's own words
        assert "may have acted" in told, told
        assert "may have acted" in row["error"]["message"], row


@pytest.mark.parametrize("case", [each for each in ANSWERS if each != "307-nowhere"])
def test_a_write_is_sent_once_whatever_the_answer_was(acting: Acting, case: str) -> None:
    acting.target.running.wait_for(case, state="connected")
    mark = fresh()
    said_to_the_agent(acting, case, "gate", HANDSHAKE, mark)
    assert len(acting.calls(case, mark)) == 1


def test_a_second_sending_of_a_write_is_on_record(acting: Acting) -> None:
    """A redirect within the origin: the protocol says that nothing was done, and the server may lie."""
    acting.target.running.wait_for("307-nowhere", state="connected")
    mark = fresh()
    said_to_the_agent(acting, "307-nowhere", "gate", HANDSHAKE, mark)
    assert len(acting.calls("307-nowhere", mark)) > 1
    (row,) = acting.target.ended(mark)
    again = [line for line in acting.target.journal().splitlines() if row["id"] in line and '"sent_again"' in line]
    assert len(again) == len(acting.calls("307-nowhere", mark)) - 1
