"""The load balancers of the how-to, as they are written there, in front of two gateways (ACT-6)."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.providers.test_elicitation_journey import PROVIDER
from tests.support.gateway import Running, python_server
from tests.support.links import HttpLink
from tests.support.peer import Message, connected
from tests.support.postgres import own_server
from tests.support.replicas import HOWTO, TOKEN, documented, replicas
from tests.support.wire import HANDSHAKE, MODERN, Wire, text

pytestmark = [pytest.mark.anyio, pytest.mark.proves("ACT-6", "SURF-6")]
ASKED = {"name": "call_tool_write", "arguments": {"name": "shop:interview", "intent": {"operation_type": "write"}}}


def nginx(config: str, folder: Path) -> list[str]:
    inside = f"access_log off; client_body_temp_path {folder}; proxy_temp_path {folder};\n{config}"
    around = f"daemon off; pid {folder}/pid; error_log stderr; events {{}}\nhttp {{\n{inside}\n}}\n"
    return ["-p", str(folder), "-e", "stderr", "-c", written(folder, around)]


def haproxy(config: str, folder: Path) -> list[str]:
    return ["-db", "-f", written(folder, config)]


def written(folder: Path, config: str) -> str:
    path = folder / "balancer.conf"
    path.write_text(config)
    return str(path)


PROGRAMS: dict[str, Callable[[str, Path], list[str]]] = {"haproxy": haproxy, "nginx": nginx}


@pytest.fixture(scope="module")
def gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Running]]:
    config = documented(mcpServers={"s": python_server("plain.py")}, providers={"shop": "shop:Shop"})
    with own_server() as server:
        folder = tmp_path_factory.mktemp("balanced")
        with replicas(folder, server.database(), config, files={"shop.py": PROVIDER}) as running:
            for gateway in running:
                gateway.wait_for("shop")
            yield running


@pytest.fixture(params=PROGRAMS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    program = shutil.which(request.param)
    if program is None:
        pytest.skip(f"{request.param} is not installed; the how-to's own turn-taking is tested without it")
    (config,) = re.findall(rf"```{request.param}\n(.*?)```", HOWTO.read_text(encoding="utf-8"), re.DOTALL)
    for running in request.getfixturevalue("gateways"):
        config = re.sub(r"10\.0\.0\.1\d:8080", running.url.removeprefix("http://"), config, count=1)
    # Opened here and inherited: a port that was only picked may be somebody else's by the time it is bound.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        inherited, address = listener.fileno(), f"127.0.0.1:{listener.getsockname()[1]}"
        config = config.replace("bind :80", f"bind fd@{inherited}").replace("listen 80", f"listen {address}")
        arguments = PROGRAMS[request.param](config, tmp_path)
        env = {**os.environ, "NGINX": f"{inherited};"}  # where nginx looks for what it inherits
        process = subprocess.Popen([program, *arguments], env=env, pass_fds=[inherited])
    try:
        yield f"http://{address}/mcp"
    finally:
        process.terminate()
        process.wait(60)


async def test_a_modern_call_of_several_rounds_is_one_call(url: str, gateways: list[Running]) -> None:
    async def answer(method: str, params: Message) -> Message:
        return {"action": "accept", "content": {"name": "Ada"}}

    before = len(gateways[0].activities(tool="interview"))
    async with connected(HttpLink(url, token=TOKEN), MODERN, answer) as peer:
        for _ in range(5):
            assert text(await peer.request("tools/call", ASKED)) == "Ada Ada"
    assert len(gateways[0].activities(tool="interview")) == before + 5


async def test_a_session_stays_with_the_gateway_that_gave_it_out(url: str, gateways: list[Running]) -> None:
    for _ in range(4):
        wire = Wire(url, HANDSHAKE, token=TOKEN)
        for _ in range(4):
            assert text(wire.read("s:echo", {"text": "there"})) == '{"text": "there"}'
