"""A result that is too long: what is left of it is valid, and what is missing can be read on to the last byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpproxy_py.core.policy.tool_results import CUT_KEY
from mcpproxy_py.core.results import cutting, reading
from mcpproxy_py.core.results.cutting import Handle
from mcpproxy_py.core.results.kept_text import KeptText
from mcpproxy_py.core.results.tokens import about, at_once, tokens
from tests.servers.long_results import SHAPES, rows

HANDLE = Handle("ab12-xyz", 15)
LIMIT = 2000


def cut(result: dict[str, Any], limit: int = LIMIT) -> tuple[dict[str, Any], KeptText]:
    """As the gateway does it."""
    texts = [text.encode() for text in cutting.texts_of(result)]
    structured = result.get("structuredContent")
    encoded = None if structured is None else json.dumps(structured, separators=(",", ":"), ensure_ascii=False).encode()
    if encoded is not None and len(texts) == 1 and texts[0][:1] in b"{[" and json.loads(texts[0]) == structured:
        encoded = None
    made = at_once(cutting.cut(result, texts, encoded, limit, HANDLE))
    assert made is not None
    return made


def of_text(*texts: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text} for text in texts], **more}


def shown_texts(result: dict[str, Any]) -> list[str]:
    """Without what is said of the cut."""
    said = cutting.texts_of(result)
    assert said[-1].startswith("[Cut by mcpproxy: ")
    return said[:-1]


def read_to_the_end(kept: KeptText, begin: int, limit: int = LIMIT) -> list[str]:
    pieces: list[str] = []
    at: int | None = begin
    while at is not None:
        answer = at_once(reading.piece_of(kept, HANDLE.id, at, limit))
        pieces.append(answer["content"][0]["text"])
        assert tokens(pieces[-1].encode()) <= limit
        following = answer["_meta"][CUT_KEY]["next"]
        assert following is None or following > at
        at = following
    return pieces


@pytest.mark.proves("SURF-13")
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_cut_and_read_on_to_the_last_byte(shape: str) -> None:
    whole = SHAPES[shape](150_000)
    shown, kept = cut(of_text(whole))
    (first,) = shown_texts(shown)
    at = shown["_meta"][CUT_KEY]["from"]
    assert kept.text.decode() == whole
    assert tokens(first.encode()) <= LIMIT
    common = kept.text[:at].rstrip(b", ").decode(errors="replace")
    assert first.startswith(common) or common.startswith(first), "what is shown is the beginning"
    assert "".join(read_to_the_end(kept, at)) == kept.text[at:].decode()
    assert "".join(read_to_the_end(kept, 0)) == whole


@pytest.mark.proves("SURF-13")
@pytest.mark.parametrize(
    "shape", ["rows", "rows, indented", "rows under a key", "deep and wide", "members", "base64 in JSON", "numbers",
              "escapes in JSON"]
)  # fmt: skip
def test_what_is_left_of_json_is_json_in_text_and_structure_alike(shape: str) -> None:
    whole = SHAPES[shape](150_000)
    value = json.loads(whole)
    value = value if isinstance(value, dict) else {"result": value}
    text = json.dumps(value, indent=2 if "indent" in shape else None, ensure_ascii=False)
    shown, kept = cut(of_text(text, structuredContent=value))
    (first,) = shown_texts(shown)
    left = json.loads(first)
    structured = shown["structuredContent"]
    note = structured.pop(CUT_KEY)
    assert left == structured
    assert note in shown["content"][-1]["text"]
    assert beginning_of(left, value)
    assert len(kept.text) == len(text.encode()), "what both say is kept once"


def beginning_of(left: Any, whole: Any) -> bool:
    """Whether it is the same, up to somewhere."""
    if isinstance(left, dict):
        return all(key in whole and beginning_of(value, whole[key]) for key, value in left.items())
    if isinstance(left, list):
        return len(left) <= len(whole) and all(map(beginning_of, left, whole))
    return left == whole or (isinstance(left, str) and whole.startswith(left))


@pytest.mark.proves("SURF-13")
def test_the_note_says_what_is_missing_how_to_read_on_and_how_it_ends() -> None:
    value = {"rows": rows(2000), "total": 2000, "next": "page-2"}
    shown, kept = cut(of_text(json.dumps(value), structuredContent=value))
    note = shown["content"][-1]["text"]
    left = len(shown["structuredContent"]["rows"])
    assert f"it shows the first {left:,} of 2,000 items of $.rows" in note
    at = shown["_meta"][CUT_KEY]["from"]
    assert f'read_result {{"id": "ab12-xyz", "from": {at}}}' in note
    assert '"total": 2000, "next": "page-2"}' in note
    assert kept.text[at:].lstrip().startswith(b'{"id": %d,' % left), "it goes on with the item that is missing"


@pytest.mark.proves("SURF-13")
def test_lines_and_long_strings_say_where_they_were_cut() -> None:
    shown, _ = cut(of_text(SHAPES["lines"](100_000)))
    (first,) = shown_texts(shown)
    assert first.endswith("\n")
    assert f"it shows the first {first.count(chr(10)):,} of" in shown["content"][-1]["text"]
    shown, _ = cut(of_text(SHAPES["base64 in JSON"](100_000)))
    assert "characters of $.data" in shown["content"][-1]["text"]


@pytest.mark.proves("SURF-13")
def test_images_audio_and_resources_stay_where_they_are_and_whole() -> None:
    image = {"type": "image", "data": "A" * 100_000, "mimeType": "image/png"}
    resource = {"type": "resource", "resource": {"uri": "a://b", "text": "t" * 100_000}}
    link = {"type": "resource_link", "uri": "a://c", "name": "c"}
    content = [image, {"type": "text", "text": "word " * 50_000}, resource, {"type": "text", "text": "later"}, link]
    shown, kept = cut({"content": content})
    assert [each for each in shown["content"] if each["type"] != "text"] == [image, resource, link]
    assert [each["type"] for each in shown["content"]] == ["image", "text", "resource", "resource_link", "text"]
    assert kept.text.decode() == "word " * 50_000 + "later"
    only = {"content": [image, resource]}
    assert at_once(cutting.cut(only, [], None, LIMIT, HANDLE)) is None


@pytest.mark.proves("SURF-13")
def test_many_small_texts_are_cut_between_two() -> None:
    shown, kept = cut(of_text(*(f"row {n} of many" for n in range(20_000))))
    texts = shown_texts(shown)
    assert texts == [f"row {n} of many" for n in range(len(texts))]
    at = shown["_meta"][CUT_KEY]["from"]
    assert "".join(texts) + "".join(read_to_the_end(kept, at)) == kept.text.decode()


@pytest.mark.proves("SURF-13")
def test_a_structure_that_says_something_else_than_the_text_is_cut_by_itself() -> None:
    value = {"rows": rows(2000)}
    shown, kept = cut(of_text("2000 rows", structuredContent=value))
    assert cutting.texts_of(shown)[0] == "2000 rows"
    shown["structuredContent"].pop(CUT_KEY)
    assert beginning_of(shown["structuredContent"], value)
    assert json.loads(kept.text) == value
    long = "word " * 20_000
    shown, kept = cut(of_text(long, structuredContent=value))
    assert kept.text.startswith(long.encode()) and json.loads(kept.text[len(long) :]) == value
    shown, kept = cut(of_text(long, structuredContent={"small": 1}))
    assert shown["structuredContent"] == {"small": 1} and kept.text.decode() == long


json_values_drawn = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=40) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=8), inner, max_size=6),
    max_leaves=60,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(json_values_drawn, min_size=1, max_size=8), st.integers(8, 400), st.booleans())
def test_any_json_is_cut_to_json_and_read_on_whole(values: list[Any], limit: int, ascii_only: bool) -> None:
    value = {"v": values}
    whole = json.dumps(value, ensure_ascii=ascii_only, indent=1 if limit % 2 else None)
    result = of_text(whole, structuredContent=value)
    made = at_once(cutting.cut(result, [whole.encode(errors="replace")], None, limit, HANDLE))
    if made is None:
        assert about(whole.encode(errors="replace")) <= limit
        return
    shown, kept = made
    shown["structuredContent"].pop(CUT_KEY)
    assert beginning_of(shown["structuredContent"], value)
    texts = shown_texts(shown)
    assert texts == [] or json.loads(texts[0]) == shown["structuredContent"]
    at = shown["_meta"][CUT_KEY]["from"]
    assert "".join(read_to_the_end(kept, at, limit)) == kept.text[at:].decode()


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(max_size=200), min_size=1, max_size=8), st.integers(0, 2000), st.integers(8, 100))
def test_any_text_is_read_on_from_anywhere(texts: list[str], begin: int, limit: int) -> None:
    kept = KeptText([each.encode(errors="replace") for each in texts])
    whole = kept.text
    if begin >= len(whole):
        assert begin == 0 or reading.problem(kept, begin, "")
        return
    read = "".join(read_to_the_end(kept, begin, limit)).encode()
    assert whole.endswith(read) and len(whole) - len(read) <= begin
