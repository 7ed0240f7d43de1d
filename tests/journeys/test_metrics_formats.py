"""`/metrics` in both formats, as the client's `Accept` prefers. OpenMetrics is read by its own, strict parser."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import httpx
import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open_metrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from tests.support.gateway import Running, gateway, python_server
from tests.support.wire import Wire

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
"""What Prometheus sends."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    servers = {"plain": python_server("plain.py"), "off": python_server("plain.py", enabled=False)}
    with gateway(tmp_path_factory.mktemp("formats") / "data", {"mcpServers": servers}) as up:
        Wire(up.mcp).read("plain:echo", {"text": "x"})
        Wire(up.mcp).read("plain:delete_note")
        Wire(up.mcp).read("plain:error")
        yield up


def scraped(running: Running, accept: str | None) -> httpx.Response:
    headers = {"accept": accept} if accept is not None else {}
    with httpx.Client(trust_env=False, timeout=60) as client:
        del client.headers["accept"]
        answer = client.get(f"{running.url}/metrics", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer


@pytest.mark.parametrize(
    ("accept", "served"),
    [
        (None, TEXT),
        ("*/*", TEXT),
        ("text/plain", TEXT),
        (PROMETHEUS, OPEN_METRICS),
        ("application/openmetrics-text", OPEN_METRICS),
        ("Application/OpenMetrics-Text; Version=1.0.0", OPEN_METRICS),
        ("text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5", TEXT),
        ("application/openmetrics-text; version=0.0.1", TEXT),
        ("application/openmetrics-text; version=2.0.0", TEXT),
    ],
)
def test_the_format_is_the_one_that_the_client_prefers(running: Running, accept: str | None, served: str) -> None:
    answer = scraped(running, accept)
    assert answer.headers["content-type"] == served
    assert answer.text.endswith("# EOF\n") == (served == OPEN_METRICS)


@pytest.mark.parametrize(
    "accept",
    [
        "application/openmetrics-text; version=x",
        "application/openmetrics-text; version=1.0.0; q=much",
        "application/openmetrics-text; q=nan",
        "application/openmetrics-text; q=0",
        ";=;,;q=,,=",
        "application/openmetrics-text;version=" + "9" * 4000,
    ],
)
def test_an_accept_header_that_makes_no_sense_gets_the_plain_format(running: Running, accept: str) -> None:
    assert scraped(running, accept).headers["content-type"] == TEXT


def series(families: Iterable[Metric]) -> dict[Any, str]:
    """Each series with the type of its family. Bounds as numbers, which the formats write differently."""

    def labels(given: dict[str, str]) -> frozenset[tuple[str, Any]]:
        return frozenset((name, float(value) if name == "le" else value) for name, value in given.items())

    return {
        (sample.name, labels(sample.labels)): family.type
        for family in families
        for sample in family.samples
        if sample.name not in ("mcpproxy_chain_head_info", "mcpproxy_store_bytes")
    }


def test_both_formats_hold_the_same_series_and_nothing_of_the_librarys_own(running: Running) -> None:
    text, strict = scraped(running, TEXT).text, scraped(running, OPEN_METRICS).text
    found = series(read_text(text))
    assert found == series(read_open_metrics(strict))
    assert len(found) > 50
    assert all(name.startswith("mcpproxy_") and not name.endswith("_created") for name, _ in found)


def test_names_types_and_bounds_are_written_as_they_always_were(running: Running) -> None:
    lines = scraped(running, None).text.splitlines()
    for line in (
        "# HELP mcpproxy_asks_total Asks by variant, class, outcome and rule",
        "# TYPE mcpproxy_asks_total counter",
        "# TYPE mcpproxy_build_info gauge",
        "# TYPE mcpproxy_upstream_seconds histogram",
    ):
        assert line in lines
    bounds = {line.split('le="')[1].split('"')[0] for line in lines if line.startswith("mcpproxy_upstream_seconds_b")}
    assert {"0.001", "1", "2.5", "10", "60", "+Inf"} <= bounds
