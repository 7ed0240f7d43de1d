"""Which server a URI belongs to, learned from what was relayed (SURF-8)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mcpproxy_py.core import jsonvalue

MOST: Final = 10_000
LONGEST_URI: Final = 8192


class Links:
    """By principal: what was named to one is not there for another. Bounded: the longest unused go first."""

    def __init__(self) -> None:
        self._owners: OrderedDict[tuple[str, str], str] = OrderedDict()

    def learn(self, principal: str, server: str, result: Mapping[str, Any]) -> None:
        for uri in named_in(result):
            self._owners[principal, uri] = server
            self._owners.move_to_end((principal, uri))
        while len(self._owners) > MOST:
            self._owners.popitem(last=False)

    def owner(self, principal: str, uri: str) -> str | None:
        return self._owners.get((principal, uri))


def named_in(result: Mapping[str, Any]) -> Iterator[str]:
    """The URIs of a tool result, a prompt, a listing, or a resource that was read."""
    for item in jsonvalue.as_array(result.get("content")) or ():
        yield from _of_content(item)
    for message in jsonvalue.as_array(result.get("messages")) or ():
        yield from _of_content((jsonvalue.as_object(message) or {}).get("content"))
    for key in ("resources", "contents"):
        for row in jsonvalue.as_array(result.get(key)) or ():
            yield from _uri(row)


def _of_content(item: object) -> Iterator[str]:
    content = jsonvalue.as_object(item) or {}
    if content.get("type") == "resource_link":
        yield from _uri(content)
    elif content.get("type") == "resource":
        yield from _uri(content.get("resource"))


def _uri(row: object) -> Iterator[str]:
    uri = (jsonvalue.as_object(row) or {}).get("uri")
    if isinstance(uri, str) and len(uri) <= LONGEST_URI:
        yield uri
