"""The texts of servers, as the scan of descriptions reads them."""

from __future__ import annotations

import copy
import json
from collections.abc import Hashable
from typing import Any

from mcpproxy_py.core.pins.scan.finding import MAX_EXCERPT, visible
from mcpproxy_py.core.pins.scan.listed_texts import MAX_WHERE
from mcpproxy_py.core.pins.text_scan import MAX_FINDINGS, OtherTools, scan_tool

OTHERS = OtherTools({"mail": [{"name": "send_email", "inputSchema": {"properties": {"to": {"type": "string"}}}}]})
TAG = "\U000e0041"


def scan_of_descriptions(data: bytes) -> Hashable:
    """The scan raises nothing, changes nothing, says the same again, is done when it is done, shows nothing that hides,
    and a hidden character that is added to a description always blocks."""
    wire = _tool(data)
    before = copy.deepcopy(wire)
    found = scan_tool(wire, OTHERS)
    assert wire == before or wire != wire, "what was given was changed"
    assert found == scan_tool(wire, OTHERS), "it says something else the second time"
    assert len(found) <= MAX_FINDINGS
    for finding in found:
        assert len(finding.excerpt) <= MAX_EXCERPT
        assert len(finding.where) <= MAX_WHERE + 1
        for said in (finding.where, finding.excerpt, finding.text):
            assert said == visible(said), f"{said!r} hides something"
    assert any(each.blocks for each in scan_tool({**wire, "description": f"{wire.get('description')}{TAG}"}, OTHERS))
    return tuple(sorted({each.kind for each in found}))


def _tool(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = data.decode("utf-8", "surrogateescape")
    if isinstance(value, dict):
        return value
    return {"name": "look", "description": value, "inputSchema": {"properties": {"a": {"description": value}}}}
