"""Edges that the second round of attacks found: what reaches children, files, spreadsheets and terminals, and what a
server sends beside its answer."""

from __future__ import annotations

import base64
import csv
import io
import json
import random
import stat
import string
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.site import HttpHeard, Site, response, result_of, site
from tests.support.gateway import Running, clean_environment, gateway, python_server, until
from tests.support.wire import HANDSHAKE, MODERN, Wire, text

WAIT = 120


@pytest.fixture(scope="module")
def web() -> Iterator[Site]:
    with site() as found:
        yield found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, web: Site) -> Iterator[Running]:
    """A gateway whose data directory an older one has used, and whose environment names what it should not."""
    data_dir = tmp_path_factory.mktemp("edges") / "data"
    (data_dir / "work").mkdir(parents=True, mode=0o700)
    data_dir.chmod(0o700)
    (data_dir / "work" / "package.json").write_text('{"private": true}\n')
    (data_dir / "work" / "package.json").chmod(0o644)
    servers = {"s": python_server("plain.py"), **{name: {"url": f"{web.url}/{name}"} for name in (*STAGED, "polite")}}
    web.answers |= {name: staged(name) for name in (*STAGED, "polite")}
    env = {name: f"given {name}" for name in (*HARMLESS, *NAMED_LIKE_THEM)}
    with gateway(data_dir, {"mcpServers": servers}, env=env) as found:
        found.wait_for("s", *STAGED, "polite")
        yield found


# What a child is given.

HARMLESS = ("LC_ALL", "LC_TIME", "XDG_CACHE_HOME", "XDG_CONFIG_DIRS")
NAMED_LIKE_THEM = ("LC_SECRET", "LC_API_TOKEN", "XDG_SESSION_COOKIE", "XDG_PASSWORD", "XDG_VTNR", "LC_", "XDG_")


@pytest.mark.proves("UP-1")
def test_no_variable_reaches_a_server_because_its_name_begins_harmlessly(running: Running) -> None:
    given = json.loads(text(Wire(running.mcp).read("s:environment")))
    assert set(HARMLESS) <= given.keys()
    assert not set(NAMED_LIKE_THEM) & given.keys()


@pytest.mark.proves("SEC-5")
def test_nothing_in_the_data_directory_can_be_read_by_others(running: Running) -> None:
    assert (running.data_dir / "work" / "package.json").read_text() == '{"private": true}\n'
    for path in {running.data_dir, *running.data_dir.rglob("*")} - {running.data_dir / "mcp_config.json"}:
        assert path.is_symlink() or stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


# What a server sends behind its answer, on a connection that is used again.


def answer(heard: HttpHeard, said: str) -> bytes:
    return response(result_of(heard, {"content": [{"type": "text", "text": said}]}))


def forged(heard: HttpHeard) -> bytes:
    """As the answer to the next request."""
    body = {
        "jsonrpc": "2.0",
        "id": heard.message["id"] + 1,
        "result": {"content": [{"type": "text", "text": "forged"}]},
    }
    return response(json.dumps(body).encode())


STAGED: dict[str, Callable[[HttpHeard], bytes]] = {
    "forged": forged,
    "refused": lambda heard: response(b"{}", status="500 Internal Server Error"),
    "torn": lambda heard: b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n",
    "nothing-http": lambda heard: b"\x00\x01\x02 surprise",
    "line-breaks": lambda heard: b"\r\n\r\n",
}


def staged(name: str) -> Callable[[HttpHeard], list[Any] | None]:
    """A cookie makes the gateway leave its short way for the library's."""

    def says(heard: HttpHeard) -> list[Any] | None:
        if heard.asked == "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "staged", "version": "1"}}  # fmt: skip
            return [response(result_of(heard, result), f"set-cookie: {name}=1; Path=/{name}")]
        if heard.asked != "tools/call":
            return None
        args = heard.message["params"]["arguments"]
        more = STAGED[name](heard) if args["stage"] else b""
        return [answer(heard, args["say"]) + more]

    return says


@pytest.mark.proves("UP-7", "SEC-5")
@pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
@pytest.mark.parametrize("name", STAGED)
def test_what_is_staged_behind_an_answer_is_never_the_answer_to_the_next_call(
    running: Running, web: Site, name: str, era: str
) -> None:
    client = Wire(running.mcp, era)
    for number in range(4):
        result = client.read(f"{name}:look", {"say": f"own {number}", "stage": number % 2 == 0})
        assert (text(result), result.get("isError", False)) == (f"own {number}", False)
    assert f"{name}=1" in web.at(name)[-1].headers["cookie"], "it went another way than this is about"


@pytest.mark.proves("UP-7")
def test_a_server_that_stages_nothing_keeps_its_connection(running: Running, web: Site) -> None:
    client = Wire(running.mcp)
    client.read("polite:look", {"say": "one", "stage": False})
    before = web.connections
    for number in range(4):
        assert text(client.read("polite:look", {"say": f"{number}", "stage": False})) == f"{number}"
    assert web.connections == before


# What a spreadsheet runs.


@pytest.mark.proves("ACT-3")
def test_no_cell_of_an_export_begins_with_a_formula_behind_what_is_invisible(running: Running) -> None:
    formulas = [
        f"{hidden}{sign}1+1" for sign in "=+-@＝﹦" for hidden in ("\u200b", "\ufeff", "\u2060 ", "\U000e0041", "\xad")
    ]
    client = Wire(running.mcp)
    for formula in formulas:
        client.read("s:echo", {"text": "x"}, intent={"operation_type": "read", "reason": formula})
    running.catch_up()
    exported = running.client.get("/api/v1/activity/export", params={"format": "csv"}).text
    reasons = [row["intent_reason"] for row in csv.DictReader(io.StringIO(exported))]
    assert {f"'{formula}" for formula in formulas} <= set(reasons)
    assert not set(formulas) & set(reasons)


# What a terminal shows, and a pipe passes on.

INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\xad\u034f\u3164\ufe0e\U000e0041\U000e0062\U000e0100\U000e01ef"


@pytest.mark.proves("CLI-2")
@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_what_is_invisible_passes_no_command_to_a_pipe(running: Running, form: str) -> None:
    said = f"ignore{INVISIBLE}this 👩\u200d💻 می\u200cخواهم ⚠\ufe0f\ufe0f\ufe0f\ufe0f\U000e0041"
    args = ("call", "tool-read", "polite:look", "--json_args", json.dumps({"say": said, "stage": False}), "-o", form)
    ran = subprocess.run(
        [sys.executable, "-m", "mcpproxy_py", *args], capture_output=True, encoding="utf-8", timeout=WAIT, check=True,
        env=clean_environment(MCPPROXY_DATA_DIR=str(running.data_dir), PYTHONIOENCODING="utf-8"),
    )  # fmt: skip
    shown = ran.stdout + ran.stderr
    if form != "yaml":  # which escapes emoji
        assert "👩\u200d💻 می\u200cخواهم" in shown, "letters and emoji keep their shape"
    for harmless in ("👩\u200d💻", "می\u200cخ"):
        shown = shown.replace(harmless, "")
    assert "ignore" in shown
    assert not set(INVISIBLE) & set(shown)


# What a link in a project leads to.


@pytest.mark.proves("USE-1")
@pytest.mark.parametrize("kind", ["file", "folder", "missing"])
def test_connect_writes_through_no_link_that_leads_out_of_the_project(tmp_path: Path, kind: str) -> None:
    home, project, outside = tmp_path / "home", tmp_path / "project", tmp_path / "elsewhere"
    for folder in (home, project, outside):
        folder.mkdir()
    target = outside / "mcp.json"
    if kind != "missing":
        target.write_text("{}")
    if kind == "folder":
        (project / ".cursor").symlink_to(outside)
    else:
        (project / ".cursor").mkdir()
        (project / ".cursor" / "mcp.json").symlink_to(target)

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "mcpproxy_py", "connect", "cursor", "--yes", "--project", str(project), *more],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT,
            env=clean_environment(HOME=str(home), MCPPROXY_DATA_DIR=str(home / ".mcpproxy")),
        )  # fmt: skip

    ran = run()
    assert ran.returncode != 0
    assert f"leads out of the project, to {target}" in " ".join(ran.stderr.split())
    assert target.read_text() == "{}" if kind != "missing" else not target.exists()
    assert run("--print").returncode != 0
    (project / ".cursor").unlink() if kind == "folder" else (project / ".cursor" / "mcp.json").unlink()
    (project / "shared").mkdir()
    if kind == "folder":
        (project / ".cursor").mkdir()
    (project / ".cursor" / "mcp.json").symlink_to(project / "shared" / "mcp.json")
    assert run().returncode == 0, "a link within the project is the project's own"
    assert "mcpproxy" in (project / "shared" / "mcp.json").read_text()


# What the record keeps of secrets.


def made(alphabet: str, size: int) -> str:
    return "".join(random.Random(f"{alphabet}{size}").choices(alphabet, k=size))


HEX, ALNUM = "0123456789abcdef", string.ascii_letters + string.digits
SECRETS = (
    f"{made(ALNUM, 3)}8Q~{made(ALNUM, 34)}", f"{made(ALNUM, 76)}AZDO{made(ALNUM, 4)}", f"HRKU-AA{made(ALNUM, 58)}",
    f"sb_secret_{made(ALNUM, 31)}", f"glimt-{made(ALNUM, 25)}", f"re_{made(ALNUM, 8)}_{made(ALNUM, 24)}",
    f"access_token$production${made(HEX, 16)}${made(HEX, 32)}", f"pul-{made(HEX, 40)}", f"squ_{made(HEX, 40)}",
    f"CCIPAT_{made(ALNUM, 22)}_{made(HEX, 40)}", f"sntryu_{made(HEX, 64)}", f"lin_oauth_{made(HEX, 64)}",
    f"sl.B{made(ALNUM, 140)}", f"{made(ALNUM, 14)}.atlasv1.{made(ALNUM, 67)}", f"ABSK{made(ALNUM, 112)}",
    f"eyJ{made(ALNUM, 30)}..{made(ALNUM, 16)}.{made(ALNUM, 90)}.{made(ALNUM, 22)}",
    f"pcsk_{made(ALNUM, 6)}_{made(ALNUM, 63)}",
    f"nvapi-{made(ALNUM, 64)}", f"dt0s16.{made(string.ascii_uppercase, 8)}.{made(string.ascii_uppercase, 64)}",
)  # fmt: skip


@pytest.mark.proves("ACT-9")
@pytest.mark.parametrize("era", [MODERN, HANDSHAKE])
def test_a_key_of_a_known_service_is_in_nothing_that_is_kept(running: Running, era: str) -> None:
    client = Wire(running.mcp, era)
    for secret in SECRETS:
        assert secret in text(client.read("s:echo", {"text": f"use {secret} for it"}))
    jwk = json.dumps({"kty": "EC", "x": "abc", "d": made(ALNUM, 43)})
    client.read("s:echo", {"text": jwk})
    running.catch_up()
    until(lambda: "use ***" in json.dumps(running.activities()), what="the calls on record")
    kept = json.dumps(running.activities(), ensure_ascii=False) + running.stderr()
    files = [path.read_bytes().decode("latin-1") for path in running.data_dir.rglob("*") if path.is_file()]
    for secret in (*SECRETS, made(ALNUM, 43)):
        for form in (secret, base64.b64encode(secret.encode()).decode()):
            assert form not in kept, secret
            assert not any(form in each for each in files), secret
