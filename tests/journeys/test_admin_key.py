"""The admin key goes to nobody but the gateway whose key it is (SEC-8): commands against processes that pretend."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from mcpproxy_py.core.protocol.admin_key_proof import proof
from tests.support.gateway import Running, gateway

pytestmark = pytest.mark.proves("SEC-8")
ANSWER_SECONDS = 60
SQUATTER = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print(listener.getsockname()[1], flush=True)
while True:
    peer, _ = listener.accept()
    peer.settimeout(5)
    head = b""
    while b"\\r\\n\\r\\n" not in head and (more := peer.recv(65536)):
        head += more
    with open(sys.argv[2], "ab") as log:
        log.write(head)
    body = sys.argv[3].encode()
    kind = b"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\ncontent-length: %d" % len(body)
    peer.sendall(kind + b"\\r\\n\\r\\n" + body)
    try:
        with open(sys.argv[2], "ab") as log:
            log.write(peer.recv(65536))
    except OSError:
        pass
    peer.close()
"""


def command(data_dir: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MCPPROXY_")}
    return subprocess.run(
        [sys.executable, "-m", "mcpproxy_py", *args],
        env={**kept, "MCPPROXY_DATA_DIR": str(data_dir), **env},
        capture_output=True,
        text=True,
        timeout=ANSWER_SECONDS,
    )


@contextmanager
def squatter(log: Path, answer: str = "{}", port: int = 0) -> Iterator[int]:
    """Another user's process on the port; it keeps all that it is sent."""
    log.touch()
    process = subprocess.Popen(
        [sys.executable, "-c", SQUATTER, str(port), str(log), answer], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


@contextmanager
def relay(to: int, log: list[bytes]) -> Iterator[int]:
    """Passes everything on to the real gateway, and reads along."""
    listener = socket.create_server(("127.0.0.1", 0))

    def copy(one: socket.socket, other: socket.socket, kept: list[bytes]) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                kept.append(data)
                other.sendall(data)
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        with suppress(OSError):
            while True:
                peer, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", to))
                threading.Thread(target=copy, args=(peer, far, log), daemon=True).start()
                threading.Thread(target=copy, args=(far, peer, []), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with gateway(tmp_path / "data", {"mcpServers": {}}) as found:
        yield found


def port_of(running: Running) -> int:
    return int(running.url.rpartition(":")[2])


def proofs() -> Iterator[str]:
    yield "{}"
    yield '{"version": "0.1.0", "frozen": false}'
    yield json.dumps({"nonce": "0" * 32, "port": 8080, "proof": "0" * 64})
    yield json.dumps({"nonce": "0" * 32, "port": 8080, "proof": proof("a-guess-of-the-key", "0" * 32, "0" * 32, 8080)})


@pytest.mark.parametrize(
    ("args", "answer"), [*((("status",), answer) for answer in proofs()), (("doctor",), "{}"), (("freeze",), "{}")]
)
def test_who_sits_on_the_port_while_the_gateway_is_down_never_sees_the_key(
    tmp_path: Path, args: tuple[str, ...], answer: str
) -> None:
    """Killed, the gateway left its announcement and its socket; the squatter took the port that it had."""
    data_dir, log = tmp_path / "data", tmp_path / "seen"
    with gateway(data_dir, {"mcpServers": {}}) as running:
        port, key = port_of(running), running.key
        running.kill()
    with squatter(log, answer, port):
        for said in ((), ("--listen", f"127.0.0.1:{port}"), ("--url", f"http://127.0.0.1:{port}")):
            found = command(data_dir, *args, *said)
            assert found.returncode != 0 or args == ("doctor",), found.stdout
        command(data_dir, *args, MCPPROXY_LISTEN=f"127.0.0.1:{port}")
        command(data_dir, *args, MCPPROXY_LISTEN=f"127.0.0.1:{port}", MCPPROXY_API_KEY=key)
    seen = log.read_bytes()
    assert b"/api/v1/proof?nonce=" in seen
    assert key.encode() not in seen and b"x-api-key" not in seen.lower()


def test_a_body_with_secrets_is_not_sent_to_a_stranger_either(tmp_path: Path) -> None:
    data_dir, log = tmp_path / "data", tmp_path / "seen"
    data_dir.mkdir(mode=0o700)
    (data_dir / "admin.key").write_text("mcpk_0123456789-abcdef\n")
    with squatter(log) as port:
        found = command(
            data_dir, "upstream", "add", "x", "--env", "PASSWORD=hunter2", "--listen", f"127.0.0.1:{port}", "--", "true"
        )
    assert found.returncode == 4, found.stderr
    assert b"hunter2" not in log.read_bytes()


def test_commands_go_over_the_socket_of_the_data_directory_which_only_its_owner_can_open(running: Running) -> None:
    announced = json.loads((running.data_dir / "gateway.json").read_text())
    path = Path(announced["rest_socket"])
    assert stat.S_ISSOCK(path.stat().st_mode) and stat.S_IMODE(path.stat().st_mode) == 0o600
    with_socket = command(running.data_dir, "status", "-o", "json")
    assert json.loads(with_socket.stdout)["pid"] == announced["pid"]
    with relay(port_of(running), log := []) as port:
        url = f"http://127.0.0.1:{port}"
        (running.data_dir / "gateway.json").write_text(json.dumps({**announced, "url": url}))
        assert command(running.data_dir, "status").returncode == 0
        assert log == [], "nothing went over TCP"
        # A socket that others could have put there is none of ours.
        open_to_all = running.data_dir.parent / "open"
        open_to_all.mkdir()
        open_to_all.chmod(0o777)
        other = open_to_all / "api.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(other))
        (running.data_dir / "gateway.json").write_text(json.dumps({**announced, "url": url, "rest_socket": str(other)}))
        found = command(running.data_dir, "status")
        listener.close()
    assert found.returncode == 1 and running.key.encode() not in b"".join(log)


def test_the_socket_asks_for_the_key_all_the_same(running: Running) -> None:
    path = json.loads((running.data_dir / "gateway.json").read_text())["rest_socket"]
    with httpx.Client(transport=httpx.HTTPTransport(uds=path), base_url=running.url) as client:
        assert client.get("/api/v1/status").status_code == 401
        assert client.get("/api/v1/status", headers={"x-api-key": running.key}).status_code == 200
        assert client.get("/metrics").status_code == 401, "it is no address of this machine"


def test_the_socket_is_gone_with_the_gateway(tmp_path: Path) -> None:
    with gateway(tmp_path / "data", {"mcpServers": {}}) as running:
        path = Path(json.loads((running.data_dir / "gateway.json").read_text())["rest_socket"])
    assert not path.exists()


def test_a_gateway_of_another_machine_proves_itself_over_tcp(running: Running, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    for said in (running.url, f"127.0.0.1:{port_of(running)}"):
        found = command(elsewhere, "status", "--listen", said, "-o", "json", MCPPROXY_API_KEY=running.key)
        assert json.loads(found.stdout)["version"], found.stderr
    wrong = command(elsewhere, "status", "--url", running.url, MCPPROXY_API_KEY="mcpk_another-key-of-somebody")
    assert wrong.returncode == 1 and "does not know this admin key, so the key was not sent" in wrong.stderr


def test_a_process_that_passes_the_question_on_to_the_gateway_gains_nothing(running: Running, tmp_path: Path) -> None:
    """A gateway that found its port taken listens at another, where the squatter can ask it."""
    with relay(port_of(running), log := []) as port:
        found = command(tmp_path / "e", "status", "--listen", f"127.0.0.1:{port}", MCPPROXY_API_KEY=running.key)
        assert found.returncode == 1 and f"listens on port {port_of(running)} itself" in found.stderr
        assert b"/api/v1/proof" in b"".join(log) and running.key.encode() not in b"".join(log)
        # A tunnel is said as a URL.
        tunnel = command(tmp_path / "e", "status", "--url", f"http://127.0.0.1:{port}", MCPPROXY_API_KEY=running.key)
        assert tunnel.returncode == 0, tunnel.stderr


def test_the_proof_is_bounded_and_says_nothing_of_the_key(running: Running) -> None:
    with httpx.Client(base_url=running.url, trust_env=False) as client:
        for nonce in ("", "0" * 31, "0" * 65, "g" * 32, "0" * 10_000):
            assert client.get("/api/v1/proof", params={"nonce": nonce}).status_code in (400, 431)
        assert client.get("/api/v1/proof").status_code == 400
        assert client.post("/api/v1/proof").status_code == 405
        both = [client.get("/api/v1/proof", params={"nonce": "0" * 32}).json() for _ in range(2)]
        assert both[0]["nonce"] != both[1]["nonce"] and both[0]["proof"] != both[1]["proof"]
        assert running.key not in json.dumps(both)
        foreign = client.get("/api/v1/proof", params={"nonce": "0" * 32}, headers={"host": "evil.example"})
        assert foreign.status_code == 421
