"""The edges of the process: what children are given, who may write what is read, who listens where commands connect."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.gateway import Running, clean_environment, gateway, python_server, until
from tests.support.postgres import Server, shared_server
from tests.support.wire import Wire, text

WAIT = 60
SECRET = "s3cret-0123456789-of-the-operator"
KEY, TOKEN, SEAL = f"mcpk_key-{SECRET}", f"token-{SECRET}", f"seal-{SECRET}"
STRANGER = 4_242_424
"""A user that this machine does not have."""
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")


def run(*args: str, data_dir: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mcpproxy_py", *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=WAIT, env=clean_environment(MCPPROXY_DATA_DIR=str(data_dir), **env),
    )  # fmt: skip


# What children are given.


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    server: Server = shared_server()
    try:
        url = server.database()
        yield url + ("&" if "?" in url else "?") + f"password={SECRET}"
    finally:
        server.close()


def environment(database: str) -> dict[str, str]:
    """Of an operator who keeps everything there."""
    proxy = f"http://me:{SECRET}@127.0.0.1:9"
    return {
        "MCPPROXY_API_KEY": KEY, "MCPPROXY_MCP_TOKEN": TOKEN, "MCPPROXY_SEALING_KEYS": json.dumps([SEAL]),
        "MCPPROXY_ACTIVITY__DATABASE_URL": database, "DATABASE_URL": database, "PGPASSWORD": SECRET,
        "PGSERVICEFILE": f"/{SECRET}", "GITHUB_TOKEN": SECRET, "AWS_SECRET_ACCESS_KEY": SECRET,
        "MCPPROXY_MCPSERVERS__OTHER__ENV__TOKEN": SECRET, "MCPPROXY_MCPSERVERS__OTHER__COMMAND": sys.executable,
        "MCPPROXY_MCPSERVERS__OTHER__ENABLED": "false", "NO_PROXY": "127.0.0.1,localhost",
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization={SECRET}",
        **dict.fromkeys(("HTTP_PROXY", "https_proxy", "ALL_PROXY"), proxy),
    }  # fmt: skip


def known_of(process: psutil.Process) -> str:
    """What anybody who may look sees of it: arguments and environment."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return json.dumps([process.cmdline(), process.environ()])
    return ""


def assert_no_child_has_it(gateway_process: psutil.Process, least: int) -> None:
    """The reaper, the writer of the database, servers: whatever it started."""
    children = until(
        lambda: (found := gateway_process.children(recursive=True)) and len(found) >= least and found, what="children"
    )
    for child in children:
        assert SECRET not in known_of(child), child.name()
    assert SECRET not in json.dumps(gateway_process.cmdline())


@pytest.mark.proves("UP-1", "OPS-1")
def test_no_child_of_a_gateway_is_given_its_keys_its_database_or_a_proxys_password(
    tmp_path: Path, database: str
) -> None:
    config = {"mcpServers": {"s": python_server("plain.py"), "l": python_server("plain.py", lazy=True)}}
    with gateway(tmp_path / "data", config, env=environment(database)) as running:
        assert running.key == KEY
        client = Wire(running.mcp, token=TOKEN)
        for server in ("s", "l"):
            given = json.loads(text(client.read(f"{server}:environment")))
            assert SECRET not in json.dumps(given), [name for name, value in given.items() if SECRET in value]
            assert not [name for name in given if name.startswith(("MCPPROXY_", "PG", "OTEL_"))]
            assert given["HTTP_PROXY"] == "http://127.0.0.1:9"
        assert_no_child_has_it(psutil.Process(running.process.pid), 4)  # both servers, reaper, writer
        assert running.client.get("/api/v1/activity/verify").status_code == 200  # by a process of its own
        assert SECRET not in json.dumps(running.get("/config")) + json.dumps(running.get("/status"))
    assert SECRET not in running.stderr()


@pytest.mark.proves("UP-1", "SURF-5")
def test_nor_is_one_of_a_gateway_that_stdio_started(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    servers = {"s": python_server("plain.py")}
    (data_dir / "mcp_config.json").write_text(json.dumps({"listen": "127.0.0.1:0", "mcpServers": servers}))
    own = {name: value for name, value in environment("").items() if value}
    ide = subprocess.Popen(
        [sys.executable, "-m", "mcpproxy_py", "stdio", "--data-dir", str(data_dir)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment(**own),
    )  # fmt: skip
    assert ide.stdin and ide.stdout and ide.stderr
    found: psutil.Process | None = None
    try:
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "ide", "version": "1"}}
        for message in (
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
        ):
            ide.stdin.write(json.dumps(message).encode() + b"\n")
        ide.stdin.flush()
        assert b'"result"' in ide.stdout.readline()
        found = psutil.Process(json.loads((data_dir / "gateway.json").read_text())["pid"])
        assert_no_child_has_it(found, 3)
        assert SECRET not in json.dumps(psutil.Process(ide.pid).cmdline())
        assert SECRET not in (data_dir / "gateway.log").read_text()
        assert stat.S_IMODE((data_dir / "gateway.log").stat().st_mode) == 0o600
    finally:
        for pipe in (ide.stdin, ide.stdout, ide.stderr):
            pipe.close()
        ide.wait(WAIT)
        if found is not None:
            found.terminate()
            found.wait(WAIT)


# Keys.

OWN = {"MCPPROXY_API_KEY": KEY, "MCPPROXY_MCP_TOKEN": TOKEN, "SEAL": SEAL}


@pytest.fixture(scope="module")
def talkative(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway at the level at which every library tells what it does, after all that could make it tell a key."""
    folder = tmp_path_factory.mktemp("talkative")
    plain = python_server("plain_http.py", "--http", "0")
    upstream = subprocess.Popen([plain["command"], *plain["args"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert upstream.stdin and upstream.stdout
    try:
        port = int(upstream.stdout.readline().split()[1])
        servers = {
            "h": {"url": f"http://127.0.0.1:{port}/mcp", "headers": {"Authorization": f"Bearer {SECRET}"}},
            "moved": {"url": f"http://me:{SECRET}@127.0.0.1:{port}/moved", "headers": {"X-Token": SECRET}},
            "down": {"url": f"http://127.0.0.1:9/mcp?key={SECRET}", "lazy": True},
            "s": python_server("plain.py", env={"API_TOKEN": SECRET}),
        }
        config = {"log": {"level": "debug"}, "require_mcp_auth": True, "sealing_keys": ["${env:SEAL}"]}
        with gateway(folder / "data", {**config, "mcpServers": servers}, env=OWN, wait=False) as running:
            running.wait_for("h", "s")
            client = Wire(running.mcp, token=TOKEN)
            for name in ("h:echo", "s:echo", "moved:echo", "down:echo", "s:error", "h:invalid"):
                client.read(name, {"text": "x"})
            headers: list[dict[str, str]] = [{"X-API-Key": f"{KEY}x"}, {"X-API-Key": KEY, "Authorization": KEY},
                                             {"Authorization": f"Bearer {TOKEN}"}, {"Cookie": KEY}]  # fmt: skip
            for each in headers:
                running.client.get("/api/v1/status", headers=each)
                running.client.post("/mcp", headers=each, content=b"{")
            running.client.get("/api/v1/activity", params={"cursor": KEY, "key": KEY})
            running.client.post("/api/v1/call", content=b"[" * 100_000)
            running.client.get("/api/v1/proof", params={"nonce": "0" * 32})
            for line in (b'{"surface": []}\n', b"[]\n", b'{"surface": {}, "server": 1}\n', b"\xff\n", b"x" * 70_000):
                with socket.socket(socket.AF_UNIX) as joined:
                    joined.settimeout(WAIT)
                    joined.connect(str(running.data_dir / "mcp.sock"))
                    with contextlib.suppress(OSError):
                        joined.sendall(line)
                        joined.shutdown(socket.SHUT_WR)
                        while joined.recv(65536):
                            pass
            assert running.get("/status")
            yield running
    finally:
        upstream.stdin.close()
        upstream.kill()
        upstream.wait()


@pytest.mark.proves("OPS-1", "SEC-8")
def test_no_key_is_in_a_log_at_any_level_nor_a_trace_of_a_failure(talkative: Running) -> None:
    log = talkative.stderr()
    assert " debug " in log
    assert not [line for line in log.splitlines() if SECRET in line]
    assert "Traceback" not in log


@pytest.mark.proves("SEC-8")
@pytest.mark.parametrize("form", ["table", "json", "yaml"])
@pytest.mark.parametrize(
    "args", [("config", "show"), ("status",), ("doctor",), ("upstream", "list"), ("activity", "list", "--all")]
)
def test_no_command_but_the_one_for_it_prints_a_key(talkative: Running, args: tuple[str, ...], form: str) -> None:
    ran = run(*args, "-o", form, data_dir=talkative.data_dir, **OWN)
    assert ran.stdout, ran.stderr
    assert SECRET not in ran.stdout + ran.stderr
    assert run("key", "show", data_dir=talkative.data_dir, **OWN).stdout.strip() == KEY


@pytest.mark.proves("SEC-8")
def test_a_command_that_fails_does_not_print_the_key_it_was_given(tmp_path: Path) -> None:
    for key in (f"{KEY}\u00e9", f"{KEY}\n{KEY}", KEY * 1000):
        for said in (("--url", "http://127.0.0.1:9"), ("--url", "http://[")):
            ran = run("status", *said, data_dir=tmp_path / "none", MCPPROXY_API_KEY=key)
            assert ran.returncode in (1, 2, 4) and ran.stderr
            assert SECRET not in ran.stdout + ran.stderr and "Traceback" not in ran.stderr


WEAK = ("k", "fifteen-letters", "0" * 64, "ab" * 32)
PLACES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "mcp_token": lambda key: {"mcp_token": key},
    "api_key": lambda key: {"api_key": key},
    "sealing_keys": lambda key: {"sealing_keys": ["0123456789-a-good-key-abcdef", key]},
}


@pytest.mark.proves("SEC-8", "CONF-1")
@pytest.mark.parametrize("place", PLACES)
def test_a_key_that_can_be_guessed_stops_the_start_and_is_not_printed(tmp_path: Path, place: str) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    config = data_dir / "mcp_config.json"
    variable = f"MCPPROXY_{place.upper()}"
    for number, key in enumerate(WEAK):
        written: dict[str, Any] = {"listen": "127.0.0.1:0"}
        environ: dict[str, str] = {}
        if number == 2:  # through a variable
            environ[variable] = json.dumps([key]) if place == "sealing_keys" else key
        elif number == 3:  # through a reference
            environ["REFERRED"] = key
            written |= PLACES[place]("${env:REFERRED}")
        else:
            written |= PLACES[place](key)
        config.write_text(json.dumps(written))
        ran = run("serve", data_dir=data_dir, **environ)
        assert ran.returncode == 2 and "at least 16 characters" in ran.stderr, ran.stderr
        assert (variable if number == 2 else place) in ran.stderr
        assert len(key) == 1 or key not in ran.stderr
    assert not (data_dir / "gateway.json").exists()


@pytest.mark.proves("SEC-8")
@pytest.mark.parametrize("wrong", [[f"{SECRET} with spaces"], [f"{SECRET}\u00e9"], [[SECRET]], {"a": SECRET}, SECRET,
                                   [f"${{nonsense:{SECRET[:8]}}}"], [{"key": SECRET}]], ids=str)  # fmt: skip
def test_a_sealing_key_that_is_wrong_is_never_printed(talkative: Running, tmp_path: Path, wrong: Any) -> None:
    """By no command, in no error, not by a running gateway whose file was changed to hold it."""
    config = tmp_path / "c.json"
    config.write_text(json.dumps({"sealing_keys": wrong, "listen": "127.0.0.1:0"}))
    for args in (("serve",), ("config", "show", "-o", "json"), ("doctor",), ("config", "validate", str(config))):
        ran = run(*args, "--config", str(config), data_dir=tmp_path / "data")
        assert ran.returncode != 0, args
        assert SECRET not in ran.stdout + ran.stderr
    if not isinstance(wrong, str):  # as a variable that is one key
        ran = run("serve", data_dir=tmp_path / "data", MCPPROXY_SEALING_KEYS=json.dumps(wrong))
        assert ran.returncode == 2 and SECRET not in ran.stderr, ran.stderr
    live = talkative.data_dir / "mcp_config.json"
    before = json.loads(live.read_text())
    live.write_text(json.dumps({**before, "sealing_keys": wrong}))
    try:
        until(lambda: talkative.get("/status")["config_error"], what="the edit to be refused")
        assert SECRET not in json.dumps(talkative.get("/status")) + talkative.stderr()
    finally:
        live.write_text(json.dumps(before))
        until(lambda: not talkative.get("/status")["config_error"], what="the edit to be taken back")


# Who may write what is read.


def opened(mode: int, place: Callable[[Path], Path]) -> Callable[[Path], Path]:
    def open_it(path: Path) -> Path:
        place(path).chmod(mode)
        return path

    return open_it


def linked(path: Path) -> Path:
    folder = path.parent.parent / "open"
    folder.mkdir()
    link = folder / "link.json"
    link.symlink_to(path)
    folder.chmod(0o777)
    return link


def of_a_group(path: Path) -> Path:
    os.chown(path, -1, STRANGER)
    path.chmod(0o660)
    return path


OPEN: Mapping[str, Callable[[Path], Path]] = {
    "the file": opened(0o602, lambda path: path),
    "the directory": opened(0o777, lambda path: path.parent),
    "a directory above": opened(0o777, lambda path: path.parent.parent),
    "a link": linked,
}


def refused_at_start(tmp_path: Path, open_it: Callable[[Path], Path]) -> None:
    folder = tmp_path / "above" / "place"
    folder.mkdir(parents=True)
    path = folder / "c.json"
    path.write_text(json.dumps({"listen": "127.0.0.1:0", "mcpServers": {"x": {"command": "true"}}}))
    path.chmod(0o600)
    named = open_it(path)
    for args in (("serve", "--config", str(named)), ("config", "show")):
        ran = run(*args, data_dir=tmp_path / "data", MCPPROXY_CONFIG=str(named))
        said = ran.stdout + ran.stderr
        assert ran.returncode != 0 and "so it is not read; close it with `chmod go-w" in said, said
    command = said.partition("close it with `")[2].partition("`")[0].split()
    subprocess.run(command, check=True)
    assert run("config", "show", "--config", str(named), data_dir=tmp_path / "data").returncode == 0


@pytest.mark.proves("CONF-1")
@pytest.mark.parametrize("what", OPEN)
def test_a_configuration_that_others_can_write_or_replace_is_refused_with_what_mends_it(
    tmp_path: Path, what: str
) -> None:
    refused_at_start(tmp_path, OPEN[what])


@ROOT
@pytest.mark.proves("CONF-1")
def test_so_is_one_that_a_group_can_write(tmp_path: Path) -> None:
    refused_at_start(tmp_path, of_a_group)


@pytest.mark.proves("CONF-1", "UP-8")
def test_an_edit_of_a_file_that_everybody_can_write_is_not_applied_by_a_running_gateway(tmp_path: Path) -> None:
    with gateway(tmp_path / "data", {"mcpServers": {"s": python_server("plain.py")}}) as running:
        path = running.data_dir / "mcp_config.json"
        path.chmod(0o666)
        path.write_text(json.dumps({"mcpServers": {"evil": python_server("plain.py")}}))
        error = until(lambda: running.get("/status")["config_error"], what="the edit to be refused")
        assert "everybody can write" in error and "chmod go-w" in error
        assert "evil" not in json.dumps(running.get("/servers"))
        path.chmod(0o600)
        os.utime(path)
        running.wait_for("evil")


# Who listens where commands connect.

LISTENS = """
import os, socket, sys
user, path, log = sys.argv[1:]
os.setgid(int(user)), os.setuid(int(user))
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
os.chmod(path, 0o600)
listener.listen()
print("ready", flush=True)
while True:
    peer, _ = listener.accept()
    peer.settimeout(10)
    try:
        while data := peer.recv(65536):
            with open(log, "ab") as file:
                file.write(data)
            if data.startswith(b"{"):
                peer.sendall(b'{"error": "\\\\u001b[2Jyou are mine"}\\n')
            else:
                body = b"{}"
                head = b"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\ncontent-length: 2\\r\\n\\r\\n"
                peer.sendall(head + body)
    except OSError:
        pass
    peer.close()
"""


@contextlib.contextmanager
def listener_of(user: int, path: Path, log: Path) -> Iterator[int]:
    """A process of this user that writes down all it is told."""
    command = [sys.executable, "-c", LISTENS, str(user), str(path), str(log)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout and process.stdout.readline() == "ready\n"
        yield process.pid
    finally:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()


@pytest.fixture
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory of another user that is closed to everybody else, in a place that is open."""
    base = Path(tmp_path_factory.mktemp("strangers"))
    for folder in (base, *base.parents):
        if folder.owner() == Path.home().owner() and not folder.stat().st_mode & stat.S_IXOTH:
            folder.chmod(folder.stat().st_mode | stat.S_IXOTH)
        if folder.name.startswith("pytest-of"):
            break
    place = base / "place"
    place.mkdir(mode=0o700)
    os.chown(place, STRANGER, STRANGER)
    yield place


def announce(data_dir: Path, **more: Any) -> None:
    said = {"pid": os.getpid(), "url": "http://127.0.0.1:9", "socket": "", "version": "0", **more}
    (data_dir / "gateway.json").write_text(json.dumps(said))


@ROOT
@pytest.mark.proves("SEC-8", "SURF-5")
@pytest.mark.parametrize("how", ["their directory", "a link to their socket", "their socket in ours"])
def test_who_listens_at_a_socket_as_another_user_is_told_nothing(strangers: Path, tmp_path: Path, how: str) -> None:
    """Neither the key by a command, nor by `stdio` what an agent asks; also where the data directory is theirs."""
    log = strangers / "heard"
    with listener_of(STRANGER, strangers / "s.sock", log) as pid:
        theirs = strangers / "s.sock"
        data_dir = strangers if how == "their directory" else tmp_path / "data"
        data_dir.mkdir(mode=0o700, exist_ok=True)
        at = theirs
        if how == "a link to their socket":
            at = data_dir / "api.sock"
            at.symlink_to(theirs)
        elif how == "their socket in ours":
            at = data_dir / "api.sock"
            os.link(theirs, at)
        announce(data_dir, pid=pid, socket=str(at), rest_socket=str(at))
        status = run("status", data_dir=data_dir, MCPPROXY_API_KEY=KEY)
        assert status.returncode == 4, status.stdout + status.stderr
        ide = subprocess.run(
            [sys.executable, "-m", "mcpproxy_py", "stdio", "--data-dir", str(data_dir)], timeout=WAIT,
            input=json.dumps({"secret": SECRET}) + "\n", capture_output=True, text=True, env=clean_environment(),
        )  # fmt: skip
        assert ide.returncode == 1 and f"is run by another user (uid {STRANGER}), so nothing was sent" in ide.stderr
        assert ide.stdout == "" and "\x1b" not in ide.stderr
    assert not log.exists()


@pytest.mark.proves("SURF-5")
def test_what_is_no_gateway_at_the_socket_is_said_and_drives_no_terminal(tmp_path: Path) -> None:
    with listener_of(os.geteuid(), tmp_path / "s.sock", tmp_path / "heard"):
        data_dir = tmp_path / "data"
        data_dir.mkdir(mode=0o700)
        announce(data_dir, socket=str(tmp_path / "s.sock"))
        ran = run("stdio", data_dir=data_dir)
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", "mcpproxy: you are mine\n")


@pytest.mark.proves("SURF-5")
@pytest.mark.parametrize("name", ["gateway.log", "start.lock"])
@pytest.mark.parametrize("how", ["open to everybody", "closed since"])
def test_stdio_writes_through_no_link_that_was_put_into_the_data_directory(tmp_path: Path, name: str, how: str) -> None:
    data_dir, precious = tmp_path / "data", tmp_path / "precious"
    data_dir.mkdir(mode=0o700)
    precious.write_text("mine\n")
    (data_dir / name).symlink_to(precious)
    if how == "open to everybody":
        data_dir.chmod(0o777)
    ran = run("stdio", data_dir=data_dir)
    assert ran.returncode in (1, 2) and "Traceback" not in ran.stderr, ran.stderr
    assert ("chmod 700" if how == "open to everybody" else f"{name} cannot be used") in ran.stderr
    assert precious.read_text() == "mine\n" and not (data_dir / "gateway.json").exists()


@pytest.mark.proves("SURF-5")
@pytest.mark.parametrize("said", [5, ["x"], "x\0y", "x" * 4000], ids=repr)
def test_an_announcement_that_is_nonsense_leads_nowhere(tmp_path: Path, said: Any) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    (data_dir / "mcp_config.json").write_text('{"listen": "nowhere"}')
    announce(data_dir, socket=said, rest_socket=said)
    ran = run("stdio", data_dir=data_dir)
    assert ran.returncode == 4 and "no gateway could be started" in ran.stderr and "Traceback" not in ran.stderr
    ran = run("status", data_dir=data_dir)
    assert ran.returncode == 4 and "Traceback" not in ran.stderr, ran.stderr
