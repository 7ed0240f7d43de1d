"""Short ids: short, told apart, and found again by what a person types (USE-6)."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.core.record.events import IdMaker
from mcpproxy_py.core.record.short_ids import LEAST_TYPED, TIME_DIGITS, id_ranges, short_id, short_ids

pytestmark = pytest.mark.proves("USE-6")

FIRST, LAST = 1_700_000_000_000, 1_800_000_000_000
times = st.lists(st.integers(FIRST, LAST), min_size=1, max_size=30)


def made(millis: list[int], prefix: str = "") -> list[str]:
    new_id = IdMaker(Random(3).randbytes, prefix)
    return [new_id(at / 1000) for at in sorted(millis)]


def found(typed: str, ids: list[str], prefix: str = "") -> set[str]:
    ranges = list(id_ranges(typed, FIRST, LAST, prefix))
    return {
        each for each in ids if any(r.first <= each < r.last and each.endswith(r.ending) for r in ranges)
    }  # fmt: skip


@given(times)
def test_the_short_form_of_an_id_finds_it_and_nothing_of_another_millisecond(millis: list[int]) -> None:
    ids = made(millis)
    for whole, short in short_ids(ids).items():
        assert whole in found(short, ids)
        assert {short_id(each) for each in found(short, ids)} == {short_id(whole)}


@given(st.integers(1, 40), st.integers(FIRST, LAST))
def test_ids_of_one_millisecond_are_told_apart_by_how_they_end(many: int, at: int) -> None:
    ids = made([at] * many)
    short = short_ids(ids)
    assert len(set(short.values())) == many
    assert all(found(form, ids) == {whole} for whole, form in short.items())


def test_a_short_form_is_eight_digits_where_that_is_enough() -> None:
    (whole,) = made([FIRST])
    assert short_id(whole) == whole.replace("-", "")[4:12]
    assert len(short_id(whole)) == TIME_DIGITS
    assert short_ids([whole, whole]) == {whole: short_id(whole)}


@given(times, st.integers(LEAST_TYPED, 36))
def test_the_beginning_of_a_whole_id_finds_it_too(millis: list[int], length: int) -> None:
    ids = made(millis)
    for whole in ids:
        assert whole in found(whole[:length], ids)
        assert whole in found(f" {whole[:length].upper()} ", ids)


def test_a_prefix_may_be_left_out_and_may_be_typed() -> None:
    (whole,) = made([FIRST], "apr_")
    for typed in (whole, short_id(whole), f"apr_{short_id(whole)}", whole.removeprefix("apr_")[:10]):
        assert found(typed, [whole], "apr_") == {whole}


@pytest.mark.parametrize(
    "typed", ["", "abc", "xyz1", "a1b2.g", "a1b2c3.12", "%", "a1b2%", "' OR 1=1", "a1b2_", "e" * 33, "é" * 8,
              "12345678.", "12345678.%1"],
)  # fmt: skip
def test_what_cannot_be_an_id_is_looked_for_nowhere(typed: str) -> None:
    assert list(id_ranges(typed, FIRST, LAST)) == []


def test_what_is_no_uuid_is_its_own_short_form() -> None:
    assert short_ids(["a1", "00042"]) == {"a1": "a1", "00042": "00042"}


def test_each_seven_weeks_of_the_record_are_one_place_to_look() -> None:
    weeks = (LAST >> 32) - (FIRST >> 32) + 1
    assert len(list(id_ranges("12345678", FIRST, LAST))) == weeks + 1
