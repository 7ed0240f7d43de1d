"""The declaration that comes with a call: read from any spelling, believed in none (GATE-1).

What a `call_tool_*` ask says, taken apart: the tool's name, its arguments, and nothing unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.json_size import MAX_BODY_VALUES, SMALL, holds_more
from mcpproxy_py.core.search.tokens import nearest
from mcpproxy_py.core.values import OPERATIONS, SENSITIVITIES, Intent, Tool
from mcpproxy_py.errors import Code

MAX_REASON: Final = 1000
FIELDS: Final = ("operation_type", "data_sensitivity", "reason")
FLAT: Final[Mapping[str, str]] = {f"intent_{field}": field for field in FIELDS}
_ALL: Final = frozenset(FIELDS)
_WITHOUT_REASON: Final[Mapping[tuple[Any, Any], Intent]] = {
    (operation, sensitivity): Intent(operation, sensitivity)
    for operation in OPERATIONS
    for sensitivity in (None, *SENSITIVITIES)
}


@dataclass(frozen=True, slots=True)
class BadIntent:
    """Why a declaration does not stand, and what was claimed, for the record."""

    code: Code
    message: str
    claimed: Any = None


def parse(params: Mapping[str, Any], variant: str) -> Intent | BadIntent:
    """The declared intent of a call to `variant` (the outer tool name), from its nested and flat spellings."""
    flat: dict[str, Any] = {}
    if not FLAT.keys().isdisjoint(params):
        flat = {field: params[name] for name, field in FLAT.items() if params.get(name) is not None}
    raw = params.get("intent")
    if not flat and isinstance(raw, dict):
        return _checked(raw)  # pyright: ignore[reportUnknownArgumentType]
    if raw is None:
        return _checked(flat) if flat else BadIntent(Code.MISSING_INTENT, f"intent parameter is required for {variant}")
    nested = _as_object(raw)
    if isinstance(nested, BadIntent):
        return nested
    if not flat:
        return _checked(nested)
    for field, value in flat.items():
        if nested.get(field) is not None and not json_values.same(nested[field], value):
            message = f"intent.{field} and intent_{field} disagree; declare the intent once"
            return BadIntent(Code.INTENT_CONFLICT, message, raw)
    return _checked({**nested, **flat})


def _as_object(raw: Any) -> Mapping[str, Any] | BadIntent:
    """`intent` as an object, also where a host sent it as JSON text."""
    value = raw
    if isinstance(raw, str):
        try:
            value = json_values.decode(raw)
        except ValueError:
            message = f"intent must be an object, and the text '{json_values.quoted(raw)}' is not a JSON object"
            return BadIntent(Code.INVALID_INTENT, message, raw)
    if (nested := json_values.as_object(value)) is not None:
        return nested
    message = f"intent must be an object with operation_type, not {_article(json_values.kind(value))}"
    return BadIntent(Code.INVALID_INTENT, message, raw)


def _checked(claimed: Mapping[str, Any]) -> Intent | BadIntent:
    """As nearly every declaration comes, it is found in a table; what is not gets a sentence."""
    operation, sensitivity = claimed.get("operation_type"), claimed.get("data_sensitivity")
    reason = claimed.get("reason")
    if type(operation) is str and (sensitivity is None or type(sensitivity) is str) and claimed.keys() <= _ALL:
        known = _WITHOUT_REASON.get((operation, sensitivity))
        if known is not None and reason is None:
            return known
        if known is not None and type(reason) is str and len(reason) <= MAX_REASON and reason.isascii():
            return Intent(known.operation_type, known.data_sensitivity, reason)
    return _judged(claimed)


def _judged(claimed: Mapping[str, Any]) -> Intent | BadIntent:
    def bad(code: Code, message: str) -> BadIntent:
        return BadIntent(code, message, dict(claimed))

    for key in claimed:
        if key not in FIELDS:
            hint = "".join(f"; did you mean {near}?" for near in nearest(str(key), FIELDS, 1))
            return bad(Code.INVALID_INTENT, f"intent has an unknown key '{json_values.quoted(key)}'{hint}")
    operation, sensitivity, reason = map(claimed.get, FIELDS)
    if operation is None or operation == "":
        return bad(Code.MISSING_OPERATION_TYPE, "intent.operation_type is required")
    if operation not in OPERATIONS:
        shown = json_values.quoted(operation)
        message = f"Invalid intent.operation_type '{shown}': must be read, write, or destructive"
        return bad(Code.INVALID_OPERATION_TYPE, message)
    if sensitivity is not None and sensitivity not in SENSITIVITIES:
        shown = json_values.quoted(sensitivity)
        message = f"Invalid intent.data_sensitivity '{shown}': must be public, internal, private, or unknown"
        return bad(Code.INVALID_SENSITIVITY, message)
    if reason is not None and not isinstance(reason, str):
        return bad(Code.INVALID_INTENT, f"intent.reason must be a string, not {_article(json_values.kind(reason))}")
    if reason is not None and len(reason) > MAX_REASON:
        return bad(Code.REASON_TOO_LONG, f"intent.reason exceeds maximum length of {MAX_REASON} characters")
    if reason is not None and (problem := json_values.flaw(reason)):
        return bad(Code.INVALID_INTENT, f"intent.reason cannot be kept: {problem}")
    return Intent(operation, sensitivity, reason)


def _article(word: str) -> str:
    return word if word == "null" else f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


MAX_NAME: Final = 512
CALL_PARAMS: Final = ("name", "args", "args_json", "intent", *FLAT)


def unknown_param(params: Mapping[str, Any], known: tuple[str, ...]) -> str | None:
    """The sentence about the first parameter nobody asked for, or `None`."""
    for key in params:
        if key not in known:
            hint = "".join(f"; did you mean {near}?" for near in nearest(str(key), known, 1))
            return f"unknown parameter '{json_values.quoted(key)}'{hint}"
    return None


def split_name(name: object) -> tuple[str, str] | str:
    """`server:tool` at the first colon, or the sentence that says what is wrong with it."""
    if not isinstance(name, str):
        given = "it is missing" if name is None else f"not {json_values.kind(name)}"
        return f"name must be a string like server:tool ({given})"
    if len(name) > MAX_NAME:
        return f"name is {len(name)} characters long; at most {MAX_NAME} are allowed"
    if not name.isprintable():
        return f"name '{json_values.quoted(name)}' holds control characters"
    server, colon, tool = name.partition(":")
    if not colon:
        return f"name '{json_values.quoted(name)}' has no colon; it must be server:tool"
    if not server or not tool:
        return (
            f"name '{json_values.quoted(name)}' lacks its {'tool' if server else 'server'} part; it must be server:tool"
        )
    return server, tool


class ArgsConflictError(ValueError):
    """`args` and `args_json` were both given and differ."""


def arguments(params: Mapping[str, Any], max_depth: int, plain: bool = False) -> Mapping[str, Any]:
    """The tool's arguments from `args` or `args_json`. Raises `ValueError` with what is wrong. `plain` says that
    `params` were read strictly; what stands in `args_json` is read here, and vouched for by nobody."""
    args: Any = params.get("args")
    if "args_json" in params or not isinstance(args, dict):
        args, plain = _from_either(params), False
    if problem := json_values.flaw(args, max_depth, plain):
        raise ValueError(f"args cannot be sent on: {problem}")
    return args  # pyright: ignore[reportUnknownVariableType]


def _from_either(params: Mapping[str, Any]) -> Mapping[str, Any]:
    given: list[Mapping[str, Any]] = []
    if "args" in params:
        given.append(_object("args", params["args"]))
    if "args_json" in params:
        given.append(_object("args_json", _decoded(params["args_json"])))
    if len(given) == 2 and not json_values.same(*given):
        raise ArgsConflictError("args and args_json differ; give one of them")
    return given[0] if given else {}


def _decoded(text: object) -> Any:
    if not isinstance(text, str):
        raise ValueError(f"args_json must be a string of JSON, not {json_values.kind(text)}")
    if len(text) > SMALL and holds_more(text.encode("utf-8", "replace"), MAX_BODY_VALUES):
        raise ValueError(f"args_json holds more than {MAX_BODY_VALUES} keys and values")
    try:
        return json_values.decode(text)
    except ValueError as error:
        raise ValueError(f"args_json is not JSON: {error}") from None


def _object(where: str, value: object) -> Mapping[str, Any]:
    if (found := json_values.as_object(value)) is not None:
        return found
    advice = {"null": "; leave it out for a tool without arguments", "string": "; JSON text goes into args_json"}
    word = json_values.kind(value)
    raise ValueError(f"{where} must be an object, not {word}{advice.get(word, '') if where == 'args' else ''}")


def has_own_intent(tool: Tool) -> bool:
    schema = json_values.as_object(tool.wire.get("inputSchema")) or {}
    return "intent" in (json_values.as_object(schema.get("properties")) or {})
