"""How close what the tools of an index mean is to a query: what `core.search` asks of vectors, done with numpy.

A listing's vectors are made once, by `app.tool_meanings`. Cosines are rounded, so that the same texts rank in the same
order on every processor, whatever the order in which it adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from mcpproxy_py.word_vectors import WIDTH, WordVectors

DECIMALS: Final = 4
STORED: Final = "<f2"
STORED_BYTES: Final = 2 * WIDTH
LONGEST: Final = 1.01
FEW: Final = 4
"""Of a listing's tools one in so many, or fewer, are looked at by themselves, and otherwise all."""


class ListingVectors:
    """A row for each tool of one listing, or of a part of it, which has no rows of its own."""

    __slots__ = ("_kept", "_rows", "_words")

    def __init__(self, words: WordVectors, rows: Any, kept: Any = None) -> None:
        self._words = words
        self._rows = rows
        self._kept = kept

    @classmethod
    def of(cls, words: WordVectors, stored: Sequence[bytes]) -> ListingVectors:
        rows = np.frombuffer(b"".join(stored), STORED).reshape(len(stored), WIDTH)
        return cls(words, np.ascontiguousarray(rows, "float32"))

    def only(self, kept: Iterable[int]) -> ListingVectors:
        numbers = np.fromiter(kept, "int32")
        return ListingVectors(self._words, self._rows, numbers if self._kept is None else self._kept[numbers])

    def nearness(self, query: str, parts: Sequence[tuple[ListingVectors | None, int]]) -> Nearness | None:
        """Of the query to all tools of these listings, in order, each with how many it has; `None` if the query means
        nothing."""
        wanted = self._words.embed(query)
        if not wanted.any():
            return None
        return Nearness(
            np.concatenate([np.full(many, np.nan) if part is None else part._cosines(wanted) for part, many in parts])
        )

    def _cosines(self, wanted: Any) -> Any:
        rows, kept = self._rows, self._kept
        if kept is None:
            return _dots(rows, wanted)
        return _dots(rows[kept], wanted) if len(kept) * FEW < len(rows) else _dots(rows, wanted)[kept]


def _dots(rows: Any, wanted: Any) -> Any:
    """Not by BLAS: that wakes threads for it, and waits for the last of them."""
    return np.einsum("ij,j->i", rows, wanted)


class Nearness:
    """0 for what has nothing in common, 1 for the same; nothing for tools whose vectors are not there yet."""

    __slots__ = ("_all", "_bounds")

    def __init__(self, cosines: Any) -> None:
        self._all = np.clip(np.round(cosines.astype("float64"), DECIMALS), 0.0, 1.0)
        self._bounds: Any = None

    def closeness(self, numbers: list[int]) -> list[float | None]:
        return [None if found != found else found for found in self._all[numbers].tolist()]

    def marked(self, least: float) -> bytes:
        """Two bytes for each tool, as in `packed_lanes`: 1 for those that are this close."""
        with np.errstate(invalid="ignore"):
            return (self._all >= least).astype("<u2").tobytes()

    def bound(self, lanes: bytes, worth: float, weight: float, running: bytes) -> None:
        """Remember how much each tool in the `running` can have at most: what its lane is worth, and `weight` for
        being close, as a share of all there is to have."""
        words = np.frombuffer(lanes, "<u2") * worth
        close = np.where(np.isnan(self._all), words, self._all)
        self._bounds = np.where(np.frombuffer(running, "<u2") > 0, (words + weight * close) / (1.0 + weight), -1.0)

    def first(self, many: int) -> list[int]:
        """The places of those with the highest bounds; more than there are in the running is all of them."""
        running = int((self._bounds >= 0).sum())
        if many >= running:
            return self.reaching(0.0)
        return np.argpartition(self._bounds, -many)[-many:].tolist()

    def reaching(self, least: float) -> list[int]:
        return np.flatnonzero(self._bounds >= max(least, 0.0)).tolist()


def stored(vector: Any) -> bytes:
    """As it is kept: half the digits, which is all that its table has."""
    return vector.astype(STORED).tobytes()


def are_stored(values: Mapping[str, object]) -> dict[str, bytes]:
    """Those that are vectors at all: they may come from a database."""
    sized = {key: value for key, value in values.items() if isinstance(value, bytes) and len(value) == STORED_BYTES}
    rows = np.frombuffer(b"".join(sized.values()), STORED).reshape(len(sized), WIDTH).astype("float32")
    with np.errstate(over="ignore", invalid="ignore"):
        fits = np.einsum("ij,ij->i", rows, rows) < LONGEST**2
    return {key: value for (key, value), fit in zip(sized.items(), fits.tolist(), strict=True) if fit}
