"""A person's yes to a call over REST (SEC-4): `mcpproxy call` on a terminal puts the gateway's question itself.

The question is asked for first, and the text that was shown stays here. The call then says what the person answered,
with the token of that text. Both count once, and only for a call of which the gateway, when it decides it, would ask
exactly the same, of the same server: the text names tool, server, class and the digest of the arguments, and a server
that was replaced is another one. Whoever has the admin key can say yes, as they can change the configuration that asks;
what they said, and whether a terminal was there, goes on record.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mcpproxy_py.core.policy import confirmation
from mcpproxy_py.core.policy.tool_results import CONFIRM_KEY
from mcpproxy_py.core.protocol.client_channel import CANNOT_BE_ASKED, NoClient
from mcpproxy_py.core.protocol.constants import INVALID_PARAMS
from mcpproxy_py.core.values import Caller
from mcpproxy_py.errors import RpcError

MOST: Final = 100
PATIENCE: Final = 300.0
"""Seconds that a person has to answer."""


class ShownQuestion(NamedTuple):
    text: str
    server: str
    """The identity of the server that the person was asked about."""
    principal: str
    until: float


class ShownQuestions:
    """Those that wait for their answer, the newest hundred."""

    def __init__(self) -> None:
        self._shown: dict[str, ShownQuestion] = {}

    def add(self, text: str, server: str, principal: str) -> str:
        """The token with which the answer has to come."""
        while len(self._shown) >= MOST:
            del self._shown[next(iter(self._shown))]
        token = secrets.token_hex(16)
        self._shown[token] = ShownQuestion(text, server, principal, time.monotonic() + PATIENCE)
        return token

    def take(self, token: str, principal: str) -> ShownQuestion | None:
        """What was shown, once; `None` where there is none any more."""
        found = self._shown.pop(token, None)
        if found is None or found.principal != principal or found.until < time.monotonic():
            return None
        return found


class AnsweredBefore(NoClient):
    """A caller whose person has answered the gateway's question already, and can be asked nothing else."""

    capabilities: Mapping[str, Any] = {CONFIRM_KEY: {}}

    def __init__(self, caller: Caller, shown: str | None, answer: Mapping[str, Any]) -> None:
        super().__init__(caller)
        self._shown = shown
        self._answer = answer

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if method != confirmation.METHOD or CONFIRM_KEY not in params.get("_meta", {}):
            raise RpcError(CANNOT_BE_ASKED, f"the caller cannot be asked: {method[:80]} is not possible here")
        shown, self._shown = self._shown, None
        if shown is None:
            raise RpcError(INVALID_PARAMS, "this answer is to no question that waits for one")
        if params["message"] != shown:
            raise RpcError(INVALID_PARAMS, "the call is not the one that was shown to the person")
        allowed = self._answer.get("allow") is True
        by = {key: self._answer.get(key) for key in ("name", "terminal")} | {"source": self.caller.source}
        yes = {"action": "accept", "content": {confirmation.YES: True}}
        return {**(yes if allowed else {"action": "decline"}), "by": by}
