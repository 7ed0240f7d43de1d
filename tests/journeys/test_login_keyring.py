"""The key of the logins in a real keyring of the system (UP-9)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.authserver import AuthServer, auth_server
from tests.support.browser import visit
from tests.support.gateway import Running
from tests.support.gateway import gateway as started
from tests.support.keyring import SystemKeyring, missing, packages, system_keyring
from tests.support.wire import Wire, text

pytestmark = [
    pytest.mark.proves("UP-9"),
    pytest.mark.skipif(sys.platform != "linux" or missing() is not None, reason=str(missing() or "made for Linux")),
]

NAME = "guarded"
gateway = partial(started, wait=False)


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if (found := packages(tmp_path_factory.mktemp("packages") / "site")) is None:
        pytest.skip("the packages of requirements/keyring.txt are not to be had here")
    return found


@pytest.fixture
def keyring(spoken: Path, tmp_path: Path) -> Iterator[SystemKeyring]:
    with system_keyring(tmp_path / "keyring", spoken) as found:
        yield found


@pytest.fixture
def site() -> Iterator[AuthServer]:
    with auth_server() as found:
        yield found


def log_in(running: Running) -> None:
    running.wait_for(NAME, state="needs_login")
    visit(running.post(f"/servers/{NAME}/login", {}).json()["authorization_url"])
    running.wait_for(NAME)


def called(running: Running) -> str:
    return text(Wire(running.mcp).via("read", f"{NAME}:look"))


def doctor(running: Running, keyring: SystemKeyring) -> str:
    command = [sys.executable, "-m", "mcpproxy_py", "doctor", "--data-dir", str(running.data_dir)]
    done = subprocess.run(command, env=keyring.environment, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout + done.stderr


def test_the_key_is_in_the_keyring_and_in_no_file_and_outlives_a_restart(
    site: AuthServer, keyring: SystemKeyring, tmp_path: Path
) -> None:
    with gateway(tmp_path / "data", site.config, env=keyring.env) as running:
        log_in(running)
        assert called(running) == "did look"
        assert "the system keyring" in doctor(running, keyring)
    said = (tmp_path / "data" / "login.key").read_text().strip()
    assert said == f"keyring:logins of {tmp_path / 'data'}"
    key = keyring.read(said.removeprefix("keyring:"))
    assert len(key) > 32
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(key.encode() in each for each in kept), "the keyring itself is encrypted"
    with gateway(tmp_path / "data", env=keyring.env) as running:
        running.wait_for(NAME)
        assert called(running) == "did look"
    assert site.counts["authorize"] == 1


def test_a_keyring_that_is_gone_says_so_and_the_login_is_there_when_it_is_back(
    site: AuthServer, keyring: SystemKeyring, tmp_path: Path
) -> None:
    with gateway(tmp_path / "data", site.config, env=keyring.env) as running:
        log_in(running)
    keyring.take_away()
    nobody = {**keyring.env, "DBUS_SESSION_BUS_ADDRESS": f"unix:path={tmp_path}/nobody"}
    with gateway(tmp_path / "data", env=nobody) as running:
        running.wait_for(NAME, state="failed")
        row = next(each for each in running.get("/servers")["servers"] if each["name"] == NAME)
        assert "system keyring" in str(row), row
        assert "did look" not in called(running)
    assert (tmp_path / "data" / "login.key").read_text().startswith("keyring:"), "no other key takes its place"
    keyring.unlock()
    with gateway(tmp_path / "data", env=keyring.env) as running:
        running.wait_for(NAME)
        assert called(running) == "did look"
    assert site.counts["authorize"] == 1
