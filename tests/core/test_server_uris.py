"""A resource's address says which server it is of, and no spelling of it says another one (SURF-10)."""

from __future__ import annotations

from urllib.parse import unquote, urljoin, urlsplit, uses_netloc, uses_relative

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import Url

from mcpproxy_py.core.protocol.server_uris import addressed, folders_above, owner_of
from mcpproxy_py.errors import RpcError
from mcpproxy_py.serve.mcp.surfaces import list_cursors

pytestmark = pytest.mark.proves("SURF-10")

SERVERS = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,31}", fullmatch=True)
PIECES = (
    "a",
    ".",
    "..",
    "%2e",
    "%2E",
    "%25",
    "2e",
    "/",
    "%2f",
    "\\",
    "?",
    "#",
    "@",
    ":",
    "b.mcpproxy",
    " ",
    "é",
    "%",
    "\u202e",
)
URIS = st.one_of(
    st.builds(lambda scheme, rest: f"{scheme}://{''.join(rest)}", st.sampled_from(["ui", "skill", "x+y"]),
              st.lists(st.sampled_from(PIECES), max_size=12)),
    st.text(max_size=40),
)  # fmt: skip


@given(SERVERS, URIS)
def test_what_can_be_addressed_leads_back_to_where_it_came_from(server: str, uri: str) -> None:
    at = addressed(server, uri)
    if at is not None:
        assert owner_of(at) == (server, uri)
        assert owner_of(str(Url(at))) in ((server, uri), None), "as a client's library spells it"


@given(SERVERS, SERVERS, URIS, URIS)
def test_nothing_of_one_server_has_the_address_of_anothers(server: str, other: str, uri: str, claimed: str) -> None:
    if server != other:
        assert addressed(server, uri) is None or addressed(server, uri) != addressed(other, claimed)


@given(SERVERS, URIS, st.lists(st.sampled_from(PIECES[:12]), max_size=8).map("".join))
def test_no_reference_in_a_file_leads_to_another_server(server: str, uri: str, reference: str) -> None:
    """As a client resolves it, by RFC 3986; what names an authority of its own is no reference within a skill."""
    at = addressed(server, uri)
    if at is None or not at.startswith("skill:") or reference.startswith("//") or ":" in reference:
        return
    uses_relative.append("skill")
    uses_netloc.append("skill")
    try:
        found = owner_of(urljoin(at, reference))
    finally:
        uses_relative.pop()
        uses_netloc.pop()
    assert found is None or found[0] == server


@given(st.text(max_size=60) | URIS)
def test_what_is_read_climbs_nowhere(uri: str) -> None:
    if (found := owner_of(uri)) is not None:
        path = unquote(unquote(unquote(found[1])))
        assert ".." not in path.replace("?", "/").split("/") and "\\" not in path
        assert urlsplit(uri).netloc == f"{found[0]}.mcpproxy"


def test_a_file_lies_in_the_folders_above_it() -> None:
    assert folders_above("skill://s.mcpproxy/a/b.md") == [
        "skill://s.mcpproxy/a/b.md/", "skill://s.mcpproxy/a/", "skill://s.mcpproxy/",
    ]  # fmt: skip


@given(st.text() | st.binary(max_size=40).map(lambda raw: raw.hex()) | st.integers())
def test_a_cursor_that_is_not_ours_is_an_error(cursor: object) -> None:
    with pytest.raises(RpcError):
        list_cursors.opened(cursor, ["a"])


@given(st.dictionaries(SERVERS, st.text(min_size=1, max_size=20), min_size=1, max_size=4), st.integers(1, 900))
def test_a_cursor_of_ours_leads_to_the_servers_that_are_there(following: dict[str, str], number: int) -> None:
    cursor = list_cursors.closed(following, number)
    there = sorted(following)[:2]
    assert list_cursors.opened(cursor, there) == ({each: following[each] for each in there}, number + 1)
