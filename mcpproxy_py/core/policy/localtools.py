"""The asks the gateway answers itself: their parameters, as one table for schema and check alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.policy import asking

MAX_TEXT: Final = 4000


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter: its JSON type and bounds. Everything the schema says, `problem` enforces."""

    kind: str
    description: str = ""
    required: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None

    def schema(self) -> dict[str, Any]:
        said: dict[str, Any] = {"type": self.kind, "description": self.description, "default": self.default,
                                "enum": list(self.choices), "minimum": self.least, "maximum": self.most}  # fmt: skip
        return {key: value for key, value in said.items() if value not in (None, "", [])}

    def problem(self, value: Any) -> str | None:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        fits = is_whole if self.kind == "integer" else json_values.kind(value) == self.kind
        if not fits:
            return f"must be {self.kind}, not {json_values.kind(value)}"
        if self.choices and value not in self.choices:
            return f"must be {' or '.join(self.choices)}, not '{json_values.quoted(value)}'"
        if self.least is not None and self.most is not None and not self.least <= value <= self.most:
            return f"must be between {self.least} and {self.most}, not {json_values.quoted(value)}"
        return self._wrong_text(value) if isinstance(value, str) else None

    def _wrong_text(self, text: str) -> str | None:
        if self.required and not text.strip():
            return "must not be empty"
        if len(text) > MAX_TEXT:
            return f"is {len(text)} characters long; at most {MAX_TEXT} are allowed"
        return json_values.flaw(text)


PARAMS: Final[Mapping[str, Mapping[str, Param]]] = {
    "retrieve_tools": {
        "query": Param("string", "What you need, in plain words", required=True),
        "limit": Param("integer", default=5, least=1, most=50),
        "detail": Param("string", "compact: signatures, no schemas", default="full", choices=("full", "compact")),
        "read_only_only": Param("boolean", default=False),
        "exclude_destructive": Param("boolean", default=False),
        "server": Param("string", "Only this server's tools"),
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
    if problem := asking.unknown_param(given, tuple(table)):
        return problem
    for name, param in table.items():
        if name not in given:
            if param.required:
                return f"{name} is required"
            continue
        if problem := param.problem(given[name]):
            return f"{name} {problem}"
    return {name: given.get(name, param.default) for name, param in table.items()}


def input_schema(tool: str) -> dict[str, Any]:
    """A fresh JSON Schema of the parameters; the caller owns it."""
    table = PARAMS[tool]
    return {
        "type": "object",
        "properties": {name: param.schema() for name, param in table.items()},
        "required": [name for name, param in table.items() if param.required],
        "additionalProperties": False,
    }
