"""The JSON Schema of the configuration file, for editors (`mcpproxy config schema`)."""

from __future__ import annotations

from typing import Any, Final

from mcpproxy_py.settings.models import Settings
from mcpproxy_py.settings.servers import RESERVED

_NAME: Final = r"^(?!.*__)[a-z0-9][a-z0-9_-]{0,31}$"
_COMMENT: Final = {"^//": True}


def json_schema() -> dict[str, Any]:
    """What the models accept, and beside that what the reader does: comments, `$schema`, servers as a list."""
    schema = Settings.model_json_schema(by_alias=True, mode="validation")
    for described in (schema, *schema["$defs"].values()):
        _commentable(described)
    schema["properties"]["$schema"] = {"type": "string"}
    server = schema["$defs"]["ServerSettings"]["properties"]
    server["type"] = server["transport"]
    _both_forms(schema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "mcpproxy configuration"}


def _commentable(described: dict[str, Any]) -> None:
    """Comments may stand in any object: in those with fixed keys, and in the mappings inside them."""
    if described.get("additionalProperties") is False:
        described["patternProperties"] = _COMMENT
    for held in described.get("properties", {}).values():
        if isinstance(held.get("additionalProperties"), dict):
            held["patternProperties"] = _COMMENT


def _both_forms(schema: dict[str, Any]) -> None:
    servers = schema["properties"]["mcpServers"]
    mapping = {
        "type": "object",
        "propertyNames": {"anyOf": [{"pattern": _NAME, "not": {"enum": list(RESERVED)}}, {"pattern": "^//"}]},
        "additionalProperties": {"$ref": "#/$defs/ServerSettings"},
        "patternProperties": _COMMENT,
    }
    named = {**schema["$defs"]["ServerSettings"]}
    named["properties"] = {"name": {"type": "string", "pattern": _NAME}, **named["properties"]}
    named["required"] = ["name"]
    schema["$defs"]["NamedServer"] = named
    listed = {"type": "array", "items": {"$ref": "#/$defs/NamedServer"}}
    schema["properties"]["mcpServers"] = {
        "description": servers.get("description", ""),
        "default": {},
        "anyOf": [mapping, listed],
    }
