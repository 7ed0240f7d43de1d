"""What a login gets is in no file, process, trace or core file that can be found (UP-9)."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.authserver import AuthServer, auth_server, oauth_error
from tests.support.browser import visit
from tests.support.collector import collector
from tests.support.gateway import READY_TIMEOUT, Running, python_server, until
from tests.support.gateway import gateway as started
from tests.support.wire import HANDSHAKE, MODERN, RpcError, Wire, text

pytestmark = pytest.mark.proves("UP-9")

NAME = "guarded"
PROC = Path("/proc")
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc, and at the core files of Linux")
gateway = partial(started, wait=False)


@pytest.fixture
def site() -> Iterator[AuthServer]:
    with auth_server() as found:
        yield found


def log_in(running: Running, site: AuthServer) -> None:
    """What the address of the page holds is kept as a secret too."""
    running.wait_for(NAME, state="needs_login")
    address = running.post(f"/servers/{NAME}/login", {}).json()["authorization_url"]
    site.secrets.append(parse_qs(urlsplit(address).query)["state"][0])
    assert visit(address).startswith("http://127.0.0.1:")
    running.wait_for(NAME)


def called(running: Running, tool: str = "look", variant: str = "read", era: str = MODERN) -> str:
    return text(Wire(running.mcp, era).via(variant, f"{NAME}:{tool}"))


def found_in(folder: Path, secrets: list[str]) -> list[tuple[str, Path]]:
    """Every file below it that holds one of these as it is."""
    kept = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}
    return [(each, path) for each in secrets for path, content in kept.items() if each.encode() in content]


def of_all_processes(what: str) -> list[bytes]:
    seen: list[bytes] = []
    for path in PROC.glob(f"[0-9]*/{what}"):
        with contextlib.suppress(OSError):
            if path.parent.name != str(os.getpid()):
                seen.append(path.read_bytes())
    return seen


@contextlib.contextmanager
def core_files_wanted() -> Iterator[None]:
    """For processes that are started within."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


@needs_linux
def test_what_is_secret_is_in_no_file_trace_process_or_answer(site: AuthServer, tmp_path: Path) -> None:
    servers = {**site.config["mcpServers"], "notes": python_server("plain.py", "--log", str(tmp_path / "notes"))}
    with collector() as traces:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": traces.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}
        env["MCPPROXY_LOG__LEVEL"] = "debug"
        with gateway(tmp_path / "data", {"mcpServers": servers}, env=env) as running:
            log_in(running, site)
            answers = [called(running, era=each) for each in (MODERN, HANDSHAKE)]
            site.end_access()
            answers.append(called(running, "change", "write"))
            site.faults["/mcp"] = lambda asked: (500, {}, str(asked.headers).encode())
            answers.append(called(running))
            site.faults = {"/token": lambda asked: oauth_error("invalid_request")}
            site.end_access()
            answers += [called(running), called(running, "change", "write")]
            with contextlib.suppress(RpcError):
                answers.append(str(Wire(running.mcp).call("retrieve_tools", {"query": "look"})))
            paths = ("/servers", f"/servers/{NAME}", f"/servers/{NAME}/login", "/config", "/status", "/activity",
                     "/activity/summary", "/tools")  # fmt: skip
            answers += [running.client.get(f"/api/v1{path}").text for path in paths]
            answers.append(running.client.get("/metrics").text)
            answers.append(running.client.get("/api/v1/activity/export", params={"format": "json"}).text)
            until(lambda: len(traces.spans) > 5, what="spans")
            shown = [each.encode() for each in answers] + of_all_processes("cmdline") + of_all_processes("environ")
            shown += traces.bodies
            running.catch_up()
            assert found_in(tmp_path, site.secrets) == []
    assert len(site.secrets) >= 5
    assert not [each for each in site.secrets if any(each.encode() in one for one in shown)]
    assert found_in(tmp_path, site.secrets) == [], "nor when it has ended"


@needs_linux
def test_a_gateway_that_holds_a_login_leaves_no_core_file(site: AuthServer, tmp_path: Path) -> None:
    where, other = tmp_path / "where", tmp_path / "other"
    for each in (where, other):
        each.mkdir()
    dies = "import os, signal; secret = 'in-' + 'memory-41c7'; os.kill(os.getpid(), signal.SIGABRT)"
    with core_files_wanted():
        subprocess.run([sys.executable, "-c", dies], cwd=other, timeout=60, check=False)
        with gateway(tmp_path / "data", site.config, cwd=where) as running:
            log_in(running, site)
            assert called(running) == "did look"
            limits = (PROC / str(running.process.pid) / "limits").read_text()
            running.process.send_signal(signal.SIGABRT)
            running.process.wait(READY_TIMEOUT)
    assert running.process.returncode == -signal.SIGABRT
    assert next(line for line in limits.splitlines() if "core file" in line).split()[4] == "0"
    if found_in(other, ["in-memory-41c7"]):  # where this machine leaves core files at all, it leaves none of ours
        assert [*where.iterdir()] == []
    assert found_in(tmp_path, site.secrets) == []


@needs_linux
def test_the_servers_of_a_gateway_that_holds_a_login_may_leave_theirs(site: AuthServer, tmp_path: Path) -> None:
    """Only the limit that a process can raise again is inherited."""
    with core_files_wanted(), gateway(tmp_path / "data", site.config) as running:
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        log_in(running, site)
        limits = (PROC / str(running.process.pid) / "limits").read_text()
    told = next(line for line in limits.splitlines() if "core file" in line).split()
    assert (told[4], told[5]) == ("0", "unlimited" if hard == resource.RLIM_INFINITY else str(hard))
