"""Answers that come in pages."""

from __future__ import annotations

from typing import Any


def every_page(client: Any, /, *path: str, items: str, **query: Any) -> dict[str, Any]:
    """The first page's answer with the items of all of them, as if the page had been large enough."""
    answer = client.get(*path, **query)
    found = list(answer.get(items, []))
    cursor = answer.get("next_cursor")
    while cursor:
        page = client.get(*path, **{**query, "cursor": cursor})
        found += page.get(items, [])
        # A cursor that leads back to itself would never end.
        cursor = page.get("next_cursor") if page.get("next_cursor") != cursor else None
    return {**answer, items: found, **({"next_cursor": None} if "next_cursor" in answer else {})}
