"""The soak in short: `python -m tests.bench.soak` is the whole of it, and judges the memory too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.soak import soaked


@pytest.mark.proves("UP-5", "UP-7", "SURF-6", "ACT-1", "ACT-5")
def test_with_servers_killed_at_random_no_answer_is_lost_or_crossed_and_each_ask_is_on_record_once(
    tmp_path: Path,
) -> None:
    found = soaked(tmp_path, seconds=10, sessions=30)
    assert found.sound, found
    assert sum(found.kills.values()) > 0
