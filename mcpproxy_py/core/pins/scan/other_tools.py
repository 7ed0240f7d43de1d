"""The tools of the other servers: is one of them named in a text, or imitated by a tool?

A server has no business with another's tools, so what names one may want to have them called, replaced or called
otherwise. Many names are plain words (`search`, `balance`), which texts use without meaning a tool. So a name only
counts if it is written like a name of a tool, not if it could be a word.

Names are kept by how they look with their separators and case undone. A schema is only looked at where a name is met,
so ten thousand tools cost ten thousand entries in a dict.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from mcpproxy_py.core.json_values import as_array, as_object
from mcpproxy_py.core.policy.confusables import similar

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:(?:[_\-.:/]|__)[A-Za-z0-9]+)*")
_SEPARATORS: Final = re.compile(r"[^a-z0-9]+")
_VERSION: Final = re.compile(
    r"(?<=[a-z])(?:v?\d{1,2}|new|pro|plus|fast|safe|secure|trusted|official|improved|better|latest)$"
)
_CAMEL: Final = re.compile(r"[a-z0-9][A-Z]")
_LOOK: Final = str.maketrans({"1": "l", "0": "o", "i": "l", "|": "l"})
FEWEST_LETTERS: Final = 6
MAX_PROPERTIES: Final = 200
"""Of a schema, to be compared."""


class OtherTool(NamedTuple):
    server: str
    name: str
    wire: Mapping[str, Any]


class NamedTool(NamedTuple):
    start: int
    end: int
    tool: OtherTool


class OtherTools:
    """Built once for the scan of a server's listing."""

    def __init__(self, listings: Mapping[str, Iterable[Mapping[str, Any]]], own: Iterable[str] = ()) -> None:
        """`listings`: of each other server its tools as on the wire. `own`: names of the tools of the server that is
        scanned, which may speak of its own tools as it likes."""
        self._by_name: dict[str, OtherTool] = {}
        self._by_look: dict[str, list[OtherTool]] = {}
        self._servers = {_plain(server): server for server in listings}
        self._own = {_plain(name) for name in own}
        for server, tools in listings.items():
            for wire in tools:
                if not isinstance(name := wire.get("name"), str) or not name:
                    continue
                other = OtherTool(server, name, wire)
                self._by_look.setdefault(_look(name), []).append(other)
                if _is_distinct(name) and _plain(name) not in self._own:
                    self._by_name.setdefault(_spelled(name), other)

    def named_in(self, text: str) -> Iterator[NamedTool]:
        if not self._by_look:
            return
        for word in _NAME.finditer(text):
            if (tool := self._named(word[0])) is not None:
                yield NamedTool(word.start(), word.end(), tool)

    def _named(self, word: str) -> OtherTool | None:
        if len(word) < FEWEST_LETTERS or len(word) > 200:
            return None
        if _is_distinct(word):
            if (found := self._by_name.get(_spelled(word))) is not None and not any(
                _plain(word) in own for own in self._own
            ):
                return found
            return self._qualified(word)
        return None

    def _qualified(self, word: str) -> OtherTool | None:
        """`github:delete_branch`, `mcp__github__delete_branch`."""
        plain = _plain(word)
        for server in {part for part in (_plain(word.partition(":")[0]), *map(_plain, word.split("__")[1:2])) if part}:
            if server not in self._servers or (rest := plain.partition(server)[2]) in self._own:
                continue
            for tool in self._by_look.get(_look(rest), ()):
                if _plain(tool.server) == server:
                    return tool
        return None

    def shadowed_by(self, wire: Mapping[str, Any]) -> OtherTool | None:
        """The tool of another server that this one could be taken for: a name that reads the same, and a schema that
        takes what the other takes."""
        name = wire.get("name")
        if not isinstance(name, str) or not self._by_look:
            return None
        for look in self._looks(name):
            for tool in self._by_look.get(look, ()):
                if takes_the_same(tool.wire.get("inputSchema"), wire.get("inputSchema")):
                    return tool
        return None

    def _looks(self, name: str) -> Iterator[str]:
        look = _look(name)
        yield look
        if (bare := _look(_VERSION.sub("", _SEPARATORS.sub("", similar(name).lower())))) != look:
            yield bare
        for server in self._servers:
            if server and look.startswith(prefix := _look(server)) and len(look) > len(prefix):
                yield look.removeprefix(prefix)


def _plain(name: str) -> str:
    return _SEPARATORS.sub("", name.lower())


def _spelled(name: str) -> str:
    return name.lower().replace("-", "_")


def _look(name: str) -> str:
    """What can be taken for each other has the same."""
    return _SEPARATORS.sub("", similar(name).lower()).translate(_LOOK)


def _is_distinct(name: str) -> bool:
    """Written as names of tools are and words are not: `send_email`, `sendEmail`, `send-an-email-message`."""
    if len(name) < FEWEST_LETTERS:
        return False
    return "_" in name or ":" in name or name.count("-") > 2 or _CAMEL.search(name) is not None


def takes_the_same(other: Any, own: Any) -> bool:
    """Whether every parameter of the other is one of ours, with the same type, and we demand no more. A schema without
    parameters is like all such schemas, and says nothing."""
    theirs, ours = _types(other), _types(own)
    if not theirs or not theirs.items() <= ours.items():
        required = _required(other)
        return (
            bool(required)
            and {name: theirs.get(name) for name in required}.items() <= ours.items()
            and _required(own) == required
        )
    return _required(own) <= _required(other) | (ours.keys() - theirs.keys())


def _types(schema: Any) -> dict[str, str]:
    properties = as_object((as_object(schema) or {}).get("properties"))
    if properties is None or len(properties) > MAX_PROPERTIES:
        return {}
    parts = {name: as_object(part) for name, part in properties.items()}
    return {name: "" if part is None else str(part.get("type"))[:60] for name, part in parts.items()}


def _required(schema: Any) -> set[str]:
    required = as_array((as_object(schema) or {}).get("required")) or []
    return {str(name) for name in required[:MAX_PROPERTIES]}
