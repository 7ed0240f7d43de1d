"""The line that names the servers in reach, measured with real tokenizers."""

from __future__ import annotations

import json
import random

import bpe_openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.core.policy.server_line import BUDGET, cost, server_line
from mcpproxy_py.providers.catalog.data_files import SHIPPED
from mcpproxy_py.providers.catalog.load import META
from mcpproxy_py.settings.servers import check_name

pytestmark = pytest.mark.proves("SURF-11")

ENCODINGS = [bpe_openai.get_encoding(name) for name in ("o200k_base", "cl100k_base")]
SLUGS = [entry["_meta"][META]["slug"] for entry in json.loads((SHIPPED / "servers.json").read_bytes())["servers"]]
NAMES = st.sets(st.from_regex(r"[a-z0-9][a-z0-9-]{0,31}", fullmatch=True), max_size=60)


def tokens(text: str) -> int:
    return max(len(encoding.encode(text)) for encoding in ENCODINGS)


def test_twenty_servers_of_the_catalog_cost_at_most_60_tokens() -> None:
    chance = random.Random(14)
    lines = [server_line(chance.sample(SLUGS, 20)) for _ in range(500)]
    assert max(map(tokens, lines)) <= 60
    assert sum(" more." not in line for line in lines) > 400, "nearly always all twenty are named"


def test_a_hundred_servers_cost_no_more_and_how_many_are_left_out_is_said() -> None:
    line = server_line(SLUGS)
    assert tokens(line) <= 60
    named = line.removeprefix("Servers: ").split(" and ")[0].split()
    assert named == sorted(SLUGS)[: len(named)]
    assert line.endswith(f" and {len(SLUGS) - len(named)} more.")


@given(NAMES)
def test_the_line_is_one_sorted_bounded_line_that_says_how_many_there_are(names: set[str]) -> None:
    line = server_line(names)
    assert line == server_line(sorted(names, reverse=True))
    assert "\n" not in line and len(line) <= 6 * BUDGET
    if names:
        shown, _, rest = line.removeprefix("Servers: ").removesuffix(".").partition(" and ")
        assert sorted(names)[: len(shown.split())] == shown.split()
        assert len(shown.split()) + int(rest.removesuffix(" more") or 0) == len(names)


def test_no_servers_no_line() -> None:
    assert server_line([]) == ""


def test_the_longest_name_that_there_can_be_is_named() -> None:
    for name in ("a" * 32, "1" * 32, "a-" * 15 + "b"):
        assert check_name(name) and cost(name) <= BUDGET
        assert server_line([name]) == f"Servers: {name}."
