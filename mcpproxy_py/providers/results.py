"""What a tool can answer, and how it goes out: values for authors in, one raw MCP tool result out (PROV-3)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import from_json, to_json

SUCCESS: Final = "Success"
MAX_RESULT_BYTES: Final = 16 * 1024 * 1024


class ToolError(Exception):
    """Raise it to fail a call with a message the agent reads. The message of any other exception stays inside."""


@dataclass(frozen=True, slots=True)
class Text:
    """Text for the model."""

    text: str


@dataclass(frozen=True, slots=True)
class Error:
    """Alone it fails the call. Among other items it says what did not work, and the call still succeeds."""

    message: str


@dataclass(frozen=True, slots=True)
class Link:
    """A resource the agent may read, named instead of sent along."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None


@dataclass(frozen=True, slots=True)
class Structured:
    """An object for programs. `text` is what hosts show that pass only text on; by default its JSON."""

    value: Mapping[str, Any]
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Raw:
    """A whole MCP tool result in the protocol's own keys, for what the others cannot say."""

    result: Mapping[str, Any] = field(default_factory=dict[str, Any])


Item = Text | Error | Link
ITEMS: Final = (Text, Error, Link)
RESULTS: Final = (*ITEMS, Structured, Raw)


class Unsendable(Exception):
    """The tool returned something that cannot be sent; the text says what, for the author."""


def as_wire(value: Any) -> dict[str, Any]:
    """The raw result of a tool that returned `value`. Raises `Unsendable`."""
    match value:
        case None:
            return {"content": [_text(SUCCESS)]}
        case str():
            return {"content": [_text(value)]}
        case Text() | Link():
            return {"content": [_item(value)]}
        case Error(message):
            return failed(message)
        case Structured(inner, text):
            return structured(inner, text)
        case Raw(result):
            return _raw(result)
        case list() | tuple() if _is_items(value):
            return {"content": [_item(each) for each in value]}
        case _:
            return _data(value)


def failed(message: str) -> dict[str, Any]:
    return {"content": [_text(message)], "isError": True}


def structured(value: Any, text: str | None = None) -> dict[str, Any]:
    """The same object twice: for programs, and as text for hosts that pass only text to the model."""
    plain = plain_json(value)
    if not isinstance(plain, dict):
        raise Unsendable(f"structured content must be an object, not {type(value).__name__}")
    return {"content": [_text(compact(plain) if text is None else text)], "structuredContent": plain}


def plain_json(value: Any) -> Any:
    """The value as dicts, lists and scalars that JSON can hold: whatever comes out can be sent."""
    try:
        return from_json(to_json(value, inf_nan_mode="null", by_alias=True))
    except Exception as error:
        raise Unsendable(f"{type(value).__name__} cannot be written as JSON: {error}") from None


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def check_size(result: Mapping[str, Any], most: int) -> bytes:
    """The result as it is written. Raises `Unsendable` for one that is larger than an upstream's may be, or holds text
    that is none."""
    try:
        written = to_json(result)
    except Exception as error:
        raise Unsendable(f"the result cannot be written as JSON: {error}") from None
    if len(written) > most:
        raise Unsendable(f"the result has {len(written)} bytes, and {most} are allowed")
    return written


def _is_items(values: Sequence[Any]) -> bool:
    """Several items: at least one of our own kinds, so that a plain list of texts stays data."""
    return any(isinstance(each, ITEMS) for each in values) and all(isinstance(each, (str, *ITEMS)) for each in values)


def _item(item: Item | str) -> dict[str, Any]:
    match item:
        case Error(message):
            return _text(f"Error: {message}")
        case Link():
            return _link(item)
        case Text(text):
            return _text(text)
        case text:
            return _text(text)


def _text(text: Any) -> dict[str, Any]:
    if not isinstance(text, str):
        raise Unsendable(f"a text must be a string, not {type(text).__name__}")
    return {"type": "text", "text": text}


def _link(link: Link) -> dict[str, Any]:
    told = {"uri": link.uri, "name": link.name, "title": link.title, "description": link.description,
            "mimeType": link.mime_type}  # fmt: skip
    given = {key: value for key, value in told.items() if value is not None}
    if not (link.uri and link.name and all(isinstance(value, str) for value in given.values())):
        raise Unsendable("a link needs an uri and a name, and is made of strings")
    return {"type": "resource_link", **given}


def _raw(result: Mapping[str, Any]) -> dict[str, Any]:
    plain = plain_json(result)
    if not isinstance(plain, dict) or not isinstance(plain.get("content"), list):
        raise Unsendable("a raw result must be an object with a list `content`")
    return plain


def _data(value: Any) -> dict[str, Any]:
    """Anything else an author may return: an object is structured, the rest is its JSON as text."""
    if isinstance(value, Mapping | BaseModel) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        return structured(value)
    return {"content": [_text(compact(plain_json(value)))]}
