"""JSON Schemas of a provider's tools and questions, compiled once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

import jsonschema_rs

from mcpproxy_py.providers.spec import ProviderError

Check = Callable[[Any], str | None]
"""The first thing wrong with a value, as a sentence, or `None`."""
SHOWN: Final = 300
FLAT: Final = ("string", "number", "integer", "boolean", "array")


def compiled(schema: Mapping[str, Any]) -> Check:
    """Raises `ProviderError` for a schema that does not compile. References to other places are not fetched."""
    try:
        # Values are masked, because arguments and answers may be secrets and the sentence may be logged.
        validator = jsonschema_rs.validator_for(dict(schema), retriever=_refuse, mask="the value")
    except Exception as error:
        raise ProviderError(f"a JSON Schema that does not compile ({_short(error)})") from None

    def check(value: Any) -> str | None:
        return next((_sentence(error) for error in validator.iter_errors(value)), None)

    return check


def check_question(schema: Mapping[str, Any]) -> None:
    """Clients draw a form from it, so the protocol allows an object of plain fields only. Raises `ProviderError`."""
    fields = schema.get("properties", {})
    if schema.get("type") != "object" or not isinstance(fields, Mapping):
        raise ProviderError('a question needs a schema of {"type": "object", "properties": {…}}')
    for name, field in fields.items():
        if not isinstance(field, Mapping) or not ({"enum", "oneOf"} & set(field) or field.get("type") in FLAT):
            raise ProviderError(f"the field {name!r} of a question must be one of {', '.join(FLAT)}, without nesting")


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"references outside the schema are not fetched: {uri[:100]}")


def _sentence(error: jsonschema_rs.ValidationError) -> str:
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    return f"{where.lstrip('.')[:SHOWN]}: {_short(error.message)}".removeprefix(": ")


def _short(error: object) -> str:
    return str(error).strip().partition("\n")[0][:SHOWN]
