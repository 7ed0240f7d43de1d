"""Which gateway a command finds, with which key, and what it says when there is none."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mcpproxy_py.cli.gateway.locate import announced, base_url
from mcpproxy_py.errors import GatewayError


@pytest.fixture(autouse=True)
def status_answered(gateway) -> None:
    gateway.answer("GET", "/status", {"version": "1"})


def dead_pid() -> int:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return child


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("0.0.0.0:80", "http://127.0.0.1:80"),
        ("[::]:80", "http://[::1]:80"),
        ("[::1]:80", "http://[::1]:80"),
        ("[::1]", "http://[::1]:8080"),
        ("::1", "http://[::1]:8080"),
        (":9000", "http://127.0.0.1:9000"),
        ("9000", "http://127.0.0.1:9000"),
        ("example.com", "http://example.com:8080"),
        ("https://example.com/gate/", "https://example.com/gate"),
    ],
)
def test_a_listen_address_becomes_one_to_connect_to(listen, url) -> None:
    assert base_url(listen) == url


@pytest.mark.parametrize("listen", ["h:0", "h:65536", "h:http", "h:", "h:８０", "a:b:c:d:"])
def test_an_address_that_is_none_is_wrong_usage(run, listen) -> None:
    if listen != "a:b:c:d:":
        with pytest.raises(GatewayError):
            base_url(listen)
    assert run("status", "--listen", listen).status in (2, 4)


@pytest.mark.proves("CONF-3")
def test_the_address_is_taken_from_the_flag_the_variable_the_announcement_or_the_configuration(
    run, gateway, data_dir, tmp_path
) -> None:
    nowhere = "127.0.0.1:1"
    assert run("status").status == 0
    assert run("status", "--url", gateway.url, env={"MCPPROXY_LISTEN": nowhere}).status == 0
    assert run("--listen", gateway.url, "status", env={"MCPPROXY_LISTEN": nowhere}).status == 0
    assert run("status", env={"MCPPROXY_LISTEN": nowhere}).status == 4
    (data_dir / "gateway.json").unlink()
    address = gateway.url.removeprefix("http://")
    (data_dir / "mcp_config.json").write_text(json.dumps({"listen": address}))
    assert run("status").status == 0
    config = tmp_path / "elsewhere.json"
    config.write_text(json.dumps({"listen": nowhere}))
    assert run("status", "--config", str(config)).status == 4


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}', '{"pid": 0, "url": "http://h"}', '{"url": "http://h"}',
                                  '{"pid": 99999999999999999999, "url": "http://h"}'])  # fmt: skip
def test_an_announcement_that_makes_no_sense_is_ignored(tmp_path: Path, text) -> None:
    (tmp_path / "gateway.json").write_text(text)
    assert announced(tmp_path) is None


def test_the_announcement_of_a_dead_gateway_is_ignored(tmp_path: Path) -> None:
    for pid, found in ((os.getpid(), "http://h:1"), (dead_pid(), None)):
        (tmp_path / "gateway.json").write_text(json.dumps({"pid": pid, "url": "http://h:1/"}))
        assert announced(tmp_path) == found


@pytest.mark.proves("CLI-2")
def test_nothing_listening_is_exit_4_and_says_how_to_start_one(run) -> None:
    ran = run("status", "--listen", "127.0.0.1:1")
    assert (ran.status, ran.out) == (4, "")
    assert ran.err.splitlines()[0] == "Error: No gateway at http://127.0.0.1:1; start one with `mcpproxy serve`"


def test_a_gateway_that_hangs_up_in_mid_call_is_not_taken_for_one_that_did_nothing(run, gateway) -> None:
    gateway.answer("POST", "/call", "hang up")
    ran = run("call", "tool-write", "--tool-name", "a:b")
    assert (ran.status, "may have run" in ran.err) == (4, True)
    assert len(gateway.seen) == 1


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"[1]", b"\xff"])
def test_something_else_on_that_port_is_not_taken_for_a_gateway(run, gateway, body) -> None:
    gateway.answer("GET", "/status", body)
    ran = run("status")
    assert (ran.status, "not an mcpproxy gateway" in ran.err) == (4, True)
    gateway.answer("GET", "/status", body, status=502)
    ran = run("status")
    assert (ran.status, "502" in ran.err) == (4, True)


def test_an_error_code_of_a_newer_gateway_is_kept_in_words(run, gateway) -> None:
    gateway.refuse("GET", "/status", 418, "TEAPOT", "short and stout")
    ran = run("status")
    assert (ran.status, ran.err.splitlines()[0]) == (1, "Error: TEAPOT: short and stout")


@pytest.mark.proves("API-2", "CONF-3")
def test_the_key_comes_from_the_variable_the_data_directory_or_the_configuration(run, gateway, data_dir) -> None:
    gateway.key = "from-the-environment"
    assert run("status").status == 1
    assert run("status", env={"MCPPROXY_API_KEY": "from-the-environment"}).status == 0
    (data_dir / "mcp_config.json").write_text('{"api_key": "from-the-configuration"}')
    gateway.key = "from-the-configuration"
    assert run("status").status == 0
    (data_dir / "mcp_config.json").write_text("{ broken")
    ran = run("status")
    assert ran.status == 1
    assert ran.err.startswith(f"Error: What answers at {gateway.url} does not know this admin key"), ran.err


def test_every_request_says_that_it_comes_from_the_command_line(run, gateway) -> None:
    run("status")
    assert gateway.seen[-1].headers["x-mcpproxy-client"].startswith("cli/")


def test_a_proxy_in_the_environment_is_not_used(run, gateway) -> None:
    proxies = {"http_proxy": "http://127.0.0.1:1", "ALL_PROXY": "http://127.0.0.1:1"}
    assert run("status", env=proxies).status == 0


def test_an_empty_name_is_not_sent(run, gateway) -> None:
    assert run("activity", "show", "").status == 2
    assert gateway.seen == []


@pytest.mark.proves("CONF-3")
def test_a_configuration_that_moves_the_data_directory_is_followed(run, data_dir, tmp_path) -> None:
    home = tmp_path / "home" / ".mcpproxy"
    home.mkdir(parents=True)
    (home / "mcp_config.json").write_text(json.dumps({"listen": "127.0.0.1:1", "data_dir": str(data_dir)}))
    environment = {"MCPPROXY_DATA_DIR": None, "HOME": str(home.parent)}
    assert run("status", env=environment).status == 0
    assert run("config", "path", env=environment).out == f"{home / 'mcp_config.json'}\n"
    assert run("status", "--config", str(home / "mcp_config.json"), env=environment).status == 0
    assert run("status", "--data-dir", str(home), env=environment).status == 4


@pytest.mark.parametrize(
    "url", ["http://", "http://a..b", "http://[::1", "http://" + "a" * 70, "http://h:99999", "https://x y"]
)
def test_an_address_nobody_can_have_is_told_without_a_traceback(run, url) -> None:
    assert run("status", "--url", url).status in (2, 4)
