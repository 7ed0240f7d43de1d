"""The fuzzer: a corpus, mutations of it, and which lines of the package an input reaches."""

from __future__ import annotations

import json
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, Literal, NamedTuple

import hypothesis
from hypothesis import strategies as st

PACKAGE: Final = str(Path(__file__).parents[2] / "mcpproxy_py") + "/"
CORPUS: Final = Path(__file__).parent / "corpus"
HANGS: Final = 10.0
"""Seconds after which an input counts as one that never ends."""
LONGEST_KEPT: Final = 4096
LONGEST: Final = 64 * 1024
MOST_KEPT: Final = 120
"""Inputs of one target that stay in the corpus, besides seeds and crashes."""

UNHURRIED: Final = (
    hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large, hypothesis.HealthCheck.filter_too_much,
)  # fmt: skip
Kind = Literal["seed", "found", "crash"]
Check = Callable[[bytes], Hashable]


@dataclass(frozen=True)
class Target:
    """What is fuzzed. `check` raises for an input that breaks an invariant, and else says of what kind it was."""

    name: str
    check: Check
    seeds: tuple[bytes, ...]
    words: tuple[bytes, ...] = ()
    """What a mutation puts in now and then."""
    drawn: st.SearchStrategy[bytes] | None = None
    """Inputs with a shape that mutations would not find."""
    is_json: bool = False
    """Whether inputs are JSON, and mutations of their values make sense."""

    @property
    def holds(self) -> str:
        """The invariants, in words."""
        return " ".join((self.check.__doc__ or "").split())


class Entry(NamedTuple):
    kind: Kind
    data: bytes


def corpus_of(target: Target) -> list[Entry]:
    """What is kept, the target's own seeds first."""
    path = CORPUS / f"{target.name}.jsonl"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    kept = [Entry(kind, text.encode("latin-1")) for kind, text in map(json.loads, lines)]
    seeds = [Entry("seed", seed) for seed in target.seeds]
    return list({entry.data: entry for entry in (*seeds, *kept)}.values())


def keep(target: Target, entries: Iterable[Entry]) -> None:
    """Seeds stand in the code, and not here."""
    lines = [json.dumps([entry.kind, entry.data.decode("latin-1")]) for entry in entries if entry.kind != "seed"]
    (CORPUS / f"{target.name}.jsonl").write_text("".join(f"{line}\n" for line in sorted(lines)), "utf-8")


# Which lines are reached.


class Coverage:
    """Lines of the package that have run. A function all of whose lines have run is not traced any more, which is why
    this is affordable."""

    def __init__(self) -> None:
        self._left: dict[CodeType, set[int]] = {}
        self._news = False
        self.count = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        before = sys.gettrace()
        self._news = False
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)

    @property
    def news(self) -> bool:
        """Whether a line was reached, when it was watched last, that was never reached before."""
        return self._news

    def _called(self, frame: FrameType, event: str, detail: Any) -> Any:
        left = self._left.get(frame.f_code)
        if left is None:
            left = self._left[frame.f_code] = set(lines_of(frame.f_code))
        return self._went if left else None

    def _went(self, frame: FrameType, event: str, detail: Any) -> Any:
        left = self._left[frame.f_code]
        if event == "line" and frame.f_lineno in left:
            left.discard(frame.f_lineno)
            self.count += 1
            self._news = True
        return self._went if left else None


class Reached:
    """All lines of the package that one input reaches."""

    def __init__(self) -> None:
        self.lines: set[Hashable] = set()

    @contextmanager
    def watching(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)

    def _called(self, frame: FrameType, event: str, detail: Any) -> Any:
        return self._went if frame.f_code.co_filename.startswith(PACKAGE) else None

    def _went(self, frame: FrameType, event: str, detail: Any) -> Any:
        if event == "line":
            self.lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._went


def lines_of(code: CodeType) -> Iterator[int]:
    """Of the package only; of anything else none."""
    if code.co_filename.startswith(PACKAGE):
        first = code.co_firstlineno
        yield from {line for _, _, line in code.co_lines() if line is not None and line != first}


# Mutations.

INTERESTING: Final = (0, 1, 9, 10, 13, 32, 34, 44, 45, 48, 57, 58, 91, 92, 93, 123, 125, 127, 128, 192, 237, 240, 255)
NUMBERS: Final = (
    b"0", b"-1", b"1e400", b"9" * 30, b"18446744073709551616", b"4294967296", b"2147483647", b"0x10", b"+1", b"007",
    b"1.0", b"-0", b"9" * 4400, b"1E2", b"", b"NaN",
)  # fmt: skip
VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1.5, 1e308, 2**70, "", "x", "\u0000", "\u202e", "\ud800", "é😀", "a" * 300, [], {}, [[]],
    {"": {}}, [None, True],
)  # fmt: skip


class Mutator:
    def __init__(self, rng: random.Random, target: Target) -> None:
        self._rng = rng
        self._words = target.words
        self._is_json = target.is_json

    def mutated(self, data: bytes, other: bytes) -> bytes:
        """`other` is another input of the corpus."""
        rng = self._rng
        if self._is_json and rng.random() < 0.6:
            changed = self._other_value(data, other)
            if changed is not None:
                return changed[:LONGEST]
        for _ in range(rng.choice((1, 1, 1, 2, 3, 5, 8))):
            data = rng.choice(self._ways)(self, data, other)
        return data[:LONGEST]

    def _span(self, data: bytes, most: int = 64) -> tuple[int, int]:
        start = self._rng.randint(0, len(data))
        return start, min(len(data), start + self._rng.randint(0, most))

    def _flip(self, data: bytes, other: bytes) -> bytes:
        if not data:
            return b"\x00"
        at = self._rng.randrange(len(data))
        return data[:at] + bytes([data[at] ^ (1 << self._rng.randrange(8))]) + data[at + 1 :]

    def _replace(self, data: bytes, other: bytes) -> bytes:
        if not data:
            return b"\n"
        at = self._rng.randrange(len(data))
        return data[:at] + bytes([self._rng.choice(INTERESTING)]) + data[at + 1 :]

    def _insert(self, data: bytes, other: bytes) -> bytes:
        at = self._rng.randint(0, len(data))
        return data[:at] + bytes([self._rng.choice(INTERESTING)]) + data[at:]

    def _drop(self, data: bytes, other: bytes) -> bytes:
        start, end = self._span(data)
        return data[:start] + data[end:]

    def _double(self, data: bytes, other: bytes) -> bytes:
        start, end = self._span(data)
        return data[:end] + data[start:end] * self._rng.choice((1, 1, 2, 20, 300)) + data[end:]

    def _word(self, data: bytes, other: bytes) -> bytes:
        if not self._words:
            return data
        start, end = self._span(data, 8)
        return data[:start] + self._rng.choice(self._words) + data[self._rng.choice((start, end)) :]

    def _number(self, data: bytes, other: bytes) -> bytes:
        digits = [at for at, byte in enumerate(data) if 48 <= byte <= 57]
        if not digits:
            return data
        start = end = self._rng.choice(digits)
        while end < len(data) and 48 <= data[end] <= 57:
            end += 1
        return data[:start] + self._rng.choice(NUMBERS) + data[end:]

    def _splice(self, data: bytes, other: bytes) -> bytes:
        return data[: self._rng.randint(0, len(data))] + other[self._rng.randint(0, len(other)) :]

    def _take_over(self, data: bytes, other: bytes) -> bytes:
        start, end = self._span(other)
        at = self._rng.randint(0, len(data))
        return data[:at] + other[start:end] + data[at:]

    def _swap(self, data: bytes, other: bytes) -> bytes:
        one, two = sorted((self._rng.randint(0, len(data)), self._rng.randint(0, len(data))))
        return data[two:] + data[one:two] + data[:one]

    def _case(self, data: bytes, other: bytes) -> bytes:
        start, end = self._span(data, 16)
        return data[:start] + data[start:end].swapcase() + data[end:]

    def _cut(self, data: bytes, other: bytes) -> bytes:
        return data[: self._rng.randint(0, len(data))]

    _ways = (
        _flip, _flip, _replace, _replace, _insert, _drop, _double, _word, _word, _word, _number, _splice, _take_over,
        _swap, _case, _cut,
    )  # fmt: skip

    # Of values.

    def _other_value(self, data: bytes, other: bytes) -> bytes | None:
        try:
            value, rest = json.loads(data), json.loads(other)
        except (ValueError, RecursionError):
            return None
        pieces = [*VALUES, *places(rest)]
        for _ in range(self._rng.choice((1, 1, 2, 4))):
            value = self._changed(value, self._rng.choice(pieces))
        try:
            return json.dumps(value).encode()
        except (ValueError, RecursionError):
            return None

    def _changed(self, value: Any, piece: Any) -> Any:
        """With `piece` somewhere in it, or something of it gone."""
        rng = self._rng
        if not isinstance(value, dict | list) or not value or rng.random() < 0.15:
            return [piece] if rng.random() < 0.1 else piece
        if isinstance(value, list):
            at = rng.randrange(len(value))
            way = rng.random()
            if way < 0.15:
                return [*value[:at], *value[at + 1 :]]
            if way < 0.3:
                return [*value[:at], piece, *value[at:]]
            return [*value[:at], self._changed(value[at], piece), *value[at + 1 :]]
        key = rng.choice(list(value))
        way = rng.random()
        if way < 0.15:
            return {name: item for name, item in value.items() if name != key}
        if way < 0.3:
            name = piece if isinstance(piece, str) else rng.choice(self._words or (b"x",)).decode("latin-1")
            return {**value, name: piece}
        return {**value, key: self._changed(value[key], piece)}


def places(value: Any) -> Iterator[Any]:
    """A value and what is in it, not too deep."""
    level = [value]
    for _ in range(8):
        yield from level
        level = [child for node in level if isinstance(node, dict | list) for child in
                 (node.values() if isinstance(node, dict) else node)]  # fmt: skip


# A run.


class TooSlow(AssertionError):
    """An input that takes so long that somebody could use it."""


@contextmanager
def bounded(seconds: float = HANGS) -> Iterator[None]:
    """Raises `TooSlow` after so long; from the main thread only."""

    def ring(number: int, frame: object) -> None:
        raise TooSlow(f"it did not end within {seconds} seconds")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass
class Tally:
    target: Target
    executions: int = 0
    fresh: list[bytes] = field(default_factory=list[bytes])
    crashes: dict[str, tuple[bytes, str]] = field(default_factory=dict[str, tuple[bytes, str]])
    """The smallest input for each place that raised, and how."""
    lines: int = 0
    kinds: int = 0
    slowest: float = 0.0
    """Seconds of processor time."""
    slowest_input: bytes = b""


class Fuzzer:
    def __init__(self, target: Target, seed: int) -> None:
        self.tally = Tally(target)
        self._target = target
        self._rng = random.Random(f"{seed} {target.name}")
        self._mutator = Mutator(self._rng, target)
        self._coverage = Coverage()
        self._kinds: set[Hashable] = set()
        self._pool: list[bytes] = []

    def run(self, seconds: float = float("inf"), turns: int = sys.maxsize) -> Tally:
        """Until either is over. A turn is some hundred inputs."""
        deadline = time.monotonic() + seconds
        for entry in corpus_of(self._target):
            self._try(entry.data)
            if entry.data not in self._pool:
                self._pool.append(entry.data)
        self.tally.fresh.clear()
        for _ in range(turns):
            if time.monotonic() >= deadline:
                break
            if self._target.drawn is not None:
                self._draw(self._target.drawn)
            for _ in range(500):
                if time.monotonic() >= deadline:
                    break
                self._try(self._mutator.mutated(self._picked(), self._rng.choice(self._pool)))
        self.tally.lines, self.tally.kinds = self._coverage.count, len(self._kinds)
        return self.tally

    def _picked(self) -> bytes:
        """Oftener one of the last: there is the news."""
        latest = self._pool[-10:] if self._rng.random() < 0.3 else self._pool
        return self._rng.choice(latest)

    def _draw(self, inputs: st.SearchStrategy[bytes]) -> None:
        @hypothesis.seed(self._rng.randrange(1 << 60))
        @hypothesis.settings(
            max_examples=100, database=None, deadline=None, phases=[hypothesis.Phase.generate],
            suppress_health_check=UNHURRIED,
        )  # fmt: skip
        @hypothesis.given(inputs)
        def each(data: bytes) -> None:
            self._try(data)

        each()

    def _try(self, data: bytes) -> None:
        tally = self.tally
        tally.executions += 1
        begun = time.thread_time()
        try:
            with bounded(), self._coverage.watching():
                kind = self._target.check(data)
        except Exception as error:
            self._crashed(data, error)
            return
        spent = time.thread_time() - begun
        if spent > tally.slowest:
            tally.slowest, tally.slowest_input = spent, data
        if self._coverage.news or kind not in self._kinds:
            self._kinds.add(kind)
            self._pool.append(data)
            tally.fresh.append(data)

    def _crashed(self, data: bytes, error: Exception) -> None:
        where = place_of(error)
        known = self.tally.crashes.get(where)
        if known is None or len(data) < len(known[0]):
            self.tally.crashes[where] = data, "".join(traceback.format_exception(error))


def place_of(error: BaseException) -> str:
    """What tells one crash from another: its type, and the last place of ours that it went through."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "/tests/fuzz/engine" not in each.filename]
    last = next((each for each in reversed(frames) if "/mcpproxy_py/" in each.filename), frames[-1])
    return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"


def smaller(target: Target, data: bytes, still: Callable[[bytes], bool], tries: int = 400) -> bytes:
    """The same with parts left out, as long as `still` says so."""
    size = max(1, len(data) // 2)
    while size and tries:
        at = 0
        while at < len(data) and tries:
            tries -= 1
            shorter = data[:at] + data[at + size :]
            if still(shorter):
                data = shorter
            else:
                at += size
        size //= 2
    return data


def crashes_at(target: Target, where: str) -> Callable[[bytes], bool]:
    def still(data: bytes) -> bool:
        try:
            with bounded():
                target.check(data)
        except Exception as error:
            return place_of(error) == where
        return False

    return still


def distilled(target: Target, candidates: Iterable[bytes]) -> list[bytes]:
    """The fewest of these that reach all lines and are of all kinds, more or less: small ones first."""
    kept: list[bytes] = []
    seen: set[Hashable] = set()
    for data in sorted(candidates, key=lambda each: (len(each), each)):
        if len(data) > LONGEST_KEPT or len(kept) >= MOST_KEPT:
            break
        reached = Reached()
        try:
            with bounded(), reached.watching():
                kind = target.check(data)
        except Exception:
            continue
        if kind not in seen or not reached.lines <= seen:
            seen |= reached.lines | {kind}
            kept.append(data)
    return kept
