"""Which server a resource belongs to, learned from what was relayed, so that links lead somewhere (SURF-8).

A URI is only text, and any server can write any. So the first server that named one to a principal keeps it, and no
other takes it over; where that one only mentioned it, and another has it in its own list, nobody is believed. What a
server names takes room from that server alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterable, Mapping
from itertools import islice, takewhile
from typing import Any, Final

from pydantic_core import Url

from mcpproxy_py.core.protocol.server_uris import SUFFIX, owner_of
from mcpproxy_py.upstream.turns import in_turns

MOST: Final = 10_000
"""URIs of one server for one principal; the longest unused go first."""
MOST_CHARACTERS: Final = 2 << 20
LONGEST_URI: Final = 8192
MOST_ITEMS: Final = 20_000
"""As many as of a list are looked at in one result."""
LINKING: Final = frozenset(("resource_link", "resource"))
"""The kinds of content that name a resource."""


class ResourceOwner:
    """`rival` has it in its own list, while `server` has only mentioned it."""

    __slots__ = ("listed", "rival", "server")

    def __init__(self, server: str, listed: bool) -> None:
        self.server = server
        self.listed = listed
        self.rival: str | None = None


class _Share:
    """What one server named to one principal, the longest unused first."""

    def __init__(self) -> None:
        self.keys: OrderedDict[str, None] = OrderedDict()
        self.size = 0

    def full(self) -> bool:
        return len(self.keys) > MOST or self.size > MOST_CHARACTERS


class ResourceLinks:
    """By principal: what was named to one is not there for another. `there` are the servers that there are for this
    principal now: what another one has named, which was removed or is out of its scope, is anybody's again."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, str], ResourceOwner] = {}
        self._shares: dict[tuple[str, str], _Share] = {}

    async def learn(
        self, principal: str, server: str, uris: Iterable[str], there: Container[str], *, listed: bool = False
    ) -> None:
        """`listed`: in its own list of resources, which says more than a mention."""
        room = MOST_CHARACTERS

        def fits(uri: str) -> bool:
            nonlocal room
            room -= len(uri)
            return room >= 0

        fitting = takewhile(fits, islice(uris, MOST))
        await in_turns(self._learn(principal, server, _normal(uri), there, listed) for uri in fitting)

    def owner(self, principal: str, uri: str, there: Container[str]) -> ResourceOwner | None:
        owner = self._owners.get((principal, _normal(uri))) if len(uri) <= LONGEST_URI else None
        if owner is None or owner.server not in there:
            return None
        if owner.rival is not None and owner.rival not in there:
            owner.rival = None
        return owner

    def end(self, principal: str) -> None:
        """Its access has ended."""
        for key in [key for key in self._shares if key[0] == principal]:
            for uri in self._shares.pop(key).keys:
                del self._owners[principal, uri]

    def _learn(self, principal: str, server: str, key: str, there: Container[str], listed: bool) -> None:
        if SUFFIX in key and (addressed := owner_of(key)) is not None and addressed[0] != server:
            return  # the URI says whose it is, and only that server can name it
        owner = self._owners.get((principal, key))
        if owner is not None and owner.server != server:
            if owner.server in there:
                if listed and not owner.listed:
                    owner.rival = server
                return
            self._forget(principal, owner.server, key)
            owner = None
        share = self._shares.get((principal, server)) or self._shares.setdefault((principal, server), _Share())
        if owner is None:
            self._owners[principal, key] = ResourceOwner(server, listed)
            share.keys[key] = None
            share.size += len(key)
            while share.full():
                self._forget(principal, server, next(iter(share.keys)))
        else:
            share.keys.move_to_end(key)
            if listed:
                owner.listed, owner.rival = True, None

    def _forget(self, principal: str, server: str, key: str) -> None:
        del self._owners[principal, key]
        share = self._shares[principal, server]
        del share.keys[key]
        share.size -= len(key)


def _normal(uri: str) -> str:
    """Two spellings that some clients make one are one here too."""
    try:
        return str(Url(uri))
    except ValueError:
        return uri


def in_result(result: Mapping[str, Any]) -> Iterable[str]:
    """The URIs that the result of a tool names."""
    return _in_content(_list(result, "content"))


def in_prompt(result: Mapping[str, Any]) -> Iterable[str]:
    return _in_content(_of(message, "content") for message in _list(result, "messages"))


def in_contents(result: Mapping[str, Any]) -> Iterable[str]:
    """Of a resource that was read."""
    return in_list(_list(result, "contents"))


def in_list(rows: Iterable[Any]) -> Iterable[str]:
    return (uri for row in islice(rows, MOST_ITEMS) if _is_uri(uri := _of(row, "uri")))


def _in_content(items: Iterable[Any]) -> Iterable[str]:
    for item in islice(items, MOST_ITEMS):
        if (kind := _of(item, "type")) in LINKING:
            uri = _of(item if kind == "resource_link" else _of(item, "resource"), "uri")
            if _is_uri(uri):
                yield uri


def _is_uri(uri: Any) -> bool:
    return type(uri) is str and len(uri) <= LONGEST_URI


def _of(row: Any, key: str) -> Any:
    return row.get(key) if isinstance(row, dict) else None


def _list(result: Mapping[str, Any], key: str) -> list[Any]:
    found = result.get(key)
    return found if isinstance(found, list) else []
