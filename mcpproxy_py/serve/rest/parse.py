"""From text to checked values, and sentences for what is wrong: no parameter is ever skipped in silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, from_json
from starlette.requests import Request

from mcpproxy_py.core.json_values import kind, quoted
from mcpproxy_py.core.search.tokens import nearest
from mcpproxy_py.errors import GatewayError
from mcpproxy_py.serve.http.asgi import bad_request

MAX_PARAMETERS: Final = 64

Model = TypeVar("Model", bound=BaseModel)


def query(model: type[Model], raw: bytes) -> Model:
    """The parameters after `?`. Raises `GatewayError` that names the first wrong one and lists all."""
    pairs = _pairs(raw)
    repeated = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if repeated:
        raise bad_request(f"Parameter '{quoted(repeated[0])}' was given more than once", parameter=quoted(repeated[0]))
    return _checked(model, dict(pairs), "parameter")


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    try:
        text = raw.decode("ascii")
        return parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_PARAMETERS, errors="strict")
    except ValueError:
        limit = f"text in UTF-8, percent-encoded, and at most {MAX_PARAMETERS}"
        raise bad_request(f"The query cannot be read: parameters are {limit}") from None


async def body(model: type[Model] | None, request: Request) -> Model | None:
    """The JSON object in the body; where none is taken, an empty object passes too."""
    raw = await request.body()
    if model is None and not raw:
        return None
    _check_media(request.headers.get("content-type"))
    given = _object(raw)
    if model is not None:
        return _checked(model, given, "key")
    if given:
        raise bad_request("This takes no body")
    return None


def _check_media(content_type: str | None) -> None:
    """A form or text body can be posted by any web page; a JSON one cannot without asking first."""
    media, _, parameters = (content_type or "").lower().partition(";")
    charset = parameters.partition("charset=")[2].strip().strip('"')
    if media.strip() != "application/json" or charset not in ("", "utf-8"):
        given = f"'{quoted(content_type)}'" if content_type else "missing"
        raise bad_request(f"The Content-Type must be application/json; it is {given}")


def _object(raw: bytes) -> dict[str, Any]:
    try:
        value = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise bad_request(f"The body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise bad_request(f"The body must be an object, not {kind(value)}")
    return value


def _checked(model: type[Model], given: Mapping[str, Any], word: str) -> Model:
    unknown = next((name for name in given if name not in model.model_fields), None)
    if unknown is not None:
        raise _unknown(unknown, model, word)
    try:
        return model.model_validate(given)
    except ValidationError as error:
        problems = [_problem(found, word) for found in error.errors(include_url=False, include_context=False)]
        raise bad_request(problems[0]["problem"], **{word: problems[0]["where"]}, problems=problems) from None


def _unknown(name: str, model: type[BaseModel], word: str) -> GatewayError:
    near = nearest(name, model.model_fields, 1)
    known = ", ".join(model.model_fields) or "none"
    hint = f"did you mean '{near[0]}'?" if near else f"known: {known}"
    details = {word: quoted(name), "nearest": near[0] if near else None, "known": list(model.model_fields)}
    return bad_request(f"Unknown {word} '{quoted(name)}'; {hint}", **details)


def _problem(found: ErrorDetails, word: str) -> dict[str, str]:
    """A value is shown back only where it came in the URL: a body may hold secrets."""
    where = ".".join(map(str, found["loc"]))
    said = found["msg"].removeprefix("Value error, ").replace("Input should be", "must be", 1)
    said = "is required" if found["type"] == "missing" else said[:1].lower() + said[1:]
    given = found["input"]
    shown = f", not '{quoted(given)}'" if word == "parameter" and isinstance(given, str) else ""
    return {"where": where, "problem": f"{where} {said}{shown}".strip()}
