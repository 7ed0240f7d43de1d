"""A provider as an upstream: what it offers as raw wire objects, and calls answered in the protocol's own shape."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from mcpproxy_py.core.protocol.own_meta import may_hold_own, remove_own
from mcpproxy_py.core.values import Caller
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.providers import results
from mcpproxy_py.providers.context import CallerLink, Context, Tell, unheard
from mcpproxy_py.providers.elicitation import (
    Asking,
    ElicitationReplay,
    InputRequired,
    Live,
    ProviderCall,
    Replay,
    asking_of,
    round_of,
)
from mcpproxy_py.providers.results import ToolError, Unsendable
from mcpproxy_py.providers.runner import Runner
from mcpproxy_py.providers.spec import HasTools, ProviderError, low_level_server
from mcpproxy_py.providers.tool_table import Offered, offered

log = logging.getLogger(__name__)

ELICITATION: Final = "elicitation"
SETTLE: Final = 2.0
"""Seconds a function gets to ask again what was answered, once it asks something new."""
TURNS: Final = 3
"""Turns of the event loop in which questions asked side by side join the same round."""
LINGER: Final = 5.0
"""Seconds a function gets to clean up when its round ends."""


class ProviderUpstream:
    """Fits the upstream room's `InProcessServer`. `make` gives the provider and may import, block and fail: it runs
    in a worker thread, at the first connection and again after a failure."""

    def __init__(
        self, name: str, make: Callable[[], HasTools], *, max_result_bytes: int = results.MAX_RESULT_BYTES
    ) -> None:
        self.name = name
        self._make = make
        self._most = max_result_bytes
        self._runner = Runner()
        self._provider: HasTools | None = None
        self._offered: dict[str, Offered] = {}
        self._asks = False

    async def server_object(self) -> Any:
        """What it is where it is a server object of the `mcp` package and speaks for itself; `None` for a provider.
        Raises `GatewayError`."""
        try:
            if self._provider is None:
                self._provider = await self._runner.run(self._make)
            return low_level_server(self._provider)
        except Exception as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> GatewayError:
        if isinstance(error, ProviderError | ToolError):
            return GatewayError(Code.SERVER_UNAVAILABLE, f"the provider cannot be served: {error}")
        log.error("the provider %s failed", self.name, exc_info=error)
        reason = f"the provider failed when it was loaded ({type(error).__name__}); the log says where"
        return GatewayError(Code.SERVER_UNAVAILABLE, reason)

    async def list_tools(self) -> list[dict[str, Any]]:
        """Raises `GatewayError` with what the provider's author has to change."""
        try:
            provider = self._provider or await self._runner.run(self._make)
            needs = await self._runner.run(getattr(provider, "capabilities", tuple))
            specs = await self._runner.run(provider.tools)
            tools = await self._runner.run(lambda: list(offered(provider, specs)))  # reads and compiles: not here
        except Exception as error:
            raise self._unusable(error) from None
        self._provider, self._asks = provider, ELICITATION in (needs or ())
        self._offered = {tool.name: tool for tool in tools}
        return [dict(tool.wire) for tool in self._offered.values()]

    async def call_tool(self, name: str, args: dict[str, Any], context: ProviderCall | None = None) -> dict[str, Any]:
        """The raw result of a call, or of a round of it. Without a context nobody can be asked or told."""
        if context is None:
            result = await self.call(name, args)
        else:
            try:
                asking = asking_of(context)
            except ToolError as error:
                return results.failed(str(error))
            note = context.channel.notify
            on_progress, on_log = partial(note, "notifications/progress"), partial(note, "notifications/message")
            result = await self.call(name, args, asking, on_progress=on_progress, on_log=on_log, caller=context.caller)
        return round_of(result) if isinstance(result, InputRequired) else result

    async def call(
        self, name: str, arguments: Mapping[str, Any], asking: Asking | None = None, *, on_progress: Tell = unheard,
        on_log: Tell = unheard, caller: Caller | None = None,
    ) -> dict[str, Any] | InputRequired:  # fmt: skip
        """The raw `tools/call` result. Everything that goes wrong inside is a tool error; only cancellation is
        raised. `InputRequired` comes back for `Replay` alone."""
        tool = self._offered.get(name)
        if tool is None:
            return results.failed(f"There is no tool '{name[:200]}' here")
        rounds = ElicitationReplay(asking) if self._asks and isinstance(asking, Replay) else None
        asker = rounds or (asking if self._asks and isinstance(asking, Live) else None)
        ctx = Context(name, CallerLink(asker, on_progress, on_log, caller))
        try:
            answer = self._answer(tool, dict(arguments), ctx)
            result = await (_one_round(answer, rounds) if rounds else answer)
            if not isinstance(result, InputRequired):
                written = results.check_size(result, self._most)
                if may_hold_own(written):
                    remove_own(result)
            return result
        except ToolError as error:
            return results.failed(str(error))
        except Unsendable as error:
            log.error("%s:%s returned a result that cannot be sent: %s", self.name, name, error)
            return results.failed(f"Tool '{name}' gave an answer that cannot be sent; the gateway's log says why")
        except Exception:
            log.exception("%s:%s failed", self.name, name)
            return results.failed(f"Tool '{name}' failed; the gateway's log says why")

    async def _answer(self, tool: Offered, arguments: dict[str, Any], ctx: Context) -> dict[str, Any]:
        tool.check(arguments)
        handler = getattr(self._provider, "tool_call", None)
        value = NotImplemented
        if handler is not None:
            value = await self._runner.run(handler, tool.name, arguments, ctx)
        if value is not NotImplemented:
            return tool.promised(results.as_wire(value))
        if tool.function is None:
            raise ToolError(f"Tool '{tool.name}' is listed, and its provider does not answer it")
        value = await self._runner.run(tool.function.fn, **tool.function.bind(arguments, ctx))
        return tool.promised(tool.function.dress(value))


async def _one_round(answer: Awaitable[dict[str, Any]], rounds: ElicitationReplay) -> dict[str, Any] | InputRequired:
    """Run until there is a result, or until a person has to be asked; what waits for the person is cancelled then."""
    task = asyncio.ensure_future(answer)
    asked = asyncio.ensure_future(_questions(rounds))
    try:
        await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else rounds.required()
    finally:
        asked.cancel()
        task.cancel()
        await asyncio.wait({task}, timeout=LINGER)
        if task.done() and not task.cancelled():
            task.exception()  # a failure while cleaning up is nobody's result


async def _questions(rounds: ElicitationReplay) -> None:
    """Until the questions of this round are complete."""
    await rounds.asked.wait()
    with suppress(TimeoutError):
        async with asyncio.timeout(SETTLE):
            await rounds.replayed.wait()
    for _ in range(TURNS):
        await asyncio.sleep(0)
