"""The page about bounds says what the code does."""

from __future__ import annotations

import re

import pytest

from mcpproxy_py.core.json_size import LONG_NUMBER, MAX_BODY_VALUES
from mcpproxy_py.jsonrpc import LONGEST_ERROR
from mcpproxy_py.serve.http.parser import LEAST_PIECE, MOST_PIECES
from mcpproxy_py.serve.mcp.attach import LINES_A_TURN as LINES_OF_CLIENTS
from mcpproxy_py.settings.models import Limits
from mcpproxy_py.upstream.session.rpc import LONGEST_BATCH
from mcpproxy_py.upstream.session.session import MAX_ENTRIES, MAX_ENTRY_BYTES, MAX_LISTING_BYTES, MAX_PAGES
from mcpproxy_py.upstream.transports.http_pool import SLICE
from mcpproxy_py.upstream.transports.stdio import LINES_A_TURN
from tests.house.markdown import ROOT

PAGE = (ROOT / "docs/explanation/bounds.md").read_text()
LIMITS = Limits()
ROWS = {
    "an answer": LIMITS.max_result_bytes,
    "keys and values in an answer": LIMITS.max_result_values,
    "messages in a batch": LONGEST_BATCH,
    "the text of an error": LONGEST_ERROR,
    "a list: entries": MAX_ENTRIES,
    "a list: size": MAX_LISTING_BYTES,
    "a list: pages": MAX_PAGES,
    "one tool": MAX_ENTRY_BYTES,
    "lines in one turn of the event loop": LINES_A_TURN,
    "bytes in one turn, of a stream over HTTP": SLICE,
    "a request": LIMITS.max_body_bytes,
    "keys and values in a request, or in `args_json`": LIMITS.max_body_values,
    "pieces of a body": MOST_PIECES,
    "lines from the socket in one turn of the event loop": LINES_OF_CLIENTS,
}


@pytest.mark.parametrize("what", ROWS)
def test_the_page_says_the_bound(what: str) -> None:
    (row,) = re.findall(rf"^\| {re.escape(what)} \| ([^|]*) \|", PAGE, re.MULTILINE)
    assert row.split()[0].rstrip(",").replace(",", "") == str(ROWS[what])


def test_what_it_says_beside_its_table_is_so() -> None:
    assert LIMITS.max_body_values == MAX_BODY_VALUES
    assert f"for each {LEAST_PIECE} bytes" in PAGE
    assert LONG_NUMBER == 16 and "64 digits in a row as sixteen" in PAGE
