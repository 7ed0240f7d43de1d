"""`docs/reference/rest.md` from the table of endpoints: `python -m mcpproxy_py.serve.rest.reference_page > FILE`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Final

from mcpproxy_py.errors import FACTS, Code
from mcpproxy_py.serve.rest.app import ENDPOINTS
from mcpproxy_py.serve.rest.endpoint import RestEndpoint
from mcpproxy_py.serve.rest.openapi import document, query_parameters

HEAD: Final = """\
# REST interface

<!-- Made by `python -m mcpproxy_py.serve.rest.reference_page`; a test compares the two. -->

Everything a person can see or do, as JSON. It is not for agents: they use the MCP surfaces, and beside them the
few routes under "Discovery, for agents".

- **Credential.** Each route under `/api/v1` needs the admin key, as `X-API-Key: KEY` or `Authorization: Bearer KEY`
  (`mcpproxy key show` prints it). An agent token gives no access there. The routes for agents need the agent
  token if the MCP surfaces do; the admin key gives access to neither.
- **Parameters.** An unknown parameter, a bad value and a parameter given twice are each a 400 that names it.
  Times are RFC 3339 with a zone; a `+` in a URL is written `%2B`.
- **Bodies** are JSON objects with `Content-Type: application/json`; unknown keys are refused.
- **Request ids.** `X-Request-Id` (up to 128 visible ASCII characters) is used, or a new one is made; every answer
  carries it, and so do the log and the record.
- **Client.** `X-MCPProxy-Client: NAME/VERSION` is recorded as the client; the command line sends `cli`.
- **OpenAPI**: `GET /api/v1/openapi.json`.

Every error has one shape, and `code` is from the closed list at the end of this page. Beside the codes that a route
names, any route may answer `BAD_REQUEST`, `UNAUTHORIZED`, `FOREIGN_HOST`, `FOREIGN_ORIGIN`, `TOO_LARGE` and `INTERNAL`:

```json
{"error": {"code": "NOT_FOUND", "message": "There is no server 'gti'; did you mean git?", "hint": "…", "details": {}}}
```
"""


def page() -> str:
    groups = groupby(sorted(ENDPOINTS, key=_group), key=_group)
    sections = (f"## {group}\n\n" + "\n".join(map(_section, endpoints)) for group, endpoints in groups)
    return "\n".join((HEAD, *sections, _codes()))


def _group(endpoint: RestEndpoint) -> str:
    return endpoint.group


def _section(endpoint: RestEndpoint) -> str:
    parts = [f"### `{endpoint.method} {endpoint.shown_path}`", endpoint.summary + "."]
    if endpoint.more:
        parts.append(endpoint.more)
    if parameters := query_parameters(endpoint.query):
        parts.append(_table(("parameter", "value", "meaning"), map(_parameter_row, parameters)))
    if endpoint.body:
        parts.append(_table(("key", "value", "meaning"), _body_rows(endpoint.body.__name__)))
    own = ", ".join(f"`{code.value}`" for code in endpoint.refusals)
    parts.append(f"Answers {endpoint.status}, {_answered(endpoint)}" + (f"; or refuses with {own}." if own else "."))
    return "\n\n".join(parts) + "\n"


def _answered(endpoint: RestEndpoint) -> str:
    if endpoint.answer is None:
        return " or ".join(f"`{media}`" for media in endpoint.media)
    properties = _schema(endpoint.answer.__name__).get("properties", {})
    return "with " + (", ".join(f"`{name}`" for name in properties) or "an object")


def _schema(name: str) -> dict[str, Any]:
    return document(ENDPOINTS)["components"]["schemas"][name]


def _parameter_row(parameter: Mapping[str, Any]) -> tuple[str, str, str]:
    name = f"`{parameter['name']}`" + (" (required)" if parameter["required"] else "")
    return name, _value(parameter["schema"]), parameter["description"]


def _body_rows(model: str) -> Iterable[tuple[str, str, str]]:
    schema = _schema(model)
    for name, shape in schema["properties"].items():
        needed = " (required)" if name in schema.get("required", []) else ""
        yield f"`{name}`{needed}", _value(shape), shape.get("description", "")


def _value(shape: Mapping[str, Any]) -> str:
    default = f" (`{json.dumps(shape['default'])}`)" if "default" in shape else ""
    shape = next((option for option in shape.get("anyOf", []) if option.get("type") != "null"), shape)
    if "enum" in shape:
        return ", ".join(f"`{value}`" for value in shape["enum"]) + default
    if "minimum" in shape:
        return f"{shape['minimum']} to {shape['maximum']}{default}"
    return f"{shape.get('format', shape.get('type', 'any'))}{default}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def _codes() -> str:
    rows = ((f"`{code.value}`", str(FACTS[code].http), FACTS[code].hint) for code in Code)
    return "## Error codes\n\n" + _table(("code", "status", "hint"), rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
