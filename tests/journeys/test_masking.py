"""What is secret reaches the upstream and comes back, and is nowhere in the data directory (ACT-9)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.gateway import gateway, python_server
from tests.support.wire import Wire, text

PASSWORD, NUMBER = "correct-horse-" + "battery-9", "EMP-" + "424242"


@pytest.mark.proves("ACT-9")
def test_secrets_pass_through_and_are_in_no_file_of_the_record(tmp_path: Path) -> None:
    config = {
        "activity": {"mask_patterns": [{"name": "employee", "pattern": r"\bEMP-\d{6}\b"}]},
        "mcpServers": {"s": python_server("plain.py")},
    }
    said = f'{{"password": "{PASSWORD}"}} from {NUMBER},\nand the rest stays'
    with gateway(tmp_path / "data", config) as running:
        wire = Wire(running.mcp)
        reply = wire.via("write", "s:echo", {"text": said})
        assert PASSWORD in text(reply) and NUMBER in text(reply), "what is masked is the record, not the call"
        wire.via("read", "s:echo", {"text": said})
        rows = running.activities(tool="echo")
        assert len(rows) == 2
        for row in rows:
            assert "***employee***" in json.dumps(row["arguments"])
            assert "and the rest stays" in json.dumps(row["arguments"])
    written = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert b"and the rest stays" in written
    assert PASSWORD.encode() not in written
    assert NUMBER.encode() not in written
