"""The labelled corpus of secrets and of what only looks like one (ACT-9), and what masking makes of it.

Every secret in it is made up. It stands between ⟦ and ⟧, and a ¦ that is taken out on reading breaks it, so that
no scanner takes the file for a leak. One half is for tuning; the other was written before the rules were tuned,
with other providers and other spellings, and only its totals are looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

FILE = Path(__file__).parent / "data" / "masking_corpus.json"
MARKED = re.compile(r"⟦(.*?)⟧", re.DOTALL)
HALVES = ("tuned", "held out")
TELLING = 8
"""So many characters of a secret in a row give it away, or all of a shorter one."""

Mask = Callable[[Any], Any]
Verdict = Literal["found", "missed", "overdone", "kept", "false alarm"]


@dataclass(frozen=True)
class Sample:
    half: str
    secret: bool
    kind: str
    marked: Any

    @property
    def value(self) -> Any:
        return _mapped(self.marked, lambda text: MARKED.sub(r"\1", text))

    def verdict(self, mask: Mask) -> Verdict:
        """`overdone` is a secret found at the price of something beside it that should have stayed."""
        shown = mask(self.value)
        if not self.secret:
            return "kept" if shown == self.value else "false alarm"
        text = "\n".join(_texts(shown))
        if any(piece in text for secret in self._secrets() for piece in _pieces(secret)):
            return "missed"
        return "found" if _in_order(self._around(), text) else "overdone"

    def _secrets(self) -> list[str]:
        return [secret for text in _texts(self.marked) for secret in MARKED.findall(text)]

    def _around(self) -> list[str]:
        return [part for text in _texts(self.marked) for part in MARKED.split(text)[::2] if part]


def samples() -> list[Sample]:
    rows = json.loads(FILE.read_text("utf-8").replace("¦", ""))
    return [Sample(row["half"], row["label"] == "secret", row["kind"], row["value"]) for row in rows]


@dataclass(frozen=True)
class Score:
    """Precision counts a secret whose surroundings suffered as a false alarm too."""

    found: int
    missed: int
    overdone: int
    kept: int
    false_alarms: int

    @property
    def recall(self) -> float:
        return (self.found + self.overdone) / (self.found + self.overdone + self.missed)

    @property
    def precision(self) -> float:
        return self.found / (self.found + self.overdone + self.false_alarms)


def score(rows: list[Sample], mask: Mask) -> Score:
    verdicts = [row.verdict(mask) for row in rows]
    return Score(*(verdicts.count(each) for each in ("found", "missed", "overdone", "kept", "false alarm")))


def _pieces(secret: str) -> Iterator[str]:
    size = min(TELLING, len(secret))
    return (secret[at : at + size] for at in range(len(secret) - size + 1))


def _in_order(parts: list[str], text: str) -> bool:
    at = 0
    for part in parts:
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value, keys too, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _mapped(item, change) for key, item in value.items()}
    return [_mapped(item, change) for item in value] if isinstance(value, list) else value
