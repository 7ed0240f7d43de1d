"""The registries of a running gateway. What agents see of them is what is on this machine; only `ask`, which is for a
person, goes out. Files are read in a thread, and where no registry is configured nothing is.

What reads them is imported with the first question: most gateways have no registry."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from mcpproxy_py.core.catalog.model import ServerEntry
from mcpproxy_py.providers.catalog.choosing import matching
from mcpproxy_py.providers.catalog.recipe import why_not
from mcpproxy_py.providers.registry.places import NAME, Heard, RegistryPlace

Entries = Mapping[str, ServerEntry]
MOST_ASKED_AT_ONCE: Final = 4


class KnownRegistries:
    def __init__(self, places: Callable[[], Sequence[RegistryPlace]], data_dir: Path) -> None:
        """`places` gives those of the configuration in force."""
        self._places = places
        self._data_dir = data_dir
        self._asking = anyio.Lock()
        self._limiter: anyio.CapacityLimiter | None = None

    async def known(self, words: str, shipped: Entries) -> list[Heard]:
        """What is kept of each of them."""
        if not (places := self._places()):
            return []
        return await anyio.to_thread.run_sync(partial(_known, places, words, self._data_dir, shipped))

    async def offered(self, words: str, shipped: Entries) -> tuple[list[ServerEntry], list[Mapping[str, Any]]]:
        """Of what is kept, what a person could add, for an agent; and what each registry's part of it is worth."""
        heard = await self.known(words, shipped)
        entries = [entry for entry in fresh(heard, shipped, words) if why_not(entry) is None]
        return entries, [
            {"registry": each.label, "read_at": each.read_at, "found": len(each.entries)} for each in heard
        ]

    async def entry(self, slug: str, shipped: Entries) -> ServerEntry | None:
        """The kept entry of this whole name, in the first registry that has it."""
        if not (places := self._places()) or not NAME.fullmatch(slug):
            return None
        return await anyio.to_thread.run_sync(partial(_first, places, slug, self._data_dir, shipped))

    async def ask(self, words: str, shipped: Entries) -> list[Heard]:
        """All of them, now. One such question at a time: a registry that hangs is not asked a hundred times."""
        places, found = self._places(), dict[int, Heard]()
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(MOST_ASKED_AT_ONCE)
        limiter, now = self._limiter, time.time()

        async def one(index: int, place: RegistryPlace) -> None:
            go = partial(_asked, place, words, self._data_dir, now, shipped)
            found[index] = await anyio.to_thread.run_sync(go, limiter=limiter)

        async with self._asking, anyio.create_task_group() as tasks:
            for index, place in enumerate(places):
                tasks.start_soon(one, index, place)
        return [found[index] for index in sorted(found)]


def _known(places: Sequence[RegistryPlace], words: str, data_dir: Path, shipped: Entries) -> list[Heard]:
    from mcpproxy_py.providers.registry.asking import known

    return [known(place, words, data_dir, shipped) for place in places]


def _asked(place: RegistryPlace, words: str, data_dir: Path, now: float, shipped: Entries) -> Heard:
    from mcpproxy_py.providers.registry.asking import search

    return search(place, words, data_dir, now, shipped)


def _first(places: Sequence[RegistryPlace], slug: str, data_dir: Path, shipped: Entries) -> ServerEntry | None:
    from mcpproxy_py.providers.registry.asking import known_entry

    entries = (known_entry(place, slug, data_dir, shipped) for place in places)
    return next((entry for entry in entries if entry is not None), None)


def fresh(heard: Sequence[Heard], shipped: Entries, words: str) -> list[ServerEntry]:
    """Their entries, the first of each name. What is shipped, or the user's own, goes before all of them."""
    taken = {each.name for each in shipped.values()} | set(shipped)
    found: list[ServerEntry] = []
    for each in heard:
        new = [entry for entry in each.entries if entry.slug not in taken]
        found += sorted(matching(new, words), key=lambda entry: why_not(entry) is not None)
        taken |= {entry.slug for entry in new}
    return found


def as_json(heard: Heard) -> dict[str, Any]:
    return {
        "registry": heard.label, "found": len(heard.entries), "left_out": heard.left_out, "more": heard.more,
        "away": heard.away, "read_at": heard.read_at,
    }  # fmt: skip
