"""What a tool gets beside its arguments: a way to ask, to tell how far it is, and to log to the client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from mcpproxy_py.core.values import Caller
from mcpproxy_py.providers.elicitation import Answer, ElicitationReplay, Live, answer_of, question
from mcpproxy_py.providers.results import ToolError, plain_json
from mcpproxy_py.providers.spec import check_question

Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
Tell = Callable[[dict[str, Any]], None]
"""Takes the raw params of one notification. Called on the event loop; must not block."""
NO_FIELDS: Final[Mapping[str, Any]] = {"type": "object", "properties": {}}


def unheard(params: dict[str, Any]) -> None:
    """For a call whose caller does not listen."""


@dataclass(frozen=True, slots=True)
class CallerLink:
    """What connects one call with its caller. `asker` is absent where nobody can be asked."""

    asker: Live | ElicitationReplay | None = None
    on_progress: Tell = unheard
    on_log: Tell = unheard
    caller: Caller | None = None


class Context:
    """Annotate a parameter with this class and it is filled in; it stays out of the tool's schema."""

    def __init__(self, tool: str, line: CallerLink) -> None:
        self._tool = tool
        self._line = line
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    @property
    def caller(self) -> Caller | None:
        """Who the gateway let in with this call; `None` where a provider runs without one. Only `principal` is
        known for certain: `client` is what it calls itself."""
        return self._line.caller

    @property
    def can_elicit(self) -> bool:
        """Whether a person can be asked: the provider declares `elicitation`, and the client has it."""
        return self._line.asker is not None

    async def elicit(self, message: str, schema: Mapping[str, Any] | None = None) -> Answer:
        """Ask the person behind the client. `schema` is an object of plain fields; without it, a yes or no.

        On the modern wire the function runs again from its start each time an answer arrives, with earlier answers
        replayed: ask before you act, and ask the same again. Raises `ToolError` where nobody can be asked.
        """
        asker = self._line.asker
        if asker is None:
            raise ToolError(f"Tool '{self._tool}' has to ask a person, and this client cannot be asked")
        wanted = plain_json(schema or NO_FIELDS)
        check_question(wanted)
        return answer_of(await asker.ask(question(str(message), wanted)), wanted)

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell how far the call is. From any thread; not heard where the client did not ask for it."""
        said = {"progress": progress, "total": total, "message": message}
        self._tell(self._line.on_progress, {key: value for key, value in said.items() if value is not None})

    def log(self, level: Level, data: Any) -> None:
        """A line for the client's log, of any JSON. From any thread."""
        if level not in get_args(Level):
            raise ValueError(f"level must be one of {', '.join(get_args(Level))}, not {level!r}")
        self._tell(self._line.on_log, {"level": level, "logger": self._tool, "data": plain_json(data)})

    def _tell(self, tell: Tell, params: dict[str, Any]) -> None:
        """At once where that is possible: what comes after the call's result, nobody hears."""
        if threading.get_ident() == self._thread:
            tell(params)
        else:
            self._loop.call_soon_threadsafe(tell, params)
