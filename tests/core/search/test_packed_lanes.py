"""Arithmetic on all tools at once, against the same done for each."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.core.search import packed_lanes

pytestmark = pytest.mark.proves("PERF-4")

numbers = st.lists(st.integers(0, packed_lanes.TOP) | st.sampled_from([0, 1, packed_lanes.TOP]), max_size=40)


def packed(values: list[int]) -> int:
    return packed_lanes.packed(
        {place: value / 2 for place, value in enumerate(values) if value},
        {each / 2: each for each in values},
        len(values),
    )


def levels(values: list[int], among: list[bool]) -> bytes:
    mask = packed_lanes.held(packed(values), packed_lanes.every(len(values))) & packed_lanes.mask(
        packed_lanes.marks(among)
    )
    return packed_lanes.levels(packed(values), max(values, default=1) or 1, mask, len(values))


@given(st.lists(st.tuples(st.integers(0, 16_383), st.integers(0, 16_384)), max_size=40))
def test_adding_adds_for_every_tool_and_no_lane_spills_into_the_next(pairs: list[tuple[int, int]]) -> None:
    left, right = ([pair[side] for pair in pairs] for side in (0, 1))
    assert packed(left) + packed(right) == packed([one + other for one, other in pairs])


@given(numbers)
def test_the_held_are_those_with_anything(values: list[int]) -> None:
    mask = packed_lanes.held(packed(values), packed_lanes.every(len(values)))
    assert mask == packed_lanes.mask(packed_lanes.marks(value > 0 for value in values))
    assert mask.bit_count() == sum(value > 0 for value in values)


@given(numbers, st.randoms(use_true_random=False))
def test_a_higher_number_never_has_a_lower_level_and_what_is_not_among_them_has_none(
    values: list[int], chance: Any
) -> None:
    among = [chance.random() < 0.7 for _ in values]
    found = levels(values, among)
    assert [level > 0 for level in found] == [value > 0 and each for value, each in zip(values, among, strict=True)]
    for value, level in zip(values, found, strict=True):
        assert level in (0, packed_lanes.level_of(value, max(values) or 1))
    counted = sorted((value, level) for value, level in zip(values, found, strict=True) if level)
    assert [level for _, level in counted] == sorted(level for _, level in counted)


@given(numbers, st.integers(1, 50))
def test_the_level_that_so_many_reach_is_the_highest_such_level(values: list[int], many: int) -> None:
    found = levels(values, [True] * len(values))
    level = packed_lanes.reached_by(found, many)
    ranked = sorted(found, reverse=True)
    assert level == (max(1, ranked[many - 1]) if many <= len(ranked) else 1)
    assert list(packed_lanes.at_least(found, level)) == [place for place, each in enumerate(found) if each >= level]
