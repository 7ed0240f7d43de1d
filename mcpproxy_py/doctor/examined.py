"""All that is looked at of a gateway that runs, by itself: its machine, and what it says of itself and its servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mcpproxy_py import __version__
from mcpproxy_py.doctor.identity import identity_provider
from mcpproxy_py.doctor.machine import folder
from mcpproxy_py.doctor.running import gateway_at_work, servers_at_work
from mcpproxy_py.settings import Settings


def examined(settings: Settings, status: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The findings as REST shows them. Blocking."""
    found = [
        *folder(settings), *identity_provider(settings), *gateway_at_work(status, __version__), *servers_at_work(rows),
    ]  # fmt: skip
    return [each._asdict() for each in found]
