"""Where the metadata of a server may send us: never nearer than the server is itself."""

from __future__ import annotations

import pytest

from mcpproxy_py.core.oauth.addresses import AddressRules, literal, nearness, origin, shown
from mcpproxy_py.core.oauth.errors import OAuthRefused

pytestmark = pytest.mark.proves("UP-9")

PUBLIC = AddressRules("https://mcp.example/mcp", "public")
PRIVATE = AddressRules("http://10.0.0.5/mcp", "private")
LOOPBACK = AddressRules("http://127.0.0.1:3000/mcp", "loopback")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/token", "https://127.0.0.1/token", "https://localhost/token", "https://app.localhost/token",
        "https://[::1]/token", "https://10.0.0.1/token", "https://192.168.1.1/token", "https://172.16.0.1/token",
        "https://100.64.0.1/token", "https://169.254.169.254/token", "https://[fe80::1]/token", "https://[fd00::1]/x",
        "https://0.0.0.0/token", "https://[::]/token", "https://[::ffff:127.0.0.1]/x", "https://[::ffff:10.0.0.1]/x",
        "https://[64:ff9b::a9fe:a9fe]/x", "https://[2002:a00:1::]/x", "https://224.0.0.1/x", "http://as.example/token",
        "https://a:b@as.example/token", "https://as.example/token#x", "https:///token", "https://", "",
        "javascript:alert(1)", "file:///etc/passwd", "ftp://as.example/", "https://as.example/a b",
        "https://as.example/\r\nx", "https://as.exämple/", "https://as.example:99999/", "https://" + "a" * 5000,
    ],
)  # fmt: skip
def test_a_public_server_leads_to_no_address_of_ours_and_to_nothing_that_is_no_address(url: str) -> None:
    with pytest.raises(OAuthRefused):
        PUBLIC.check(url, "its token_endpoint")


@pytest.mark.parametrize("url", ["https://as.example/token?x=1", "https://1.1.1.1/token", "https://as.example:8443/x"])
def test_it_leads_to_what_everybody_can_reach(url: str) -> None:
    assert PUBLIC.check(url, "x") == url


def test_a_server_in_a_network_leads_into_it_and_not_to_this_machine_nor_to_a_clouds_credentials() -> None:
    assert PRIVATE.check("http://10.0.0.9/token", "x")
    assert PRIVATE.check("http://keycloak:8080/token", "x")
    for url in ("http://127.0.0.1:6379/", "http://localhost/", "http://169.254.169.254/", "http://[fe80::1]/"):
        with pytest.raises(OAuthRefused):
            PRIVATE.check(url, "x")
    assert LOOPBACK.check("http://localhost:8080/token", "x")
    with pytest.raises(OAuthRefused, match="never asked"):
        LOOPBACK.check("http://169.254.169.254/", "x")


def test_a_name_that_leads_nearer_is_refused_when_its_address_is_known() -> None:
    for address in ("127.0.0.1", "10.1.2.3", "::1", "169.254.169.254"):
        found = literal(address)
        assert found is not None
        with pytest.raises(OAuthRefused):
            PUBLIC.check_peer(found, "the token")
    public = literal("1.1.1.1")
    assert public is not None
    PUBLIC.check_peer(public, "the token")
    assert nearness(public) == "public"


def test_what_is_shown_of_an_address_holds_no_secret_and_moves_no_cursor() -> None:
    assert shown("https://a:hunter2@x.example/path?code=hunter2#hunter2") == "https://x.example/path"
    assert shown("https://x.example/\x1b[2J") == "https://x.example/?[2J".partition("?")[0]
    assert len(shown("https://" + "x" * 9000)) <= 200


def test_an_origin_is_the_same_however_it_is_written() -> None:
    assert origin("HTTPS://X.example/a") == origin("https://x.example:443/b")
    assert origin("https://x.example") != origin("http://x.example")
