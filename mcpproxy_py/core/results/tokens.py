"""About how many tokens a text is, without a tokenizer: by the pieces that tokenizers make.

They take words apart at capitals, every three digits, and at each sign. Measured against `o200k_base` and `cl100k_base`
(`tests/core/results/test_tokens.py`), this is 0.7 to 1.5 times the true number for prose, code, JSON, tables, logs,
base64 and other alphabets, where a quarter of the bytes is 0.25 to 2 times. A token is a byte at least.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from typing import Final, TypeVar

Made = TypeVar("Made")
Steps = Generator[None, None, Made]
"""Work in small steps, so that whoever has it done can let others in between."""


def collect(items: Iterable[Made]) -> Steps[list[Made]]:
    """All of them, each made in a step of its own."""
    made: list[Made] = []
    for each in items:
        made.append(each)
        yield
    return made


def at_once(steps: Steps[Made]) -> Made:
    """The outcome of work that is short, or that nobody waits for."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


_PIECE: Final = re.compile(
    rb"[A-Z]?[a-z]{1,6}|[A-Z]{1,3}|[0-9]{1,3}|\s{2,16}|[^\x80-\xffA-Za-z0-9\s]{1,2}"
    rb"|(?:[\xc0-\xdf][\x80-\xbf]){1,2}|[\xe0-\xef][\x80-\xbf]{0,2}|[\xf0-\xff][\x80-\xbf]|[\x80-\xdf]{1,2}"
)
SLICE: Final = 2048
"""Bytes that are counted in one step."""
MOST_BYTES: Final = 5
"""Of a token. Runs of one character have more, and are not worth a larger answer: the default limit of 20,000 tokens is
then 100,000 characters at most, which is what the gate tells hosts to expect (`anthropic/maxResultSizeChars`)."""
SAMPLES: Final = 16
SAMPLE: Final = 256


def tokens(text: bytes) -> int:
    return len(_PIECE.findall(text))


def about(text: bytes, begin: int = 0) -> int:
    """Of a text from `begin` on; of a long one by samples, which are always the same for the same text."""
    size = len(text) - begin
    if size <= SAMPLES * SAMPLE:
        return tokens(text[begin:])
    apart = (size - SAMPLE) // (SAMPLES - 1)
    places = range(begin, begin + apart * SAMPLES, apart)
    return sum(tokens(text[at : at + SAMPLE]) for at in places) * size // (SAMPLES * SAMPLE)


def within(text: bytes, begin: int, budget: int, most_bytes: int | None = None) -> Steps[int]:
    """Up to where a text has so many tokens, from `begin` on."""
    most = min(len(text), begin + (most_bytes or budget * MOST_BYTES))
    while begin < most:
        end = min(begin + SLICE, most)
        found = tokens(text[begin:end])
        if found > budget:
            return _exactly(text, begin, end, budget)
        budget -= found
        begin = end
        yield
    return begin


def _exactly(text: bytes, begin: int, end: int, budget: int) -> int:
    for number, piece in enumerate(_PIECE.finditer(text, begin, end)):
        if number == budget:
            return piece.start()
    return end
