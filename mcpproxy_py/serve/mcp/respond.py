"""From one request to its outcome, whatever it came through: what belongs to the protocol, and what to the surface."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping
from typing import Any, Final

from mcpproxy_py.core import jsonvalue
from mcpproxy_py.core.revisions import HANDSHAKE, INTERNAL_ERROR, INVALID_PARAMS, LATEST_HANDSHAKE, MODERN
from mcpproxy_py.errors import RpcError
from mcpproxy_py.serve.mcp.exchange import Exchange
from mcpproxy_py.serve.surfaces.surface import Surface, unknown_method

log = logging.getLogger(__name__)

DISCOVER: Final = "server/discover"
GONE: Final = frozenset({"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
"""What the modern revision took out; a surface must not be reached by them there."""
Outcome = dict[str, Any]
"""One key: `result` or `error`."""


async def respond(surface: Surface, exchange: Exchange) -> Outcome:
    """Raises nothing but cancellation."""
    try:
        if exchange.peer.modern:
            given = await (_discovered(surface) if exchange.method == DISCOVER else _asked(surface, exchange))
            return {"result": surface.dressed(exchange.method, given)}
        return {"result": _undressed(await _handshake(surface, exchange))}
    except RpcError as error:
        return {"error": error.as_json()}
    except Exception:
        log.exception("%s failed inside the gateway", jsonvalue.quoted(exchange.method))
        return {"error": RpcError(INTERNAL_ERROR, "The gateway failed on this request; its log says why").as_json()}


async def _discovered(surface: Surface) -> Mapping[str, Any]:
    return {"supportedVersions": list(MODERN), **(await surface.welcome()).as_json()}


def _asked(surface: Surface, exchange: Exchange) -> Awaitable[Mapping[str, Any]]:
    if exchange.method in GONE:
        raise unknown_method(exchange)
    return surface.answer(exchange)


async def _handshake(surface: Surface, exchange: Exchange) -> Mapping[str, Any]:
    if exchange.method == "ping":
        return {}
    if exchange.method in (DISCOVER, "subscriptions/listen"):
        raise unknown_method(exchange)
    return await surface.answer(exchange)


def _undressed(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """The handshake era knows only one kind of result, and has no word for it."""
    if result.get("resultType") != "complete":
        return result
    return {key: value for key, value in result.items() if key != "resultType"}


async def initialized(surface: Surface, version: str) -> dict[str, Any]:
    """The answer to `initialize`. Raises `RpcError`."""
    welcome = await surface.welcome()
    return {"protocolVersion": version, "serverInfo": dict(welcome.server_info), **welcome.as_json()}


def negotiated(params: Mapping[str, Any]) -> str:
    """The revision a client gets: the one it offers, or the newest that has a handshake. Raises `RpcError`."""
    offered = params.get("protocolVersion")
    if not isinstance(offered, str):
        raise RpcError(INVALID_PARAMS, "initialize needs params.protocolVersion, a string")
    return offered if offered in HANDSHAKE else LATEST_HANDSHAKE
