"""The OpenAPI document and the reference page say what the routes do, no more and no less."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from mcpproxy_py.errors import FACTS, Code
from mcpproxy_py.serve.rest.app import ENDPOINTS
from mcpproxy_py.serve.rest.openapi import document
from mcpproxy_py.serve.rest.reference_page import page
from tests.serve.parts import ADDRESS, House

pytestmark = [pytest.mark.anyio, pytest.mark.proves("ACT-3", "API-1")]

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "rest.md"

READ = {"operation_type": "read"}
NEW = {"name": "new", "config": {"command": "true"}}
GOOD: dict[str, dict[str, Any]] = {
    "POST /api/v1/call": {"json": {"variant": "read", "name": "notes:read_note", "intent": READ}},
    "POST /api/v1/call/question": {"json": {"variant": "read", "name": "notes:read_note", "intent": READ}},
    "POST /api/v1/explain": {"json": {"name": "notes:read_note"}},
    "GET /api/v1/tools/search": {"params": {"query": "note"}},
    "POST /api/v1/servers": {"json": NEW},
    "POST /api/v1/servers/{name}/login": {"json": {}},
    "POST /api/v1/servers/{name}/login/answer": {"json": {"address": "http://127.0.0.1:1/callback?code=a&state=b"}},
    "POST /api/v1/servers/{name}/logout": {"json": {"revoke": True}},
    "POST /api/v1/servers/{name}/tools": {"json": {"tools": {"read_note": "write", "gone": None}}},
    "POST /api/v1/catalog": {"json": {"query": "notes"}},
    "POST /mcp/request-capability": {"json": {"agent_id": "a", "mcp_name": "notion", "rationale": "the weekly report"}},
    "POST /api/v1/approvals/{id}/approve": {"json": {"notes": "fine"}},
    "POST /api/v1/approvals/{id}/deny": {"json": {}},
    "POST /api/v1/settings": {"json": {"settings": {"log.level": "debug"}}},
    "POST /api/v1/preview/settings": {"json": {"settings": {"log.level": None}}},
    "POST /api/v1/preview/server": {"json": {"action": "add", **NEW}},
    "POST /api/v1/preview/tools": {"json": {"server": "notes", "tools": {"read_note": "write", "gone": None}}},
    "POST /api/v1/tokens": {"json": {"name": "new", "operations": ["read"], "expires": "30d", "rate": "60/m"}},
    "POST /api/v1/tokens/{name}/rotate": {"json": {"grace": "1h"}},
    "POST /api/v1/page/links": {"json": {}},
    "GET /api/v1/proof": {"params": {"nonce": "0" * 32}},
}
"""What a request needs beside its path, where it needs anything."""


ENDLESS = ("GET", "/api/v1/events")
"""Answers for ever; it is tested over a real connection, which can be hung up."""


def operations() -> list[tuple[str, str]]:
    return [(method.upper(), path) for path, item in document(ENDPOINTS)["paths"].items() for method in item]


async def ask(http: httpx.AsyncClient, method: str, path: str, activity: str = "") -> httpx.Response:
    known = {
        "id": activity,
        "server": "notes",
        "slug": "github",
        "namespace": "com.example",
        "name": "notes:read_note" if "/tools/" in path else "notes",
    }
    return await http.request(method, path.format(**known), **GOOD.get(f"{method} {path}", {}))


async def recorded(http: httpx.AsyncClient, path: str) -> str:
    """The id of something that this path can be about."""
    if "/approvals/" in path:
        return (await ask(http, "POST", "/mcp/request-capability")).json()["approval"]["approval_id"]
    return (await ask(http, "POST", "/api/v1/call")).json()["id"]


async def at_the_page(http: httpx.AsyncClient, method: str, path: str) -> None:
    """With the code of a link, or in the session that it became."""
    made = await http.post("/api/v1/page/links", json={})
    opening = {"json": {"code": made.json()["url"].partition("#open=")[2]}, "headers": {"origin": ADDRESS}}
    if path.endswith("/open"):
        GOOD[f"{method} {path}"] = opening
    elif path.endswith("/session"):
        token = (await http.post("/api/v1/page/open", **opening)).json()["page_token"]
        del http.headers["x-api-key"]
        http.headers["x-mcpproxy-page"] = token


async def test_the_document_is_valid_openapi() -> None:
    OpenAPIV31SpecValidator(document(ENDPOINTS)).validate()


async def test_the_served_document_is_the_one_made_from_the_table(http: httpx.AsyncClient) -> None:
    served = (await http.get("/api/v1/openapi.json")).json()
    assert served == document(ENDPOINTS)
    assert served["openapi"].startswith("3.1")


async def test_every_route_is_documented_and_every_documented_path_is_a_route(house: House) -> None:
    routes = {
        (method, route.path.replace(":path}", "}"))
        for route in house.rest.routes  # type: ignore[attr-defined]
        for method in route.app._methods
        if method != "HEAD"
    }
    assert routes == set(operations())
    assert len(operations()) == len(ENDPOINTS)


@pytest.mark.parametrize(("method", "path"), [operation for operation in operations() if operation != ENDLESS])
async def test_every_documented_operation_answers_as_documented(
    house: House, http: httpx.AsyncClient, method: str, path: str
) -> None:
    activity = await recorded(http, path)
    if "/pins/" in path:
        await house.lists("notes", "read_note")
        GOOD[f"{method} {path}"] = {} if method == "GET" else {"json": {"seen": house.seen("notes")}}
    if "/tokens/{name}" in path:
        await http.post("/api/v1/tokens", json={"name": "notes"})
    if path.startswith("/api/v1/page/"):
        await at_the_page(http, method, path)
    async with AsyncExitStack() as waits:
        if "/confirmations/" in path:
            call = await waits.enter_async_context(house.waits("notes:read_note"))
            activity, GOOD[f"{method} {path}"] = call.id, {}
            if method == "POST":
                GOOD[f"{method} {path}"] = {"json": {"arguments_sha256": call.arguments_sha256, "name": "ann"}}
        described = document(ENDPOINTS)["paths"][path][method.lower()]
        response = await ask(http, method, path, activity)
    status = str(response.status_code)
    assert status.startswith("2")
    assert status in described["responses"]
    content = described["responses"][status]["content"]
    media = response.headers["content-type"].partition(";")[0]
    assert media in content
    if media == "application/json":
        check(content[media]["schema"], response.json())


@pytest.mark.parametrize(("method", "path"), operations())
async def test_errors_are_documented_too(http: httpx.AsyncClient, method: str, path: str) -> None:
    described = document(ENDPOINTS)["paths"][path][method.lower()]
    response = await http.request(method, path.replace("{", "").replace("}", ""), params={"no-such": "1"})
    assert response.status_code == 400
    check(described["responses"]["400"]["content"]["application/json"]["schema"], response.json())
    if described["security"] and {} not in described["security"]:
        closed = await http.request(method, path, headers={"X-API-Key": ""})
        assert closed.status_code == 401
        assert "401" in described["responses"]


def check(schema: dict[str, Any], value: Any) -> None:
    """The value fits the schema, whose references lead into the document."""
    whole = {**schema, "components": document(ENDPOINTS)["components"]}
    jsonschema_rs.Draft202012Validator(whole).validate(value)


async def test_the_checks_above_can_fail() -> None:
    with pytest.raises(jsonschema_rs.ValidationError):
        check({"$ref": "#/components/schemas/Problem"}, {"error": {"code": "NO_SUCH", "message": 1}})


async def test_every_code_is_on_the_reference_page() -> None:
    text = page()
    for code in Code:
        assert f"| `{code.value}` | {FACTS[code].http} |" in text


async def test_the_reference_page_is_the_one_made_from_the_table() -> None:
    assert REFERENCE.read_text() == page(), (
        "run: python -m mcpproxy_py.serve.rest.reference_page > docs/reference/rest.md"
    )
