"""What a `call_tool_*` ask says, taken apart: the tool's name, its arguments, and nothing unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.policy.declaration import FLAT
from mcpproxy_py.core.search.tokens import nearest

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
