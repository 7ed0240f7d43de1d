"""`mcpproxy doctor`: what is wrong is found, named and can be mended by what is said of it; nothing is changed."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from mcpproxy_py import __version__, doctor
from mcpproxy_py.doctor import machine
from mcpproxy_py.settings import Settings
from tests.cli.conftest import FakeGateway, Ran, Run
from tests.support.gateway import Running
from tests.support.ports import kept_port
from tests.support.threaded import threaded

pytestmark = pytest.mark.proves("USE-3")

STATUS: dict[str, Any] = {
    "version": __version__, "url": "http://127.0.0.1:1", "pid": 7, "config_error": None, "frozen": False,
    "unrecorded": 0,
    "store": {"writable": True, "lag_seconds": 0.0, "last_error": None, "database": "/data/activity.db"},
}  # fmt: skip
ROW: dict[str, Any] = {
    "name": "s", "state": "connected", "error": None, "tool_count": 3, "left_out": {}, "ignored": {"garbage": 0},
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A data directory of nobody's gateway, which would take any free port."""
    path = tmp_path / "home"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def dead() -> Iterator[str]:
    with kept_port() as port:
        yield f"127.0.0.1:{port}"


def configured(home: Path, **config: Any) -> str:
    (home / "mcp_config.json").write_text(json.dumps({"listen": "127.0.0.1:0", **config}))
    return str(home)


def looked(run: Run, home: str, *args: str) -> tuple[Ran, dict[str, tuple[str, str]]]:
    """What it found, by subject; of two findings, the worse."""
    ran = run("doctor", "--data-dir", home, "-o", "json", *args)
    worst: dict[str, tuple[str, str]] = {}
    for each in sorted(ran.json["findings"], key=lambda each: ["ok", "warning", "problem"].index(each["state"])):
        worst[each["subject"]] = (each["state"], each["says"])
    assert ran.json["healthy"] is all(state != "problem" for state, _ in worst.values())
    assert ran.status == (0 if ran.json["healthy"] else 1)
    return ran, worst


def everything_in(path: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(each): (each.stat().st_mode, each.stat().st_mtime_ns, each.read_bytes() if each.is_file() else b"")
        for each in [path, *path.rglob("*")]
        if each.name != "home"  # its time changes where it is tried whether it can be written
    }


# Before it runs.


def test_with_nothing_configured_nothing_is_wrong_and_nothing_is_made(run: Run, tmp_path: Path) -> None:
    _, found = looked(run, str(tmp_path / "new"), "--listen", "127.0.0.1:0")
    assert found["data directory"] == ("ok", f"{tmp_path / 'new'} will be made at the first start")
    assert {state for state, _ in found.values()} == {"ok"}
    assert not (tmp_path / "new").exists()


def test_it_changes_nothing(run: Run, home: Path) -> None:
    told = configured(home, mcpServers={"s": {"command": "nothing-of-that-name"}})
    before = everything_in(home)
    looked(run, told)
    assert everything_in(home) == before


def test_a_person_reads_what_to_mend(run: Run, home: Path) -> None:
    ran = run("doctor", "--data-dir", configured(home, mcpServers={"git": {"command": "uvx-of-nobody"}}))
    assert ran.status == 1
    assert "problem  server git      command not found: uvx-of-nobody (install it, or give its full path)" in ran.out
    assert ran.err == "1 to mend.\n"


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"lissten": "127.0.0.1:1"}, "listen"),
        ({"mcpServers": {"s": {"command": "a", "url": "http://h"}}}, "exactly one of `command` and `url`"),
        ({"mcp_token": "${env:NOT_SET_ANYWHERE}"}, "NOT_SET_ANYWHERE"),
    ],
)
def test_a_configuration_that_cannot_be_used(run: Run, home: Path, config: dict[str, Any], says: str) -> None:
    _, found = looked(run, configured(home, **config))
    assert found["configuration"][0] == "problem"
    assert says in found["configuration"][1]


@pytest.mark.proves("UP-12")
def test_a_secret_that_is_missing_is_a_problem_of_its_server(run: Run, home: Path) -> None:
    servers = {"s": {"command": sys.executable, "env": {"K": "${env:NOT_SET_ANYWHERE}"}}}
    _, found = looked(run, configured(home, mcpServers=servers))
    assert found["configuration"][0] == "ok"
    says = "it cannot start: the environment variable NOT_SET_ANYWHERE is not set (env.K)"
    assert found["server s"] == ("problem", says)


def test_servers_by_command(run: Run, home: Path) -> None:
    script = home / "script"
    script.write_text("#!/bin/sh\n")
    servers = {
        "here": {"command": sys.executable},
        "gone": {"command": "npx-of-nobody"},
        "known": {"command": "npx", "env": {"PATH": str(home)}},
        "plain": {"command": str(script)},
        "nowhere": {"command": sys.executable, "cwd": str(home / "not")},
        "off": {"command": "npx-of-nobody", "enabled": False},
    }
    _, found = looked(run, configured(home, mcpServers=servers))
    assert found["server here"] == ("ok", f"starts {os.path.abspath(sys.executable)}")
    state, why = found["server gone"]
    assert state == "problem"
    assert why.startswith("command not found: npx-of-nobody (install it, or give its full path); looked in PATH (")
    own = "command not found: npx (install Node.js: https://nodejs.org); looked only in the PATH that its `env` gives"
    assert found["server known"] == ("problem", own)
    assert found["server plain"] == ("problem", f"the command is not executable: {script} (chmod +x it)")
    assert found["server nowhere"] == ("problem", f"the working directory does not exist: {home / 'not'}")
    assert found["server off"] == ("ok", "is disabled")


@contextmanager
def answering(paths: dict[str, int]) -> Iterator[str]:
    """A server that answers each path as told; where it is."""

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            status = paths[self.path.partition("?")[0]]
            if not status:
                released.wait(30)
            self.send_response(status or 200)
            self.send_header("location", "http://127.0.0.1:9/other")
            self.send_header("content-length", "0")
            self.end_headers()

        do_GET = do_POST = _serve

        def log_message(self, format: str, *args: Any) -> None: ...

    released = threading.Event()
    with threaded(Handler) as where:
        try:
            yield where
        finally:
            released.set()


ANSWERS = {
    "fine": (200, "ok", "answers"),
    "older": (400, "ok", "answers"),
    "closed": (401, "problem", "give what it asks for under `headers`"),
    "forbidden": (403, "problem", "see what it asks for under `headers`"),
    "elsewhere": (404, "problem", "nothing at that path"),
    "legacy": (405, "problem", "set `transport` to `sse`"),
    "over": (410, "problem", "not there any more"),
    "broken": (503, "problem", "it fails itself"),
    "moved": (307, "warning", "write the address where it sends us"),
    "mute": (0, "problem", "does not answer within 0.5 s"),
}


def test_servers_by_address(run: Run, home: Path, dead: str) -> None:
    with answering({f"/{name}": status for name, (status, _, _) in ANSWERS.items()}) as where:
        servers = {name: {"url": f"http://{where}/{name}", "connect_timeout": 0.5 if name == "mute" else 20}
                   for name in ANSWERS}  # fmt: skip
        servers["dead"] = {"url": f"http://{dead}/mcp"}
        servers["nobody"] = {"url": "http://no-such-host.invalid/mcp"}
        _, found = looked(run, configured(home, mcpServers=servers))
    for name, (_, state, says) in ANSWERS.items():
        assert found[f"server {name}"][0] == state, name
        assert says in found[f"server {name}"][1]
        assert where in found[f"server {name}"][1]
    assert found["server dead"][0] == found["server nobody"][0] == "problem"
    assert "see that it runs, and that its address is right" in found["server dead"][1]


def test_dead_addresses_are_not_waited_for_one_after_the_other(run: Run, home: Path) -> None:
    released = threading.Barrier(10, timeout=30)
    met: list[bool] = []

    def meet(connection: socket.socket) -> None:
        released.wait()
        met.append(True)
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threads: list[threading.Thread] = []

        def accept() -> None:
            for _ in range(10):
                threads.append(threading.Thread(target=meet, args=(listener.accept()[0],)))
                threads[-1].start()

        acceptor = threading.Thread(target=accept)
        acceptor.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        servers = {f"s{number}": {"url": url, "connect_timeout": 30} for number in range(10)}
        looked(run, configured(home, mcpServers=servers))
        acceptor.join(10)
        for thread in threads:
            thread.join(10)
    assert len(met) == 10


def test_no_secret_of_an_address_or_a_header_is_shown(run: Run, home: Path, dead: str) -> None:
    with answering({"/hush-path": 401}) as where:
        servers = {"s": {"url": f"http://hush-user:hush-word@{where}/hush-path?key=hush-query",
                         "headers": {"authorization": "Bearer hush-token"}},
                   "dead": {"url": f"http://hush-user:hush-word@{dead}/hush-path"}}  # fmt: skip
        ran, found = looked(run, configured(home, mcpServers=servers))
    assert found["server s"][0] == found["server dead"][0] == "problem"
    assert "hush" not in ran.out + ran.err


def test_a_port_that_somebody_has(run: Run, home: Path) -> None:
    with answering({"/api/v1/proof": 404, "/api/v1/status": 404}) as where:
        _, found = looked(run, configured(home, listen=where, mcpServers={"s": {"command": "nothing-of-that-name"}}))
    assert found["gateway"][0] == "problem"
    assert "is not an mcpproxy gateway" in found["gateway"][1]
    assert "choose another address with --listen" in found["gateway"][1]
    assert found["server s"][0] == "problem", "what else is wrong is found all the same"


def test_a_port_that_is_taken_and_does_not_answer(run: Run, home: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))  # and would not share it
        where = f"127.0.0.1:{holder.getsockname()[1]}"
        _, found = looked(run, configured(home, listen=where))
    assert found["address"][0] == "problem"
    assert f"Cannot listen on {where}" in found["address"][1]
    assert "mcpproxy serve --listen" in found["address"][1]


def test_a_data_directory_that_is_open_to_others(run: Run, home: Path) -> None:
    home.chmod(0o755)
    _, found = looked(run, configured(home))
    assert found["data directory"][0] == "problem"
    assert f"close it with `chmod 700 {home}`" in found["data directory"][1]
    assert home.stat().st_mode & 0o777 == 0o755


def test_a_data_directory_that_is_none(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "file").chmod(0o600)
    config = tmp_path / "c.json"
    config.write_text('{"listen": "127.0.0.1:0"}')
    _, found = looked(run, str(tmp_path / "file"), "--config", str(config))
    assert found["data directory"][0] == "problem"
    _, found = looked(run, str(tmp_path / "file" / "below"), "--config", str(config))
    assert found["data directory"][0] == "problem"
    assert "cannot be made" in found["data directory"][1]


@pytest.mark.parametrize(("limit", "state"), [("NO_ROOM", "problem"), ("LITTLE_ROOM", "warning")])
def test_a_disk_without_room(home: Path, monkeypatch: pytest.MonkeyPatch, limit: str, state: str) -> None:
    monkeypatch.setattr(machine, limit, 1 << 60)
    found = {each.subject: each for each in doctor.folder(Settings(data_dir=home))}
    assert found["disk"].state == state
    assert "activity.retention_days" in found["disk"].says


def test_doors_that_would_stand_open(run: Run, home: Path) -> None:
    _, found = looked(run, configured(home, listen="0.0.0.0:0"))
    assert found["access"][0] == "problem"
    assert "MCPPROXY_MCP_TOKEN" in found["access"][1]


def test_a_database_that_is_not_there(run: Run, home: Path, dead: str) -> None:
    url = f"postgresql://ann:hush-word@{dead}/mcpproxy"
    ran, found = looked(run, configured(home, activity={"database_url": url}))
    assert found["database"][0] == "problem"
    assert "activity.database_url leads there" in found["database"][1]
    assert "hush" not in ran.out + ran.err


# While it runs.


def at_work(change: Callable[[dict[str, Any]], None]) -> dict[str, tuple[str, str]]:
    status = json.loads(json.dumps(STATUS))
    change(status)
    return {each.subject: (each.state, each.says) for each in doctor.gateway_at_work(status, __version__)}


@pytest.mark.parametrize(
    ("subject", "state", "says", "change"),
    [
        ("gateway", "warning", "restart the gateway", lambda status: status.update(version="0.0.1")),
        ("gateway", "warning", "mcpproxy unfreeze", lambda status: status.update(frozen=True)),
        ("configuration", "problem", "a typo", lambda status: status.update(config_error="a typo")),
        ("record", "problem", "disk full", lambda s: s["store"].update(writable=False, last_error="disk full")),
        ("record", "warning", "120 s behind", lambda status: status["store"].update(lag_seconds=120.0)),
        ("record", "warning", "3 calls could not", lambda status: status.update(unrecorded=3)),
    ],
)
def test_what_a_gateway_says_of_itself(
    subject: str, state: str, says: str, change: Callable[[dict[str, Any]], None]
) -> None:
    found = at_work(change)
    assert found[subject][0] == state
    assert says in found[subject][1]
    assert {state for state, _ in at_work(lambda status: None).values()} == {"ok"}


@pytest.mark.parametrize(
    ("change", "state", "says"),
    [
        ({}, "ok", "connected, 3 tools"),
        ({"state": "sleeping"}, "ok", "is sleeping"),
        ({"state": "disabled"}, "ok", "is disabled"),
        ({"state": "failed", "error": "it ended"}, "problem", "failed: it ended; see `mcpproxy upstream logs s`"),
        ({"state": "connecting"}, "warning", "connecting: not connected yet"),
        ({"left_out": {"t": "no schema"}}, "warning", "t (no schema)"),
        (
            {"unannotated_tools": ["a", "b"]},
            "warning",
            "2 tools have no hints; the read door lets them through; see `mc",
        ),
        ({"unannotated_tools": ["a"], "unannotated_as": "write"}, "warning", "1 tool has no hints; it counts as write"),
        ({"ignored": {"garbage": 4}}, "warning", "where only messages belong"),
        ({"ignored": {}}, "ok", "connected"),
    ],
)
def test_what_it_says_of_its_servers(change: dict[str, Any], state: str, says: str) -> None:
    *_, last = doctor.servers_at_work([{**ROW, **change}])
    assert (last.subject, last.state) == ("server s", state)
    assert says in last.says


def test_one_of_another_version_may_say_less() -> None:
    found = [*doctor.gateway_at_work({"version": "9"}, "1"), *doctor.servers_at_work([{"name": "s", "state": "odd"}])]
    assert {each.state for each in found} == {"ok", "warning"}


def test_a_running_gateway_is_asked_instead_of_its_address_and_servers(
    run: Run, data_dir: Path, gateway: FakeGateway
) -> None:
    gateway.answer("GET", "/status", STATUS)
    gateway.answer("GET", "/servers", {"servers": [ROW]})
    (data_dir / "mcp_config.json").write_text(json.dumps({"mcpServers": {"s": {"command": "nothing-of-that-name"}}}))
    _, found = looked(run, str(data_dir))
    assert found["server s"] == ("ok", "connected, 3 tools")
    assert "address" not in found


def test_a_gateway_elsewhere_is_asked_and_these_files_are_not_looked_at(
    run: Run, tmp_path: Path, gateway: FakeGateway, dead: str
) -> None:
    gateway.answer("GET", "/status", STATUS)
    gateway.answer("GET", "/servers", {"servers": []})
    environment = {"MCPPROXY_API_KEY": gateway.key}
    ran = run("doctor", "--url", gateway.url, "--data-dir", str(tmp_path / "no"), "-o", "json", env=environment)
    assert {each["subject"] for each in ran.json["findings"]} == {"gateway", "record"}
    ran = run("doctor", "--url", f"http://{dead}", "--data-dir", str(tmp_path / "no"), "-o", "json")
    assert [each["state"] for each in ran.json["findings"]] == ["problem"]


def test_a_key_that_does_not_fit(run: Run, data_dir: Path, gateway: FakeGateway) -> None:
    gateway.key = "another"
    _, found = looked(run, str(data_dir))
    assert found["gateway"][0] == "problem"
    assert "mcpproxy key show" in found["gateway"][1]


def test_a_real_gateway_is_in_good_health(shared_gateway: Running, run: Run) -> None:
    shared_gateway.wait_for("s", "sdk")
    _, found = looked(run, str(shared_gateway.data_dir))
    assert found["gateway"] == (
        "ok", f"version {__version__} runs at {shared_gateway.url}, process {shared_gateway.process.pid}"
    )  # fmt: skip
    assert found["record"][0] == "ok"
    state, says = found["server sdk"]
    assert (state, "no hints; the read door lets" in says) == ("warning", True), says
