"""Where a long text may be cut: between lines, or in JSON between items and members; else between two characters."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from mcpproxy_py.core import json_values
from mcpproxy_py.core.late_patterns import late
from mcpproxy_py.core.results.tokens import Steps

DEEPEST: Final = 200
"""Levels of JSON that are closed again. What is nested deeper is cut like any text."""
STEP: Final = 1024
"""Tokens of JSON that are looked at in one step."""
TOKEN: Final = late(rb'"(?:[^"\\]++|\\.)*+("?)|[\[\]{},:]|[^\s"\[\]{},:]++', re.DOTALL)
"""Of JSON. The group is empty for a string that goes on beyond the end."""
REST: Final = late(rb'(?:[^"\\]++|\\.)*+("?)', re.DOTALL)
"""Of a string, from within."""
_WHOLE: Final = late(rb'(?:[^"\\]++|\\u[0-9a-fA-F]{4}|\\[^u])*+', re.DOTALL)
_HALF: Final = late(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
"""Half of a pair; the other half comes after it."""
CLOSING: Final = {b"[": b"]", b"{": b"}"}


class JsonCut(NamedTuple):
    """Up to `end`, and then `closing`, it is a JSON text of its own; what is missing begins at `rest`."""

    end: int
    closing: bytes
    rest: int
    depth: int
    """How many lists and objects were open."""
    in_string: bool = False


def looks_like_json(text: bytes, begin: int, end: int) -> bool:
    return text[begin : min(end, begin + 256)].lstrip()[:1] in (b"{", b"[")


def character(text: bytes, at: int) -> int:
    """The beginning of the character that this is in."""
    for back in range(min(4, at + 1)):
        if at >= len(text) or text[at - back] & 0xC0 != 0x80:
            return at - back
    return at


def edge(begin: int, most: int) -> int:
    """From here on a cut that is better placed is worth what it leaves out."""
    return begin + (most - begin) * 7 // 8


def of_lines(text: bytes, begin: int, most: int) -> int:
    """Where to cut between `begin` and `most`: after a line or a word, if there is one near the end."""
    near = edge(begin, most)
    for sign in (b"\n", b" "):
        if (at := text.rfind(sign, near, most)) >= 0:
            return at + 1
    return _at_least_one(text, begin, character(text, most))


def json_cut(text: bytes, begin: int, most: int) -> Steps[JsonCut | None]:
    """Where a JSON text that starts at `begin` is cut before `most`: near the end between items that are as far out as
    possible; where a string goes on there, in its middle. `None` where it is no JSON, or nested too deeply."""
    near = edge(begin, most)
    stack: list[bytes] = []
    best: tuple[int, int, int] | None = None  # depth, end, rest
    last = begin, begin
    key_next = False
    for number, token in enumerate(TOKEN.finditer(text, begin, most), 1):
        if not number % STEP:
            yield
        sign, at = token[0], token.start()
        if sign == b",":
            if not stack:
                return None
            last = at, at + 1
            if at >= near and (best is None or len(stack) <= best[0]):
                best = len(stack), at, at + 1
            key_next = stack[-1] == b"{"
        elif sign in CLOSING:
            if len(stack) == DEEPEST:
                return None
            stack.append(sign)
            last, key_next = (at + 1, at + 1), sign == b"{"
        elif sign == b"]" or sign == b"}":
            if not stack or CLOSING[stack.pop()] != sign or not stack:
                return None  # no JSON, or something comes after it
            last = token.end(), token.end()
        elif sign == b":":
            key_next = False
        elif sign[:1] == b'"' and not token[1]:
            if last[0] < near and not key_next:
                end = _in_string(text, at + 1, most)
                return JsonCut(end, b'"' + _closing(stack), end, len(stack), True)
            break
    end, rest = last if best is None else best[1:]
    open_then = yield from _open_at(text, begin, end)
    return JsonCut(end, _closing(open_then), rest, len(open_then))


def _closing(stack: list[bytes]) -> bytes:
    return b"".join(CLOSING[each] for each in reversed(stack))


def _open_at(text: bytes, begin: int, end: int) -> Steps[list[bytes]]:
    """The lists and objects that are open at the end."""
    stack: list[bytes] = []
    for number, token in enumerate(TOKEN.finditer(text, begin, end), 1):
        if not number % STEP:
            yield
        if token[0] in CLOSING:
            stack.append(token[0])
        elif token[0] in (b"]", b"}"):
            stack.pop()
    return stack


def _in_string(text: bytes, begin: int, most: int) -> int:
    """The end of the last whole character before `most` in the string whose inside begins here."""
    found = _WHOLE.match(text, begin, most)
    end = found.end() if found else begin
    if _HALF.search(text, max(begin, end - 6), end):
        end -= 6
    return max(character(text, end), begin)


def _at_least_one(text: bytes, begin: int, end: int) -> int:
    """However small the room is, reading on gets on by a character."""
    if end > begin:
        return end
    end = begin + 1
    while end < len(text) and text[end] & 0xC0 == 0x80:
        end += 1
    return min(len(text), end)


def inside_json(text: bytes, begin: int, most: int, in_string: bool) -> Steps[int]:
    """Where to cut a part that begins somewhere in a JSON text, by the same rules."""
    near, depth, inner = edge(begin, most), 0, begin
    best: tuple[int, int] | None = None
    last = begin
    if in_string:
        found = REST.match(text, begin, most)
        if found is None or not found[1]:
            return _at_least_one(text, begin, _in_string(text, begin, most))
        inner = last = found.end()
    for number, token in enumerate(TOKEN.finditer(text, inner, most), 1):
        if not number % STEP:
            yield
        sign = token[0]
        if sign in CLOSING:
            depth += 1
        elif sign == b"]" or sign == b"}":
            depth -= 1
        elif sign == b"," and token.end() > near and (best is None or depth <= best[0]):
            best = depth, token.end()
        elif sign[:1] == b'"' and not token[1]:
            if last < near:
                return _at_least_one(text, begin, _in_string(text, token.start() + 1, most))
            break
        if token.end() < most:
            last = token.end()
    if best is not None:
        return best[1]
    return last if last > near else _at_least_one(text, begin, character(text, most))


def in_string_at(text: bytes, begin: int, end: int, piece: int) -> Steps[bytearray]:
    """For each piece of a JSON text, whether it begins in a string (1), and there after a backslash (2)."""
    states = bytearray()
    inside, escaped = False, False
    for at in range(begin, end, piece):
        states.append(0 if not inside else 2 if escaped else 1)
        part = text[at : min(at + piece, end)]
        if escaped:
            part, escaped = part[1:], False
        if b"\\" in part:
            part = part.replace(b"\\\\", b"")
            escaped = part.endswith(b"\\")
            part = part.replace(b'\\"', b"")
        inside ^= bool(part.count(b'"') & 1)
        yield
    return states


def is_in_string(text: bytes, begin: int, end: int, state: int) -> bool:
    """Whether `end` is in a string, where `begin` is as this state says."""
    if state:
        found = REST.match(text, begin + (state == 2), end)
        if found is None or not found[1]:
            return True
        begin = found.end()
    return any(token[0][:1] == b'"' and not token[1] for token in TOKEN.finditer(text, begin, end))


def value_of(text: bytes) -> Any:
    """Raises `ValueError`."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def last_of(value: Any) -> tuple[str | int, Any]:
    """Of a list or an object: where its last item is, and that."""
    if (members := json_values.as_object(value)) is not None:
        key = next(reversed(members))
        return key, members[key]
    return len(value) - 1, value[-1]
