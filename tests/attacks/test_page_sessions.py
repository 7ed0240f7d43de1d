"""The page's links and sessions, attacked without a browser: used again, at once, from elsewhere, in halves, after
their end, at the other of two gateways (USE-2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Running, gateway, python_server, start, until
from tests.support.postgres import own_server
from tests.support.replicas import documented, replicas

pytestmark = pytest.mark.proves("USE-2")
OPEN = "/api/v1/page/open"
PLAIN: Any = {"trust_env": False, "verify": False, "timeout": 60}
"""There is no TLS here, and looking for whom to trust takes longer than the request."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("page")
    with gateway(home / "data", {"mcpServers": {"s": python_server("plain.py")}}) as found:
        yield found


def link(running: Running, **body: Any) -> str:
    answer = running.post("/page/links", body)
    assert answer.status_code == 201, answer.text
    return answer.json()["url"]


def opened(url: str, *, at: str | None = None, origin: str | None = "", **headers: str) -> httpx.Response:
    """What a browser would send that was given this link."""
    address, _, code = url.partition("/ui#open=")
    said = {**({} if origin is None else {"origin": origin or address}), **headers}
    return httpx.post(f"{at or address}{OPEN}", json={"code": code}, headers=said, **PLAIN)


def halves(answer: httpx.Response) -> tuple[dict[str, str], dict[str, str]]:
    """The cookie and the token of a session, as headers."""
    assert answer.status_code == 200, answer.text
    cookie = answer.headers["set-cookie"].partition(";")[0]
    return {"cookie": cookie}, {"x-mcpproxy-page": answer.json()["page_token"]}


def session(running: Running) -> dict[str, str]:
    cookie, token = halves(opened(link(running)))
    return cookie | token


def asks(url: str, headers: Mapping[str, str], path: str = "/api/v1/status", method: str = "get") -> int:
    return httpx.request(method, url + path, headers=headers, **PLAIN).status_code


def test_a_link_opens_one_session_however_often_and_by_however_many_it_is_used(running: Running) -> None:
    url = link(running)
    with ThreadPoolExecutor(8) as several:
        answers = list(several.map(opened, [url] * 8))
    assert sorted(each.status_code for each in answers) == [200] + [401] * 7
    assert all("set-cookie" not in each.headers for each in answers if each.status_code != 200)
    assert opened(url).status_code == 401
    assert "tried again after it was used" in running.stderr()


def test_a_code_that_nobody_made_opens_nothing(running: Running) -> None:
    for code in ("x", "1", "a" * 32, "ü" * 20, "\0"):
        assert opened(f"{running.url}/ui#open={code}").status_code == 401
    for body in (b"", b"[]", b'{"code": 1}', b'{"code": ""}', b"\xff", b'{"code": "' + b"a" * 5000 + b'"}'):
        answer = running.client.post(OPEN, content=body, headers={"content-type": "application/json"})
        assert 400 <= answer.status_code < 500


@pytest.mark.parametrize(
    "headers",
    [
        {"x-forwarded-for": "192.0.2.1"},
        {"forwarded": "for=192.0.2.1"},
        {"x-real-ip": "127.0.0.1"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "null"},
        {"origin": "https://evil.example"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "none"},
        {"host": "evil.example"},
    ],
    ids=str,
)
def test_a_link_that_leaked_opens_nothing_on_another_machine_or_from_another_page(
    running: Running, headers: dict[str, str]
) -> None:
    url = link(running)
    assert opened(url, **headers).status_code in (401, 403, 421)
    assert opened(url, origin=None).status_code == 401, "who is no page of ours says no origin"
    assert opened(url).status_code == 200, "what was refused has not used it up"


@pytest.mark.parametrize("headers", [{"x-forwarded-for": "192.0.2.1"}, {"origin": "http://localhost:9"}], ids=str)
def test_a_whole_session_that_was_copied_opens_nothing_elsewhere(running: Running, headers: dict[str, str]) -> None:
    mine = session(running)
    assert asks(running.url, mine) == 200
    assert asks(running.url, mine | headers) in (401, 403)
    assert asks(running.url, mine | {"sec-fetch-site": "same-site", "origin": running.url}) == 403


def routes(running: Running) -> list[tuple[str, str]]:
    found = running.client.get("/api/v1/openapi.json").json()["paths"]
    opens = {("get", "/healthz"), ("get", "/readyz"), ("get", "/metrics"), ("get", "/api/v1/proof"), ("post", OPEN)}
    ways = [(method, re.sub(r"{[^}]*}", "s", path)) for path, item in found.items() for method in item]
    return [way for way in ways if way not in opens and way[1].startswith("/api/")]


def test_half_a_session_or_a_token_of_an_agent_opens_no_route(running: Running) -> None:
    cookie, token = halves(opened(link(running)))
    other_cookie, other_token = halves(opened(link(running)))
    made = running.post("/tokens", {"name": "agent-of-nobody"}).json()["token"]
    wrong = [
        cookie, token, cookie | other_token, other_cookie | token, {"authorization": f"Bearer {made}"},
        {"x-api-key": made}, {"x-mcpproxy-page": made, **cookie}, {"x-mcpproxy-page": running.key},
        {"x-mcpproxy-page": "", **cookie}, {"authorization": f"Bearer {token['x-mcpproxy-page']}"},
        {"x-api-key": token["x-mcpproxy-page"], **cookie}, {"authorization": f"Bearer {made}", "x-mcpproxy-page": "x"},
    ]  # fmt: skip
    for method, path in routes(running):
        for headers in wrong:
            assert asks(running.url, headers, path, method) == 401, (method, path, headers)
    assert asks(running.url, {**cookie, "x-mcpproxy-page": token["x-mcpproxy-page"]}) == 200
    for status in ("blocked", "success"):
        assert asks(running.url, {"authorization": f"Bearer {made}"}, f"/api/v1/activity?status={status}") == 401
    for surface in ("/mcp", "/mcp/"):
        headers = {**cookie, **token, "authorization": f"Bearer {token['x-mcpproxy-page']}"}
        assert asks(running.url, headers, surface, "post") >= 400, "a session is nobody's token at MCP"


def test_cookies_that_somebody_else_set_of_our_name_are_in_nobodys_way(running: Running) -> None:
    mine = session(running)
    name = mine["cookie"].partition("=")[0]
    assert asks(running.url, mine | {"cookie": f"{name}=tossed; a=b; {mine['cookie']}; {name}="}) == 200
    assert asks(running.url, mine | {"cookie": f"{name}=tossed; {mine['cookie']}x"}) == 401
    assert asks(running.url, mine | {"cookie": "; ".join(["a=b"] * 300) + f"; {mine['cookie']}"}) == 401


def test_the_cookie_goes_nowhere_else_and_no_script_reads_it(running: Running) -> None:
    said = opened(link(running)).headers["set-cookie"]
    port = running.url.rpartition(":")[2]
    assert said.startswith(f"mcpproxy-ui-{port}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/api/v1"} <= set(said.split("; "))
    assert "Domain" not in said
    secure = link(running, address="https://127.0.0.1")
    said = opened(secure, at=running.url, host="127.0.0.1").headers["set-cookie"]
    assert said.startswith("__Host-mcpproxy-ui-443=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/", "Secure"} <= set(said.split("; "))


@pytest.mark.parametrize(
    "address", ["http://192.0.2.7:8080", "http://gateway.example", "ftp://127.0.0.1", "x", "", " "]
)
def test_no_link_is_made_to_where_the_session_could_be_read(running: Running, address: str) -> None:
    answer = running.post("/page/links", {"address": address})
    assert answer.status_code == 400 and "#open=" not in answer.text


def test_what_needs_the_key_is_not_done_from_the_page(running: Running) -> None:
    mine = session(running)
    key = running.key
    for path in ("/api/v1/page/links", "/api/v1/key/rotate"):
        answer = httpx.post(running.url + path, json={}, headers=mine, **PLAIN)
        assert answer.status_code == 403 and answer.json()["error"]["code"] == "KEY_NEEDED"
        assert "mcpk_" not in answer.text and "#open=" not in answer.text
    assert (running.data_dir / "admin.key").read_text().strip() == key
    for path in ("/api/v1/config", "/api/v1/status", "/api/v1/page/session", "/api/v1/page/sessions"):
        assert key not in httpx.get(running.url + path, headers=mine, **PLAIN).text


@pytest.mark.parametrize("way", ["logout", "all", "rotate"])
def test_what_a_session_left_behind_opens_nothing_and_its_streams_end(tmp_path: Path, way: str) -> None:
    with gateway(tmp_path / "data", {"mcpServers": {}}) as running:
        mine = session(running)
        with httpx.stream("GET", f"{running.url}/api/v1/events", headers=mine, **PLAIN) as stream:
            assert stream.status_code == 200
            parts = stream.iter_raw()
            next(parts)
            if way == "logout":
                assert asks(running.url, mine, "/api/v1/page/session", "delete") == 200
            elif way == "all":
                assert running.client.delete("/api/v1/page/sessions").json() == {"ended": 1}
            else:
                assert running.post("/key/rotate").status_code == 200
            with pytest.raises(httpx.HTTPError):
                for _ in parts:
                    pass
                raise httpx.ReadError("it ended")
        assert asks(running.url, mine) == 401
    with gateway(tmp_path / "data") as again:
        assert asks(again.url, mine) == 401, "not even after a restart"


def test_a_session_outlives_a_restart_unless_the_key_was_changed_meanwhile(tmp_path: Path) -> None:
    with gateway(tmp_path / "data", {"mcpServers": {}}) as running:
        mine = session(running)
        late = link(running)
    with gateway(tmp_path / "data") as running:
        assert asks(running.url, mine) == 200
    (tmp_path / "data" / "admin.key").write_text("mcpk_another-key-that-somebody-wrote\n")
    with gateway(tmp_path / "data") as running:
        assert asks(running.url, mine) == 401
        assert opened(late, at=running.url, host=late.split("/")[2]).status_code == 401


def test_a_page_that_asks_many_things_at_once_after_a_restart_is_not_told_that_its_session_has_ended(
    tmp_path: Path,
) -> None:
    """The first of them reads what sessions there are, and the others wait for that."""
    running = start(tmp_path / "data", {"mcpServers": {}})
    try:
        headers, port = session(running), int(running.url.rpartition(":")[2])
        for _ in range(2):
            running.stop()
            running = start(tmp_path / "data", port=port)
            with ThreadPoolExecutor(8) as several:
                assert set(several.map(lambda _: asks(running.url, headers), range(8))) == {200}  # noqa: B023
    finally:
        running.stop()


def test_nothing_of_a_session_is_in_what_is_kept(tmp_path: Path) -> None:
    with gateway(tmp_path / "data", {"mcpServers": {}}) as running:
        url = link(running)
        code = url.partition("#open=")[2]
        cookie, token = halves(opened(url))
        assert asks(running.url, cookie | token) == 200
        assert opened(url).status_code == 401
        running.catch_up()
        told = str(running.get("/page/sessions")) + str(running.activities())
    kept = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    for secret in (code, cookie["cookie"].partition("=")[2], token["x-mcpproxy-page"]):
        assert secret not in told and secret.encode() not in kept and secret not in running.stderr()
    assert {"create_page_link", "open_page"} <= set(re.findall(r"create_page_link|open_page", told))


def test_two_gateways_of_one_database_open_a_link_once_and_end_a_session_for_both(tmp_path: Path) -> None:
    with (
        own_server() as server,
        replicas(tmp_path, server.database(), documented(mcpServers={})) as (one, other),
    ):
        url = link(one, address="https://127.0.0.1")  # the balancer's, so to say
        with ThreadPoolExecutor(8) as several:
            answers = list(several.map(lambda each: opened(url, at=each.url, host="127.0.0.1"), [one, other] * 4))
        assert sorted(each.status_code for each in answers) == [200] + [401] * 7
        cookie, token = halves(next(each for each in answers if each.status_code == 200))
        mine = cookie | token
        assert [asks(each.url, mine) for each in (one, other)] == [200, 200], "at once, at both"
        assert asks(other.url, mine, "/api/v1/page/session", "delete") == 200
        assert asks(other.url, mine) == 401
        until(lambda: asks(one.url, mine) == 401, what="the end of it heard at the other gateway")
