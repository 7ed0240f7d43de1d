"""Counters in Prometheus' text format. Labels come from closed sets or from the configuration, never from callers."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

from mcpproxy_py import __version__
from mcpproxy_py.core.traffic import Measured
from mcpproxy_py.core.values import ServerState, Snapshot
from mcpproxy_py.serve.parts import Gateway, Parts

MEDIA: Final = "text/plain; version=0.0.4; charset=utf-8"

Kind = Literal["counter", "gauge", "histogram"]


class Sample(NamedTuple):
    labels: Mapping[str, str]
    value: float
    suffix: str = ""
    """Which part of a histogram this is."""


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    kind: Kind
    text: str
    samples: Iterable[Sample]


def single(name: str, kind: Kind, text: str, value: float) -> Family:
    return Family(name, kind, text, [Sample({}, value)])


STORE: Final[Mapping[str, tuple[str, Kind, str]]] = {
    "writable": ("mcpproxy_store_writable", "gauge", "Whether the record can be written"),
    "journal_bytes": ("mcpproxy_journal_bytes", "gauge", "Journal on disk"),
    "lag_bytes": ("mcpproxy_store_lag_bytes", "gauge", "Journal that the database does not have yet"),
    "lag_seconds": ("mcpproxy_store_lag_seconds", "gauge", "Age of the oldest event the database does not have yet"),
    "chain_events": ("mcpproxy_chain_events_total", "counter", "Events in the chain as far as it is on the disk"),
    "retention_deleted": ("mcpproxy_retention_deleted_total", "counter", "Records deleted for their age or number"),
    "unacknowledged": ("mcpproxy_unacknowledged_total", "counter", "Answers that left before the database knew"),
    "append_failures": ("mcpproxy_journal_append_failures_total", "counter", "Appends that failed"),
    "sync_failures": ("mcpproxy_journal_sync_failures_total", "counter", "Syncs to disk that failed"),
    "unreadable_events": ("mcpproxy_journal_unreadable_events_total", "counter", "Events that could not be read back"),
    "torn_bytes": ("mcpproxy_journal_torn_bytes", "gauge", "Half-written bytes set aside at start"),
    "projection_failures": ("mcpproxy_projection_failures_total", "counter", "Batches the database did not take"),
    "database_bytes": ("mcpproxy_store_bytes", "gauge", "What the record takes in the database"),
}
"""Keys of the store's health; those it does not have are left out."""


def exposition(parts: Parts, database_bytes: int | None) -> str:
    health = {**parts.store.health(), "database_bytes": database_bytes}
    families = (
        *_of_the_gateway(parts),
        *_of_servers(parts.gateway.snapshot, parts.operator.measured()),
        *_of_the_store(health),
    )
    return "".join(line for family in families for line in _lines(family))


def _of_the_gateway(parts: Parts) -> Iterator[Family]:
    gateway = parts.gateway
    yield Family("mcpproxy_build_info", "gauge", "Version", [Sample({"version": __version__}, 1)])
    yield single("mcpproxy_uptime_seconds", "gauge", "Since start", time.monotonic() - parts.started_at)
    yield Family("mcpproxy_asks_total", "counter", "Asks by variant, class, outcome and rule", _asks(gateway))
    yield single("mcpproxy_calls_in_flight", "gauge", "Calls that wait for a server", gateway.in_flight)
    unrecorded = gateway.recorder.unrecorded
    yield single("mcpproxy_unrecorded_total", "counter", "Events that could not be written", unrecorded)
    yield single("mcpproxy_frozen", "gauge", "Whether writes are frozen", gateway.snapshot.policy.frozen)


def _asks(gateway: Gateway) -> Iterator[Sample]:
    for kind, count in sorted(gateway.recorder.tally.asks.items()):
        labels = {"variant": kind.variant, "class": kind.tool_class, "outcome": kind.outcome, "rule": kind.rule}
        yield Sample(labels, count)


def _of_servers(snapshot: Snapshot, servers: Sequence[Measured]) -> Iterator[Family]:
    states: tuple[ServerState, ...] = get_args(ServerState)
    count = Counter(server.state for server in snapshot.servers.values())
    tools = sum(len(server.tools) for server in snapshot.servers.values())
    yield Family(
        "mcpproxy_servers", "gauge", "Servers by state", [Sample({"state": one}, count[one]) for one in states]
    )
    yield single("mcpproxy_tools", "gauge", "Tools listed", tools)
    yield Family("mcpproxy_upstream_state", "gauge", "Which state a server is in", [
        Sample({"server": one.name, "state": state}, one.state == state) for one in servers for state in states
    ])  # fmt: skip
    for name, kind, text, key in UPSTREAM:
        yield Family(name, kind, text, [Sample({"server": one.name}, getattr(one, key)) for one in servers])
    yield Family("mcpproxy_upstream_ignored_messages_total", "counter", "Messages of a server that were of no use", [
        Sample({"server": one.name, "kind": kind}, many) for one in servers for kind, many in one.ignored.items()
    ])  # fmt: skip
    yield Family("mcpproxy_upstream_failures_total", "counter", "Requests that a server did not answer well", [
        Sample({"server": one.name, "code": code}, many)
        for one in servers for code, many in sorted(one.traffic.failures.items())
    ])  # fmt: skip
    yield Family("mcpproxy_upstream_seconds", "histogram", "How long a server takes, without its queue", [
        sample for one in servers for sample in _histogram(one)
    ])  # fmt: skip


UPSTREAM: Final[tuple[tuple[str, Kind, str, str], ...]] = (
    ("mcpproxy_upstream_calls_in_flight", "gauge", "Requests a server is at", "in_flight"),
    ("mcpproxy_upstream_calls_waiting", "gauge", "Requests that wait for a place at a server", "waiting"),
    ("mcpproxy_upstream_sessions", "gauge", "Live sessions with a server", "sessions"),
    ("mcpproxy_upstream_restarts_total", "counter", "How often a server was started anew", "restarts"),
)


def _histogram(server: Measured) -> Iterator[Sample]:
    name, traffic = {"server": server.name}, server.traffic
    for bound, many in traffic.cumulative():
        yield Sample({**name, "le": "+Inf" if math.isinf(bound) else f"{bound:g}"}, many, "_bucket")
    yield Sample(name, traffic.seconds, "_sum")
    yield Sample(name, traffic.requests, "_count")


def _of_the_store(health: Mapping[str, Any]) -> Iterator[Family]:
    for key, (name, kind, text) in STORE.items():
        if isinstance(health.get(key), int | float):
            yield single(name, kind, text, health[key])
    if "chain_head" in health:
        head = {"head": str(health["chain_head"])}
        yield Family("mcpproxy_chain_head_info", "gauge", "The last event of the chain and its hash", [Sample(head, 1)])


def _lines(family: Family) -> Iterator[str]:
    yield f"# HELP {family.name} {family.text}\n# TYPE {family.name} {family.kind}\n"
    for labels, value, suffix in family.samples:
        shown = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
        yield f"{family.name}{suffix}{f'{{{shown}}}' if shown else ''} {float(value):.10g}\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
