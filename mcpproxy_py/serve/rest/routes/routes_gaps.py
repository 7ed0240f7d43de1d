"""What was missing: one ranked report over the record (MISS-3)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mcpproxy_py.core.catalog import gaps
from mcpproxy_py.errors import Code
from mcpproxy_py.serve.rest import requests, responses
from mcpproxy_py.serve.rest._serve_endpoint import Endpoint, Exchange

LOOK_BACK: Final = timedelta(days=30)
APPROXIMATE: Final = ("passive", "unmet_search")
"""Guessed from turns of phrase, and from what the same client did next."""


async def report_gaps(x: Exchange) -> Mapping[str, Any]:
    await x.parts.store.caught_up()
    since: datetime = x.query.since or datetime.now(UTC) - LOOK_BACK
    seen = await x.parts.store.gaps.seen(max(0, int(since.timestamp() * 1000)))
    found = gaps.report(seen.sightings)
    return {
        "gaps": [_shown(gap) for gap in found[: x.query.limit]],
        "total": len(found),
        "since": _time(since),
        "approximate": list(APPROXIMATE),
        "cut": seen.cut,
    }


def _shown(gap: Mapping[str, Any]) -> dict[str, Any]:
    """With times as they are everywhere in this interface."""
    kept = {key: value for key, value in gap.items() if not key.endswith("_ms")}
    times = {key.removesuffix("_ms"): gap[key] for key in gap if key.endswith("_ms")}
    return kept | {key: _time(datetime.fromtimestamp(millis / 1000, UTC)) for key, millis in times.items()}


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


ENDPOINTS: Final = (
    Endpoint("GET", "/api/v1/gaps", "Gaps", "What was missing: requested, hinted at, not found, refused, failing",
             report_gaps, responses.GapReport, query=requests.GapQuery, refusals=(Code.STORE_UNAVAILABLE,)),
)  # fmt: skip
