"""Where a provider's call meets the wire: who can be asked and how, and what a round looks like when it goes out."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Protocol

from mcpproxy_py.core.values import Caller
from mcpproxy_py.providers.elicitation import Asking, InputRequired, Live, Replay
from mcpproxy_py.providers.results import ToolError, compact

log = logging.getLogger(__name__)


class Talk(Protocol):
    """The way back to whoever asked, while the call is under way."""

    @property
    def capabilities(self) -> Mapping[str, Any]: ...

    @property
    def live(self) -> bool: ...

    def note(self, method: str, params: Mapping[str, Any]) -> None: ...

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]: ...


class CallContext(Protocol):
    """What comes with a call beside its arguments. `request_state` is our own, given back unsealed."""

    @property
    def talk(self) -> Talk: ...

    @property
    def input_responses(self) -> Mapping[str, Any] | None: ...

    @property
    def request_state(self) -> str | None: ...

    @property
    def caller(self) -> Caller: ...


def asking_of(context: CallContext) -> Asking | None:
    """How the client can be asked; `None` where it cannot draw a form. Raises `ToolError` for a state that is none."""
    if not _draws_forms(context.talk.capabilities.get("elicitation")):
        return None
    if context.talk.live:
        return Live(_asks(context.talk))
    return Replay(_state(context.request_state), context.input_responses or {})


def round_of(required: InputRequired) -> dict[str, Any]:
    """The raw result that ends a round."""
    return {
        "resultType": "input_required",
        "inputRequests": dict(required.requests),
        "requestState": compact(required.state),
    }


def _draws_forms(declared: Any) -> bool:
    """A client that names no mode means forms; one that names only others has none."""
    return isinstance(declared, Mapping) and (not declared or "form" in declared)


def _asks(talk: Talk) -> Any:
    async def ask(params: dict[str, Any]) -> Mapping[str, Any]:
        try:
            return await talk.ask("elicitation/create", params)
        except Exception as error:
            log.warning("a client could not be asked: %s", error)
            raise ToolError("The person behind this client could not be asked") from None

    return ask


def _state(text: str | None) -> Mapping[str, Any] | None:
    if text is None:
        return None
    try:
        state = json.loads(text)
    except ValueError:
        state = None
    if not isinstance(state, dict):
        raise ToolError("This requestState is not one that this tool gave")
    return state
