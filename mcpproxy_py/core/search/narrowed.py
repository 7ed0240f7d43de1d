"""Some of the tools of a segment or an index, as a segment or an index of their own (SEC-2).

Nothing of the other tools can be told from it, so how common a word is is counted anew. There may be hundreds of
selections, and each is outdated by the next listing; so what a word says of the tools in one is found out when somebody
asks for that word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from mcpproxy_py.core.search.index import Index, Ranking
    from mcpproxy_py.core.search.segments import IndexSegment, ToolFilter

COUNTED: Final = 4096
"""Words of which an index remembers how many of its tools have them."""
_OUT: Final = -1
Value = TypeVar("Value")


class FoundMapping(Mapping[str, Value]):
    """A mapping whose `get` finds out what there is."""

    __slots__ = ()

    def __getitem__(self, key: str) -> Value:
        if (found := self.get(key)) is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.get(key) is not None

    def __len__(self) -> int:
        return sum(1 for _ in self)


class ImpactsOfSome(FoundMapping[Mapping[int, float]]):
    """`IndexSegment.impacts` of a part of its tools, which have new numbers."""

    __slots__ = ("_all", "_now")

    def __init__(self, every: Mapping[str, Mapping[int, float]], size: int, kept: Iterable[int]) -> None:
        self._all = every
        self._now = memoryview(bytearray(b"\xff" * 4 * size)).cast("i")  # four bytes for each, and not a hundred
        for new, number in enumerate(kept):
            self._now[number] = new

    def kept(self) -> Iterator[int]:
        """The numbers that its tools had, in order."""
        return (number for number, new in enumerate(self._now) if new != _OUT)

    def get(self, key: str, default: Any = None) -> Any:
        now = self._now
        there = self._all.get(key)
        left = {} if there is None else {at: each for number, each in there.items() if (at := now[number]) != _OUT}
        return left or default

    def __iter__(self) -> Iterator[str]:
        return (term for term in self._all if term in self)


class FrequenciesOfSome(FoundMapping[int]):
    """How many tools have a word, in segments that are all or parts of those that `every` was counted in."""

    __slots__ = ("_all", "_known", "_segments")

    def __init__(self, every: Mapping[str, int], segments: Sequence[IndexSegment]) -> None:
        self._all = every
        self._segments = segments
        self._known: dict[str, int] = {}

    def get(self, key: str, default: Any = None) -> Any:
        if key not in self._all:
            return default
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= COUNTED:
                self._known.clear()
            found = self._known[key] = sum(len(part.impacts.get(key, ())) for part in self._segments)
        return found or default

    def __iter__(self) -> Iterator[str]:
        return (term for term in self._all if term in self)


class IndexOfSome:
    """What a search needs of an `Index`, over the parts that `parts` gives. It is made when somebody searches, and kept
    by the index that it is a part of, for as long as that keeps it."""

    __slots__ = ("_key", "_of", "_parts")

    def __init__(self, of: Index, key: Any, parts: Callable[[], Mapping[str, IndexSegment]]) -> None:
        """`key` names these parts among all that are made of that index."""
        self._of = of
        self._key = key
        self._parts = parts

    def _made(self) -> Index:
        return self._of.of_some(self._key, self._parts)

    @property
    def segments(self) -> Mapping[str, IndexSegment]:
        return self._made().segments

    def mask(self, lets_through: Callable[[str], ToolFilter | bool]) -> int:
        return self._made().mask(lets_through)

    def rank(self, query: str, limit: int, among: int | None = None) -> Ranking:
        return self._made().rank(query, limit, among)
