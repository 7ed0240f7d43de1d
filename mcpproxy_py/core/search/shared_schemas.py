"""What several tools of one answer take alike is said once (FIND-1).

Tools of one server share parameters, with long texts: "the owner of the repository". Where a later one has a parameter
just like an earlier one, it says so: `{"$ref": "github:get_issue#/properties/owner"}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from mcpproxy_py.core import json_values

SHORT: Final = 120
"""A schema that is no longer is said again: a reference would not be much shorter."""
PARAMETERS: Final = 64


def said_once(rows: Iterable[dict[str, Any]]) -> bool:
    """Of rows with a `name` and an `inputSchema`; the schemas themselves are left as they are. Whether any part was
    replaced."""
    seen: dict[str, str] = {}
    replaced = 0
    for row in rows:
        schema = json_values.as_object(row.get("inputSchema"))
        properties = json_values.as_object(schema.get("properties")) if schema else None
        if schema and properties:
            left = _left(row["name"], properties, seen)
            replaced += len(left)
            if left:
                row["inputSchema"] = {**schema, "properties": {**properties, **left}}
    return replaced > 0


def _left(tool: str, properties: Mapping[str, Any], seen: dict[str, str]) -> dict[str, Any]:
    """Those that another tool had before, each with where it stands."""
    left: dict[str, Any] = {}
    mine: dict[str, str] = {}
    for name, schema in islice(properties.items(), PARAMETERS):
        text = _text(schema)
        # What a reference means depends on the schema around it.
        if len(text) <= SHORT or '"$ref"' in text or '"$dynamicRef"' in text:
            continue
        if there := seen.get(text):
            left[name] = {"$ref": there}
        else:
            mine.setdefault(text, f"{tool}#/properties/{name.replace('~', '~0').replace('/', '~1')}")
    seen.update(mine)
    return left


def _text(schema: object) -> str:
    """Nothing of what cannot be written, or not soon."""
    try:
        return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError):
        return ""
