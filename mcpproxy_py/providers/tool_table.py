"""The tools of a provider, checked and described: from an author's `ToolSpec` to what a listing says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final

from pydantic import BaseModel

from mcpproxy_py.providers.function_tool import Function
from mcpproxy_py.providers.results import ToolError, Unsendable, plain_json
from mcpproxy_py.providers.spec import Check, HasTools, ProviderError, ToolSpec, compiled

HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
MAX_TOOLS: Final = 10_000
OWN_METHODS: Final = ("tools", "tool_call", "capabilities")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_ANYTHING: Final[Mapping[str, Any]] = {"type": "object"}


@dataclass(frozen=True, slots=True)
class Offered:
    """One tool, ready to be listed and called."""

    name: str
    wire: Mapping[str, Any]
    function: Function | None
    arguments: Check | None
    """Only for a schema of the author's own: what is read from a function is checked by binding to it."""
    output: Check | None

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Raises `ToolError` for arguments that do not fit."""
        if self.arguments is not None and (problem := self.arguments(dict(arguments))):
            raise ToolError(f"Invalid arguments. {problem}")

    def promised(self, result: dict[str, Any]) -> dict[str, Any]:
        """The result, if it is what the tool's output schema says: clients drop the connection over one that is not.
        Raises `Unsendable`."""
        if self.output is None or result.get("isError"):
            return result
        if problem := self.output(result.get("structuredContent")):
            raise Unsendable(f"its structured content does not fit its output schema: {problem}")
        return result


def offered(provider: HasTools, specs: Iterable[Any]) -> Iterator[Offered]:
    """Raises `ProviderError`, for the whole provider: half a provider would look like one that works."""
    names: set[str] = set()
    for spec in islice(specs, MAX_TOOLS + 1):
        if len(names) == MAX_TOOLS:
            raise ProviderError(f"tools() gave more than {MAX_TOOLS} tools")
        if not isinstance(spec, ToolSpec):
            raise ProviderError(f"tools() has to give ToolSpec objects, and gave {type(spec).__name__}")
        if not isinstance(spec.name, str) or not _NAME.fullmatch(spec.name):
            raise ProviderError(f"a tool's name is 1 to 128 of A-Z a-z 0-9 _ . - and not {str(spec.name)[:80]!r}")
        if spec.name in names:
            raise ProviderError(f"tools() gave two tools named {spec.name!r}")
        names.add(spec.name)
        try:
            yield _offer(provider, spec)
        except ProviderError as error:
            raise ProviderError(f"tool {spec.name!r}: {error}") from None


def _offer(provider: HasTools, spec: ToolSpec) -> Offered:
    fn = spec.fn or _method(provider, spec.name)
    function = Function(fn) if fn is not None else None
    if function is None and not hasattr(provider, "tool_call"):
        raise ProviderError("it has no function: give `fn`, a method of that name, or a `tool_call`")
    own_input = _schema(spec.input_schema)
    output = _schema(spec.output_schema) or (function.output_schema if function else None)
    wire = {
        "name": spec.name,
        "title": spec.title,
        "description": spec.description or (function.description if function else None) or None,
        "inputSchema": own_input or (function.input_schema if function else dict(_ANYTHING)),
        "outputSchema": output,
        "annotations": _annotations(spec.annotations),
    }
    return Offered(
        spec.name,
        {key: value for key, value in wire.items() if value is not None},
        function,
        compiled(own_input) if own_input else None,
        compiled(output) if output else None,
    )


def _method(provider: HasTools, name: str) -> Callable[..., Any] | None:
    if name in OWN_METHODS or name.startswith("_"):
        return None
    found = getattr(provider, name, None)
    return found if callable(found) else None


def _schema(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if schema is None:
        return None
    plain = _as_json(schema, "a schema")
    if plain.get("type") != "object":
        raise ProviderError('a schema of a tool has to say {"type": "object", …}')
    return plain


def _annotations(annotations: Any) -> dict[str, Any] | None:
    if annotations is None:
        return None
    if isinstance(annotations, BaseModel):
        annotations = annotations.model_dump(by_alias=True, exclude_none=True)
    said = _as_json(annotations, "annotations")
    for key, value in said.items():
        if key not in (*HINTS, "title"):
            # A hint under another spelling would be no hint, and the tool's class another than its author thinks.
            near = get_close_matches(key.replace("_", "").lower(), [hint.lower() for hint in HINTS], n=1)
            meant = next((f"; did you mean {hint}?" for hint in HINTS if near and hint.lower() == near[0]), "")
            raise ProviderError(f"there is no annotation {key!r}{meant}")
        if key in HINTS and not isinstance(value, bool):
            raise ProviderError(f"the annotation {key} has to be true or false")
    return said


def _as_json(value: Any, what: str) -> dict[str, Any]:
    try:
        plain = plain_json(value)
    except Unsendable as error:
        raise ProviderError(f"{what}: {error}") from None
    if not isinstance(plain, dict):
        raise ProviderError(f"{what} has to be an object, not {type(value).__name__}")
    return plain
