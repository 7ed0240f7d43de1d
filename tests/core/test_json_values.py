from __future__ import annotations

from typing import Any

import pytest

from mcpproxy_py.core.json_values import quoted


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
