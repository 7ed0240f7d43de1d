"""Schemathesis against a running gateway, with the document that it serves itself: it has to find nothing.

Every check is on. Where a request that the document allows is turned down all the same, that is said here, with why
JSON Schema cannot say it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import requests
import schemathesis
from schemathesis import GenerationMode

from mcpproxy_py.serve.rest.app import ENDPOINTS
from mcpproxy_py.serve.rest.openapi import document
from tests.support.gateway import Running, gateway, python_server

EXAMPLES = 3
"""Of random requests for each of some forty operations; those at the edges of each schema come on top."""
ACCEPTED = ["2xx", "401", "404", "409", "503"]
ASKS = ("/api/v1/call", "/mcp/request-capability")
CONFIG: dict[str, Any] = {
    "generation": {"max-examples": EXAMPLES, "database": "none"},
    "cache": {"enabled": False},
    "checks": {"positive_data_acceptance": {"expected-statuses": ACCEPTED}},
    "operations": [
        # What is wrong in an ask is for the gate or the tool to refuse, on record: a name that names nothing, an intent
        # that is declared twice or not as the variant wants it, a time that is over. 423: another request here freezes.
        {
            "include-path": path,
            "checks": {"positive_data_acceptance": {"expected-statuses": [*ACCEPTED, "422", "423"]}},
        }
        for path in ASKS
    ]
    + [
        # What a server needs depends on its kind, and is told in the words of the configuration.
        {
            "include-path": "/api/v1/servers",
            "checks": {"positive_data_acceptance": {"expected-statuses": [*ACCEPTED, "422"]}},
        },
        # Which keys a configuration has, and which value each takes; what a server needs, where it is needed at all;
        # which addresses the page may be opened at.
        *(
            {
                "include-path": path,
                "checks": {"positive_data_acceptance": {"expected-statuses": [*ACCEPTED, "400", "422"]}},
            }
            for path in ("/api/v1/settings", "/api/v1/preview/settings", "/api/v1/preview/server", "/api/v1/page/links")
        ),
        # Two seconds for each; and no schema says which anchor is one that a gateway gave.
        {
            "include-path": "/api/v1/activity/verify",
            "generation": {"max-examples": 1},
            "checks": {"positive_data_acceptance": {"expected-statuses": [*ACCEPTED, "400"]}},
        },
    ],
}
schema = schemathesis.openapi.from_dict(document(ENDPOINTS), config=schemathesis.Config.from_dict(CONFIG))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    config = {"mcpServers": {"plain": python_server("plain.py")}, "log": {"level": "error"}}
    with gateway(tmp_path_factory.mktemp("schemathesis") / "data", config) as up:
        assert up.get("/openapi.json") == document(ENDPOINTS), "what is tested is what is served"
        yield up


@pytest.mark.proves("ACT-3", "API-1")
@schema.parametrize()
@hypothesis.settings(deadline=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck))
def test_nothing_is_found_between_the_served_document_and_what_the_gateway_does(
    case: schemathesis.Case, running: Running
) -> None:
    if case.meta is None or case.meta.generation.mode is GenerationMode.POSITIVE:
        make_possible(case)
    arguments = case.as_transport_kwargs(base_url=running.url, headers={"X-API-Key": running.key})
    answer = requests.request(**arguments, timeout=60, stream=True, allow_redirects=False)
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        answer._content = next(answer.iter_content(None))  # it has no end; its beginning has to do
        answer.close()
    if case.path == "/api/v1/key/rotate" and answer.ok:
        running.key = answer.json()["key"]
    case.validate_response(answer, headers={"X-API-Key": running.key})


def make_possible(case: schemathesis.Case) -> None:
    """What a schema cannot say: that a cursor is one the gateway gave, that an end is not before its start, and that
    there is a word to look for, since what a word is in a pattern differs from one reader of it to the next; and of a
    token, that its date is to come, that its profile is there, and that the ranges in its globs go from low to high."""
    query = {name: value for name, value in (case.query or {}).items() if name not in ("cursor", "after")}
    if "start_time" in query:
        query.pop("end_time", None)
    if "q" in query:
        query["q"] = "word"
    case.query = query
    if case.path.startswith("/api/v1/tokens") and isinstance(case.body, dict):
        body: dict[str, Any] = {key: value for key, value in case.body.items() if key != "profile"}
        if "-" in (body.get("expires") or ""):
            body["expires"] = "30d"
        if body.get("tools"):
            body["tools"] = ["*" if "[" in glob or not glob.isprintable() else glob for glob in body["tools"]]
        case.body = body
