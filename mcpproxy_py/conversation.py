"""What is said to a server for one ask: its request, and the rounds in which the server asks back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from mcpproxy_py.core.rounds import answers_to, asks_back, questions_of
from mcpproxy_py.core.talk import Talk
from mcpproxy_py.core.values import Ask, Relay, Route, Snapshot
from mcpproxy_py.errors import Code, RpcError
from mcpproxy_py.upstream.failure import UpstreamFailure

MAX_ROUNDS: Final = 16
"""How often a server may ask back within one call; a server that never stops asking must not hold it for ever."""


class Upstreams(Protocol):
    """What the gateway needs of the upstream room."""

    @property
    def snapshot(self) -> Snapshot: ...
    async def ready(self, server: str) -> None: ...
    def request(
        self, server: str, method: str, params: Mapping[str, Any], *, talk: Talk | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Awaitable[dict[str, Any]]: ...  # fmt: skip


class Conversations:
    """`note_round` puts on record that the server asked back, or was answered."""

    def __init__(self, upstreams: Upstreams, note_round: Callable[[str, str, Sequence[str]], None]) -> None:
        self._upstreams = upstreams
        self._note_round = note_round

    async def hold(self, ask: Ask, to: Route | Relay, talk: Talk) -> dict[str, Any]:
        """The server's last word: a result, or questions for a client that answers between calls only. A client that
        can be asked in mid-call answers here. Raises `UpstreamFailure`."""
        method, params = _request(to)
        carried = ask.carried
        for _ in range(MAX_ROUNDS):
            result = await self._ask(to, method, {**params, **carried}, talk, ask.meta)
            if not (talk.live and asks_back(result)):
                return result
            carried = await self._answered(ask.id, result, talk)
        raise UpstreamFailure(Code.UPSTREAM_ERROR, f"the server asked back more than {MAX_ROUNDS} times")

    async def _ask(
        self, to: Route | Relay, method: str, params: Mapping[str, Any], talk: Talk, meta: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """A read that never left, because its connection had just gone, is asked once more."""
        try:
            return await self._upstreams.request(to.server, method, params, talk=talk, meta=meta)
        except UpstreamFailure as failure:
            if failure.sent or failure.code is not Code.SERVER_UNAVAILABLE or to.risk != "read":
                raise
        await self._upstreams.ready(to.server)
        return await self._upstreams.request(to.server, method, params, talk=talk, meta=meta)

    async def _answered(self, ask_id: str, result: Mapping[str, Any], talk: Talk) -> Mapping[str, Any]:
        """Put a modern server's questions to a client of the handshake era; what goes along in the next round."""
        questions = questions_of(result)
        methods = [method for method, _ in questions.values()]
        self._note_round(ask_id, "input_required", methods)
        try:
            said = {key: await talk.ask(method, params) for key, (method, params) in questions.items()}
        except RpcError as error:
            message = f"the server asks for input that the client does not give: {error.message}"
            raise UpstreamFailure(Code.UPSTREAM_ERROR, message) from None
        self._note_round(ask_id, "answered", methods)
        return answers_to(result, said)


def _request(to: Route | Relay) -> tuple[str, Mapping[str, Any]]:
    if isinstance(to, Relay):
        return to.method, to.params
    return "tools/call", {"name": to.tool.name, "arguments": to.args}
