"""The OpenAPI 3.1 document, made from the same table as the routes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from mcpproxy_py import __version__
from mcpproxy_py.errors import FACTS, Code
from mcpproxy_py.serve.rest.endpoint import RestEndpoint
from mcpproxy_py.serve.rest.responses import ErrorAnswer

_REF: Final = "#/components/schemas/{model}"
_IN_PATH: Final = re.compile(r"{(\w+)}")
_SECURITY: Final[dict[str, list[dict[str, list[str]]]]] = {
    "admin": [{"adminKey": []}, {"adminBearer": []}, {"pageToken": [], "pageCookie": []}],
    "key": [{"adminKey": []}, {"adminBearer": []}],
    "own": [{"adminKey": []}, {"adminBearer": []}, {"pageToken": [], "pageCookie": []}, {"agentToken": []}],
    "agent": [{"agentToken": []}, {}],
    "metrics": [{"adminKey": []}, {"adminBearer": []}, {}],
    "open": [],
}
_SCHEMES: Final = {
    "adminKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The admin key"},
    "adminBearer": {"type": "http", "scheme": "bearer", "description": "The admin key"},
    "pageToken": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Mcpproxy-Page",
        "description": "One half of a session of the page",
    },
    "pageCookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": "mcpproxy-ui-PORT",
        "description": "The other half; with TLS its name begins with `__Host-`",
    },
    "agentToken": {"type": "http", "scheme": "bearer", "description": "The agent token, where one is needed"},
}
_REQUEST_ID: Final = {"X-Request-Id": {"$ref": "#/components/headers/RequestId"}}


@lru_cache(maxsize=1)
def document(endpoints: tuple[RestEndpoint, ...]) -> dict[str, Any]:
    paths: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for endpoint in endpoints:
        paths[endpoint.shown_path][endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "mcpproxy",
            "version": __version__,
            "description": "Everything a person can see or do, and what agents may discover without MCP.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "paths": dict(paths),
        "components": {
            "schemas": _schemas(endpoints),
            "securitySchemes": _SCHEMES,
            "headers": {"RequestId": {"description": "The caller's id, or a new one", "schema": {"type": "string"}}},
        },
    }


def _operation(endpoint: RestEndpoint) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": getattr(endpoint.handler, "__name__", endpoint.path),
        "summary": endpoint.summary,
        "tags": [endpoint.group],
        "security": _SECURITY[endpoint.guarded],
        "parameters": [*_path_parameters(endpoint), *query_parameters(endpoint.query)],
        "responses": {str(endpoint.status): _success(endpoint), **_failures(endpoint.all_refusals)},
    }
    if endpoint.more:
        described["description"] = endpoint.more
    if endpoint.body:
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": _ref(endpoint.body)}}}
    return described


def _path_parameters(endpoint: RestEndpoint) -> list[dict[str, Any]]:
    names = _IN_PATH.findall(endpoint.shown_path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def query_parameters(model: type[BaseModel]) -> list[dict[str, Any]]:
    schema = model.model_json_schema()
    required = schema.get("required", [])
    return [_parameter(name, shape, name in required) for name, shape in schema.get("properties", {}).items()]


def _parameter(name: str, shape: dict[str, Any], required: bool) -> dict[str, Any]:
    """In a URL a parameter is there or not; the model's null is its absence."""
    kept = {key: value for key, value in shape.items() if key not in ("title", "description", "anyOf")}
    for option in shape.get("anyOf", []):
        kept |= option if option.get("type") != "null" else {}
    _without_null_default(kept)
    meaning = shape.get("description", "")
    return {"name": name, "in": "query", "required": required, "description": meaning, "schema": kept}


def _success(endpoint: RestEndpoint) -> dict[str, Any]:
    schema = _ref(endpoint.answer) if endpoint.answer else {"type": "string"}
    content = {media: {"schema": schema} for media in endpoint.media}
    return {"description": endpoint.summary, "headers": _REQUEST_ID, "content": content}


def _failures(codes: Sequence[Code]) -> dict[str, Any]:
    by_status: defaultdict[int, list[str]] = defaultdict(list)
    for code in codes:
        by_status[FACTS[code].http].append(code.value)
    content = {"application/json": {"schema": _ref(ErrorAnswer)}}
    return {
        str(status): {"description": ", ".join(names), "headers": _REQUEST_ID, "content": content}
        for status, names in sorted(by_status.items())
    }


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}


def _schemas(endpoints: Iterable[RestEndpoint]) -> dict[str, Any]:
    used = [model for endpoint in endpoints for model in (endpoint.body, endpoint.answer) if model]
    wanted = dict.fromkeys((*used, ErrorAnswer))
    _, schema = models_json_schema([(model, "validation") for model in wanted], ref_template=_REF)
    for shape in (shape for found in schema["$defs"].values() for shape in found.get("properties", {}).values()):
        _without_null_default(shape)
    return schema["$defs"]


def _without_null_default(shape: dict[str, Any]) -> None:
    """The models' null says that a key was left out; it is not a value to send."""
    if shape.get("default", 0) is None:
        del shape["default"]
