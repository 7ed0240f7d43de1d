"""Servers that need a login, from the first 401 to the end of the login (UP-9)."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.authserver import AuthServer, auth_server, oauth_error
from tests.support.browser import visit
from tests.support.gateway import Running, clean_environment, until
from tests.support.gateway import gateway as started
from tests.support.postgres import own_server
from tests.support.replicas import TOKEN, documented, replicas
from tests.support.terminal import on_terminal
from tests.support.wire import Wire, text

NAME = "guarded"
SAYS_YES = f"{sys.executable} -m tests.support.browser %s"
ROOT = Path(__file__).parents[2]
gateway = partial(started, wait=False)
"""Nobody has logged in when it starts."""


@pytest.fixture
def site() -> Iterator[AuthServer]:
    with auth_server() as found:
        yield found


def cli(running: Running, *args: str, given: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mcpproxy_py", *args, "--data-dir", str(running.data_dir)],
        input=given, cwd=ROOT, env=clean_environment(BROWSER=SAYS_YES, **env), capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


def log_in(running: Running) -> None:
    """As a person does by REST, without a process for it."""
    begun = running.post(f"/servers/{NAME}/login", {})
    assert begun.status_code == 200, begun.text
    ended = visit(begun.json()["authorization_url"], goes_home=False)
    answered = running.post(f"/servers/{NAME}/login/answer", {"address": ended})
    assert answered.status_code == 200, answered.text
    running.wait_for(NAME)


def row(running: Running) -> dict[str, Any]:
    return next(each for each in running.get("/servers")["servers"] if each["name"] == NAME)


def called(running: Running, tool: str = "look", variant: str = "read", **more: Any) -> str:
    return text(Wire(running.mcp, **more).via(variant, f"{NAME}:{tool}"))


@pytest.mark.proves("UP-9")
def test_a_person_logs_in_once_and_is_not_asked_again_after_a_restart(site: AuthServer, tmp_path: Path) -> None:
    with gateway(tmp_path / "data", site.config) as running:
        running.wait_for(NAME, state="needs_login")
        assert "mcpproxy upstream login guarded" in called(running)
        assert Wire(running.mcp).call("retrieve_tools", {"query": "look"})
        done = cli(running, "upstream", "login", NAME)
        assert done.returncode == 0, done.stderr
        assert f"Logged in to {NAME}" in done.stdout
        assert called(running) == "did look"
    asked = site.counts["authorize"]
    with gateway(tmp_path / "data") as running:
        running.wait_for(NAME)
        assert called(running, "change", "write") == "did change"
    assert site.counts["authorize"] == asked == 1
    assert site.counts["register"] == 1


def test_adding_a_server_finds_out_that_it_needs_a_login_and_offers_it_at_once(
    site: AuthServer, tmp_path: Path
) -> None:
    with gateway(tmp_path / "data", {"mcpServers": {}}) as running:
        add = [sys.executable, "-m", "mcpproxy_py", "upstream", "add", "--data-dir", str(running.data_dir)]
        env = clean_environment(BROWSER=SAYS_YES)
        status, shown = on_terminal([*add, NAME, "--url", site.url], env, [("Log in now?", "y\n")])
        assert status == 0, shown
        assert "Logged in to guarded" in shown
        assert called(running) == "did look"
        alone = cli(running, "upstream", "add", "other", "--url", site.url)
        assert alone.returncode == 0, "nobody is there to be asked"
        assert "mcpproxy upstream login other" in alone.stdout + alone.stderr


def test_what_runs_out_is_renewed_before_and_nobody_notices(site: AuthServer, tmp_path: Path) -> None:
    site.lives = 1.5
    with gateway(tmp_path / "data", site.config) as running:
        running.wait_for(NAME, state="needs_login")
        log_in(running)
        turned_away, until_then = site.counts["401"], time.monotonic() + 5
        while time.monotonic() < until_then:
            assert called(running) == "did look"
        assert site.counts["refresh_token"] >= 2
        assert site.counts["401"] <= turned_away + 1, "a slow machine may be late once"


@pytest.mark.proves("UP-9")
def test_a_token_that_ends_in_mid_load_is_renewed_once_for_all_callers_of_two_gateways(
    site: AuthServer, tmp_path: Path
) -> None:
    config = documented(mcpServers=site.config["mcpServers"])
    with own_server() as server, replicas(tmp_path, server.database(), config, wait=False) as (one, two):
        for each in (one, two):
            each.wait_for(NAME, state="needs_login")
        log_in(one)
        two.wait_for(NAME)
        site.refresh_takes = 0.5
        site.end_access()
        with ThreadPoolExecutor(64) as callers:
            said = list(callers.map(lambda at: called(at, "change", "write", token=TOKEN), [one, two] * 32))
        assert set(said) == {"did change"}
        assert site.calls["change"] == 64
        assert site.counts["refresh_token"] == 1


def test_a_grant_that_ended_needs_a_person_and_says_so_at_once(site: AuthServer, tmp_path: Path) -> None:
    with gateway(tmp_path / "data", site.config) as running:
        running.wait_for(NAME, state="needs_login")
        log_in(running)
        site.forget_grants()
        assert "mcpproxy upstream login guarded" in called(running)
        running.wait_for(NAME, state="needs_login")
        refreshed = site.counts["refresh_token"]
        assert "mcpproxy upstream login guarded" in called(running)
        assert site.counts["refresh_token"] == refreshed == 1
        log_in(running)
        assert called(running) == "did look"
        assert site.counts["register"] == 1, "the client is still the same"


def test_a_server_that_forgot_its_client_gets_a_new_registration(site: AuthServer, tmp_path: Path) -> None:
    with gateway(tmp_path / "data", site.config) as running:
        running.wait_for(NAME, state="needs_login")
        log_in(running)
        site.forget_clients()
        site.end_access()
        assert "mcpproxy upstream login guarded" in called(running)
        log_in(running)
        assert called(running) == "did look"
        assert site.counts["register"] == 2


@pytest.mark.parametrize("fault", ["503", "hangs up", "HTML"])
def test_a_refresh_that_gets_no_answer_loses_nothing(site: AuthServer, tmp_path: Path, fault: str) -> None:
    def broken(asked: Any) -> Any:
        if fault == "hangs up":
            raise ConnectionResetError
        return (503, {}, b"later") if fault == "503" else (200, {"content-type": "text/html"}, b"<html>")

    with gateway(tmp_path / "data", site.config) as running:
        running.wait_for(NAME, state="needs_login")
        log_in(running)
        site.faults["/token"] = broken
        site.end_access()
        assert "cannot be renewed just now" in called(running)
        site.faults.clear()
        until(lambda: called(running) == "did look", what="the login to be renewed")
        assert site.counts["authorize"] == 1


@pytest.mark.parametrize("way", ["--paste", "--device", "--no-browser"])
def test_a_person_logs_in_without_a_browser_on_this_machine(site: AuthServer, tmp_path: Path, way: str) -> None:
    site.device_approved = True
    with gateway(tmp_path / "data", site.config) as running:
        running.wait_for(NAME, state="needs_login")
        command = [sys.executable, "-m", "mcpproxy_py", "upstream", "login", NAME, way, "--data-dir",
                   str(running.data_dir)]  # fmt: skip
        env = clean_environment(BROWSER="false")
        pipe = subprocess.PIPE
        with subprocess.Popen(command, cwd=ROOT, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as person:
            assert person.stdin is not None
            assert person.stderr is not None
            if way != "--device":
                shown = next(line.strip() for line in person.stderr if "/authorize?" in line)
                ended = visit(shown, goes_home=way != "--paste")
                person.stdin.write(f"{ended}\n")
            out, _ = person.communicate(timeout=120)
        assert person.returncode == 0
        assert f"Logged in to {NAME}" in out
        assert called(running) == "did look"
        assert site.counts["device"] == (way == "--device")


def test_logging_out_forgets_and_revokes(site: AuthServer, tmp_path: Path) -> None:
    with gateway(tmp_path / "data", site.config) as running:
        running.wait_for(NAME, state="needs_login")
        log_in(running)
        done = cli(running, "upstream", "logout", NAME, "--revoke")
        assert done.returncode == 0, done.stderr
        assert site.counts["revoke"] == 2
        running.wait_for(NAME, state="needs_login")
        assert "mcpproxy upstream login guarded" in called(running)
    with gateway(tmp_path / "data") as running:
        running.wait_for(NAME, state="needs_login")


def test_a_permission_more_is_asked_for_beside_those_that_were_given(site: AuthServer, tmp_path: Path) -> None:
    site.needs["change"] = "write"
    with gateway(tmp_path / "data", site.config) as running:
        running.wait_for(NAME, state="needs_login")
        log_in(running)
        assert "one more permission (write)" in called(running, "change", "write")
        assert called(running) == "did look", "what it gave goes on meanwhile"
        log_in(running)
        assert called(running, "change", "write") == "did change"
        scopes = [set(each.query["scope"].split()) for each in site.issuer.asked if each.path == "/authorize"]
        assert scopes == [{"read", "offline_access"}, {"read", "write", "offline_access"}]


@pytest.mark.proves("UP-9")
def test_tokens_are_nowhere_but_where_they_belong(site: AuthServer, tmp_path: Path) -> None:
    with gateway(tmp_path / "data", site.config, env={"MCPPROXY_LOG__LEVEL": "debug"}) as running:
        running.wait_for(NAME, state="needs_login")
        log_in(running)
        called(running)
        site.end_access()
        called(running, "change", "write")
        site.faults["/token"] = lambda asked: oauth_error("invalid_request")
        site.end_access()
        called(running)
        shown = [str(running.get(path)) for path in ("/servers", f"/servers/{NAME}", f"/servers/{NAME}/login",
                                                     "/config", "/status", "/activity")]  # fmt: skip
        running.catch_up()
        if sys.platform == "linux":
            processes = [path for path in Path("/proc").glob("[0-9]*/cmdline") if path.parent.name != str(os.getpid())]
            for path in processes:
                with contextlib.suppress(OSError):
                    shown.append(path.read_bytes().decode("utf-8", "replace"))
        kept = {path: path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()}
        for secret in site.secrets:
            assert not [path for path, content in kept.items() if secret.encode() in content]
            assert not any(secret in each for each in [*shown, running.stderr()])


def test_what_is_kept_is_useless_without_its_key(site: AuthServer, tmp_path: Path) -> None:
    with gateway(tmp_path / "data", site.config) as running:
        running.wait_for(NAME, state="needs_login")
        log_in(running)
    key = tmp_path / "data" / "login.key"
    assert key.stat().st_mode & 0o777 == 0o600
    key.unlink()
    with gateway(tmp_path / "data") as running:
        running.wait_for(NAME, state="needs_login")
        assert "cannot be read with the key that is here" in running.stderr()
        log_in(running)
        assert called(running) == "did look"


def test_a_machine_logs_in_by_itself(site: AuthServer, tmp_path: Path) -> None:
    site.lives, site.token = 1.0, {"refresh_token": None}
    site.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    auth = {"type": "oauth", "grant": "client_credentials", "client_id": "known-1", "client_secret": "sesame-open-it",
            "issuer": site.issuer.url}  # fmt: skip
    with gateway(tmp_path / "data", {"mcpServers": {NAME: {"url": site.url, "auth": auth}}}) as running:
        running.wait_for(NAME)
        until_then = time.monotonic() + 3
        while time.monotonic() < until_then:
            assert called(running) == "did look"
        assert site.counts["client_credentials"] >= 2
        assert "sesame-open-it" not in str(running.get("/config")) + running.stderr()


@pytest.mark.proves("PERF-6")
def test_a_start_without_a_login_and_one_with_a_good_token_load_no_sdk(site: AuthServer, tmp_path: Path) -> None:
    def loaded(config: dict[str, Any] | None = None) -> str:
        with gateway(tmp_path / "data", config, program=("-X", "importtime", "-m", "mcpproxy_py")) as running:
            running.wait_for(NAME)
            assert called(running) == "did look"
        return (tmp_path / "data.stderr").read_text()

    site.serve_everybody = True
    assert " mcp\n" not in (seen := loaded(site.config))
    assert "cryptography" not in seen
    site.serve_everybody = False
    with gateway(tmp_path / "data") as running:
        running.wait_for(NAME, state="needs_login")
        log_in(running)
    (tmp_path / "data.stderr").unlink()
    assert " mcp\n" not in loaded()


def test_a_server_whose_headers_are_configured_is_not_logged_in_to(site: AuthServer, tmp_path: Path) -> None:
    servers = {NAME: {"url": site.url, "headers": {"Authorization": "Bearer of-mine"}},
               "bearer": {"url": site.url, "auth": {"type": "bearer", "token": "of-mine-too"}}}  # fmt: skip
    with gateway(tmp_path / "data", {"mcpServers": servers}) as running:
        running.wait_for(*servers, state="failed")
        shown = {each.headers.get("authorization") for each in site.server.asked}
        assert shown == {"Bearer of-mine", "Bearer of-mine-too"}
        assert not site.issuer.asked
