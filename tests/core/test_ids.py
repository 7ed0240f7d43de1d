from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.core.ids import IdMaker


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
