"""Counters in Prometheus' text format. Labels come from closed sets, never from callers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

from mcpproxy_py import __version__
from mcpproxy_py.core.values import ServerState, Snapshot, Status
from mcpproxy_py.serve.parts import Parts

MEDIA: Final = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[Mapping[str, str], float]

STORE: Final[Mapping[str, tuple[str, str, str]]] = {
    "writable": ("mcpproxy_store_writable", "gauge", "Whether the record can be written"),
    "journal_bytes": ("mcpproxy_journal_bytes", "gauge", "Journal on disk"),
    "lag_bytes": ("mcpproxy_store_lag_bytes", "gauge", "Journal that the database does not have yet"),
    "lag_seconds": ("mcpproxy_store_lag_seconds", "gauge", "Age of the oldest event the database does not have yet"),
    "chain_events": ("mcpproxy_chain_events", "counter", "Events in the chain as far as it is on the disk"),
    "retention_deleted": ("mcpproxy_retention_deleted_total", "counter", "Records deleted for their age or number"),
    "unacknowledged": ("mcpproxy_unacknowledged_total", "counter", "Answers that left before the database knew"),
    "append_failures": ("mcpproxy_journal_append_failures_total", "counter", "Appends that failed"),
    "sync_failures": ("mcpproxy_journal_sync_failures_total", "counter", "Syncs to disk that failed"),
    "unreadable_events": ("mcpproxy_journal_unreadable_events_total", "counter", "Events that could not be read back"),
    "torn_bytes": ("mcpproxy_journal_torn_bytes", "gauge", "Half-written bytes set aside at start"),
    "projection_failures": ("mcpproxy_projection_failures_total", "counter", "Batches the database did not take"),
}
"""Keys of the store's health; those it does not have are left out."""


def exposition(parts: Parts) -> str:
    return "".join(line for family in _families(parts) for line in _lines(*family))


def _families(parts: Parts) -> Iterable[tuple[str, str, str, Iterable[Sample]]]:
    gateway = parts.gateway
    yield "mcpproxy_build_info", "gauge", "Version", [({"version": __version__}, 1)]
    yield "mcpproxy_uptime_seconds", "gauge", "Since start", [({}, time.monotonic() - parts.started_at)]
    yield "mcpproxy_asks_total", "counter", "Asks by variant and outcome", _asks(gateway.outcomes)
    yield "mcpproxy_calls_in_flight", "gauge", "Calls that wait for a server", [({}, gateway.in_flight)]
    yield "mcpproxy_unrecorded_total", "counter", "Events that could not be written", [({}, gateway.unrecorded)]
    yield "mcpproxy_frozen", "gauge", "Whether writes are frozen", [({}, gateway.snapshot.policy.frozen)]
    yield "mcpproxy_servers", "gauge", "Servers by state", _servers(parts)
    yield "mcpproxy_tools", "gauge", "Tools listed", [({}, _tools(gateway.snapshot))]
    health = parts.store.health()
    for key, (name, kind, text) in STORE.items():
        if isinstance(health.get(key), int | float):
            yield name, kind, text, [({}, health[key])]
    if "chain_head" in health:
        head = {"head": str(health["chain_head"])}
        yield "mcpproxy_chain_head_info", "gauge", "The last event of the chain and its hash", [(head, 1)]


def _asks(outcomes: Mapping[tuple[str, str], int]) -> Iterable[Sample]:
    known: tuple[Any, ...] = get_args(Status)
    for (variant, outcome), count in sorted(outcomes.items()):
        yield {"variant": variant, "outcome": outcome if outcome in known else "other"}, count


def _servers(parts: Parts) -> Iterable[Sample]:
    states = Counter(server.state for server in parts.gateway.snapshot.servers.values())
    return [({"state": state}, states[state]) for state in get_args(ServerState)]


def _tools(snapshot: Snapshot) -> int:
    return sum(len(server.tools) for server in snapshot.servers.values())


def _lines(name: str, kind: str, text: str, samples: Iterable[Sample]) -> Iterable[str]:
    yield f"# HELP {name} {text}\n# TYPE {name} {kind}\n"
    for labels, value in samples:
        shown = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
        yield f"{name}{f'{{{shown}}}' if shown else ''} {float(value):.10g}\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
