"""Framing of untrusted bytes: pure, so proved on every way to cut them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.jsonrpc import LineSplitter, id_at_the_edges
from mcpproxy_py.upstream.transports.http_exchange import ServerSentEvent, SseParser

pytestmark = pytest.mark.proves("SEC-5")


def split(pieces: list[bytes], limit: int) -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
    lines: list[bytes] = []
    oversize: list[tuple[bytes, bytes]] = []
    splitter = LineSplitter(limit, lines.append, lambda head, tail: oversize.append((head, tail)))
    for piece in pieces:
        splitter.feed(piece)
    return lines, oversize


@given(st.lists(st.binary(max_size=40), max_size=20), st.data())
def test_lines_come_out_whole_however_the_bytes_were_cut(lines: list[bytes], data: st.DataObject) -> None:
    lines = [line.replace(b"\n", b"") for line in lines]
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert split(pieces, 100) == (lines, [])


@given(st.binary(min_size=11, max_size=5000).filter(lambda line: b"\n" not in line), st.integers(1, 700))
def test_a_line_too_long_is_skipped_and_the_next_one_is_read(line: bytes, step: int) -> None:
    stream = b"before\n" + line + b"\nafter\n"
    lines, oversize = split([stream[at : at + step] for at in range(0, len(stream), step)], 10)
    assert lines == [b"before", b"after"]
    assert [bool(tail) for _, tail in oversize] == [False, True]
    assert line.startswith(oversize[0][0][:10])
    assert line.endswith(oversize[1][1][-10:])


def test_memory_stays_bounded_while_a_line_never_ends() -> None:
    splitter = LineSplitter(1000, lambda line: None, lambda head, tail: None)
    for _ in range(1000):
        splitter.feed(b"x" * 10_000)
    assert sum(len(part) for part in (splitter._partial, splitter._skipped_head or b"", splitter._skipped_tail)) < 3000


@pytest.mark.parametrize(
    ("head", "tail", "found"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"a":', b"", 7),
        (b'{"id": 12, "result"', b"", 12),
        (b'{"result":{"id":3,', b'"x"},"id":9}', 9),
        (b'{"result":{', b'"x"},"id":9,"jsonrpc":"2.0"}', 9),
        (b'{"result":{"id":3,', b'"id":4}}', None),
        (b'{"result":{"content":"{\\"id\\":3,', b"", None),
        (b"garbage", b"garbage", None),
        (b'{"id":"7","result"', b"", None),
        (b'{"id":' + b"9" * 400, b"", None),
    ],
)
def test_the_id_of_an_unreadable_message_is_only_taken_from_its_top_level(
    head: bytes, tail: bytes, found: int | None
) -> None:
    assert id_at_the_edges(head, tail) == found


def events(stream: bytes, step: int = 3, limit: int = 100) -> tuple[list[ServerSentEvent], SseParser, int]:
    seen: list[ServerSentEvent] = []
    oversize: list[bytes] = []
    parser = SseParser(limit, seen.append, lambda head, tail: oversize.append(head))
    for at in range(0, len(stream), step):
        parser.feed(stream[at : at + step])
    return seen, parser, len(oversize)


def test_events_are_read_as_the_standard_says() -> None:
    stream = b": hello\r\nid: 4\r\nretry: 250\r\ndata: one\r\ndata:two\r\n\r\nevent: endpoint\ndata: /x\n\nid\ndata\n\n"
    seen, parser, _ = events(stream)
    assert seen == [ServerSentEvent("message", b"one\ntwo"), ServerSentEvent("endpoint", b"/x")]
    assert (parser.last_id, parser.retry) == ("", 0.25)


@pytest.mark.parametrize("large", [b"data: " + b"x" * 400 + b"\n", (b"data: " + b"x" * 60 + b"\n") * 4])
def test_an_event_too_large_is_dropped_and_the_next_one_is_read(large: bytes) -> None:
    seen, _, oversize = events(large + b"data: more\n\ndata: after\n\n")
    assert seen == [ServerSentEvent("message", b"after")]
    assert oversize >= 1


@given(st.binary(max_size=300), st.integers(1, 9))
def test_no_bytes_make_the_parser_fail(stream: bytes, step: int) -> None:
    events(stream, step)
