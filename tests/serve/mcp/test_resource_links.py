"""Which server a resource belongs to: who keeps it, how much is kept, and how much work one result can make."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mcpproxy_py.serve.mcp.surfaces import resource_links
from mcpproxy_py.serve.mcp.surfaces.resource_links import LONGEST_URI, MOST, MOST_CHARACTERS, ResourceLinks, in_list

pytestmark = pytest.mark.proves("SURF-8")


def owner(links: ResourceLinks, uri: str, principal: str = "p") -> str | None:
    found = links.owner(principal, uri)
    return found.server if found is not None else None


def test_a_share_is_bounded_and_the_longest_unused_goes_first() -> None:
    links = ResourceLinks()
    links.learn("p", "other", ["x://other"])
    links.learn("p", "s", ["x://first", "x://used"])
    for start in range(0, MOST, 1000):
        links.learn("p", "s", ["x://used", *(f"x://{start + number}" for number in range(1000))])
    assert (owner(links, "x://first"), owner(links, "x://0")) == (None, None)
    assert (owner(links, "x://used"), owner(links, "x://other"), owner(links, f"x://{MOST - 1}")) == ("s", "other", "s")


def test_it_is_bounded_in_characters_too() -> None:
    links = ResourceLinks()
    long = "x" * (LONGEST_URI - 20)
    links.learn("p", "s", ["x://first"])
    for number in range(MOST_CHARACTERS // LONGEST_URI + 10):
        links.learn("p", "s", [f"x://{number}/{long}"])
    assert owner(links, "x://first") is None
    assert owner(links, f"x://0/{long}") is None
    assert owner(links, f"x://{number}/{long}") == "s"


def test_one_result_makes_bounded_work() -> None:
    seen = 0

    def endless() -> Iterator[str]:
        nonlocal seen
        while True:
            seen += 1
            yield f"x://{seen}/{'x' * (2 if seen < 100 else 8000)}"

    ResourceLinks().learn("p", "s", endless())
    assert seen <= MOST_CHARACTERS // 8000 + 101
    assert len(list(in_list([{"uri": "x://y"}] * (2 * resource_links.MOST_ITEMS)))) == resource_links.MOST_ITEMS
    assert list(in_list([{"uri": "x" * (LONGEST_URI + 1)}, {"uri": 5}, {}, 7])) == []


def test_what_one_principal_was_told_another_was_not() -> None:
    links = ResourceLinks()
    links.learn("p", "s", ["x://y"])
    links.learn("q", "t", ["x://y"])
    assert (owner(links, "x://y"), owner(links, "x://y", "q"), owner(links, "x://y", "r")) == ("s", "t", None)


def test_a_server_that_is_gone_leaves_what_it_named() -> None:
    there = {"s", "t"}
    links = ResourceLinks(there.__contains__)
    links.learn("p", "s", ["x://y", "x://z"])
    links.learn("p", "t", ["x://y"])
    assert owner(links, "x://y") == "s"
    there.remove("s")
    links.learn("p", "t", ["x://y"])
    assert (owner(links, "x://y"), owner(links, "x://z")) == ("t", "s")


def test_a_list_of_its_own_settles_it_for_who_was_first() -> None:
    links = ResourceLinks()
    links.learn("p", "s", ["x://y"])
    links.learn("p", "t", ["x://y"], listed=True)
    found = links.owner("p", "x://y")
    assert found is not None
    assert (found.server, found.rival) == ("s", "t")
    links.learn("p", "s", ["x://y"], listed=True)
    links.learn("p", "t", ["x://y"], listed=True)
    assert (found.server, found.rival) == ("s", None)
