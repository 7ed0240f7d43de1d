"""What a server declared is read off the wire, over every transport (UP-10)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpproxy_py.core.values import ToolClass
from mcpproxy_py.upstream.spec import UpstreamSpec
from tests.upstream.helpers import connected, running, stdio, web_server

pytestmark = [pytest.mark.anyio, pytest.mark.proves("UP-10", "UP-6")]
STATES = {"t": True, "f": False, "n": None}
CLASSES: dict[str, ToolClass] = {
    "tt": "destructive", "tf": "read", "tn": "read",
    "ft": "destructive", "ff": "write", "fn": "write",
    "nt": "destructive", "nf": "write", "nn": "unknown",
}  # fmt: skip


@pytest.fixture(params=["stdio", "http json", "http events", "sse"])
def spec(request: pytest.FixtureRequest) -> Iterator[UpstreamSpec]:
    kind, _, answer = request.param.partition(" ")
    if kind == "stdio":
        yield stdio("s", "plain.py", "--page", "4")
    elif kind == "sse":
        with web_server("plain_http.py", "--sse", "0", "--page", "4") as origin:
            yield UpstreamSpec("s", "sse", url=f"{origin}/sse")
    else:
        with web_server("plain_http.py", "--http", "0", "--answer", answer, "--page", "4") as origin:
            yield UpstreamSpec("s", "http", url=f"{origin}/mcp")


async def test_every_hint_arrives_as_true_false_or_absent_and_classes_the_tool(
    spec: UpstreamSpec, tmp_path: Path
) -> None:
    async with running(tmp_path, spec) as supervisor:
        await connected(supervisor, "s")
        tools = supervisor.snapshot.servers["s"].tools
        for read_only, destructive in itertools.product("tfn", repeat=2):
            tool = tools[f"hint_{read_only}_{destructive}"]
            assert tool.annotations.get("readOnlyHint") is STATES[read_only]
            assert tool.annotations.get("destructiveHint") is STATES[destructive]
            assert tool.declared == CLASSES[read_only + destructive]
        for state, value in STATES.items():
            assert tools[f"idempotent_{state}"].annotations.get("idempotentHint") is value
            assert tools[f"openworld_{state}"].annotations.get("openWorldHint") is value


async def test_keys_that_no_sdk_knows_survive(spec: UpstreamSpec, tmp_path: Path) -> None:
    async with running(tmp_path, spec) as supervisor:
        await connected(supervisor, "s")
        wire = supervisor.snapshot.servers["s"].tools["draft"].wire
        assert wire["annotations"] == {"readOnlyHint": True, "draftHint": {"level": [1, None, 2.5]}}
        assert wire["x-unknown"] == {"kept": True}
        assert wire["big"] == 123456789012345678901234567890


@pytest.mark.proves("GATE-8")
async def test_a_server_that_is_not_trusted_can_raise_a_class_and_not_lower_it(tmp_path: Path) -> None:
    async with running(tmp_path, stdio("s", "plain.py", trust_annotations=False)) as supervisor:
        await connected(supervisor, "s")
        declared = {name: tool.declared for name, tool in supervisor.snapshot.servers["s"].tools.items()}
        assert declared["hint_t_n"] == "unknown"
        assert declared["hint_f_f"] == "write"
        assert declared["hint_t_t"] == declared["hint_n_t"] == "destructive"
