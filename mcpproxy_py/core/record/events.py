"""What goes on record: the two events of an ask, masked and bounded before anybody writes them (ACT-1, ACT-2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from mcpproxy_py.core import json_values
from mcpproxy_py.core.policy.declaration import FIELDS
from mcpproxy_py.core.record.masking import PLAIN, JsonText, Masker, encode, json_safe, json_text
from mcpproxy_py.core.values import (
    NOTHING,
    UNDECLARING,
    VARIANT_OF,
    Ask,
    Caller,
    ClientInfo,
    Decision,
    Intent,
    LocalAnswer,
    Policy,
    Refusal,
    Relay,
    Route,
    Status,
    ToolView,
)
from mcpproxy_py.errors import Code

NAME_LIMIT: Final = 512
MOST_KEPT: Final = 64
"""Texts of one tool that are kept as they were encoded; a warning may say something else each time."""
DEEDS: Final[Mapping[str, str]] = {
    "approve_request": "approval",
    "deny_request": "approval",
    "expire_request": "approval",
    "approve_call": "approval",
    "deny_call": "approval",
}
"""What is done outside of asks is a `config_change`, unless it has a name of its own here."""
TYPES: Final[Mapping[str, str]] = {
    "resources/read": "resource_read",
    "prompts/get": "prompt_get",
    "completion/complete": "completion",
}
"""What is no tool call is a `request`, unless it has a name of its own here."""


class Outcome(NamedTuple):
    """How an ask ended. `result` is the MCP tool result that answers it."""

    status: Status
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] = NOTHING


class EventText(NamedTuple):
    """An event as it is written: its head as a JSON object without keys that are null, and its payload as JSON, empty
    where it has none."""

    head: bytes
    payload: bytes
    size: int = 0
    """Of the whole payload, where that is measured anyway."""


Event = EventText | Mapping[str, Any]


def asked_text(ask: Ask, decision: Decision, policy: Policy, limit: int, masker: Masker = PLAIN) -> EventText:
    """`asked` as text. What is the same for each call of a tool, or of a caller, is taken as it was encoded before;
    what is not is encoded here, together, so that nothing gets into the text but by an encoder."""
    if type(decision) is not Route or (view := decision.view) is None:
        return _asked_text(ask, decision, policy, limit, masker)
    payload, size = masker.payload_text(decision.args, limit)
    own = {"kind": "asked", "id": ask.id, "at": ask.at, "arguments_size": size}
    if (request_id := ask.request_id) is not None:
        plain = request_id.isdigit() or (request_id.isalnum() and request_id.isascii() and len(request_id) <= 16)
        own["request_id"] = request_id if plain else masker.mask_text(request_id)
    intent = decision.intent
    key = (ask.source, decision.variant, decision.tool_class, policy.strict, decision.warning)
    try:
        head = b'%b,%b,%b,"intent":%b%b}}' % (
            masker.encode(own)[:-1],
            _from_caller(ask.session_id, ask.client, ask.principal, masker),
            view.on_record.get(key) or _about_tool(view, key, ask, decision, policy, masker),
            _declared(intent) if intent.reason is None else masker.encode(_intent(decision, masker)),
            b',"forwarded":%b' % encode(ask.meta) if ask.meta else b"",
        )
    except (TypeError, ValueError):  # half of a surrogate pair, which is said differently
        return _asked_text(ask, decision, policy, limit, masker)
    return EventText(head, payload)


@lru_cache(256)
def _from_caller(session_id: str | None, client: ClientInfo, principal: str, masker: Masker) -> bytes:
    """An agent says who it is with each request. Kept by value, and callers are few."""
    said: dict[str, Any] = {"client": {"name": client.name, "version": client.version}, "principal": principal}
    said = masker.mask(said)
    return _json(said if session_id is None else {"session_id": session_id, **said}, encode)[1:-1]


def _about_tool(view: ToolView, key: tuple[Any, ...], ask: Ask, route: Route, policy: Policy, masker: Masker) -> bytes:
    """Everything about the tool and the decision, up to the end of `metadata`, where the intent follows."""
    about = {
        "type": _type(ask), "source": ask.source, "surface": ask.surface, "server": route.server,
        "tool": route.tool.name,
        "metadata": {"decision": _decision(route, policy, masker), "tool_variant": VARIANT_OF[route.variant]},
    }  # fmt: skip
    text = _json(masker.mask(about), masker.encode)[1:-2]
    if len(view.on_record) < MOST_KEPT:
        view.on_record[key] = text
    return text


@lru_cache(256)
def _declared(intent: Intent) -> bytes:
    return _json(intent.as_json(), encode)


def _asked_text(ask: Ask, decision: Decision, policy: Policy, limit: int, masker: Masker) -> EventText:
    """As it is made from the dict. Nearly always its head is clean, which its text shows."""
    event = _asked(ask, decision, policy, limit, masker)
    payload: JsonText = event.pop("arguments")
    head = {key: value for key, value in event.items() if value is not None}
    text = _json(head, masker.encode)
    if masker.own is not None or masker.named(text) or masker.shaped(text):
        text = _json(masker.mask(head), masker.encode)
    return EventText(text, payload)


def _text_of(event: dict[str, Any], payload: str, masker: Masker) -> EventText:
    """An event that has been made as a dict. Its payload is a `JsonText`, or there is none."""
    text: JsonText | None = event.pop(payload)
    head = {key: value for key, value in event.items() if value is not None}
    return EventText(_json(head, masker.encode), text or b"")


def _json(value: Any, encoder: Callable[[Any], bytes]) -> bytes:
    text = json_text(value, encoder)
    return encode(json_safe(value)) if text is None else text


def asked(ask: Ask, decision: Decision, policy: Policy, limit: int, masker: Masker = PLAIN) -> dict[str, Any]:
    """The event written before anything is done. Its `arguments` are a `JsonText`."""
    event = _asked(ask, decision, policy, limit, masker)
    arguments = event.pop("arguments")
    return {**masker.mask(event), "arguments": arguments}


def _asked(ask: Ask, decision: Decision, policy: Policy, limit: int, masker: Masker) -> dict[str, Any]:
    """Of which only the arguments are masked yet."""
    arguments, size = masker.payload(_arguments(ask, decision), limit)
    server, tool = _subject(ask, decision)
    return {
        "kind": "asked", "id": ask.id, "at": ask.at,
        "type": _type(ask), "source": ask.source, "surface": ask.surface,
        "server": server, "tool": tool, "arguments": arguments, "arguments_size": size,
        "session_id": ask.session_id, "request_id": ask.request_id,
        "client": {"name": ask.client.name, "version": ask.client.version}, "principal": ask.principal,
        "metadata": _metadata(ask, decision, policy, masker),
    }  # fmt: skip


def finished(
    ask_id: str, at: float, outcome: Outcome, duration_ms: float | None, limit: int, masker: Masker = PLAIN
) -> dict[str, Any]:
    """The event that closes an ask, whatever became of it. Its `response`, where there is one, is a `JsonText`. Without
    a duration it is only what we take to have become of it, and whoever knows better has the last word."""
    response, size = masker.payload(outcome.result, limit) if outcome.result is not None else (None, 0)
    return {
        "kind": "finished", "id": ask_id, "at": at, "status": outcome.status,
        "error": outcome.error and masker.mask(outcome.error),
        "response": response, "response_size": size,
        "duration_ms": None if duration_ms is None else round(duration_ms, 3),
        "metadata": dict(outcome.metadata),
    }  # fmt: skip


def finished_text(
    ask_id: str, at: float, outcome: Outcome, duration_ms: float | None, limit: int, masker: Masker = PLAIN
) -> EventText:
    """`finished` as text."""
    if outcome.error is not None or outcome.result is None or duration_ms is None:
        return _text_of(finished(ask_id, at, outcome, duration_ms, limit, masker), "response", masker)
    payload, size = masker.payload_text(outcome.result, limit)
    head = {
        "kind": "finished", "id": ask_id, "at": at, "status": outcome.status, "response_size": size,
        "duration_ms": round(duration_ms, 3), "metadata": dict(outcome.metadata),
    }  # fmt: skip
    try:
        return EventText(masker.encode(head), payload, size)
    except (TypeError, ValueError):
        return EventText(_json(head, encode), payload, size)


def round_trip(
    ask_id: str, at: float, kind: str, methods: Sequence[str], answers: Any = None, masker: Masker = PLAIN
) -> dict[str, Any]:
    """What goes on between the two: the server asks back (`input_required`), the client answers (`answered`, with what
    it said, masked and bounded by whoever calls), a person said yes to the call (`confirmed`), the request was sent
    once more (`sent_again`)."""
    shown = [masker.mask_text(json_values.quoted(each)) for each in methods]
    event = {"kind": kind, "id": ask_id, "at": at, "methods": shown}
    return event if answers is None else {**event, "answers": answers}


def approval_step(request_id: str, at: float, status: str) -> dict[str, Any]:
    """A request for a capability was filed, decided or ran out. The records of who did that stand beside it; this is
    for those who follow what happens."""
    return {"kind": "approval", "id": request_id, "at": at, "status": status}


def confirmation_step(call_id: str, at: float, status: str) -> dict[str, Any]:
    """The same of a call that waits for a person."""
    return {"kind": "confirmation", "id": call_id, "at": at, "status": status}


def administrative(
    event_id: str,
    at: float,
    action: str,
    subject: str | None,
    by: Caller,
    details: Mapping[str, Any],
    masker: Masker = PLAIN,
) -> dict[str, Any]:
    """The opening event of a person's change to the gateway itself, on record like any ask."""
    return masker.mask({
        "kind": "asked", "id": event_id, "at": at, "type": DEEDS.get(action, "config_change"), "source": by.source,
        "surface": "rest", "server": subject, "tool": action, "arguments": dict(details),
        "arguments_size": 0, "session_id": None, "request_id": by.request_id, "principal": by.principal,
        "client": {"name": by.client.name, "version": by.client.version}, "metadata": {},
    })  # fmt: skip


def failure(code: Code, message: str) -> dict[str, Any]:
    return {"code": code.value, "message": message}


def outcome_of(result: Mapping[str, Any], metadata: Mapping[str, Any]) -> Outcome:
    """An upstream's answer: a tool result with `isError` is an error on record, and passes on as it is."""
    if result.get("isError") is not True:
        return Outcome("success", result, metadata=metadata)
    return Outcome("error", result, {"code": "TOOL_ERROR", "message": _first_text(result)}, metadata)


def refused(refusal: Refusal, result: Mapping[str, Any], status: Status = "blocked") -> Outcome:
    """The gateway's own no. `refused_by` also names what stopped a call after it was decided: no room, no record."""
    return Outcome(status, result, failure(refusal.code, refusal.message), {"refused_by": refusal.rule})


def _first_text(result: Mapping[str, Any]) -> str:
    for item in json_values.as_array(result.get("content")) or []:
        text = (json_values.as_object(item) or {}).get("text")
        if isinstance(text, str):
            return json_values.quoted(text, 500)
    return "the tool reported an error"


def _type(ask: Ask) -> str:
    """A search through the tools is counted apart from calling them; and so is what a server wants of its own accord,
    which nobody asked for who uses the gateway."""
    if ask.source == "internal" and ask.server is not None:
        return "server_request"
    if ask.method != "tools/call":
        return TYPES.get(ask.method, "request")
    return "tool_search" if ask.tool == "retrieve_tools" and ask.surface not in UNDECLARING else "tool_call"


def _arguments(ask: Ask, decision: Decision) -> Any:
    """The tool's own arguments where they could be read, else everything that was sent."""
    known = decision.args if isinstance(decision, Route | Refusal) else None
    return ask.params if known is None else known


def _subject(ask: Ask, decision: Decision) -> tuple[str | None, str]:
    if isinstance(decision, Route):
        return decision.server, decision.tool.name
    if isinstance(decision, Relay):
        return decision.server, json_values.quoted(decision.subject, NAME_LIMIT)
    if isinstance(decision, LocalAnswer):
        return None, ask.tool
    if decision.name:
        server, _, tool = decision.name.partition(":")
        return server, tool
    named = (json_values.as_object(ask.params) or {}).get("name")
    return None, json_values.quoted(named if isinstance(named, str) and named else ask.tool, NAME_LIMIT)


def _metadata(ask: Ask, decision: Decision, policy: Policy, masker: Masker) -> dict[str, Any]:
    found: dict[str, Any] = {"decision": _decision(decision, policy, masker)}
    if ask.meta:
        found["forwarded"] = ask.meta
    if ask.method != "tools/call":
        found["method"] = json_values.quoted(ask.method, NAME_LIMIT)
        if ask.task is not None:
            found["task_of"] = ask.task.ask_id
    if isinstance(decision, Route | Refusal):
        if decision.variant is not None:
            found["tool_variant"] = VARIANT_OF[decision.variant]
        if (intent := _intent(decision, masker)) is not None:
            found["intent"] = intent
    return found


def _intent(decision: Route | Refusal, masker: Masker) -> Any:
    """What was declared: parsed where it stands, else the known fields as they came, cut short and masked."""
    if decision.intent is not None:
        shown = decision.intent.as_json()
        if "reason" in shown:
            shown["reason"] = masker.mask_text(shown["reason"])
        return shown
    claimed = None if isinstance(decision, Route) else decision.claimed
    if claimed is None:
        return None
    said = json_values.as_object(claimed)
    if said is None:
        return {"claimed": masker.redacted(claimed, NAME_LIMIT)}
    return {key: masker.redacted(value, 4 * NAME_LIMIT) for key, value in said.items() if key in FIELDS}


def _decision(decision: Decision, policy: Policy, masker: Masker) -> dict[str, Any]:
    if isinstance(decision, LocalAnswer):
        return {"verdict": "local", "rule": decision.rule, "mode": policy.mode}
    if isinstance(decision, Relay):
        return {"verdict": "allow", "rule": decision.rule, "mode": policy.mode, "risk": decision.risk}
    shown: dict[str, Any] = {"verdict": _verdict(decision), "rule": decision.rule, "mode": policy.mode}
    if decision.tool_class is not None:
        shown["class"] = decision.tool_class
        shown["class_origin"] = decision.origin
    if decision.tool is not None:
        shown["annotations"] = decision.tool.on_record
    if isinstance(decision, Refusal):
        return {**shown, "code": decision.code.value}
    shown["risk"] = decision.risk
    if decision.warning is not None:
        shown["warning"] = decision.warning
    return shown


def _verdict(decision: Route | Refusal) -> str:
    if isinstance(decision, Refusal):
        return "refuse"
    return "allow" if decision.warning is None else "warn"


class IdMaker:
    """Makes ids that sort by time, also within one millisecond and when the clock steps back.

    `random` gives as many random bytes as asked for; it is an argument because the core has none.
    """

    def __init__(self, random: Callable[[int], bytes], prefix: str = "") -> None:
        self._random = random
        self._prefix = prefix
        self._last = 0

    def __call__(self, at: float) -> str:
        chance = self._random(9)
        # 48 bits of milliseconds, then 26 bits that start at random and count up within a millisecond.
        fresh = (int(at * 1000) << 26) | (int.from_bytes(chance[:3]) >> 4)
        self._last = last = fresh if fresh > self._last else self._last + 1
        time, high, low = f"{last >> 26:012x}", 0x7000 | (last >> 14) & 0xFFF, 0x8000 | last & 0x3FFF
        return f"{self._prefix}{time[:8]}-{time[8:]}-{high:x}-{low:x}-{chance[3:].hex()}"
