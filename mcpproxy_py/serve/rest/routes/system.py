"""The gateway itself: is it up, what does it run with, hold everything, change the key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.serve.rest import metrics, requests, responses
from mcpproxy_py.serve.rest.endpoint import RestEndpoint, RestRequest


async def healthz(x: RestRequest) -> Mapping[str, Any]:
    return {"status": "ok"}


async def readyz(x: RestRequest) -> Mapping[str, Any]:
    """Anybody may ask this, so it says that the record cannot be written and not where or why."""
    if not x.parts.store.health().get("writable"):
        raise GatewayError(Code.STORE_UNAVAILABLE, "Not ready: the record cannot be written")
    return {"status": "ready"}


async def prometheus(x: RestRequest) -> Response:
    content, media = await metrics.exposition(x.parts, ",".join(x.request.headers.getlist("accept")))
    return Response(content, media_type=media, headers={"vary": "accept"})


async def proof(x: RestRequest) -> Mapping[str, Any]:
    return x.parts.operator.prove(x.query.nonce)


async def status(x: RestRequest) -> Mapping[str, Any]:
    return x.parts.operator.status()


async def health(x: RestRequest) -> Mapping[str, Any]:
    found = await x.parts.operator.health()
    return {"healthy": all(each["state"] != "problem" for each in found), "findings": found}


async def config(x: RestRequest) -> Mapping[str, Any]:
    return x.parts.operator.shown_config()


async def freeze(x: RestRequest) -> Mapping[str, Any]:
    await x.parts.operator.set_frozen(True, x.caller)
    return {"frozen": True}


async def unfreeze(x: RestRequest) -> Mapping[str, Any]:
    await x.parts.operator.set_frozen(False, x.caller)
    return {"frozen": False}


async def rotate_key(x: RestRequest) -> Mapping[str, Any]:
    key = await x.parts.operator.rotate_key(x.caller)
    if x.parts.page is not None:
        await x.parts.page.end(None, x.caller)  # also those that other gateways opened with keys of their own
    return {"key": key}


_RECORDED: Final = (Code.STORE_UNAVAILABLE,)

ENDPOINTS: Final = (
    RestEndpoint("GET", "/healthz", "Probes", "Is the process alive", healthz, responses.Health, guarded="open"),
    RestEndpoint("GET", "/readyz", "Probes", "Is the configuration loaded and the record writable", readyz,
             responses.Health, guarded="open", refusals=_RECORDED),
    RestEndpoint("GET", "/metrics", "Probes", "Counters for Prometheus",
             prometheus, None, media=("text/plain", "application/openmetrics-text"), guarded="metrics",
             more="They name all servers. Without a key they are for clients on this machine, on a gateway whose MCP "
                  "surfaces need no token; otherwise with the admin key."),
    RestEndpoint("GET", "/api/v1/proof", "Gateway", "Proof that the gateway knows its admin key, before it is sent",
             proof, responses.Proof, query=requests.ProofQuery, guarded="open", masked=False,
             refusals=(Code.FOREIGN_HOST, Code.FOREIGN_ORIGIN)),
    RestEndpoint("GET", "/api/v1/status", "Gateway", "Version and state of the gateway", status,
             responses.StatusAnswer),
    RestEndpoint("GET", "/api/v1/health", "Gateway", "What is wrong with it and its servers, and how to mend it",
             health, responses.HealthAnswer),
    RestEndpoint("GET", "/api/v1/config", "Gateway", "The configuration in force, secrets masked", config,
             responses.ConfigAnswer, masked=False),
    RestEndpoint("POST", "/api/v1/freeze", "Gateway", "Refuse everything above read, at once and until lifted", freeze,
             responses.Frozen, refusals=_RECORDED),
    RestEndpoint("POST", "/api/v1/unfreeze", "Gateway", "Lift the freeze", unfreeze, responses.Frozen,
             refusals=_RECORDED),
    RestEndpoint("POST", "/api/v1/key/rotate", "Gateway", "Make a new admin key; the old one stops working at once",
             rotate_key, responses.NewKey, refusals=_RECORDED, masked=False, guarded="key",
             more="All sessions of the page end, too."),
)  # fmt: skip
