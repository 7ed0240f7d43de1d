"""JSON as editors write it: comments, trailing commas and a byte order mark are understood, and where every value
stands in the text is known, so that a part can be changed and the rest kept byte for byte."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

DEEPEST: Final = 200
_SPACE: Final = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\r\n]|\\.)*"')
_SCALAR: Final = re.compile(
    r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.+-])|(?:true|false|null)(?!\w)", re.ASCII
)


class JsoncError(ValueError):
    """The text is not such JSON; `at` is the offset of what was not understood."""

    def __init__(self, problem: str, at: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.at = at


@dataclass(slots=True)
class JsonNode:
    """A value and where it stands: `text[start:end]`. A member of an object knows its key as well."""

    start: int
    end: int
    scalar: Any = None
    is_object: bool = False
    is_array: bool = False
    children: list[JsonNode] = field(default_factory=list)
    key: str | None = None
    key_start: int = -1
    inner_end: int = -1
    """In an object or array: where its last value or comma ends, or just after the bracket."""
    has_trailing_comma: bool = False

    @property
    def first(self) -> int:
        """Where it begins, key included."""
        return self.start if self.key is None else self.key_start

    def member(self, key: str) -> JsonNode | None:
        """The value under a key; of several, the last, as every parser has it."""
        return next((child for child in reversed(self.children) if self.is_object and child.key == key), None)

    def at(self, path: tuple[str, ...]) -> JsonNode | None:
        found: JsonNode | None = self
        for key in path:
            found = found.member(key) if found else None
        return found

    def value(self) -> Any:
        if self.is_object:
            return {child.key: child.value() for child in self.children}
        return [child.value() for child in self.children] if self.is_array else self.scalar


@functools.lru_cache(maxsize=16)
def parse(text: str) -> JsonNode | None:
    """The one value of this text; `None` where there is nothing but space and comments. Not to be changed: it is asked
    for again and again, and files of clients can have megabytes."""
    scanner = _Scanner(text)
    scanner.skip()
    if scanner.at == len(text):
        return None
    root = scanner.value(0)
    scanner.skip()
    if scanner.at != len(text):
        raise JsoncError("there is more after the end of the value", scanner.at)
    return root


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def skip(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at
        if self.text.startswith("/*", self.at):
            raise JsoncError("this comment is never closed", self.at)

    def value(self, depth: int) -> JsonNode:
        if depth > DEEPEST:
            raise JsoncError("it is nested too deeply", self.at)
        here = self.text[self.at : self.at + 1]
        if here == "{":
            return self._container(depth, "}", is_object=True)
        if here == "[":
            return self._container(depth, "]", is_object=False)
        start = self.at
        if here == '"':
            said = self._string()
            return JsonNode(start, self.at, said)
        found = _SCALAR.match(self.text, start)
        if found is None:
            raise JsoncError("expected a value" if here else "the text ends where a value should stand", start)
        self.at = found.end()
        return JsonNode(start, self.at, self._decoded(found[0], start))

    def _string(self) -> str:
        found = _STRING.match(self.text, self.at)
        if found is None:
            raise JsoncError("this string is never closed", self.at)
        said = found[0][1:-1] if "\\" not in found[0] else self._decoded(found[0], self.at)
        self.at = found.end()
        return said

    def _decoded(self, literal: str, at: int) -> Any:
        try:
            return json.loads(literal, strict=False)
        except ValueError:
            raise JsoncError("this is no value of JSON", at) from None

    def _container(self, depth: int, closing: str, *, is_object: bool) -> JsonNode:
        node = JsonNode(self.at, -1, is_object=is_object, is_array=not is_object)
        self.at += 1
        node.inner_end = self.at
        for _ in self._until(node, closing):
            key, key_start = self._key() if is_object else (None, -1)
            child = self.value(depth + 1)
            child.key, child.key_start = key, key_start
            node.children.append(child)
            node.inner_end = self.at
        node.end = self.at
        return node

    def _until(self, node: JsonNode, closing: str) -> Iterator[None]:
        """Once for each element, with the commas between them."""
        needs_comma = False
        while True:
            self.skip()
            here = self.text[self.at : self.at + 1]
            if here == closing:
                node.has_trailing_comma = bool(node.children) and not needs_comma
                self.at += 1
                return
            if needs_comma:
                if here != ",":
                    wanted = f"expected ',' or '{closing}'"
                    raise JsoncError(wanted if here else f"the text ends before this '{closing}'", self.at)
                self.at += 1
                node.inner_end = self.at
                needs_comma = False
                continue
            if not here:
                raise JsoncError(f"the text ends before the closing '{closing}'", self.at)
            yield
            needs_comma = True

    def _key(self) -> tuple[str, int]:
        start = self.at
        if not self.text.startswith('"', start):
            raise JsoncError("expected a key in double quotes", start)
        key = self._string()
        self.skip()
        if not self.text.startswith(":", self.at):
            raise JsoncError("expected ':' after the key", self.at)
        self.at += 1
        self.skip()
        return key, start
