"""Asking whoever is at the caller's end for the yes that the operator wants before a call (SEC-4)."""

from __future__ import annotations

import asyncio

from mcpproxy_py.call import EXPIRED
from mcpproxy_py.core import confirm
from mcpproxy_py.core.talk import Talk
from mcpproxy_py.core.values import Route
from mcpproxy_py.errors import RpcError


async def why_not(to: Route, talk: Talk, patience: float) -> str | None:
    """Why there is no yes to this call; `None` where there is one. It is for these arguments and this once: the call
    waits here for it, and a later one asks again."""
    if not confirm.takes_forms(talk.capabilities):
        return "nobody can be asked by this client, which takes no forms (elicitation)"
    try:
        # Whoever holds the call of a client that went away with the question lets it expire: two clocks would race.
        async with asyncio.timeout(patience if talk.live else None):
            return confirm.objection(await talk.ask(confirm.METHOD, confirm.question(to)))
    except RpcError as error:
        return f"asking failed: {error.message}"
    except TimeoutError:
        return _unanswered(patience)
    except asyncio.CancelledError as why:
        if EXPIRED not in why.args or (task := asyncio.current_task()) is None:
            raise
        task.uncancel()
        return _unanswered(patience)


def _unanswered(patience: float) -> str:
    return f"nobody answered within {patience:g} s"
