"""The six tools an agent sees at `/mcp`, and the five sentences that tell it how to use them (SURF-1).

Every word here is paid for by each agent on each turn, so a test holds the whole list under 1,300 tokens.

The asks the gateway answers itself: their parameters, as one table for schema and check alike.

A tool as the direct surface shows it: its own wire object under another name, with the hints that count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.policy import declaration
from mcpproxy_py.core.policy.declaration import MAX_REASON, has_own_intent
from mcpproxy_py.core.policy.tool_class import class_of, effective
from mcpproxy_py.core.protocol.apps import with_pages_of
from mcpproxy_py.core.values import OPERATIONS, SENSITIVITIES, VARIANT_OF, Operation, Policy, Tool

MAX_TEXT: Final = 4000
NAMED: Final = 20
"""Tools that one ask may name."""
MAX_SAFE: Final = (1 << 53) - 1
"""The largest number that every JSON parser reads exactly."""

ALWAYS_LOAD: Final = "anthropic/alwaysLoad"
"""Hosts with a tool search of their own show this tool without it. A search for the search would find nothing."""
MAX_RESULT_CHARS: Final = "anthropic/maxResultSizeChars"
"""Up to so many characters the host hands a result to the model, and puts a larger one into a file."""
REQUIRES_USER: Final = "anthropic/requiresUserInteraction"
"""The host asks its user before each call, whatever its permission rules allow."""
LARGE_RESULT: Final = 100_000
"""About the 25,000 tokens that hosts allow a result of MCP anyway. Claude Code takes 50,000 without this, and at most
500,000."""


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter: its JSON type and bounds. Everything the schema says, `problem` enforces. Bounds that nobody gets
    to without meaning it are not said, nor that what is left out is off: they would cost tokens."""

    kind: str
    description: str = ""
    required: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    """Of a number what it may be, of an array how many texts it may hold."""

    def schema(self) -> dict[str, Any]:
        bounds: dict[str, Any] = {} if self.most == MAX_SAFE else {"minimum": self.least, "maximum": self.most}
        if self.kind == "array":
            bounds = {"items": {"type": "string"}}
        said: dict[str, Any] = {"type": self.kind, "description": self.description, "default": self.default or None,
                                "enum": list(self.choices), **bounds}  # fmt: skip
        return {key: value for key, value in said.items() if value not in (None, "", [])}

    def problem(self, value: Any) -> str | None:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        fits = is_whole if self.kind == "integer" else json_values.kind(value) == self.kind
        if not fits:
            return f"must be {self.kind}, not {json_values.kind(value)}"
        if self.choices and value not in self.choices:
            return f"must be {' or '.join(self.choices)}, not '{json_values.quoted(value)}'"
        if (texts := json_values.as_array(value)) is not None:
            return self._wrong_texts(texts)
        if self.least is not None and self.most is not None and not self.least <= value <= self.most:
            return f"must be between {self.least} and {self.most}, not {json_values.quoted(value)}"
        return self._wrong_text(value) if isinstance(value, str) else None

    def _wrong_texts(self, texts: list[Any]) -> str | None:
        if self.most is not None and len(texts) > self.most:
            return f"has {len(texts)} items; at most {self.most} are allowed"
        if wrong := next((each for each in texts if not isinstance(each, str)), None):
            return f"must hold strings, not {json_values.kind(wrong)}"
        return next(filter(None, map(self._wrong_text, texts)), None)

    def _wrong_text(self, text: str) -> str | None:
        if self.required and not text.strip():
            return "must not be empty"
        if len(text) > MAX_TEXT:
            return f"is {len(text)} characters long; at most {MAX_TEXT} are allowed"
        return json_values.flaw(text)


PARAMS: Final[Mapping[str, Mapping[str, Param]]] = {
    "retrieve_tools": {
        "query": Param("string", "What you need, in plain words"),
        "names": Param("array", "server:tool names to get in full", most=NAMED),
        "limit": Param("integer", default=5, least=1, most=50),
        "detail": Param("string", "auto: the first in full", choices=("full", "compact", "auto")),
        "read_only_only": Param("boolean", default=False),
        "exclude_destructive": Param("boolean", default=False),
        "server": Param("string", "Only its tools"),
    },
    "read_result": {
        "id": Param("string", required=True),
        "from": Param("integer", least=0, most=MAX_SAFE),
        "query": Param("string"),
    },
    "request_capability": {
        "capability": Param("string", "In the user's own words: 'export the report as PDF'", required=True),
        "context": Param("string", "What the user was doing"),
    },
}


def check(tool: str, params: Any) -> Mapping[str, Any] | str:
    """The parameters with defaults filled in, or the sentence that says what is wrong."""
    table = PARAMS[tool]
    said = json_values.as_object(params)
    if said is None:
        return f"arguments must be an object, not {json_values.kind(params)}"
    given = {key: value for key, value in said.items() if value is not None}
    if problem := declaration.unknown_param(given, tuple(table)):
        return problem
    for name, param in table.items():
        if name not in given:
            if param.required:
                return f"{name} is required"
            continue
        if problem := param.problem(given[name]):
            return f"{name} {problem}"
    if tool == "retrieve_tools" and not given.get("names") and (problem := _no_query(given)):
        return problem
    return {name: given.get(name, param.default) for name, param in table.items()}


def _no_query(given: Mapping[str, Any]) -> str | None:
    if "query" not in given:
        return "query is required, or names"
    return None if given["query"].strip() else "query must not be empty"


def input_schema(tool: str) -> dict[str, Any]:
    """A fresh JSON Schema of the parameters; the caller owns it."""
    table = PARAMS[tool]
    required = [name for name, param in table.items() if param.required]
    return {
        "type": "object",
        "properties": {name: param.schema() for name, param in table.items()},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


INSTRUCTIONS: Final = (
    "This gateway reaches many MCP servers through a few tools. "
    "Find a tool with retrieve_tools, then call it by its server:tool name with the variant its call_with names. "
    "Declare in intent.operation_type what you mean to do; it must equal the variant: "
    "read looks, write changes, destructive deletes or cannot be undone. "
    "If a call is refused, its message says what to call instead: do that only if it is what you mean. "
    "If no tool fits what the user needs, say so once with request_capability."
)

USAGE: Final = (
    "Use call_tool_read for read-only operations, call_tool_write for modifications, call_tool_destructive for "
    "deletions. Intent must match tool variant. Each result's call_with names the variant to use."
)

SAID_ONCE: Final = "A $ref names a tool of this list, and its parameter that is the same."

NOTHING_FITS: Final = (
    "Nothing here fits the query well: these are only the nearest, without schemas. If none is plainly what is needed, "
    "search once in other words, or for the parts of the task; else call none, and say what is missing with "
    "request_capability."
)

NOT_THERE: Final = "None of these names can be called now. Search with query, and use names from the results."

PURPOSE: Final[dict[Operation, str]] = {
    "read": "Call a tool that only reads.",
    "write": "Call a tool that creates or changes something.",
    "destructive": "Call a tool that deletes or cannot be undone.",
}

HINTS: Final[dict[Operation, dict[str, bool]]] = {
    "read": {"readOnlyHint": True, "destructiveHint": False},
    "write": {"readOnlyHint": False, "destructiveHint": False},
    "destructive": {"readOnlyHint": False, "destructiveHint": True},
}

REQUEST_CAPABILITY: Final = (
    "Report what the user needs and no tool does, or none does well, even when you can work around it. "
    "It runs nothing and only tells the maintainers what to add: use it freely, then go on. "
    "To ask a person for an MCP server, use catalog:mcp_request_capability."
)

ACKNOWLEDGEMENT: Final = (
    "Noted, thank you: the people who maintain this gateway will see that this was missing. "
    "Nothing was run. Please go on with the tools that are available."
)

RETRIEVE_OUTPUT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "tools": {"type": "array", "items": {"type": "object", "required": ["name", "score", "call_with"]}},
        "fits": {"type": "boolean"},
        "usage_instructions": {"type": "string"},
        "total": {"type": "integer"},
    },
    "required": ["tools", "usage_instructions", "total"],
}


def instructions(sentences: str, servers: str) -> str:
    """`servers` is the line that names them (`server_line`), or nothing."""
    return f"{sentences} {servers}" if servers else sentences


def definitions(
    *, schema: str = "nested", offers_requests: bool = True, request_capability_text: str | None = None,
    servers: str = "", host_confirm: bool = False, ceiling: Operation = "destructive",
    reads_on: bool = True,
) -> list[dict[str, Any]]:  # fmt: skip
    """The gate's tools as wire objects, fresh on every call so that no caller can corrupt another's. With
    `host_confirm` hosts are told to ask their user before each destructive call. What is above the `ceiling` is not
    there (SEC-2); `reads_on` says whether any result is cut (SURF-13)."""
    variants = OPERATIONS[: OPERATIONS.index(ceiling) + 1]
    tools = [_retrieve_tools(servers), *(_variant(operation, schema, host_confirm) for operation in variants)]
    if reads_on:
        tools.append(json.loads(_READ_RESULT))
    return [*tools, _request_capability(request_capability_text)] if offers_requests else tools


def _retrieve_tools(servers: str) -> dict[str, Any]:
    return {
        "name": "retrieve_tools",
        "description": instructions("Search the tools of all connected servers. Start here.", servers),
        "inputSchema": input_schema("retrieve_tools"),
        "outputSchema": {**RETRIEVE_OUTPUT},
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
        "_meta": {ALWAYS_LOAD: True, MAX_RESULT_CHARS: LARGE_RESULT},
    }


def _variant(operation: Operation, schema: str, host_confirm: bool) -> dict[str, Any]:
    """Large results come from reading."""
    large = {MAX_RESULT_CHARS: LARGE_RESULT} if operation == "read" else {}
    asks = {REQUIRES_USER: True} if host_confirm and operation == "destructive" else {}
    intent = _flat_intent(operation) if schema == "flat" else _nested_intent(operation)
    required = ["name", "intent_operation_type" if schema == "flat" else "intent"]
    return {
        "name": VARIANT_OF[operation],
        "description": f"{PURPOSE[operation]} intent.operation_type must be '{operation}'.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "server:tool from retrieve_tools"},
                "args": {"type": "object"},
                "args_json": {"type": "string", "description": "args as JSON text"},
                **intent,
            },
            "required": required,
        },
        "annotations": dict(HINTS[operation]),
        "_meta": {ALWAYS_LOAD: True, **large, **asks},
    }


def _intent_fields(operation: Operation) -> dict[str, dict[str, Any]]:
    return {
        "operation_type": {"type": "string", "enum": [operation]},
        "data_sensitivity": {"type": "string", "enum": list(SENSITIVITIES)},
        "reason": {"type": "string", "maxLength": MAX_REASON},
    }


def _nested_intent(operation: Operation) -> dict[str, Any]:
    fields = _intent_fields(operation)
    return {"intent": {"type": "object", "properties": fields, "required": ["operation_type"]}}


def _flat_intent(operation: Operation) -> dict[str, Any]:
    return {f"intent_{field}": schema for field, schema in _intent_fields(operation).items()}


_READ_RESULT: Final = json.dumps({
    "name": "read_result",
    "description": "Read on in a cut result.",
    "inputSchema": {key: said for key, said in input_schema("read_result").items() if key != "additionalProperties"},
    "annotations": {"readOnlyHint": True},
    "_meta": {ALWAYS_LOAD: True},
})  # fmt: skip
"""Always the same. How to use it stands in each result that is cut, so it says no more than it must."""


def _request_capability(text: str | None) -> dict[str, Any]:
    return {
        "name": "request_capability",
        "description": text or REQUEST_CAPABILITY,
        "inputSchema": input_schema("request_capability"),
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
        "_meta": {ALWAYS_LOAD: True},
    }


PASSIVE_INTENT: Final = {
    "type": "string",
    "description": "Optional: what you want to achieve with this call, in a sentence. It is recorded, not checked.",
}


def shown_directly(tool: Tool, policy: Policy, host_confirm: bool = False) -> dict[str, Any]:
    """A fresh object; the upstream's own is left alone."""
    shown = {**tool.wire, "name": tool.direct_name}
    if not has_own_intent(tool):
        shown["inputSchema"] = _with_intent(tool.wire.get("inputSchema"))
    if (counted := _other_class(tool, policy)) is not None:
        shown["annotations"] = {**tool.annotations, **HINTS[counted]}
    meta: Mapping[str, Any] = {}
    if (said := json_values.as_object(tool.wire.get("_meta"))) is not None:
        shown["_meta"] = meta = with_pages_of(tool.server, said)
    if host_confirm and effective(tool, class_of(tool, None)[0], policy) == "destructive":
        shown["_meta"] = {**meta, REQUIRES_USER: True}
    return shown


def _with_intent(schema: object) -> dict[str, Any]:
    """Never required: what was callable without it stays callable without it (MISS-2)."""
    own = json_values.as_object(schema) or {"type": "object"}
    return {
        **own,
        "properties": {**(json_values.as_object(own.get("properties")) or {}), "intent": dict(PASSIVE_INTENT)},
    }


def _other_class(tool: Tool, policy: Policy) -> Operation | None:
    """The class that hints must show, where it is not what the server's own hints say: after an override, where
    they are not believed, and where the operator said what unannotated tools count as (SURF-2, GATE-8)."""
    highest, origin = class_of(tool, None)
    counted = effective(tool, highest, policy)
    if counted == tool.declared and origin != "untrusted":
        return None
    if counted == "unknown":
        return "write" if tool.annotations else None
    return OPERATIONS[OPERATIONS.index(counted)]
