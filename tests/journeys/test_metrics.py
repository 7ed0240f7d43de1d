"""`/metrics` of a real gateway, read by Prometheus' own parser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.gateway import Running, gateway, python_server, until
from tests.support.wire import Wire

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "metrics.md"
LABELS = {"variant", "class", "outcome", "rule", "server", "state", "kind", "code", "le", "version", "head"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    servers = {
        "plain": python_server("plain.py"),
        "narrow": python_server("plain.py", max_concurrency=1),
        "off": python_server("plain.py", enabled=False),
    }
    with gateway(tmp_path_factory.mktemp("metrics") / "data", {"mcpServers": servers}) as up:
        yield up


class Scraped:
    def __init__(self, running: Running) -> None:
        said = httpx.get(f"{running.url}/metrics", trust_env=False, timeout=60)
        assert said.status_code == 200
        self.families = {family.name: family for family in text_string_to_metric_families(said.text)}
        self.samples = [sample for family in self.families.values() for sample in family.samples]

    def value(self, name: str, **labels: str) -> float:
        return sum(
            sample.value for sample in self.samples if sample.name == name and labels.items() <= sample.labels.items()
        )


def whole(running: Running) -> Scraped:
    """With the size of the database, which is left out where that does not tell it within a second."""

    def scraped() -> Scraped | None:
        now = Scraped(running)
        return now if "mcpproxy_store_bytes" in now.families else None

    return until(scraped, what="the size of the database")


def test_asks_are_counted_by_variant_class_outcome_and_rule(running: Running) -> None:
    before, wire = Scraped(running), Wire(running.mcp)
    wire.read("plain:echo", {"text": "x"})
    wire.read("plain:delete_note")
    wire.via("destructive", "plain:delete_note")
    wire.read("plain:fail")
    wire.read("plain:error")
    wire.call("retrieve_tools", {"query": "note"})
    after = Scraped(running)

    def counted(**labels: str) -> float:
        return after.value("mcpproxy_asks_total", **labels) - before.value("mcpproxy_asks_total", **labels)

    assert counted(variant="call_tool_read", **{"class": "read"}, outcome="success", rule="allowed") == 1
    assert counted(variant="call_tool_read", **{"class": "destructive"}, outcome="blocked", rule="class") == 1
    assert counted(variant="call_tool_destructive", **{"class": "destructive"}, outcome="success") == 1
    assert counted(variant="call_tool_read", outcome="error", rule="allowed") == 1, "the tool said that it failed"
    assert counted(variant="call_tool_read", outcome="error", rule="upstream") == 1, "the server answered an error"
    assert counted(variant="retrieve_tools", **{"class": "none"}, outcome="success", rule="local") == 1
    assert counted() == 6


def test_what_agents_make_up_adds_no_label(running: Running) -> None:
    wire = Wire(running.mcp)
    wire.read("plain:nothing-like-this")
    before = {tuple(sorted(each.labels.items())) for each in Scraped(running).samples}
    for number in range(20):
        wire.read(f"plain:made-up-{number}")
        wire.read(f"made-up-{number}:echo")
        wire.via("read", f"no name {number}")
    after = Scraped(running)
    fresh = [labels for each in after.samples if (labels := tuple(sorted(each.labels.items()))) not in before]
    shown = {name: value for labels in fresh for name, value in labels if name not in ("head", "le")}
    assert not any("made-up" in value or "no name" in value for value in shown.values())
    assert len(fresh) <= 3, "one for each rule that turned them down, and the head of the chain"
    assert {name for each in after.samples for name in each.labels} <= LABELS


def test_a_server_shows_its_state_its_speed_its_failures_and_its_queue(running: Running, tmp_path: Path) -> None:
    before = Scraped(running)
    assert before.value("mcpproxy_upstream_state", server="plain", state="connected") == 1
    assert before.value("mcpproxy_upstream_state", server="off", state="disabled") == 1
    assert before.value("mcpproxy_upstream_state", server="off") == 1, "one state at a time"
    assert before.value("mcpproxy_upstream_sessions", server="narrow") == 1

    enough = tmp_path / "enough"
    with ThreadPoolExecutor(2) as clients:

        def there_are(in_flight: int, waiting: int) -> bool:
            now = Scraped(running)
            return (
                now.value("mcpproxy_upstream_calls_in_flight", server="narrow") == in_flight
                and now.value("mcpproxy_upstream_calls_waiting", server="narrow") == waiting
                and now.value("mcpproxy_calls_in_flight") == in_flight + waiting
            )

        first = clients.submit(Wire(running.mcp).read, "narrow:slow", {"seconds": 50, "until": str(enough)})
        until(lambda: there_are(1, 0), what="one call in flight")
        second = clients.submit(Wire(running.mcp).read, "narrow:slow", {"seconds": 2})
        until(lambda: there_are(1, 1), what="one call in flight and one that waits")
        enough.touch()
        assert first.result()["content"] and second.result()["content"]
    Wire(running.mcp).read("narrow:error")

    after = Scraped(running)
    assert after.families["mcpproxy_upstream_seconds"].type == "histogram"
    assert after.value("mcpproxy_upstream_seconds_count", server="narrow") == 3
    assert after.value("mcpproxy_upstream_seconds_bucket", server="narrow", le="+Inf") == 3
    within = {le: after.value("mcpproxy_upstream_seconds_bucket", server="narrow", le=le) for le in ("1", "60")}
    assert within["1"] < within["60"] == 3, "one was slow"
    assert after.value("mcpproxy_upstream_seconds_sum", server="narrow") >= 2
    assert after.value("mcpproxy_upstream_failures_total", server="narrow", code="UPSTREAM_ERROR") == 1
    assert after.value("mcpproxy_upstream_calls_waiting", server="narrow") == 0


@pytest.mark.proves("ACT-8")
def test_the_store_shows_its_lag_its_failures_and_its_size(running: Running) -> None:
    Wire(running.mcp).read("plain:echo", {"text": "x"})
    until(lambda: Scraped(running).value("mcpproxy_store_lag_bytes") == 0, what="the database has caught up")
    now = whole(running)
    assert now.value("mcpproxy_store_bytes") > 4096
    assert now.value("mcpproxy_journal_bytes") > 0
    assert now.value("mcpproxy_store_writable") == 1
    assert now.value("mcpproxy_store_lag_seconds") == 0
    for name in ("journal_append_failures", "journal_sync_failures", "projection_failures", "unrecorded"):
        assert [sample.value for sample in now.families[f"mcpproxy_{name}"].samples] == [0], name
    (head,) = now.families["mcpproxy_chain_head_info"].samples
    assert head.labels["head"].split(":")[0] == f"{now.value('mcpproxy_chain_events_total'):.0f}"


def test_every_metric_is_explained_and_nothing_else_is(running: Running) -> None:
    served = {name.removesuffix("_total") for name in whole(running).families}
    explained = {
        name.removesuffix("_total") for name in re.findall(r"`(mcpproxy_\w+)", PAGE.read_text(encoding="utf-8"))
    }
    assert served == explained
