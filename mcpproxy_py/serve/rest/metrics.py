"""Metrics for Prometheus. Labels come from closed sets or from the configuration, never from callers.

Values are read on the event loop, where nothing changes meanwhile, and rendered by `prometheus_client` in a thread:
with a few thousand samples that takes longer than anybody else should wait. The library is imported there too, with the
first scrape, since most gateways are never scraped.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

import anyio.to_thread

from mcpproxy_py import __version__
from mcpproxy_py.core.values import ServerState, Snapshot
from mcpproxy_py.gateway.masker import MASKER
from mcpproxy_py.serve.rest.endpoint import RestGateway, RestServices
from mcpproxy_py.upstream.calls.scheduler import ServerStats

if TYPE_CHECKING:
    from prometheus_client import Metric

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

Kind = Literal["counter", "gauge", "histogram"]


class Durations(NamedTuple):
    """The value of a histogram."""

    buckets: Sequence[tuple[float, int]]
    """How many took at most so many seconds, each with those before it; the last bound is infinite."""
    seconds: float


class Family(NamedTuple):
    """One metric and its values as they were read."""

    name: str
    kind: Kind
    text: str
    labels: tuple[str, ...]
    samples: Iterable[tuple[tuple[str, ...], float | Durations]]


def single(name: str, kind: Kind, text: str, value: float) -> Family:
    return Family(name, kind, text, (), [((), value)])


STORE: Final[Mapping[str, tuple[str, Kind, str]]] = {
    "writable": ("mcpproxy_store_writable", "gauge", "Whether the record can be written"),
    "journal_bytes": ("mcpproxy_journal_bytes", "gauge", "Journal on disk"),
    "lag_bytes": ("mcpproxy_store_lag_bytes", "gauge", "Journal that the database does not have yet"),
    "lag_seconds": ("mcpproxy_store_lag_seconds", "gauge", "Age of the oldest event the database does not have yet"),
    "chain_events": ("mcpproxy_chain_events_total", "counter", "Events in the chain as far as it is on the disk"),
    "retention_deleted": ("mcpproxy_retention_deleted_total", "counter", "Records deleted for their age or number"),
    "unacknowledged": (
        "mcpproxy_unacknowledged_total",
        "counter",
        "Answers that were sent before the database had their record",
    ),
    "append_failures": ("mcpproxy_journal_append_failures_total", "counter", "Appends that failed"),
    "sync_failures": ("mcpproxy_journal_sync_failures_total", "counter", "Syncs to disk that failed"),
    "unreadable_events": ("mcpproxy_journal_unreadable_events_total", "counter", "Events that could not be read back"),
    "torn_bytes": ("mcpproxy_journal_torn_bytes", "gauge", "Bytes of incomplete records removed at start"),
    "projection_failures": (
        "mcpproxy_projection_failures_total",
        "counter",
        "Batches that could not be written to the database",
    ),
    "database_bytes": ("mcpproxy_store_bytes", "gauge", "What the record takes in the database"),
}
"""Keys of the store's health; those it does not have are left out."""


async def exposition(parts: RestServices, accept: str) -> tuple[bytes, str]:
    """What is measured, and its media type: the one of the two that the client's `Accept` prefers."""
    database_bytes = await parts.store.size()
    families = read(parts, database_bytes)
    media = OPEN_METRICS if prefers_open_metrics(accept) else TEXT
    return await anyio.to_thread.run_sync(render, families, media), media


def prefers_open_metrics(accept: str) -> bool:
    """OpenMetrics is served to who names it, in the version that there is, and plain text not before it."""
    wanted = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for entry in accept.lower().split(","):
        media, *rest = (part.strip() for part in entry.split(";"))
        parameters = dict(part.split("=", 1) for part in rest if "=" in part)
        if media in wanted and (media == "text/plain" or parameters.get("version", "1.0.0") == "1.0.0"):
            wanted[media] = max(wanted[media], _quality(parameters.get("q", "1")))
    return 0 < wanted["application/openmetrics-text"] >= wanted["text/plain"]


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def render(families: Iterable[Family], media: str) -> bytes:
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import generate_latest
    from prometheus_client.openmetrics.exposition import generate_latest as generate_open_metrics

    registry = CollectorRegistry()
    registry.register(_Collector(families, canonical=media == OPEN_METRICS))
    return generate_open_metrics(registry) if media == OPEN_METRICS else generate_latest(registry)


class _Collector:
    def __init__(self, families: Iterable[Family], *, canonical: bool) -> None:
        self._families = families
        self._canonical = canonical
        """OpenMetrics has the bounds of buckets as `1.0`; in the older format ours have always been `1`."""

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        for name, kind, text, labels, samples in self._families:
            if kind == "histogram":
                histogram = HistogramMetricFamily(name, text, labels=labels)
                for values, value in samples:
                    assert isinstance(value, Durations)
                    buckets = [(self._bound(bound), many) for bound, many in value.buckets]
                    histogram.add_metric(values, buckets, value.seconds)
                yield histogram
                continue
            metric = (CounterMetricFamily if kind == "counter" else GaugeMetricFamily)(name, text, labels=labels)
            for values, value in samples:
                assert not isinstance(value, Durations)
                metric.add_metric(values, value)
            yield metric

    def _bound(self, bound: float) -> str:
        return "+Inf" if bound == float("inf") else str(bound) if self._canonical else f"{bound:g}"


def read(parts: RestServices, database_bytes: int | None) -> list[Family]:
    """All values of this moment, on the event loop."""
    health = {**parts.store.health(), "database_bytes": database_bytes}
    return [
        *_of_the_gateway(parts),
        *_of_servers(parts.gateway.snapshot, [_without_secrets(one) for one in parts.operator.measured()]),
        *_of_the_store(health),
    ]


def _without_secrets(server: ServerStats) -> ServerStats:
    return replace(server, name=MASKER.mask_text(server.name))


def _of_the_gateway(parts: RestServices) -> Iterator[Family]:
    gateway = parts.gateway
    yield Family("mcpproxy_build_info", "gauge", "Version", ("version",), [((__version__,), 1)])
    yield single("mcpproxy_uptime_seconds", "gauge", "Since start", time.monotonic() - parts.started_at)
    yield Family("mcpproxy_asks_total", "counter", "Asks by variant, class, outcome and rule",
                 ("variant", "class", "outcome", "rule"), _asks(gateway))  # fmt: skip
    yield single("mcpproxy_calls_in_flight", "gauge", "Calls that wait for a server", gateway.in_flight)
    yield Family(
        "mcpproxy_share_refusals_total",
        "counter",
        "What was refused because a share was used up",
        ("share",),
        [((share,), count) for share, count in sorted(gateway.shares.refusals.items())],
    )
    unrecorded = gateway.recorder.unrecorded
    yield single("mcpproxy_unrecorded_total", "counter", "Events that could not be written", unrecorded)
    yield single("mcpproxy_frozen", "gauge", "Whether writes are frozen", gateway.snapshot.policy.frozen)


def _asks(gateway: RestGateway) -> list[tuple[tuple[str, ...], float]]:
    return [
        ((kind.variant, kind.tool_class, kind.outcome, kind.rule), count)
        for kind, count in sorted(gateway.recorder.tally.asks.items())
    ]


def _of_servers(snapshot: Snapshot, servers: Sequence[ServerStats]) -> Iterator[Family]:
    states: tuple[ServerState, ...] = get_args(ServerState)
    count = Counter(server.state for server in snapshot.servers.values())
    tools = sum(len(server.tools) for server in snapshot.servers.values())
    yield Family("mcpproxy_servers", "gauge", "Servers by state", ("state",), [
        ((state,), count[state]) for state in states
    ])  # fmt: skip
    yield single("mcpproxy_tools", "gauge", "Tools listed", tools)
    yield Family("mcpproxy_upstream_state", "gauge", "State of a server", ("server", "state"), [
        ((one.name, state), one.state == state) for one in servers for state in states
    ])  # fmt: skip
    for name, kind, text, key in UPSTREAM:
        yield Family(name, kind, text, ("server",), [((one.name,), getattr(one, key)) for one in servers])
    yield Family("mcpproxy_upstream_ignored_messages_total", "counter", "Messages of a server that were ignored",
                 ("server", "kind"), [
        ((one.name, kind), many) for one in servers for kind, many in one.ignored.items()
    ])  # fmt: skip
    yield Family("mcpproxy_upstream_failures_total", "counter", "Requests to a server that failed",
                 ("server", "code"), [
        ((one.name, code), many) for one in servers for code, many in sorted(one.traffic.failures.items())
    ])  # fmt: skip
    yield Family("mcpproxy_upstream_seconds", "histogram", "How long a server takes, without its queue", ("server",), [
        ((one.name,), Durations(list(one.traffic.cumulative()), one.traffic.seconds)) for one in servers
    ])  # fmt: skip


UPSTREAM: Final[tuple[tuple[str, Kind, str, str], ...]] = (
    ("mcpproxy_upstream_calls_in_flight", "gauge", "Requests that a server is working on", "in_flight"),
    ("mcpproxy_upstream_calls_waiting", "gauge", "Requests that wait for a free slot at a server", "waiting"),
    ("mcpproxy_upstream_sessions", "gauge", "Live sessions with a server", "sessions"),
    ("mcpproxy_upstream_restarts_total", "counter", "How often a server was restarted", "restarts"),
)


def _of_the_store(health: Mapping[str, Any]) -> Iterator[Family]:
    for key, (name, kind, text) in STORE.items():
        if isinstance(health.get(key), int | float):
            yield single(name, kind, text, health[key])
    if "chain_head" in health:
        yield Family("mcpproxy_chain_head_info", "gauge", "The last event of the chain and its hash", ("head",),
                     [((str(health["chain_head"]),), 1)])  # fmt: skip
