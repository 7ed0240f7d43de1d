"""Which server a URI belongs to, learned from what was relayed (SURF-8)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py.core import json_values

MOST: Final = 10_000
LONGEST_URI: Final = 8192
LISTS: Final = ("resources", "contents")


class Links:
    """By principal: what was named to one is not there for another. Bounded: the longest unused go first."""

    def __init__(self) -> None:
        self._owners: OrderedDict[tuple[str, str], str] = OrderedDict()

    def learn(self, principal: str, server: str, result: Mapping[str, Any]) -> None:
        for uri in named_in(result):
            self._owners[principal, uri] = server
            self._owners.move_to_end((principal, uri))
            if len(self._owners) > MOST:
                self._owners.popitem(last=False)

    def owner(self, principal: str, uri: str) -> str | None:
        return self._owners.get((principal, uri))


def named_in(result: Mapping[str, Any]) -> list[str]:
    """The URIs of a tool result, a prompt, a listing, or a resource that was read."""
    found = [_in_content(item) for item in _list(result, "content")]
    if "messages" in result:
        found += [_in_content(_of(message, "content")) for message in _list(result, "messages")]
    for key in LISTS:
        if key in result:
            found += [_of(row, "uri") for row in _list(result, key)]
    return [uri for uri in found if isinstance(uri, str) and len(uri) <= LONGEST_URI]


def _in_content(item: object) -> object:
    kind = _of(item, "type")
    if kind == "resource_link":
        return _of(item, "uri")
    return _of(_of(item, "resource"), "uri") if kind == "resource" else None


def _of(row: object, key: str) -> object:
    found = json_values.as_object(row)
    return None if found is None else found.get(key)


def _list(result: Mapping[str, Any], key: str) -> list[Any]:
    return json_values.as_array(result.get(key)) or []
