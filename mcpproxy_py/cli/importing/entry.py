"""What stands in an entry of a client's file, read with suspicion: of the shape that is expected, and not too much of
it. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcpproxy_py.cli.importing.variables import NotCarriedOver, VariableTranslation

MOST_TEXT: Final = 32_768
MOST_ITEMS: Final = 1_000


@dataclass(slots=True)
class ForeignEntry:
    """One entry on its way: what stands there, and what was said about it."""

    client: str
    raw: Mapping[str, Any]
    texts: VariableTranslation
    notes: list[str] = field(default_factory=list[str])

    def first(self, keys: tuple[str, ...]) -> Any:
        return next((self.raw[key] for key in keys if self.raw.get(key) is not None), None)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def text_list(entry: ForeignEntry, key: str, item: Callable[[Any], Any] = lambda value: value) -> list[str]:
    value = entry.raw.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise NotCarriedOver(f"its `{key}` is {kind_of_value(value)}, where a list is expected")
    return as_texts([item(each) for each in value], key)


def as_texts(values: list[Any], key: str) -> list[str]:
    if len(values) > MOST_ITEMS:
        raise NotCarriedOver(f"its `{key}` has {len(values)} items, more than {MOST_ITEMS}")
    return [as_text(value, key) for value in values]


def texts_by_name(entry: ForeignEntry, keys: tuple[str, ...]) -> dict[str, str]:
    key = next((key for key in keys if entry.raw.get(key) is not None), None)
    if key is None:
        return {}
    values = entry.raw[key]
    if not isinstance(values, Mapping):
        raise NotCarriedOver(f"its `{key}` is {kind_of_value(values)}, where an object is expected")
    if len(values) > MOST_ITEMS:
        raise NotCarriedOver(f"its `{key}` has {len(values)} items, more than {MOST_ITEMS}")
    found: dict[str, str] = {}
    for name, value in values.items():
        if value is None:
            entry.note(f"{shown_value(name)} in its {key} has no value and was left out")
        elif isinstance(name, str):
            found[name] = as_text(value, key)
    return found


def as_text(value: Any, key: str) -> str:
    """Numbers and truth values as JSON writes them, which is what the client hands on."""
    if isinstance(value, str):
        return bounded(value, key)
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)[:MOST_TEXT]
    raise NotCarriedOver(f"its `{key}` holds {kind_of_value(value)}, where text is expected")


def bounded(text: str, key: str) -> str:
    if len(text) > MOST_TEXT:
        raise NotCarriedOver(f"its `{key}` holds a text of {len(text)} characters, more than {MOST_TEXT}")
    return text


_KIND_NAMES: Final = ((bool, "true or false"), ((int, float), "a number"), (str, "text"), (list, "a list"),
                      (Mapping, "an object"), (type(None), "null"))  # fmt: skip


def kind_of_value(value: Any) -> str:
    return next((name for types, name in _KIND_NAMES if isinstance(value, types)), "something else")


def shown_value(value: Any) -> str:
    """What a message repeats: short, on one line, and only what stands for itself."""
    text = (
        value if isinstance(value, str) else kind_of_value(value) if isinstance(value, (Mapping, list)) else str(value)
    )
    line = "".join(char if char.isprintable() else " " for char in text[:60])
    return f"'{line}'" if isinstance(value, str) else line
