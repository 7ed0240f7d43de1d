"""The texts behind pins: kept while a pin names them, and for a while after."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcpproxy_py.store.database import pinned_texts
from mcpproxy_py.store.store import Store

pytestmark = [pytest.mark.proves("SEC-3"), pytest.mark.anyio]
TEXTS = {"one": {"name": "a"}, "two": {"name": "b"}, "three": "Use it."}


async def test_what_no_pin_has_named_for_a_while_goes_and_nothing_else(
    opened: Callable[..., Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = opened(tmp_path).pinned_texts
    await texts.save(TEXTS)
    await texts.forget(["one"])
    assert await texts.load([*TEXTS]) == TEXTS, "another gateway may be about to name them"
    later = pinned_texts.time.time() + pinned_texts.KEPT + 60
    clock: Any = lambda: later  # noqa: E731
    monkeypatch.setattr(pinned_texts.time, "time", clock)
    await texts.save({"four": "new"})
    await texts.forget(["one"])
    assert await texts.load([*TEXTS, "four"]) == {"one": TEXTS["one"], "four": "new"}
