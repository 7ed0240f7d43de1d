"""Which server a resource belongs to: who keeps it, how much is kept, and how much work one result can make."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from mcpproxy_py.serve.mcp.surfaces import resource_links
from mcpproxy_py.serve.mcp.surfaces.resource_links import LONGEST_URI, MOST, MOST_CHARACTERS, ResourceLinks, in_list

pytestmark = pytest.mark.proves("SURF-8")


ALL = frozenset(("s", "t", "other"))


def learn(links: ResourceLinks, *given: Any, **named: Any) -> None:
    asyncio.run(links.learn(*given, **named))


def owner(links: ResourceLinks, uri: str, principal: str = "p", there: frozenset[str] = ALL) -> str | None:
    found = links.owner(principal, uri, there)
    return found.server if found is not None else None


def test_a_share_is_bounded_and_the_longest_unused_goes_first() -> None:
    links = ResourceLinks()
    learn(links, "p", "other", ["x://other"], ALL)
    learn(links, "p", "s", ["x://first", "x://used"], ALL)
    for start in range(0, MOST, 1000):
        learn(links, "p", "s", ["x://used", *(f"x://{start + number}" for number in range(1000))], ALL)
    assert (owner(links, "x://first"), owner(links, "x://0")) == (None, None)
    assert (owner(links, "x://used"), owner(links, "x://other"), owner(links, f"x://{MOST - 1}")) == ("s", "other", "s")


def test_it_is_bounded_in_characters_too() -> None:
    links = ResourceLinks()
    long = "x" * (LONGEST_URI - 20)
    learn(links, "p", "s", ["x://first"], ALL)
    many = MOST_CHARACTERS // LONGEST_URI + 10
    for number in range(many):
        learn(links, "p", "s", [f"x://{number}/{long}"], ALL)
    assert owner(links, "x://first") is None
    assert owner(links, f"x://0/{long}") is None
    assert owner(links, f"x://{many - 1}/{long}") == "s"


def test_one_result_makes_bounded_work() -> None:
    seen = 0

    def endless() -> Iterator[str]:
        nonlocal seen
        while True:
            seen += 1
            yield f"x://{seen}/{'x' * (2 if seen < 100 else 8000)}"

    learn(ResourceLinks(), "p", "s", endless(), ALL)
    assert seen <= MOST_CHARACTERS // 8000 + 101
    assert len(list(in_list([{"uri": "x://y"}] * (2 * resource_links.MOST_ITEMS)))) == resource_links.MOST_ITEMS
    assert list(in_list([{"uri": "x" * (LONGEST_URI + 1)}, {"uri": 5}, {}, 7])) == []


def test_what_one_principal_was_told_another_was_not() -> None:
    links = ResourceLinks()
    learn(links, "p", "s", ["x://y"], ALL)
    learn(links, "q", "t", ["x://y"], ALL)
    assert (owner(links, "x://y"), owner(links, "x://y", "q"), owner(links, "x://y", "r")) == ("s", "t", None)


def test_a_server_that_is_gone_or_out_of_scope_leaves_what_it_named() -> None:
    links, left = ResourceLinks(), frozenset(("t",))
    learn(links, "p", "s", ["x://y", "x://z"], ALL)
    learn(links, "p", "t", ["x://y"], ALL)
    assert owner(links, "x://y") == "s"
    assert owner(links, "x://y", there=left) is None
    learn(links, "p", "t", ["x://y"], left)
    assert (owner(links, "x://y"), owner(links, "x://z")) == ("t", "s")
    assert owner(links, "x://z", there=left) is None


@pytest.mark.proves("SEC-2")
def test_a_rival_out_of_scope_is_not_told_of() -> None:
    links = ResourceLinks()
    learn(links, "p", "s", ["x://y"], ALL)
    learn(links, "p", "t", ["x://y"], ALL, listed=True)
    found = links.owner("p", "x://y", frozenset(("s",)))
    assert found is not None
    assert (found.server, found.rival) == ("s", None)


@pytest.mark.proves("SEC-2")
def test_a_principal_that_is_gone_leaves_nothing() -> None:
    links = ResourceLinks()
    learn(links, "p", "s", ["x://y"], ALL)
    learn(links, "q", "s", ["x://y"], ALL)
    links.end("p")
    assert (owner(links, "x://y"), owner(links, "x://y", "q")) == (None, "s")


def test_a_list_of_its_own_settles_it_for_who_was_first() -> None:
    links = ResourceLinks()
    learn(links, "p", "s", ["x://y"], ALL)
    learn(links, "p", "t", ["x://y"], ALL, listed=True)
    found = links.owner("p", "x://y", ALL)
    assert found is not None
    assert (found.server, found.rival) == ("s", "t")
    learn(links, "p", "s", ["x://y"], ALL, listed=True)
    learn(links, "p", "t", ["x://y"], ALL, listed=True)
    assert (found.server, found.rival) == ("s", None)
