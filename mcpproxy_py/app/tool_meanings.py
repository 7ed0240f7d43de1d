"""What the tools of all servers mean, made beside the event loop (FIND-5), with `mcpproxy-py[semantic]`.

A listing's words are indexed when it comes, and its tools are found by them from then on. Their vectors follow: those
that the store has are read, the others are made a few at a time and kept by the digest of the text that they were made
of, for the next start and for the other gateways of the database. A store that fails costs time, and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Protocol

import anyio
import anyio.to_thread

from mcpproxy_py import word_vectors
from mcpproxy_py.core.search.fusion import meaning_of
from mcpproxy_py.core.search.index import Index, IndexSegment
from mcpproxy_py.core.values import Snapshot

if TYPE_CHECKING:
    from mcpproxy_py.word_vectors import WordVectors

log = logging.getLogger(__name__)

AT_ONCE: Final = 64
"""How many are made in one turn of a thread: the event loop waits for the interpreter meanwhile, now and then."""
STORE_TIMEOUT: Final = 10.0
SOON: Final = 1.0
"""Seconds after the start until the vectors of words are loaded, which the first answers do not need."""


class VectorStore(Protocol):
    async def load(self, digests: Collection[str]) -> dict[str, bytes]: ...
    async def save(self, values: Mapping[str, bytes]) -> None: ...


class ToolMeanings:
    """`seen` is told of each snapshot that is published, `run` does the work."""

    def __init__(self, store: VectorStore) -> None:
        self.made = 0
        """How many the store did not have."""
        self._store = store
        self._snapshot = Snapshot(index=Index({}))
        self._changed = anyio.Event()

    def seen(self, snapshot: Snapshot) -> Snapshot:
        """The same one."""
        self._snapshot = snapshot
        self._changed.set()
        return snapshot

    async def run(self) -> None:
        """Ends at once where the extra is not installed, or not what we can read: words alone rank then."""
        if not word_vectors.installed():
            return
        await anyio.sleep(SOON)
        try:
            words = await anyio.to_thread.run_sync(_loaded)
        except word_vectors.NoWordVectors as error:
            log.warning("tools are ranked by their words alone: %s", error)
            return
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            await self._give_all(words)

    async def _give_all(self, words: WordVectors) -> None:
        """Whichever are published at the moment: listings may change while others are read."""
        tried: list[IndexSegment] = []
        while part := next((part for part in self._without() if not any(part is other for other in tried)), None):
            tried.append(part)
            try:
                await self._give(words, part)
            except Exception:
                log.exception("%s: its tools are ranked by their words alone", part.tools[0].server)

    def _without(self) -> Iterator[IndexSegment]:
        parts: Iterable[IndexSegment] = [*self._snapshot.index.segments.values()]
        return (part for part in parts if part.tools and part.vectors is None)

    async def _give(self, words: WordVectors, part: IndexSegment) -> None:
        from mcpproxy_py.word_vectors.nearness import ListingVectors

        texts = await anyio.to_thread.run_sync(_texts, part, words.name)
        known = await self._known({digest for digest, _ in texts})
        missing = [(digest, text) for digest, text in dict(texts).items() if digest not in known]
        made: dict[str, bytes] = {}
        for start in range(0, len(missing), AT_ONCE):
            made |= await anyio.to_thread.run_sync(_made, words, missing[start : start + AT_ONCE])
        self.made += len(made)
        in_order = [known.get(digest) or made[digest] for digest, _ in texts]
        part.give(await anyio.to_thread.run_sync(ListingVectors.of, words, in_order))
        await self._keep(made)

    async def _known(self, digests: Collection[str]) -> dict[str, bytes]:
        from mcpproxy_py.word_vectors.nearness import are_stored

        try:
            with anyio.fail_after(STORE_TIMEOUT):
                found = await self._store.load(digests)
        except Exception as error:
            log.warning("the vectors of tools could not be read, so they are made: %s", error)
            return {}
        return await anyio.to_thread.run_sync(are_stored, found)

    async def _keep(self, made: Mapping[str, bytes]) -> None:
        try:
            with anyio.fail_after(STORE_TIMEOUT):
                await self._store.save(made)
        except Exception as error:
            log.warning("the vectors of tools could not be kept: %s", error)


def _loaded() -> WordVectors:
    import mcpproxy_py.word_vectors.nearness  # noqa: F401  (numpy, so that nobody waits for it on the event loop)

    return word_vectors.load()


def _texts(part: IndexSegment, made_by: str) -> list[tuple[str, str]]:
    """Of each tool the text, and the digest that its vector is kept by."""
    said = [meaning_of(tool) for tool in part.tools]
    return [(sha256(f"{made_by}\n{text}".encode("utf-8", "replace")).hexdigest(), text) for text in said]


def _made(words: WordVectors, some: Iterable[tuple[str, str]]) -> dict[str, bytes]:
    from mcpproxy_py.word_vectors.nearness import stored

    return {digest: stored(words.embed(text)) for digest, text in some}
