"""What a flow wants sent, step by step, without anything being sent."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from mcpproxy_py.core.oauth.addresses import AddressRules
from mcpproxy_py.core.oauth.discovery import Challenge, LoginContext, checked_scope, read_challenge, union
from mcpproxy_py.core.oauth.errors import OAuthRefused, OAuthUnreachable
from mcpproxy_py.core.oauth.login import LoginSecrets, person_login
from mcpproxy_py.core.oauth.options import OAuthOptions
from mcpproxy_py.core.oauth.states import LoginProgress
from mcpproxy_py.core.oauth.tokens import refresh
from mcpproxy_py.core.oauth.values import (
    AuthorizationServer,
    HttpAnswer,
    HttpWanted,
    OAuthClient,
    OAuthTokens,
    PersonWanted,
    StoredLogin,
    stored_login,
)
from mcpproxy_py.upstream.oauth.blocks import BLOCKS

pytestmark = pytest.mark.proves("UP-9")

URL = "https://mcp.example/mcp"
AS = "https://as.example"
SECRETS = LoginSecrets("the-state", "v" * 43, "c" * 43)
HOME = ("http://127.0.0.1:33418/callback", "http://localhost:33418/callback")
METADATA = {
    "issuer": AS, "authorization_endpoint": f"{AS}/authorize?tenant=1", "token_endpoint": f"{AS}/token",
    "registration_endpoint": f"{AS}/register", "code_challenge_methods_supported": ["S256"],
    "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
    "scopes_supported": ["a", "offline_access"], "response_types_supported": ["code"],
}  # fmt: skip
LOGIN = StoredLogin(
    URL, AS, AuthorizationServer(AS, f"{AS}/token", scopes_supported=("a",), code_challenge_methods=("S256",)),
    OAuthClient("me", "registered", "sesame:/", "client_secret_basic", HOME), URL,
    OAuthTokens("access-1", 1000.0, "refresh-1", "a", 4600.0), "a b",
)  # fmt: skip


def context(**options: Any) -> LoginContext:
    return LoginContext(URL, AddressRules(URL, "public"), OAuthOptions(**options), BLOCKS, LoginProgress())


def answer(value: Any, status: int = 200, at: float = 5000.0) -> HttpAnswer:
    return HttpAnswer(status, value if isinstance(value, bytes) else json.dumps(value).encode(), at)


def until_a_person(flow: Any, prm: Any, metadata: Any = METADATA) -> tuple[list[HttpWanted], PersonWanted]:
    wanted, asked = next(flow), []
    while isinstance(wanted, HttpWanted):
        asked.append(wanted)
        place = urlsplit(wanted.url).path
        if "oauth-protected-resource" in place:
            came = answer(prm) if prm is not None else answer({}, 404)
        elif place == "/register":
            came = answer({**(wanted.json or {}), "client_id": "new", "client_secret": "s",
                           "token_endpoint_auth_method": "client_secret_post"}, 201)  # fmt: skip
        else:
            came = answer(metadata)
        wanted = flow.send(came)
    assert isinstance(wanted, PersonWanted)
    return asked, wanted


def ask(
    options: dict[str, Any], challenge: Challenge | None = None, known: StoredLogin | None = None
) -> dict[str, Any]:
    flow = person_login(context(**options), challenge, known, SECRETS, HOME, 5000.0)
    _, person = until_a_person(flow, {"resource": "https://mcp.example", "authorization_servers": [AS],
                                      "scopes_supported": ["a"]})  # fmt: skip
    return {key: value[0] for key, value in parse_qs(urlsplit(person.url).query).items()}


def test_a_login_asks_in_this_order_and_then_a_person_and_then_for_the_token() -> None:
    flow = person_login(context(), Challenge(), None, SECRETS, HOME, 5000.0)
    prm = {"resource": "https://mcp.example", "authorization_servers": [AS], "scopes_supported": ["a"]}
    asked, person = until_a_person(flow, prm)
    assert [urlsplit(each.url).path for each in asked] == [
        "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server", "/register",
    ]  # fmt: skip
    homes = (asked[-1].json or {})["redirect_uris"]
    assert homes == [person.redirect_uri, person.redirect_uri.replace("127.0.0.1", "localhost")]
    assert re.fullmatch(r"http://127\.0\.0\.1:33418/[0-9a-f]{16}/callback", person.redirect_uri)
    query = parse_qs(urlsplit(person.url).query)
    assert query["resource"] == ["https://mcp.example"], "as it is published, without a slash that a parser adds"
    assert query["tenant"] == ["1"]
    assert query["scope"] == ["a offline_access"]
    assert query["prompt"] == ["consent"]
    token = flow.send({"code": "the-code", "state": "the-state", "iss": AS})
    assert token.form == {
        "grant_type": "authorization_code", "code": "the-code", "redirect_uri": homes[0], "code_verifier": "v" * 43,
        "resource": "https://mcp.example", "client_id": "new", "client_secret": "s",
    }  # fmt: skip
    for secret in ("the-code", "v" * 43, "'s'"):
        assert secret not in repr(token)
    with pytest.raises(StopIteration) as end:
        flow.send(answer({"access_token": "t", "token_type": "bearer", "expires_in": "60"}))
    login: StoredLogin = end.value.value
    assert login.tokens is not None
    assert (login.issuer, login.tokens.expires_at, login.tokens.scope) == (AS, 5060.0, "a offline_access")
    assert stored_login(json.loads(json.dumps(login.as_json()))) == login


def test_what_a_server_refuses_can_be_left_out() -> None:
    assert "resource" not in ask({"resource": False})
    assert "prompt" not in ask({"prompt": "omit"})
    assert ask({"prompt": "login"})["prompt"] == "login"
    assert ask({"scopes": ("x", "y")})["scope"] == "x y offline_access"


def test_a_step_up_asks_for_all_that_there_was_and_what_is_new() -> None:
    asked = ask({}, Challenge(scope="w", error="insufficient_scope"), LOGIN)
    assert asked["scope"] == "a b w offline_access"
    assert ask({}, Challenge(scope="w"), LOGIN)["scope"] == "w offline_access"


def test_who_we_are_is_said_by_a_document_then_by_configuration_then_by_registration() -> None:
    document = "https://gateway.example/client.json"
    both = {"client_metadata_url": document, "client_id": "mine", "issuer": AS}

    def client(options: dict[str, Any], metadata: Any, known: StoredLogin | None = None) -> str:
        flow = person_login(context(**options), None, known, SECRETS, HOME, 5000.0)
        _, person = until_a_person(flow, {"resource": URL, "authorization_servers": [AS]}, metadata)
        return parse_qs(urlsplit(person.url).query)["client_id"][0]

    takes = {**METADATA, "client_id_metadata_document_supported": True}
    assert client(both, takes) == document
    assert client(both, METADATA) == "mine"
    assert client({"client_metadata_url": document, "issuer": AS}, METADATA) == "new"
    registered = replace(LOGIN.client, redirect_uris=(own_home(HOME[0]), own_home(HOME[1])))
    assert client({}, METADATA, replace(LOGIN, client=registered)) == "me", "registered before"
    assert client({}, METADATA, LOGIN) == "new", "its addresses for answers are not this issuer's own"
    for options in ({"client_id": "mine"}, {"client_metadata_url": document}):
        with pytest.raises(OAuthRefused, match='add "issuer"'):
            client(options, METADATA)
        assert client(options, {**takes, "authorization_response_iss_parameter_supported": True})


def own_home(home: str) -> str:
    return home.replace("/callback", f"/{hashlib.sha256(AS.encode()).hexdigest()[:16]}/callback")


def test_a_client_of_another_issuer_is_not_taken_along() -> None:
    new = {name: f"https://new.example/{name}" for name in METADATA if name.endswith("_endpoint")}
    other = {
        **METADATA,
        **new,
        "issuer": "https://new.example",
        "registration_endpoint": "https://new.example/register",
    }
    flow = person_login(context(), None, LOGIN, SECRETS, HOME, 5000.0)
    asked, person = until_a_person(flow, {"resource": URL, "authorization_servers": ["https://new.example"]}, other)
    assert asked[-1].url == "https://new.example/register"
    assert "client_id=new" in person.url


def test_without_any_metadata_there_is_no_login_unless_somebody_says_so() -> None:
    def asked(**options: Any) -> list[str]:
        flow, seen = person_login(context(**options), None, None, SECRETS, HOME, 5000.0), []
        wanted = next(flow)
        while isinstance(wanted, HttpWanted) and not wanted.url.endswith("/register"):
            seen.append(wanted.url)
            wanted = flow.send(answer({}, 404))
        return [*seen, wanted.url]

    with pytest.raises(OAuthRefused, match="no place to log in"):
        asked()
    assert asked(expected=True)[-1] == "https://mcp.example/register"


def test_a_refresh_goes_to_the_issuer_with_what_is_bound_to_it_and_keeps_what_is_not_said_anew() -> None:
    flow = refresh(context(), LOGIN)
    wanted = next(flow)
    assert isinstance(wanted, HttpWanted)
    assert (wanted.url, wanted.form) == (
        f"{AS}/token", {"grant_type": "refresh_token", "refresh_token": "refresh-1", "resource": URL},
    )  # fmt: skip
    assert wanted.headers["authorization"] == "Basic bWU6c2VzYW1lJTNBJTJG", "each half is quoted by itself"
    with pytest.raises(StopIteration) as end:
        flow.send(answer({"access_token": "access-2"}))
    tokens = end.value.value.tokens
    assert (tokens.access, tokens.refresh, tokens.scope, tokens.expires_at) == ("access-2", "refresh-1", "a", None)


@pytest.mark.parametrize(
    ("came", "error", "raised"),
    [
        (answer({"error": "invalid_grant"}, 400), "invalid_grant", OAuthRefused),
        (answer({"error": "invalid_client"}, 401), "invalid_client", OAuthRefused),
        (answer({"error": "invalid_target"}, 400), "invalid_target", OAuthRefused),
        (answer(b"<html>", 400), "", OAuthRefused), (answer({}, 302), "", OAuthRefused),
        (answer(b"", 503), "", OAuthUnreachable), (answer(b"", 429), "", OAuthUnreachable),
        (answer(b"<html>"), "", OAuthUnreachable), (answer([]), "", OAuthUnreachable),
    ],
)  # fmt: skip
def test_what_a_refresh_is_answered_decides_what_is_lost(came: HttpAnswer, error: str, raised: type[Exception]) -> None:
    flow = refresh(context(), LOGIN)
    next(flow)
    with pytest.raises(raised) as why:
        flow.send(came)
    assert getattr(why.value, "error", "") == error


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("", Challenge()), ("Bearer", Challenge()), ("Basic realm=x", Challenge()), ("=,=", Challenge()),
        ('Bearer scope="a b", resource_metadata="https://x/y"', Challenge("https://x/y", "a b")),
        ("Bearer error=insufficient_scope, scope=a", Challenge(None, "a", "insufficient_scope")),
        ('Basic realm="scope=\\"z\\"", Bearer scope="a  b a"', Challenge(None, "a b")),
        ('bearer SCOPE="a", xscope="b"', Challenge(None, "a")), ('Bearer scope="a\x00b"', Challenge()),
        ("Bearer " + "a=b," * 100_000, Challenge()),
    ],
)  # fmt: skip
def test_a_challenge_is_read_whatever_it_is(header: str, found: Challenge) -> None:
    assert read_challenge(header) == found


def test_scopes_are_joined_once_each_and_in_order() -> None:
    assert union("a b", "b c") == "a b c"
    assert union(None, None) is None
    assert checked_scope("a" * 5000) is checked_scope(7) is checked_scope('a"b') is None


def test_a_token_is_renewed_before_it_ends_and_never_at_once() -> None:
    long, short = OAuthTokens("t", 0.0, expires_at=3600.0), OAuthTokens("t", 0.0, expires_at=10.0)
    assert (long.refresh_at, short.refresh_at) == (3540.0, 8.0)
    assert long.fresh(3539) and not long.fresh(3540) and long.alive(3599) and not long.alive(3600)
    assert OAuthTokens("t", 0.0).fresh(1e12)


@pytest.mark.parametrize(
    "data", [{}, {"server": 1}, {**LOGIN.as_json(), "extra": 1}, {**LOGIN.as_json(), "client": {}}]
)
def test_what_is_kept_and_is_no_login_is_not_taken_for_one(data: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not a stored login"):
        stored_login(data)
