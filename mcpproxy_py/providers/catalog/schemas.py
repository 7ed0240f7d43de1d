"""The JSON Schemas of the data files, compiled when they are first needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import jsonschema_rs

from mcpproxy_py.providers.catalog.data_files import SCHEMAS


def problems(kind: str, document: Any) -> Iterator[str]:
    """Everything a schema finds wrong with a document, each with its place in it."""
    for error in _validator(kind).iter_errors(document):
        place = "/".join(map(str, error.instance_path))
        yield f"{place or 'the document'}: {error.message.partition(chr(10))[0][:300]}"


def first_problem(kind: str, document: Any) -> str | None:
    return next(problems(kind, document), None)


@lru_cache
def _validator(kind: str) -> jsonschema_rs.Validator:
    schema = json.loads((SCHEMAS / f"{kind}.schema.json").read_bytes())
    return jsonschema_rs.validator_for(schema, validate_formats=True)
