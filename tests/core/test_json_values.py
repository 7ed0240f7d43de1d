from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.core.json_values import ComparableObject, quoted, same
from mcpproxy_py.core.pins.canonical import canonical


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


IN_A_CIRCLE: list[Any] = []
IN_A_CIRCLE.append(IN_A_CIRCLE)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\x1b[0m", "two\\u000alines\\u001b[0m"),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        ("x" * 100, "x" * 79 + "…"),
        (10**5000, "(number that cannot be shown)"),
        (deep(100_000), "(array that cannot be shown)"),
        (IN_A_CIRCLE, "(array that cannot be shown)"),
    ],
    ids=["text", "control", "object", "long", "digits", "deep", "circle"],
)
def test_anything_from_outside_can_be_shown_in_a_message(value: Any, shown: str) -> None:
    assert quoted(value) == shown


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.sampled_from((0, 1, 0.0, 1.0)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)
ALIKE = (None, False, True, 0, 1, 0.0, 1.0, -0.0, "", "true", "1", "nan", "inf", float("nan"), float("inf"), [], {},
         [1], [True], {"a": 1}, {"a": True}, 2**53 + 1, float(2**53), 10**5000, hex(10**5000))  # fmt: skip


@given(JSON, JSON)
def test_values_are_the_same_where_their_digests_are(one: Any, other: Any) -> None:
    assert same(one, other) == same(other, one) == (canonical(one) == canonical(other))
    assert same(one, json.loads(json.dumps(one)))


def test_of_values_that_look_alike_only_equal_numbers_are_the_same() -> None:
    for one, other in itertools.product(ALIKE, repeat=2):
        for wrap in (lambda value: value, lambda value: [value], lambda value: {"a": {"b": [value]}}):
            found = same(wrap(one), wrap(other))
            assert found == (canonical(one) == canonical(other)), (one, other)
    assert same(1, 1.0) and same(0, -0.0)
    assert not same(1, True) and not same(0, False) and not same("nan", float("nan"))


def test_the_order_of_keys_does_not_matter_and_that_of_items_does() -> None:
    assert same({"a": 1, "b": [1, 2]}, {"b": [1, 2], "a": 1})
    assert not same([1, 2], [2, 1])
    assert not same({"a": None}, {})


def test_deep_values_are_compared() -> None:
    assert same(deep(100_000), deep(100_000))
    assert not same(deep(100_000), deep(100_001))


def test_settings_compare_their_objects_so_too() -> None:
    one, other = ComparableObject(const=1), ComparableObject(const=True)
    assert one != other and other != {"const": 1}
    assert one == ComparableObject(const=1.0) == {"const": 1}
    assert [one] != [other] and one not in [other]
