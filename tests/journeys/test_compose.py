"""config/compose.yaml: read as it is, and its gateways, database and balancer started without Docker (USE-4, ACT-6)."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mcpproxy_py.settings.environment import known_keys, variable_for
from tests.support.gateway import SERVERS, Running, clean_environment, gateway, until
from tests.support.postgres import own_server
from tests.support.wire import HANDSHAKE, MODERN, Wire, text

pytestmark = pytest.mark.proves("USE-4", "ACT-6")

CONFIG = Path(__file__).parents[2] / "config"
SECRETS = {
    "POSTGRES_PASSWORD": "a-password", "MCPPROXY_MCP_TOKEN": "5f3a9c4e7b1d8206af15c3d2e4b60718",
    "MCPPROXY_API_KEY": "0d9e2b7c6a5f48139e8d7c6b5a493827", "MCPPROXY_SEALING_KEY": "b7e1f0a92c3d4856af01928374655647",
}  # fmt: skip


def compose() -> dict[str, Any]:
    """As Compose reads it, with these secrets in its environment."""
    text = (CONFIG / "compose.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(re.sub(r"\$\{(\w+):\?[^}]*\}", lambda found: SECRETS[found[1]], text))


def test_every_secret_comes_from_the_environment_and_has_to_be_there() -> None:
    text = (CONFIG / "compose.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"\$\{(\w+):\?", text)) == set(SECRETS)
    assert "${" not in re.sub(r"\$\{\w+:\?[^}]*\}", "", text)
    head = text[: text.index("name:")]
    assert all(name in head for name in SECRETS), "the head says how to make them"


def test_images_are_pinned_and_only_the_balancer_can_be_reached_from_this_machine() -> None:
    services = compose()["services"]
    for name, service in services.items():
        assert service.get("build") == ".." or re.search(r":\d+\.\d+", service["image"]), name
    ports = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert ports == {"balancer": ["127.0.0.1:8080:8080"]}


def test_the_gateways_differ_in_their_volume_only_and_their_variables_exist() -> None:
    services = compose()["services"]
    one, two = services["gateway-1"], services["gateway-2"]
    assert {**one, "volumes": two["volumes"]} == two and one["volumes"] != two["volumes"]
    known = {variable_for(key) for key, _ in known_keys()} | {"MCPPROXY_CONFIG", "MCPPROXY_API_KEY"}
    assert set(one["environment"]) <= known
    for volume in (*one["volumes"], *services["balancer"]["volumes"]):
        source = volume.split(":")[0]
        assert (CONFIG / source).exists() if source.startswith("./") else source in compose()["volumes"]


def shared_keys(folder: Path) -> list[Path]:
    """The service `keys`, with the two volumes as directories here."""
    service = compose()["services"]["keys"]
    directories = [folder / name for name in ("one", "two")]
    (script,) = service["command"]
    for directory in directories:
        directory.mkdir(mode=0o700)
        script = script.replace(f"/{directory.name}/", f"{directory}/")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run([*service["entrypoint"], script], check=True, env={"PATH": path})
    subprocess.run([*service["entrypoint"], script], check=True, env={"PATH": path})  # another start changes nothing
    return directories


@pytest.fixture(scope="module")
def gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Running]]:
    folder = tmp_path_factory.mktemp("compose")
    config = json.loads((CONFIG / "replicas.json").read_text(encoding="utf-8"))
    config["mcpServers"] = {"s": {"command": sys.executable, "args": [str(SERVERS / "plain.py")]}}
    mounted = folder / "mcpproxy.json"
    mounted.write_text(json.dumps(config))
    first, second = shared_keys(folder)
    assert (first / "chain.key").read_text() == (second / "chain.key").read_text()
    environment = compose()["services"]["gateway-1"]["environment"]
    with own_server() as server:
        here = {"MCPPROXY_ACTIVITY__DATABASE_URL": server.database(), "MCPPROXY_CONFIG": str(mounted)}
        assert set(here) <= set(environment)
        with gateway(first, env={**environment, **here}) as one, gateway(second, env={**environment, **here}) as two:
            for each in (one, two):
                each.wait_for("s")
            yield [one, two]


@pytest.fixture(scope="module")
def url(gateways: list[Running], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = shutil.which("haproxy")
    if program is None:
        pytest.skip("haproxy is not installed: apt-get install haproxy")
    text = (CONFIG / "haproxy.cfg").read_text(encoding="utf-8")
    text = re.sub(r"^resolvers docker\n(?: .*\n)+", "", text, flags=re.MULTILINE)
    text = text.replace(" resolvers docker init-addr none", "")
    for name, running in zip(("gateway-1", "gateway-2"), gateways, strict=True):
        text = text.replace(f"{name}:8080", running.url.removeprefix("http://"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        path = tmp_path_factory.mktemp("balancer") / "haproxy.cfg"
        path.write_text(text.replace("bind :8080", f"bind fd@{listener.fileno()}"))
        process = subprocess.Popen([program, "-db", "-f", str(path)], pass_fds=[listener.fileno()])
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    try:
        yield address
    finally:
        process.terminate()
        process.wait(60)


def calls_of(running: Running) -> float:
    """How many calls this gateway forwarded itself."""
    text = running.client.get("/metrics").text
    return sum(map(float, re.findall(r"^mcpproxy_asks_total\{[^}]*\} (\S+)$", text, re.MULTILINE)))


@pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
def test_calls_through_the_balancer_reach_both_and_are_in_one_record(
    url: str, gateways: list[Running], era: str
) -> None:
    for _ in range(4):
        wire = Wire(url, era, token=SECRETS["MCPPROXY_MCP_TOKEN"])
        assert text(wire.read("s:echo", {"text": "there"})) == '{"text": "there"}'
    records = [{record["id"] for record in each.activities(tool="echo")} for each in gateways]
    assert records[0] == records[1] and len(records[0]) >= 4
    assert all(calls_of(each) for each in gateways)


def test_either_gateway_can_verify_what_both_recorded(gateways: list[Running], url: str) -> None:
    wire = Wire(url, MODERN, token=SECRETS["MCPPROXY_MCP_TOKEN"])
    for _ in range(4):
        wire.read("s:echo", {"text": "there"})
    for running in gateways:
        running.catch_up()
    for running in gateways:

        def intact(running: Running = running) -> bool:
            found = subprocess.run(
                [sys.executable, "-m", "mcpproxy_py", "activity", "verify", "--listen", running.url, "-o", "json"],
                env=clean_environment(MCPPROXY_API_KEY=SECRETS["MCPPROXY_API_KEY"]), capture_output=True, text=True,
                timeout=120,
            )  # fmt: skip
            return found.returncode == 0 and json.loads(found.stdout)["result"] == "intact"

        until(intact, what="the record to verify")
