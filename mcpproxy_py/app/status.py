"""How the gateway is, as `/api/v1/status` says it."""

from __future__ import annotations

import os
import time
from typing import Any

from mcpproxy_py import __version__
from mcpproxy_py.app.live_settings import LiveSettings
from mcpproxy_py.gateway.access.profiles import without_effect
from mcpproxy_py.gateway.gateway import Gateway
from mcpproxy_py.store.store import Store


def status_of(current: LiveSettings, gateway: Gateway, store: Store, url: str, started: float) -> dict[str, Any]:
    settings, policy = current.settings, gateway.snapshot.policy
    return {
        "version": __version__,
        "pid": os.getpid(),
        "url": url,
        "data_dir": str(settings.data_dir),
        "surfaces": list(settings.surfaces),
        "mode": policy.mode,
        "unannotated": policy.unannotated,
        "frozen": policy.frozen,
        "draining": gateway.draining,
        "uptime_seconds": round(time.time() - started, 1),
        "config_error": current.error,
        "awaits_restart": current.awaits_restart(),
        "in_flight": gateway.in_flight,
        "unrecorded": gateway.recorder.unrecorded,
        "asks": gateway.recorder.tally.by_variant(),
        "search": gateway.snapshot.index.health(),
        "store": dict(store.health()),
    }


def profiles_of(current: LiveSettings, gateway: Gateway) -> dict[str, Any]:
    """How many there are, and which of their names mean nothing now."""
    table = current.profiles
    told = {name: said for name in table if (said := without_effect(table.scope(name), gateway.snapshot))}
    return {"count": sum(1 for _ in table), "without_effect": told}
