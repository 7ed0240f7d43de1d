"""Holding arguments against a schema. In this process where that is surely quick, which is nearly always; for the rest
the answer is a `PendingCheck`, and `check_workers` finds it out in a process that can be ended.

A pattern of the linear kind takes time in proportion to the text. One with lookaround or references goes back and
tries again, and gives up after some number of times, which a schema cannot tell from "does not match": under `anyOf` it
is plainly lost. So those get few tries here and are asked one by one whether they gave up; if one did, nothing is
decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import jsonschema_rs
from pydantic_core import to_json

from mcpproxy_py.core.pending_checks import PendingCheck
from mcpproxy_py.upstream.schemas import cost
from mcpproxy_py.upstream.schemas.check_program import gives_up, sentence, short, texts, validator_of
from mcpproxy_py.upstream.schemas.cost import DEPTH, NOTHING, BadSchema, Cost

BUDGET: Final = 20_000.0
"""Units of `cost` that a check may take on the event loop: ten milliseconds at the very worst."""
WORDS: Final = 2_000.0
"""Of them for a check whose result is put into words, where each failure on the way is made into an object."""
BACKTRACKS: Final = 100
LINEAR: Final = 1.0
"""Units for each text, of a pattern that never goes back."""
PROGRAM_SIZES: Final = (2_000, 8_000, 32_000, 128_000)
"""Bytes that a compiled pattern may take: the slowest text for a pattern takes time in proportion to them."""
_CHAR_FOR_BYTE: Final = 1 / 8_000
MAX_PATTERN: Final = 4_000
PATTERNS_HERE: Final = 50
LARGEST_TRIED: Final = 2
"""Patterns of one schema that are compiled at full size, only to see whether they are patterns at all."""


class ArgumentCheck:
    """One schema. Called with arguments it gives the first thing wrong with them, `None` where they fit, or a
    `PendingCheck` where that cannot be found out here."""

    __slots__ = ("_backtracking", "_budget", "_cost", "_most", "_schema", "_text", "_validator", "patterns")

    def __init__(
        self, schema: Any, validator: jsonschema_rs.Validator | None = None, costs: Cost = NOTHING,
        backtracking: Iterable[str] = (), budget: float = BUDGET,
    ) -> None:  # fmt: skip
        """Without a validator nothing is found out here."""
        self._schema = schema
        self._validator = validator
        self._cost = costs
        self._budget = budget
        self._most = budget / (costs.value or 1)
        """Values in the arguments."""
        self._backtracking = [validator_of({"pattern": pattern}, _FEW_TRIES) for pattern in backtracking]
        self._text: bytes | None = None
        self.patterns = tuple(cost.patterns_of(schema))

    @property
    def text(self) -> bytes:
        """The schema itself, by which it is known."""
        if self._text is None:
            self._text = to_json(self._schema)
        return self._text

    def __call__(self, args: Mapping[str, Any]) -> str | PendingCheck | None:
        """First the most that it may take is counted, no further than is needed to see that it is too much. In one
        piece, because every call comes this way."""
        if self._validator is None or type(args) is not dict:
            return PendingCheck(self, args)
        most, values, chars, level = self._most, 1, 0, [args]
        for _ in range(DEPTH + 1):
            below: list[Any] = []
            for item in level:
                values += len(item)
                if values > most:
                    return PendingCheck(self, args)
                if type(item) is dict:
                    chars += sum(map(len, item))
                    item = item.values()
                for value in item:
                    kind = type(value)
                    if kind is str:
                        chars += len(value) if value.isascii() else 4 * len(value)
                    elif kind is dict or kind is list:
                        below.append(value)
                    elif kind is int and value.bit_length() > 64:
                        values += value.bit_length() // 16
            level = below
            if not below:
                break
        units = values * self._cost.value + chars * self._cost.char
        if level or units > self._budget:
            return PendingCheck(self, args)
        try:
            fits = self._validator.is_valid(args)
            if not self._backtracking and fits:
                return None
            if self._gave_up(args) or (not fits and units > WORDS):
                return PendingCheck(self, args)
            return None if fits else sentence(self._validator, args)
        except Exception:
            return PendingCheck(self, args)

    def _gave_up(self, args: Any) -> bool:
        return any(gives_up(pattern, text) for text in texts(args) for pattern in self._backtracking)


_FEW_TRIES: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACKS, size_limit=PROGRAM_SIZES[-1])
_LINEAR: Final = jsonschema_rs.RegexOptions(size_limit=PROGRAM_SIZES[-1])


def compile_check(schema: Any, budget: float = BUDGET) -> ArgumentCheck:
    """For use beside the event loop. `budget` is what a call of it may take on the loop. Raises `BadSchema`."""
    small = cost.check_size(schema)
    cost.check_work(schema)
    costs = _costs_of(cost.patterns_of(schema)) if small else None
    counted = cost.cost_of(schema, costs.__getitem__) if costs is not None else None
    if costs is None:
        return ArgumentCheck(schema)
    backtracking = [pattern for pattern, its in costs.items() if its.value > LINEAR]
    try:
        validator = validator_of(schema, _FEW_TRIES if backtracking else _LINEAR)
    except Exception as error:
        raise BadSchema(short(error)) from None
    return ArgumentCheck(schema, validator, counted, backtracking, budget) if counted else ArgumentCheck(schema)


def _costs_of(patterns: set[str]) -> dict[str, Cost] | None:
    """What each costs; `None` where they cannot all be used here."""
    if len(patterns) > PATTERNS_HERE or any(len(pattern) > MAX_PATTERN for pattern in patterns):
        return None
    found = {pattern: _cost_of_pattern(pattern) for pattern in patterns}
    large = [pattern for pattern, its in found.items() if its is None]
    for pattern in large[:LARGEST_TRIED]:
        if not _compiles(pattern, jsonschema_rs.FancyRegexOptions()):
            raise BadSchema(f"{pattern[:100]!r} is no pattern that can be used")
    return None if large else {pattern: its for pattern, its in found.items() if its is not None}


@lru_cache(4096)
def _cost_of_pattern(pattern: str) -> Cost | None:
    for size in PROGRAM_SIZES:
        if _compiles(pattern, jsonschema_rs.RegexOptions(size_limit=size)):
            return Cost(LINEAR, size * _CHAR_FOR_BYTE)
    for size in PROGRAM_SIZES:
        if _compiles(pattern, jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACKS, size_limit=size)):
            return Cost(BACKTRACKS, BACKTRACKS * size * _CHAR_FOR_BYTE)
    return None


def _compiles(pattern: str, options: Any) -> bool:
    try:
        validator_of({"pattern": pattern}, options)
    except Exception:
        return False
    return True
