"""One call of a tool, a prompt or a resource, and how it gets answers from the client in either era."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict

from .notebook import note

KEY = secrets.token_bytes(32)
CAPABILITY = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


class Loose(BaseModel):
    """A message with whatever is in it: the SDK's own models would drop what they do not know."""

    model_config = ConfigDict(extra="allow")
    method: str = ""


@dataclass(frozen=True)
class Call:
    ctx: ServerRequestContext[Any]
    params: Mapping[str, Any]
    answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    state: Any = None

    @property
    def arguments(self) -> Mapping[str, Any]:
        return self.params.get("arguments") or {}

    @property
    def modern(self) -> bool:
        return is_modern(self.ctx)

    def can(self, capability: str) -> bool:
        declared = self.ctx.session.client_capabilities
        return declared is not None and getattr(declared, capability, None) is not None

    async def progress(self, done: float, total: float, message: str) -> None:
        await self.ctx.session.report_progress(done, total, message)

    async def log(self, data: str, level: Any = "info") -> None:
        await self.ctx.session.send_log_message(level, data, "everything", self.ctx.request_id)

    async def send(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask the client in mid-call; on the call's own stream unless the caller wants it `aside`."""
        aside = self.arguments.get("aside") is True
        metadata = None if aside else ServerMessageMetadata(related_request_id=self.ctx.request_id)
        answer = await self.ctx.session.send_request(Loose(**request), Loose, metadata=metadata)  # type: ignore[arg-type]
        return answer.model_dump(exclude_unset=True)


Handler = Callable[[Call], Awaitable[dict[str, Any]]]


def is_modern(ctx: ServerRequestContext[Any]) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def text(*lines: str, **more: Any) -> dict[str, Any]:
    """A tool's result."""
    return {"content": [{"type": "text", "text": line} for line in lines], **more}


def wanted(requests: Mapping[str, Any], state: Any = None) -> dict[str, Any]:
    """A handler's way of asking: it is called again with the answers, and with the state it leaves here."""
    sealed = {} if state is None else {"requestState": seal(state)}
    return {"resultType": "input_required", "inputRequests": dict(requests), **sealed}


def elicit(message: str, schema: Mapping[str, Any] | None = None, **names: str) -> dict[str, Any]:
    """A form with one field for each name, or with a schema of its own."""
    made = {"type": "object", "properties": {name: {"type": kind} for name, kind in names.items()}}
    requested = schema or {**made, "required": [*names]}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": requested}}


def sample(prompt: str, tokens: int = 100) -> dict[str, Any]:
    said = {"role": "user", "content": {"type": "text", "text": prompt}}
    return {"method": "sampling/createMessage", "params": {"messages": [said], "maxTokens": tokens}}


def roots() -> dict[str, Any]:
    return {"method": "roots/list", "params": {}}


def form(answer: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """What a person filled in; None when they did not."""
    if answer is None or answer.get("action") != "accept":
        return None
    return answer.get("content") or {}


async def run(handler: Handler, ctx: ServerRequestContext[Any]) -> dict[str, Any]:
    """The result of a call, whatever it takes; that it was cancelled is noted."""
    try:
        return await _rounds(handler, ctx)
    except anyio.get_cancelled_exc_class():
        note(f"cancelled {Call(ctx, ctx.params or {}).arguments.get('who')}")
        raise


async def _rounds(handler: Handler, ctx: ServerRequestContext[Any]) -> dict[str, Any]:
    """Modern clients get questions as a result and come back; for the others we ask until there is a result."""
    params = ctx.params or {}
    call = Call(ctx, params)
    if call.modern:
        call = replace(call, answers=_usable(params.get("inputResponses")), state=unseal(params.get("requestState")))
        result = await handler(call)
        _check_capabilities(call, result)
        return result
    while (result := await handler(call)).get("resultType") == "input_required":
        _check_capabilities(call, result)
        answers = {key: await call.send(request) for key, request in result["inputRequests"].items()}
        call = replace(call, answers=answers, state=unseal(result.get("requestState")))
    return result


def _usable(responses: Any) -> dict[str, Mapping[str, Any]]:
    """A client may send anything; what is no object is no answer, and is asked for again."""
    found = responses if isinstance(responses, dict) else {}
    return {key: value for key, value in found.items() if isinstance(value, dict)}


def _check_capabilities(call: Call, result: Mapping[str, Any]) -> None:
    for request in result.get("inputRequests", {}).values():
        require(call, CAPABILITY[request["method"]])


def require(call: Call, capability: str) -> None:
    if not call.can(capability):
        data = {"requiredCapabilities": {capability: {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, f"This needs the client's {capability}", data)


def seal(state: Any) -> str:
    """State goes through the client's hands: signed, and different each time."""
    body = json.dumps([state, secrets.token_hex(4)]).encode()
    return (hmac.digest(KEY, body, hashlib.sha256) + body).hex()


def unseal(sealed: Any) -> Any:
    if sealed is None:
        return None
    try:
        found = bytes.fromhex(sealed)
        signature, body = found[:32], found[32:]
        if hmac.compare_digest(signature, hmac.digest(KEY, body, hashlib.sha256)):
            return json.loads(body)[0]
    except (TypeError, ValueError):
        pass
    raise MCPError(INVALID_PARAMS, "requestState is not what this server sealed")
