"""Arguments that a tool wants repeated as `Mcp-Param-*` headers: found once per schema, sent and checked per call.

A property asks for it with `x-mcp-header`. Only where its value is certain to be in the arguments under a fixed
path, and has one spelling as text: never below a list or an alternative, never a number that may have a fraction.
A schema that asks for it anywhere else, or twice under one name, gets no headers at all.

The HTTP headers that repeat what a modern request says in its body, so that a proxy can route without reading it.

They are only worth something when they cannot say anything else than the body does: hence one spelling for
every text (`encode_header_value`), and nobody may send one of them twice.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, cast

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.protocol.constants import HEADER_MISMATCH, EnvelopeRejection

PROTOCOL_VERSION: Final = "mcp-protocol-version"
METHOD: Final = "mcp-method"
NAME: Final = "mcp-name"
TRACE_PARENT: Final = "traceparent"
TRACE_CONTEXT: Final = (TRACE_PARENT, "tracestate")
"""W3C's names, the same in HTTP headers and, by SEP-414, in `_meta`."""
ROUTING: Final = frozenset({PROTOCOL_VERSION, METHOD, NAME})

NAMED_BY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tools/call": "name",
        "prompts/get": "name",
        "resources/read": "uri",
        "tasks/get": "taskId",
        "tasks/update": "taskId",
        "tasks/cancel": "taskId",
    }
)
"""Which parameter of a method the `Mcp-Name` header repeats. The tasks are of an extension."""

_PLAIN: Final = re.compile(r"[\x20-\x7E]*")
_WRAPPED: Final = re.compile(r"=\?base64\?(.*)\?=")


def encode_header_value(text: str) -> str:
    """The text itself where every hop would leave it alone, else base64 between `=?base64?` and `?=`."""
    if _PLAIN.fullmatch(text) and text == text.strip(" ") and not _WRAPPED.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def decode_header_value(value: str | None) -> str | None:
    """What `encode_header_value` was given. None for no header, and for base64 that it would not have written:
    two spellings of one text would let a proxy and us read different things."""
    wrapped = _WRAPPED.fullmatch(value) if value is not None and value.startswith("=?") else None
    return _unwrapped(wrapped[1]) if wrapped else value


def _unwrapped(payload: str) -> str | None:
    try:
        content = base64.b64decode(payload, validate=True)
        return content.decode() if base64.b64encode(content).decode() == payload else None
    except ValueError:
        return None


def duplicated_routing_header(lines: Iterable[tuple[str, str]], among: frozenset[str] = ROUTING) -> str | None:
    """The first routing header that is there twice, by its lower-case name. Takes the lines as they came:
    a mapping has already chosen one, and a proxy in front may have chosen the other."""
    seen: set[str] = set()
    for name, _ in lines:
        key = name.lower()
        if key in among:
            if key in seen:
                return key
            seen.add(key)
    return None


ANNOTATION: Final = "x-mcp-header"
PREFIX: Final = "Mcp-Param-"
SHOWN: Final = 40

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""What RFC 9110 allows in the name of a header."""
_DECIMAL: Final = re.compile(r"(-?[0-9]+)(?:\.0+)?")
_KINDS: Final = ("string", "integer", "boolean")

# Keywords of JSON Schema with schemas below them, by what holds them. `default`, `examples`, `const` and `enum` hold
# data, where the annotation means nothing, and a `$ref` is followed nowhere.
_IN_ITSELF: Final = frozenset(
    {"items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties",
     "not", "if", "then", "else", "contentSchema"}
)  # fmt: skip
_IN_LIST: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_IN_MAP: Final = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})

# The way down to a schema as (parent, name), so that a deep one does not copy it at every level. None is off the
# fixed paths: below a list, an alternative, a definition.
_Way = tuple[Any, ...] | None
_ROOT: Final[_Way] = ()


@dataclass(frozen=True, slots=True)
class ParamHeader:
    """One argument and the header that repeats it."""

    path: tuple[str, ...]
    header: str
    integer: bool = False


def mirrors(schema: Any) -> tuple[ParamHeader, ...]:
    """Of a tool's `inputSchema`, however wrong. Empty also when something in it asks for a header wrongly."""
    found = declared(schema)
    return () if isinstance(found, str) else found


def declared(schema: Any) -> tuple[ParamHeader, ...] | str:
    """The same, or what is wrong: a client of the modern era that sends headers must leave such a tool out."""
    found: dict[str, ParamHeader] = {}
    for way, node in _schemas(schema):
        if ANNOTATION not in node:
            continue
        mirror = _mirror(way, node)
        if isinstance(mirror, str):
            return mirror
        if mirror.header.lower() in found:
            return f"two of its arguments have the {ANNOTATION} {mirror.header.removeprefix(PREFIX)}"
        found[mirror.header.lower()] = mirror
    return tuple(found.values())


def param_headers(declared: Iterable[ParamHeader], arguments: Mapping[str, Any]) -> dict[str, str]:
    """The headers a call sends. An argument that is absent, null or no scalar has none."""
    spelled = ((mirror.header, _spelled(_at(arguments, mirror.path))) for mirror in declared)
    return {header: encode_header_value(text) for header, text in spelled if text is not None}


def disagreement(
    declared: Iterable[ParamHeader], arguments: Mapping[str, Any], lines: Iterable[tuple[str, str]]
) -> EnvelopeRejection | None:
    """The first header that does not say what its argument says, whichever of the two is missing.

    `lines` are the request's headers as they came. One sent twice is refused even when both are the same, because
    a reader of the first and a reader of the last must never be able to differ.
    """
    sent: dict[str, list[str]] = {}
    for name, value in lines:
        sent.setdefault(name.lower(), []).append(value)
    wrong = (_wrong(mirror, _at(arguments, mirror.path), sent.get(mirror.header.lower(), [])) for mirror in declared)
    return next((EnvelopeRejection(HEADER_MISMATCH, complaint) for complaint in wrong if complaint is not None), None)


def _schemas(root: Any) -> Iterator[tuple[_Way, dict[str, Any]]]:
    """Every schema in a schema. With a stack of its own, as a hostile one can be nested deeper than Python is."""
    stack: list[tuple[_Way, Any]] = [(_ROOT, root)]
    while stack:
        way, node = stack.pop()
        if isinstance(node, dict):
            schema = cast("dict[str, Any]", node)
            yield way, schema
            for keyword, held in schema.items():
                if isinstance(held, dict | list):
                    stack.extend(_below(way, keyword, held))


def _below(way: _Way, keyword: str, held: Any) -> Iterable[tuple[_Way, Any]]:
    if keyword in _IN_ITSELF:
        return ((None, held),)
    if isinstance(held, list) and keyword in _IN_LIST:
        return ((None, schema) for schema in cast("list[Any]", held))
    if not isinstance(held, dict):
        return ()
    if keyword == "properties":
        named = cast("dict[str, Any]", held).items()
        return ((None if way is None else (way, name), schema) for name, schema in named)
    return ((None, schema) for schema in cast("dict[str, Any]", held).values()) if keyword in _IN_MAP else ()


def _mirror(way: _Way, schema: Mapping[str, Any]) -> ParamHeader | str:
    token, kind = schema[ANNOTATION], schema.get("type")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        return f"its {ANNOTATION} {quoted(token, SHOWN)} cannot be part of a header's name"
    if not way:
        return f"its {ANNOTATION} {quoted(token, SHOWN)} is at no argument with a fixed path"
    if kind not in _KINDS:
        return f"its {ANNOTATION} {quoted(token, SHOWN)} is at an argument of type {quoted(kind, SHOWN)}"
    return ParamHeader(_path(way), PREFIX + token, integer=kind == "integer")


def _path(way: _Way) -> tuple[str, ...]:
    names: list[str] = []
    while way:
        way, name = way
        names.append(name)
    return tuple(reversed(names))


def _at(arguments: Any, path: tuple[str, ...]) -> Any:
    node = arguments
    for name in path:
        if not isinstance(node, dict):
            return None
        node = cast("dict[str, Any]", node).get(name)
    return node


def _spelled(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        return None
    try:
        return str(value)
    except ValueError:  # Python refuses to write an integer of thousands of digits
        return None


def _wrong(mirror: ParamHeader, value: Any, sent: list[str]) -> str | None:
    spelled, argument = _spelled(value), ".".join(mirror.path)
    if not sent:
        missing = f"The {mirror.header} header is missing; it must repeat the argument {argument}."
        return missing if spelled is not None else None
    if len(sent) > 1:
        return f"The {mirror.header} header may be there only once."
    decoded = decode_header_value(sent[0])
    if spelled is None or decoded is None or not _agree(mirror, value, spelled, decoded):
        return f"The {mirror.header} header must say what the argument {argument} says; it has no other meaning."
    return None


def _agree(mirror: ParamHeader, value: Any, spelled: str, decoded: str) -> bool:
    """Integers by their value, since `42.0` is one in JSON too, and never by way of a float; all else as text."""
    number = _DECIMAL.fullmatch(decoded) if mirror.integer and _whole(value) else None
    if number is None:
        return decoded == spelled
    try:
        return int(number[1]) == int(value)
    except ValueError:
        return False


def _whole(value: Any) -> bool:
    return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
