"""A result that is longer than its limit, as the agent gets it: its beginning, what is missing, how to read on.

Only text is cut, and what says the same as a text, `structuredContent`. Images, audio and resources stay where they
are. JSON is cut so that what is left is JSON: in a text, and in `structuredContent`, which keeps the type of each value
and has one key more, `mcpproxy/cut`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from mcpproxy_py.core import json_values
from mcpproxy_py.core.policy.tool_results import CUT_KEY
from mcpproxy_py.core.results import boundaries
from mcpproxy_py.core.results.boundaries import JsonCut
from mcpproxy_py.core.results.kept_text import KeptText
from mcpproxy_py.core.results.tokens import Steps, about, within

NOTE: Final = 500
"""Tokens for what is said of the cut."""
END: Final = 400
"""Bytes of the end that are shown: a log says there what came of it, and a list how many there are."""
A_STEP: Final = 4096
LINE_END: Final = b"\n"


class Handle(NamedTuple):
    """By what a result is read on, and for how long."""

    id: str
    minutes: int


class Cut(NamedTuple):
    """What is shown of a part: up to `end`, as `text`. What is missing begins at `rest`."""

    text: bytes
    rest: int
    says: str
    value: Any = None
    """Of JSON."""


def room(limit: int) -> int:
    """Tokens of the text itself."""
    return max(limit - NOTE, limit // 2)


def texts_of(result: Mapping[str, Any]) -> list[str]:
    found = (_text_of(item) for item in json_values.as_array(result.get("content")) or [])
    return [text for text in found if text is not None]


def _text_of(item: object) -> str | None:
    of = json_values.as_object(item)
    if of is None or of.get("type") != "text":
        return None
    text = of.get("text")
    return text if type(text) is str else None


def cut(
    result: Mapping[str, Any], texts: Sequence[bytes], structured: bytes | None, limit: int, handle: Handle
) -> Steps[tuple[dict[str, Any], KeptText] | None]:
    """`None` where there is nothing to cut. `texts` are those of the content; `structured` is JSON of
    `structuredContent`, unless that says the same as the only text."""
    yield
    whole_texts = KeptText(texts)
    cut_texts = about(whole_texts.text) > limit
    cut_structured = structured is not None and about(structured) > limit
    if not (cut_texts or cut_structured):
        return None
    same = structured is None and "structuredContent" in result
    kept = KeptText([*(texts if cut_texts else ()), *([structured] if cut_structured and structured else ())])
    shown = dict(result)
    original = result.get("structuredContent")
    rest, says = len(kept.text), ""
    if cut_texts:
        number, piece = yield from _first_piece(kept, 0, len(whole_texts.text), room(limit), original if same else None)
        shown["content"] = yield from _content(result["content"], number, piece.text)
        rest, says = piece.rest, piece.says
        if same:
            shown["structuredContent"] = json_values.as_object(piece.value) or {}
    if cut_structured:
        base = kept.starts[-1]
        _, piece = yield from _first_piece(kept, base, len(kept.text), room(limit), original)
        fits = type(piece.value) is type(original)  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        shown["structuredContent"] = piece.value if fits else {}
        if not cut_texts:
            rest, says = piece.rest, piece.says
    note = _note(kept, rest, says, handle)
    shown["content"] = [*(json_values.as_array(shown.get("content")) or ()), {"type": "text", "text": note}]
    if (cut_structured or (same and cut_texts)) and isinstance(shown["structuredContent"], dict):
        shown["structuredContent"] = {**shown["structuredContent"], CUT_KEY: note}
    meta = json_values.as_object(result.get("_meta")) or {}
    shown["_meta"] = {**meta, CUT_KEY: {"id": handle.id, "from": rest, "total": len(kept.text)}}
    return shown, kept


def _content(items: Sequence[Any], number: int, text: bytes) -> Steps[list[Any]]:
    """Texts up to the one of this number, and of that one the beginning."""
    content: list[Any] = []
    seen = -1
    for at, item in enumerate(items):
        if not at % A_STEP:
            yield
        if _text_of(item) is None:
            content.append(item)
            continue
        seen += 1
        if seen < number:
            content.append(item)
        elif seen == number and text:
            content.append({**item, "text": text.decode(errors="replace")})
    return content


def _first_piece(kept: KeptText, begin: int, end: int, budget: int, original: Any) -> Steps[tuple[int, Cut]]:
    """In which part it is cut, and what is left of that."""
    most = min((yield from within(kept.text, begin, budget)), end)
    number, start, stop = kept.part_at(min(most, end - 1))
    if start > boundaries.edge(begin, most):
        return number, Cut(b"", start, f"it shows the first {number:,} of its texts")
    if kept.is_json(number, start, stop):
        found = yield from boundaries.json_cut(kept.text, start, most)
        if found is not None:
            yield
            try:
                return number, _json_cut(kept.text, start, found, original)
            except ValueError:
                pass
        kept.is_no_json(number)
    at = boundaries.of_lines(kept.text, start, most)
    text = kept.text[start:at]
    many = text.count(LINE_END)
    yield
    if many > 1:
        all_lines = kept.text.count(LINE_END, start, stop) + 1
        says = f"it shows the first {many:,} of {all_lines:,} lines"
    else:
        says = f"it shows the first {at - start:,} of {stop - start:,} bytes of text"
    return number, Cut(text, at, says)


def _json_cut(text: bytes, start: int, found: JsonCut, original: Any) -> Cut:
    shown = text[start : found.end] + found.closing
    value = boundaries.value_of(shown)
    return Cut(shown, found.rest, _where(value, found, original), value)


def _where(value: Any, found: JsonCut, original: Any) -> str:
    path: list[str | int] = []
    at, there = value, original
    for _ in range(found.depth - (not found.in_string)):
        key, at = boundaries.last_of(at)
        path.append(key)
        there = _under(there, key)
    place = "$" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    name = json_values.quoted(place, 120)
    if isinstance(at, str):
        of = f" of {len(there):,}" if type(there) is str else ""
        return f"it shows the first {len(at):,}{of} characters of {name}"
    every = json_values.as_array(there) or json_values.as_object(there)
    of = f" of {len(every):,}" if every else ""
    kind = "items" if isinstance(at, list) else "members"
    many: int = len(at)  # pyright: ignore[reportUnknownArgumentType]
    return f"it shows the first {many:,}{of} {kind} of {name}"


def _under(value: Any, key: str | int) -> Any:
    if isinstance(key, int):
        items = json_values.as_array(value) or ()
        return items[key] if key < len(items) else None
    return (json_values.as_object(value) or {}).get(key)


def _note(kept: KeptText, rest: int, says: str, handle: Handle) -> str:
    missing, read_on = about(kept.text, rest), json.dumps({"id": handle.id, "from": rest})
    search = json.dumps({"id": handle.id, "query": "WORDS"})
    return (
        f"[Cut by mcpproxy: {says}. About {missing:,} tokens are missing, from byte {rest:,} of {len(kept.text):,} on. "
        f"Read on with read_result {read_on}, or only what matches with read_result {search}, "
        f"within {handle.minutes} minutes. {end_of(kept.text, rest)}]"
    )


def end_of(text: bytes, rest: int) -> str:
    begin = boundaries.character(text, max(rest, len(text) - END))
    return f"It ends: …{text[begin:].decode(errors='replace')}"
