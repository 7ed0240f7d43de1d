"""Traces: a real gateway, real servers, and a collector that reads what arrives."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.collector import Collector, Seen, collector
from tests.support.gateway import Running, gateway, python_server, until
from tests.support.wire import HANDSHAKE, Wire
from tests.upstream.helpers import web_server

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
SOON = {"OTEL_BSP_SCHEDULE_DELAY": "50"}
READ = {"operation_type": "read"}


def parent(trace: str) -> str:
    return f"00-{trace}-{CALLER}-01"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@dataclass
class House:
    running: Running
    collector: Collector
    folder: Path

    def wire(self, trace: str | None = None, path: str = "", **headers: str) -> Wire:
        """A client whose HTTP requests belong to this trace."""
        made = Wire(self.running.mcp + path)
        made.headers |= headers | ({"traceparent": parent(trace)} if trace else {})
        return made

    def last(self, log: str) -> dict[str, Any]:
        return lines(self.folder / log)[-1]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("tracing")
    logs = ("--log", str(folder / "web.calls"), "--header-log", str(folder / "web.headers"))
    old = ("--log", str(folder / "old.calls"), "--header-log", str(folder / "old.headers"))
    with (
        web_server("plain_http.py", "--http", "0", *logs) as web,
        web_server("plain_http.py", "--sse", "0", *old) as legacy,
        collector() as here,
    ):
        config = {
            "surfaces": ["gate", "direct", "passthrough"],
            "mcpServers": {
                "plain": python_server("plain.py", "--log", str(folder / "plain.calls")),
                "asks": python_server("asks.py"),
                "web": {"url": f"{web}/mcp"},
                "old": {"url": f"{legacy}/sse", "transport": "sse"},
            },
        }
        patient = {"OTEL_EXPORTER_OTLP_TIMEOUT": "60"}  # what it gives up on it sends again
        to = {"OTEL_EXPORTER_OTLP_ENDPOINT": here.url, "OTEL_EXPORTER_OTLP_HEADERS": "x-key=sesame-41c7"}
        env = {**to, **patient, **SOON}
        with gateway(folder / "data", config, env=env) as running:
            yield House(running, here, folder)


def chain(*spans: Seen) -> bool:
    """Whether each is the child of the one before."""
    return all(child.parent == above.id for above, child in itertools.pairwise(spans))


def test_a_call_is_one_tree_from_the_callers_span_over_edge_and_gate_to_the_server(house: House) -> None:
    trace = "1" * 32
    house.wire(trace).via("destructive", "plain:delete_note", {})
    spans = house.collector.trace(trace, of=4)
    edge, gate = spans["tools/call"], spans["gate call_tool_destructive"]
    sync, call = spans["record sync"], spans["tools/call delete_note"]
    assert (edge.parent, edge.kind) == (CALLER, "server")
    assert chain(edge, gate, sync)
    assert chain(gate, call)
    assert (gate.kind, call.kind) == ("internal", "client")
    assert edge.about == {"mcp.method.name": "tools/call", "mcp.protocol.version": "2026-07-28"}
    (row,) = house.running.activities(q="delete_note", limit=1)
    assert gate.about == {
        "mcpproxy.ask": row["id"], "mcpproxy.surface": "gate", "mcpproxy.source": "mcp",
        "mcpproxy.variant": "call_tool_destructive", "mcpproxy.class": "destructive", "mcpproxy.risk": "destructive",
        "mcpproxy.rule": "allowed", "mcpproxy.outcome": "success", "mcpproxy.server": "plain",
        "gen_ai.tool.name": "delete_note",
    }  # fmt: skip
    assert call.about == {
        "mcp.method.name": "tools/call", "mcp.protocol.version": "2025-11-25", "mcpproxy.server": "plain",
        "gen_ai.tool.name": "delete_note", "gen_ai.operation.name": "execute_tool", "network.transport": "pipe",
    }  # fmt: skip
    assert not any(span.failed for span in spans.values())
    assert call.is_parent_in(house.last("plain.calls")["_meta"]["traceparent"]), "the server goes on from there"
    assert house.collector.service["service.name"] == "mcpproxy"


def test_the_requests_own_meta_says_whose_child_it_is_and_http_is_a_link(house: House) -> None:
    trace, around = "2" * 32, "3" * 32
    meta = {"traceparent": parent(trace), "tracestate": "us=1,them=2", "baggage": "k=v", "x/kept": [1]}
    house.wire(around).call("call_tool_read", {"name": "plain:echo", "intent": READ}, **meta)
    spans = house.collector.trace(trace, of=3)
    assert spans["tools/call"].parent == CALLER
    assert spans["tools/call"].links == [around]
    assert not house.collector._of(around)
    passed_on = house.last("plain.calls")["_meta"]
    call = spans["tools/call echo"]
    assert call.is_parent_in(passed_on["traceparent"])
    assert call.state == "us=1,them=2", "our own spans have it"
    assert not passed_on.keys() & {"tracestate", "baggage", "x/kept"}, "free text goes nowhere (GATE-15)"
    (row,) = house.running.activities(limit=1)
    assert trace in row["metadata"]["forwarded"]["traceparent"], "the record says which trace it was part of"


@pytest.mark.parametrize("server", ["web", "old"])
def test_a_server_over_http_gets_the_context_in_its_headers_too(house: House, server: str) -> None:
    trace = {"web": "4", "old": "5"}[server] * 32
    house.wire(trace, tracestate="us=1").read(f"{server}:echo", {"text": "x"})
    call = house.collector.trace(trace, of=3)["tools/call echo"]
    headers = house.last(f"{server}.headers")
    meta = house.last(f"{server}.calls")["_meta"]
    assert call.is_parent_in(headers["traceparent"])
    assert headers["traceparent"] == meta["traceparent"]
    assert "tracestate" not in headers.keys() | meta.keys()
    (row,) = house.running.activities(limit=1)
    assert trace in row["metadata"]["forwarded"]["traceparent"]
    assert call.about["network.transport"] == "tcp"


def test_what_the_gateway_asks_of_its_own_accord_belongs_to_nobodys_trace(house: House) -> None:
    """A server is connected, and its list read, in the middle of somebody's call at times."""
    house.wire("6" * 32).read("web:echo")
    house.running.post("/servers/web/restart")
    house.running.wait_for("web")
    own = [row for row in lines(house.folder / "web.headers") if row.get("mcp-method") != "tools/call"]
    assert own
    assert not any("traceparent" in row for row in own[-1:])


def test_a_refusal_is_in_the_trace_with_its_rule_and_reaches_no_server(house: House) -> None:
    trace = "7" * 32
    house.wire(trace).read("plain:delete_note")
    spans = house.collector.trace(trace, of=2)
    edge, gate = spans["tools/call"], spans["gate call_tool_read"]
    assert gate.about["mcpproxy.rule"] == "class"
    assert (gate.about["mcpproxy.outcome"], gate.about["mcpproxy.class"]) == ("blocked", "destructive")
    assert not gate.failed, "refusing is what it is there for"
    assert edge.about["error.type"] == "tool_error"


@pytest.mark.parametrize(
    ("tool", "gate_says", "call_says"),
    [("fail", "allowed", "tool_error"), ("error", "upstream", "UPSTREAM_ERROR")],
)
def test_a_failure_is_named_by_its_kind_and_never_by_its_words(
    house: House, tool: str, gate_says: str, call_says: str
) -> None:
    trace = {"fail": "8", "error": "9"}[tool] * 32
    house.wire(trace).read(f"plain:{tool}")
    spans = house.collector.trace(trace, of=3)
    assert spans["gate call_tool_read"].about["error.type"] == gate_says
    assert spans[f"tools/call {tool}"].about["error.type"] == call_says
    assert all(span.failed and not span.events for span in spans.values())


def test_direct_passthrough_and_rest_are_traced_alike(house: House) -> None:
    direct, through, rest = "a" * 32, "b" * 32, "c" * 32
    house.wire(direct, "/direct").call("plain__echo", {"text": "x"})
    house.wire(through, "/s/plain").call("echo", {"text": "x"})
    call = {"name": "plain:echo", "variant": "read", "intent": READ}
    said = house.running.client.post("/api/v1/call", json=call, headers={"traceparent": parent(rest)})
    assert said.status_code == 200, said.text
    for trace, gate, surface in ((direct, "gate direct", "direct"), (through, "gate passthrough", "passthrough")):
        spans = house.collector.trace(trace, of=3)
        assert chain(spans["tools/call"], spans[gate], spans["tools/call echo"])
        assert spans[gate].about["mcpproxy.surface"] == surface
    spans = house.collector.trace(rest, of=2)
    gate = spans["gate call_tool_read"]
    assert (gate.parent, gate.kind) == (CALLER, "server"), "here the gate is the edge"
    assert chain(gate, spans["tools/call echo"])


def test_a_client_of_the_handshake_era_is_traced_too(house: House) -> None:
    trace = "d" * 32
    wire = Wire(house.running.mcp, HANDSHAKE)
    wire.call("call_tool_read", {"name": "plain:echo", "intent": READ}, traceparent=parent(trace))
    spans = house.collector.trace(trace, of=3)
    assert spans["tools/call"].about["mcp.protocol.version"] == HANDSHAKE
    assert wire.headers["mcp-session-id"].encode() not in b"".join(house.collector.bodies), "it opens the session"


def test_a_call_whose_server_asks_back_is_one_gate_span_and_each_round_an_edge_of_its_own(house: House) -> None:
    first, second = "5a" * 16, "5b" * 16
    capable = {"io.modelcontextprotocol/clientCapabilities": {"roots": {}}}
    call = {"name": "asks:ask", "args": {"method": "roots/list"}, "intent": READ}
    asked = house.wire(first).call("call_tool_read", call, **capable)
    assert asked["resultType"] == "input_required"
    (key,) = asked["inputRequests"]
    more = {"inputResponses": {key: {"roots": []}}, "requestState": asked["requestState"]}
    params = {"name": "call_tool_read", "arguments": call, **more}
    assert not house.wire(second).request("tools/call", params, **capable).get("isError")
    spans = house.collector.trace(first, of=3)
    assert chain(spans["tools/call"], spans["gate call_tool_read"], spans["tools/call ask"])
    assert spans["gate call_tool_read"].about["mcpproxy.outcome"] == "success"
    assert list(house.collector.trace(second, of=1)) == ["tools/call"]
    assert not house.running.stderr().count("Traceback")


@pytest.mark.parametrize(
    "said",
    [7, None, [], {"a": 1}, "", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "x" * 100_000, "00-é-é-01"],
    ids=repr,
)
def test_a_context_that_is_none_begins_a_new_trace(house: House, said: Any) -> None:
    wire = house.wire()
    wire.call("call_tool_read", {"name": "plain:echo", "intent": READ}, traceparent=said, tracestate=said)
    passed_on = house.last("plain.calls")["_meta"]
    _, trace, _, _ = passed_on["traceparent"].split("-")
    assert house.collector.trace(trace, of=3)["tools/call echo"].is_parent_in(passed_on["traceparent"])
    assert "tracestate" not in passed_on


@pytest.mark.proves("ACT-9")
def test_no_span_holds_what_anybody_wrote(house: House) -> None:
    canary = "canary-5f1d"
    wire = house.wire()
    wire.read("plain:echo", {"text": canary}, intent={**READ, "reason": canary})
    wire.read(f"plain:{canary}")
    wire.read(f"{canary}:x")
    wire.call("retrieve_tools", {"query": canary})
    for method, params in (("resources/read", {"uri": f"x://{canary}"}), (f"x/{canary}", {})):
        wire.send(method, params)
    house.wire(path="/s/plain").send("prompts/get", {"name": canary})
    trace = "e" * 32
    house.wire(trace).read("plain:echo", {"text": canary})
    house.collector.trace(trace, of=3)  # and everything before it has arrived, too
    bodies = b"".join(house.collector.bodies)
    assert canary.encode() not in bodies
    assert house.running.key.encode() not in bodies
    assert house.collector.named("_OTHER"), "a method that nobody knows is no name of a span"
    assert house.collector.headers[0]["x-key"] == "sesame-41c7"
    assert b"sesame-41c7" not in bodies
    assert "sesame-41c7" not in house.running.stderr()


# --- off, and wrong ------------------------------------------------------------------------------------------------


def test_without_an_exporter_nothing_is_imported_and_what_a_client_sent_goes_on_untouched(tmp_path: Path) -> None:
    with web_server("plain_http.py", "--http", "0", "--header-log", str(tmp_path / "headers"),
                    "--log", str(tmp_path / "calls")) as web:  # fmt: skip
        env = {"PYTHONPROFILEIMPORTTIME": "1"}
        with gateway(tmp_path / "data", {"mcpServers": {"web": {"url": f"{web}/mcp"}}}, env=env) as running:
            wire = Wire(running.mcp)
            wire.headers["traceparent"] = parent("f" * 32)
            wire.call("call_tool_read", {"name": "web:echo", "intent": READ}, traceparent=parent("e" * 32))
            assert lines(tmp_path / "calls")[-1]["_meta"]["traceparent"] == parent("e" * 32)
            assert "traceparent" not in lines(tmp_path / "headers")[-1]
    assert "mcpproxy_py.gateway.gateway" in running.stderr()
    assert "opentelemetry" not in running.stderr()


@pytest.mark.parametrize("how", ["nobody there", "never answers"])
def test_a_collector_that_is_down_costs_no_call_anything(tmp_path: Path, how: str) -> None:
    with collector() as here:
        if how == "never answers":
            here.open.clear()
        url = here.url if how == "never answers" else "http://127.0.0.1:9"
        few = {"OTEL_BSP_MAX_QUEUE_SIZE": "8", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4", **SOON}
        config = {"mcpServers": {"plain": python_server("plain.py")}}
        with gateway(tmp_path / "data", config, env={"OTEL_EXPORTER_OTLP_ENDPOINT": url, **few}) as running:
            wire = Wire(running.mcp)
            for _ in range(50):
                assert not wire.read("plain:echo", {"text": "x"}).get("isError")
            if how == "never answers":
                assert not here.spans
            assert running.stop() == 0, "its end does not wait for the collector either"
    assert len(running.stderr().splitlines()) < 60, "and the log is not flooded"


def started_with(folder: Path, **env: str) -> str:
    """What a gateway with these variables says; it answers and ends as it should."""
    with gateway(folder / "data", {"mcpServers": {}}, env=env) as running:
        assert running.get("/status")["mode"] == "strict"
        assert running.stop() == 0
    said = running.stderr()
    assert "Traceback" not in said
    return said


def test_an_exporter_without_the_extra_is_a_warning_with_the_line_that_mends_it(tmp_path: Path) -> None:
    shadow = tmp_path / "path" / "opentelemetry" / "sdk"
    shadow.mkdir(parents=True)
    (shadow / "__init__.py").write_text("raise ModuleNotFoundError('No module', name='opentelemetry.sdk')")
    path = os.pathsep.join(filter(None, [str(tmp_path / "path"), os.environ.get("PYTHONPATH")]))
    said = started_with(tmp_path, PYTHONPATH=path, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:4318")
    assert said.count("no traces: ") == 1
    assert "pip install 'mcpproxy-py[otel]'" in said


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "grpc"),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_BSP_MAX_QUEUE_SIZE": "-1"}, "OTEL_*"),
    ],
)
def test_variables_that_were_set_for_another_program_do_not_stop_the_gateway(
    tmp_path: Path, env: dict[str, str], named: str
) -> None:
    warnings = [line for line in started_with(tmp_path, **env).splitlines() if "no traces: " in line]
    assert len(warnings) == 1
    assert named in warnings[0] and "OTEL_TRACES_EXPORTER=none" in warnings[0]


NUMBERS_AND_NAMES = (
    "OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "OTEL_EXPORTER_OTLP_TIMEOUT",
    "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_COMPRESSION", "OTEL_EXPORTER_OTLP_CERTIFICATE",
    "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_PROPAGATORS",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_PYTHON_ID_GENERATOR",
)  # fmt: skip


def test_nonsense_in_the_variables_does_not_stop_the_gateway(tmp_path: Path) -> None:
    """Whatever the SDK makes of each: a default, or no traces."""
    nonsense = dict.fromkeys(NUMBERS_AND_NAMES, "nonsense ;;=,")
    for alone in ("", "OTEL_EXPORTER_OTLP_COMPRESSION", "OTEL_PROPAGATORS", "OTEL_EXPORTER_OTLP_CERTIFICATE"):
        env = {name: value for name, value in nonsense.items() if alone in ("", name)}
        started_with(tmp_path / (alone or "all"), OTEL_TRACES_EXPORTER="otlp", **env)


def test_sampling_is_the_operators_and_what_is_not_sampled_is_not_sent(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    config = {"mcpServers": {"plain": python_server("plain.py", "--log", str(calls))}}
    with collector() as here:
        env = {
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{here.url}/v1/traces",
            "OTEL_TRACES_SAMPLER": "always_off",
            **SOON,
        }
        with gateway(tmp_path / "data", config, env=env) as running:
            Wire(running.mcp).read("plain:echo")
            until(lambda: lines(calls), what="the call")
            assert lines(calls)[-1]["_meta"]["traceparent"][-2:] in ("00", "02"), "the server is told so"
            assert running.stop() == 0
        assert not here.spans
