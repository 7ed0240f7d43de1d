"""Running an author's function so that it can hold up nobody but its own call."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from mcpproxy_py.providers.results import ToolError

MAX_THREADS: Final = 64


class Runner:
    """Synchronous functions in threads of their own, asynchronous ones on the event loop.

    A thread cannot be ended from outside. One that hangs is left behind, so threads are daemons (a pool's would
    keep the gateway from ending) and counted: when too many are still running, further calls are turned away.
    """

    def __init__(self, most: int = MAX_THREADS) -> None:
        self._most = most
        self._running = 0

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Its result, awaited where it is awaitable. Raises what it raises."""
        if _is_async(function):
            return await _kept_in(function(*args, **kwargs))
        result = await self._in_thread(lambda: function(*args, **kwargs))
        return await _kept_in(result) if inspect.isawaitable(result) else result

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        if self._running >= self._most:
            raise ToolError(f"{self._running} calls of this provider are still running; try again later")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()

        def settle(result: Any, error: BaseException | None) -> None:
            self._running -= 1
            if not done.done():  # else the caller gave up
                done.set_exception(error) if error else done.set_result(result)

        def body() -> None:
            result, error = None, None
            try:
                result = context.run(work)
            except BaseException as raised:
                error = _carried(raised)
            with suppress(RuntimeError):  # the loop has ended: nobody waits
                loop.call_soon_threadsafe(settle, result, error)

        self._running += 1
        threading.Thread(target=body, name="provider", daemon=True).start()
        return await done


async def _kept_in(work: Awaitable[Any]) -> Any:
    """What would end the gateway's loop, or look as if the caller had given up, becomes a plain failure."""
    try:
        return await work
    except asyncio.CancelledError as raised:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise _carried(raised) from None
    except BaseException as raised:
        raise _carried(raised) from raised


def _is_async(function: Callable[..., Any]) -> bool:
    called = type(function).__call__ if not inspect.isroutine(function) else function
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _carried(raised: BaseException) -> Exception:
    """What a future may be given: `StopIteration` it refuses, and `SystemExit` would end the gateway."""
    if isinstance(raised, Exception) and not isinstance(raised, StopIteration):
        return raised
    return RuntimeError(f"the function raised {type(raised).__name__}")
