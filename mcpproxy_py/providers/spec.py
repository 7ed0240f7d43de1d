"""What an author writes: a provider, and a line for each of its tools (PROV-1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from mcpproxy_py.providers.context import Context


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool. Whatever is left out is read from the function: schemas from its type hints, texts from its
    docstring. Without `fn` it is the provider's method of that name.

    `annotations` are the protocol's hints in the protocol's spelling (`readOnlyHint`). The gate classes the tool
    by them; a tool without any counts as unknown.
    """

    name: str
    fn: Callable[..., Any] | None = None
    title: str | None = None
    description: str | None = None
    annotations: Mapping[str, Any] | None = None
    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None


class HasTools(Protocol):
    """The least a provider can be."""

    def tools(self) -> Iterable[ToolSpec]: ...


class ToolProvider(HasTools, Protocol):
    """Tools of your own, served through the gate like those of any server.

    Only `tools` is required. Inherit from this class to get the other two as they are here, or leave them out
    of a class of your own. All three may be `async def`. Synchronous ones run in a worker thread; asynchronous
    ones run on the gateway's event loop and must not block it.
    """

    def capabilities(self) -> Collection[str]:
        """What the provider needs beside tools. Known: `"elicitation"`, to ask a person during a call."""
        return ()

    def tools(self) -> Iterable[ToolSpec]:
        """The tools. Asked for at each connection, so the list may differ from one to the next."""
        ...

    def tool_call(self, name: str, arguments: dict[str, Any], ctx: Context) -> Any | Awaitable[Any]:
        """Answer a call, with arguments that fit the tool's input schema. `NotImplemented` falls back to calling
        the tool's function, for this one tool."""
        return NotImplemented


class ProviderError(Exception):
    """A provider that cannot be served. The text tells its author what to change."""
