"""What an author writes: a provider, and a line for each of its tools (PROV-1).

JSON Schemas of a provider's tools and questions, compiled once.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

import jsonschema_rs

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


def low_level_server(found: Any) -> Any:
    """The `mcp` package's own `Server` behind this object, `None` where it is none of the two kinds. Whoever made one
    has imported the package, so it is not imported here."""
    module = sys.modules.get("mcp.server.lowlevel.server")
    if module is None:
        return None
    inner = getattr(found, "_lowlevel_server", found)  # the SDK has no public name for it
    return inner if isinstance(inner, module.Server) else None


class ProviderError(Exception):
    """A provider that cannot be served. The text tells its author what to change."""


Check = Callable[[Any], str | None]
"""The first thing wrong with a value, as a sentence, or `None`."""
SHOWN: Final = 300
FLAT: Final = ("string", "number", "integer", "boolean", "array")


def compiled(schema: Mapping[str, Any]) -> Check:
    """Raises `ProviderError` for a schema that does not compile. References to other places are not fetched."""
    try:
        # Values are masked, because arguments and answers may be secrets and the sentence may be logged.
        validator = jsonschema_rs.validator_for(
            dict(schema), retriever=_refuse, mask="the value", pattern_options=_FEW_TRIES
        )
    except Exception as error:
        raise ProviderError(f"a JSON Schema that does not compile ({_short(error)})") from None

    def check(value: Any) -> str | None:
        try:
            validator.validate(value)  # up to the first error: whoever sends a million wrong items waits for no more
        except jsonschema_rs.ValidationError as error:
            return _sentence(error)
        return None

    return check


_FEW_TRIES: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=1_000)
"""The schemas are the operator's, but what is held against them on the event loop is not."""


def check_question(schema: Mapping[str, Any]) -> None:
    """Clients draw a form from it, so the protocol allows an object of plain fields only. Raises `ProviderError`."""
    fields = schema.get("properties", {})
    if schema.get("type") != "object" or not isinstance(fields, Mapping):
        raise ProviderError('a question needs a schema of {"type": "object", "properties": {…}}')
    for name, field in fields.items():
        if not isinstance(field, Mapping) or not ({"enum", "oneOf"} & set(field) or field.get("type") in FLAT):
            raise ProviderError(f"the field {name!r} of a question must be one of {', '.join(FLAT)}, without nesting")


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"references outside the schema are not fetched: {uri[:100]}")


def _sentence(error: jsonschema_rs.ValidationError) -> str:
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    return f"{where.lstrip('.')[:SHOWN]}: {_short(error.message)}".removeprefix(": ")


def _short(error: object) -> str:
    return str(error).strip().partition("\n")[0][:SHOWN]
