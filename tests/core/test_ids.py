from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.core.record.events import IdMaker
from mcpproxy_py.core.record.short_ids import first_id, millis_of


@given(st.lists(st.floats(min_value=1.6e9, max_value=4e9), min_size=2, max_size=50))
def test_ids_sort_by_the_order_they_were_made_in_even_when_the_clock_steps_back(times: list[float]) -> None:
    make = IdMaker(lambda count: b"\x07" * count)
    made = [make(at) for at in times]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_an_id_is_a_valid_uuid_of_version_7_that_carries_its_time() -> None:
    made = uuid.UUID(IdMaker(lambda count: b"\xff" * count)(1_700_000_000.5))
    assert made.version == 7
    assert made.variant == uuid.RFC_4122
    assert made.int >> 80 == 1_700_000_000_500


@given(st.integers(1_600_000_000_000, 4_000_000_000_000), st.integers(-5, 5))
def test_an_id_tells_its_time_and_sorts_beside_the_first_id_of_any_moment(millis: int, later: int) -> None:
    made = IdMaker(lambda count: b"\x00" * count)(millis / 1000 + 0.0001)
    assert millis_of(made) == millis == millis_of(f"apr_{made}")
    assert (made >= first_id(millis + later)) == (later <= 0)
