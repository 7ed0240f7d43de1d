"""Finding one's way through the models by the keys people write: for variables, for suggestions, for the docs."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo

from mcpproxy_py.settings.models import Settings


def plain(annotation: Any) -> Any:
    """The type behind `Annotated` and `| None`."""
    if get_origin(annotation) is Annotated:
        return plain(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        some = [arg for arg in get_args(annotation) if arg is not type(None)]
        return plain(some[0]) if len(some) == 1 else annotation
    return annotation


def is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def written_name(name: str, field: FieldInfo) -> str:
    """The key of a field in the file."""
    return field.serialization_alias or name


def accepted_names(name: str, field: FieldInfo) -> tuple[str, ...]:
    if isinstance(field.validation_alias, AliasChoices):
        return tuple(str(choice) for choice in field.validation_alias.choices)
    return (written_name(name, field),)


def fields_by_key(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Every key the model accepts."""
    return {key: field for name, field in model.model_fields.items() for key in accepted_names(name, field)}


def step(annotation: Any, key: str | int) -> Any:
    """The type one key further down, or `None` where the models end."""
    at = plain(annotation)
    if is_model(at):
        field = fields_by_key(at).get(str(key))
        return plain(field.annotation) if field else None
    arguments = get_args(at)
    if get_origin(at) is dict:
        return plain(arguments[1])
    return plain(arguments[0]) if get_origin(at) is tuple else None


def type_at(path: tuple[str | int, ...]) -> Any:
    at: Any = Settings
    for key in path:
        at = step(at, key)
    return at


def known_keys(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Each setting as `section.key`; a server's own keys are not among them."""
    for name, field in model.model_fields.items():
        at = plain(field.annotation)
        key = prefix + written_name(name, field)
        if is_model(at):
            yield from known_keys(at, key + ".")
        else:
            yield key, field
