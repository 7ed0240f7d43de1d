"""What `read_result` answers of a text that is kept."""

from __future__ import annotations

import json
from typing import Any, Final

from mcpproxy_py.core.policy.tool_results import CUT_KEY
from mcpproxy_py.core.results.cutting import room
from mcpproxy_py.core.results.kept_text import KeptText
from mcpproxy_py.core.results.matches import MOST_WORDS, matches, words_of
from mcpproxy_py.core.results.tokens import Steps, about

ECHOED: Final = 200
"""Characters of a query that are said again."""


def problem(kept: KeptText, begin: int, query: str) -> str | None:
    """What is wrong with a wish."""
    if begin > len(kept.text) or (begin == len(kept.text) and begin):
        return f"from is {begin}, and the result ends at {len(kept.text)}"
    if (many := len(words_of(query))) > MOST_WORDS:
        return f"query has {many} different words; at most {MOST_WORDS} are looked for"
    return None


def piece_of(kept: KeptText, handle: str, begin: int, limit: int) -> Steps[dict[str, Any]]:
    begin, end = yield from kept.piece(begin, room(limit))
    yield
    return _answer(kept, handle, kept.text[begin:end].decode(errors="replace"), begin, end, _next(kept, handle, end))


def matching(kept: KeptText, handle: str, begin: int, query: str, limit: int) -> Steps[dict[str, Any]]:
    found = yield from matches(kept, words_of(query), begin, room(limit))
    lines = "\n".join(f"{at}: {unit.decode(errors='replace')}" for at, unit in found.units)
    if not lines:
        lines = "Nothing matches."
    place = "Before each is its place, a byte that read_result takes as from. " if found.units else ""
    says = place + _next(kept, handle, found.searched, query)
    return _answer(kept, handle, lines, begin, found.searched, says)


def _next(kept: KeptText, handle: str, end: int, query: str = "") -> str:
    total = len(kept.text)
    if end >= total:
        return f"That is all: the result ends at byte {total:,}."
    told = query if len(query) <= ECHOED else "the same"
    more = json.dumps({"id": handle, "from": end, **({"query": told} if query else {})}, ensure_ascii=False)
    if query:
        return f"Searched up to byte {end:,} of {total:,}. Go on with read_result {more}."
    left = f"About {about(kept.text, end):,} tokens are left, from byte {end:,} of {total:,} on."
    return f"{left} Read on with read_result {more}."


def _answer(kept: KeptText, handle: str, text: str, begin: int, end: int, says: str) -> dict[str, Any]:
    done = end >= len(kept.text)
    return {
        "content": [{"type": "text", "text": text}, {"type": "text", "text": f"[{says}]"}],
        "_meta": {CUT_KEY: {"id": handle, "from": begin, "next": None if done else end, "total": len(kept.text)}},
    }
