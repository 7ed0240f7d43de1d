"""Tokens of an identity provider, made up, stolen, doctored and worn out, at a running gateway (SEC-2).

The server behind writes down what it hears, and hears of none of them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from tests.attacks.raw import connected, memory, request, statuses
from tests.attacks.target import Log, fresh, heard, latch, params
from tests.support.gateway import Running, gateway, until
from tests.support.identity import JWKS, IdentityServer, SigningPair, foreign, identity_server, reply
from tests.support.wire import RpcError, Wire

pytestmark = pytest.mark.proves("SEC-2")

HEAD = {"alg": "RS256", "kid": "first", "typ": "at+jwt"}
SCOPES = {"look": "read", "all": "destructive"}


def started(folder: Path, provider: IdentityServer, **more: Any) -> Any:
    server = heard(folder, "one", max_concurrency=1)
    auth = {"issuer": provider.issuer, "audience": provider.audience, "operations": SCOPES, "leeway": 0, **more}
    return gateway(folder / "data", {"mcpServers": {"one": server}, "auth": {"jwt": auth}})


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityServer]:
    with identity_server() as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("identity")


@pytest.fixture(scope="module")
def running(folder: Path, provider: IdentityServer) -> Iterator[Running]:
    with started(folder, provider) as found:
        yield found


def part(value: Any) -> str:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def signed(provider: IdentityServer, header: Any, claims: Any) -> str:
    """With the provider's own key, whatever the bytes say."""
    text = f"{part(header)}.{part(claims)}"
    return f"{text}.{part(jwt.get_algorithm_by_name('RS256').sign(text.encode(), provider.keys[0].private))}"


def with_the_public_key_as_secret(provider: IdentityServer, form: str) -> str:
    public = provider.keys[0].private.public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    secret = {"pem": pem, "stripped": pem.strip(), "jwk": json.dumps(provider.keys[0].jwk).encode()}[form]
    text = f"{part({'alg': 'HS256', 'kid': 'first'})}.{part(provider.claims(scope='all'))}"
    return f"{text}.{part(hmac.digest(secret, text.encode(), hashlib.sha256))}"


def twice(provider: IdentityServer, name: str, value: Any) -> str:
    """Who takes the first reads one thing, who takes the last another."""
    text = json.dumps(provider.claims(scope="look"))
    return signed(provider, HEAD, f"{text[:-1]}, {json.dumps(name)}: {json.dumps(value)}}}".encode())


def twice_in_the_header(provider: IdentityServer) -> str:
    header = json.dumps(HEAD)[:-1] + ', "alg": "none"}'
    return signed(provider, header.encode(), provider.claims(scope="all"))


MADE_UP: dict[str, Callable[[IdentityServer], str]] = {
    "alg none": lambda p: f"{part({'alg': 'none', 'kid': 'first'})}.{part(p.claims(scope='all'))}.",
    "alg None, signed": lambda p: signed(p, {**HEAD, "alg": "None"}, p.claims(scope="all")),
    "alg twice": twice_in_the_header,
    "HS256 with the public key": lambda p: with_the_public_key_as_secret(p, "pem"),
    "HS256 with the public key, stripped": lambda p: with_the_public_key_as_secret(p, "stripped"),
    "HS256 with the published key": lambda p: with_the_public_key_as_secret(p, "jwk"),
    "another audience": lambda p: p.token(scope="all", aud="https://other.example/mcp"),
    "a part of the audience": lambda p: p.token(scope="all", aud=p.audience[:-1]),
    "another issuer": lambda p: p.token(scope="all", iss=p.issuer + "/"),
    "a key id that is not there": lambda p: p.token(foreign("nowhere"), scope="all"),
    "a key id that is a path": lambda p: p.token(foreign("../../../../../dev/null"), scope="all"),
    "a key id that is SQL": lambda p: p.token(foreign("x' OR '1'='1"), scope="all"),
    "a key of its own in the header": lambda p: p.token(
        foreign("first"), scope="all", header={"jwk": foreign("first").jwk, "jku": p.issuer + "/evil"}
    ),
    "a certificate of its own": lambda p: p.token(foreign("first"), scope="all", header={"x5c": ["AAAA"]}),
    "expired": lambda p: p.token(scope="all", exp=int(time.time()) - 1),
    "without an end": lambda p: p.token(scope="all", exp=None),
    "not before next year": lambda p: p.token(scope="all", nbf=int(time.time()) + 31_536_000),
    "the person twice": lambda p: twice(p, "sub", "admin"),
    "the scope twice": lambda p: twice(p, "scope", "all"),
    "the audience twice": lambda p: twice(p, "aud", p.audience),
    "a token for a logout": lambda p: p.token(scope="all", header={"typ": "logout+jwt"}),
    "an extension": lambda p: p.token(scope="all", header={"crit": ["b64"], "b64": True}),
    "the local user": lambda p: signed(p, HEAD, p.claims(scope="all", sub="\u0000local")),
    "another signature": lambda p: p.token(scope="all")[:-12] + "AAAAAAAAAAAA",
    "more claims, the same signature": lambda p: ".".join(
        [p.token().split(".")[0], part(p.claims(scope="all")), p.token().split(".")[2]]
    ),
}


@pytest.mark.parametrize("what", MADE_UP)
def test_a_token_that_is_made_up_reaches_nothing_and_is_told_nowhere(
    provider: IdentityServer, running: Running, folder: Path, what: str
) -> None:
    token, mark = MADE_UP[what](provider), fresh()
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params("gate", "one", "wipe", mark)}
    with httpx.Client(trust_env=False) as http:
        for path in ("/mcp", "/mcp/direct", "/mcp/s/one", "/mcp/s/catalog", "/mcp/p/any"):
            answer = http.post(running.url + path, json=body, headers={"authorization": f"Bearer {token}"})
            assert answer.status_code == 401, answer.text
            assert 'error="invalid_token"' in answer.headers["www-authenticate"]
            assert token[-20:] not in answer.text
        for path in ("/api/v1/status", "/api/v1/activity?mine", "/api/v1/config"):
            assert http.get(running.url + path, headers={"authorization": f"Bearer {token}"}).status_code == 401
    assert not Log(folder / "one.heard").has(mark)
    assert token.split(".")[1] not in running.stderr()
    assert not provider.asked["/evil"]


@pytest.fixture(scope="module")
def by_email(tmp_path_factory: pytest.TempPathFactory, provider: IdentityServer) -> Iterator[Running]:
    with started(tmp_path_factory.mktemp("email"), provider, principal_claim="email") as found:
        found.wait_for("one")
        yield found


MISSING = object()
UNVERIFIED = (False, "true", "false", "no", "", 0, 1, 1.0, None, [], [True], {}, {"value": True}, MISSING)


@pytest.mark.parametrize("said", UNVERIFIED, ids=lambda said: "missing" if said is MISSING else json.dumps(said))
def test_an_address_that_its_provider_does_not_call_verified_is_nobody(
    provider: IdentityServer, by_email: Running, said: Any
) -> None:
    claims = provider.claims(scope="all", email="boss@example.com", email_verified=said)
    if said is MISSING:
        del claims["email_verified"]
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params("gate", "one", "look", fresh())}
    with httpx.Client(trust_env=False) as http:
        head = {"authorization": f"Bearer {signed(provider, HEAD, claims)}"}
        for path in ("/mcp", "/mcp/s/catalog"):
            assert http.post(by_email.url + path, json=body, headers=head).status_code == 401
        assert http.get(f"{by_email.url}/api/v1/activity?mine", headers=head).status_code == 401
    verified = signed(provider, HEAD, {**claims, "email_verified": True})
    assert Wire(by_email.mcp, token=verified).call("retrieve_tools", {"query": "look"})


ODD_CLAIMS: dict[str, dict[str, Any]] = {
    "a person who is a number": {"sub": 7}, "a person who is a list": {"sub": ["admin"]}, "no person": {"sub": ""},
    "a person of spaces": {"sub": " "}, "a person with a space behind": {"sub": "admin "},
    "an end that is text": {"exp": "9999999999"}, "an end that is true": {"exp": True}, "no end": {"exp": None},
    "an endless end": {"exp": 1e300}, "a beginning that is text": {"nbf": "0"},
    "a beginning that is true": {"nbf": True}, "a beginning that is nothing": {"nbf": None},
    "a making that is a list": {"iat": [0]},
    "an audience that is an object": {"aud": {"a": 1}}, "an audience with a number": {"aud": ["x", 7]},
    "an audience of nobody": {"aud": []}, "an issuer that is a list": {"iss": ["x"]},
}  # fmt: skip


@pytest.mark.parametrize("what", ODD_CLAIMS)
def test_a_claim_of_another_type_is_no_claim(provider: IdentityServer, running: Running, what: str) -> None:
    token = signed(provider, HEAD, {**provider.claims(scope="all"), **ODD_CLAIMS[what]})
    with httpx.Client(trust_env=False) as http:
        answer = http.post(running.mcp, json={}, headers={"authorization": f"Bearer {token}"})
    assert (answer.status_code, 'error="invalid_token"' in answer.headers["www-authenticate"]) == (401, True)


@pytest.mark.parametrize("scope", [True, 7, {"all": True}, ["all", 7], [["all"]], None])
def test_a_scope_of_another_type_allows_nothing(provider: IdentityServer, running: Running, scope: Any) -> None:
    token = signed(provider, HEAD, {**provider.claims(), "scope": scope, "scp": scope})
    with httpx.Client(trust_env=False) as http:
        assert http.post(running.mcp, json={}, headers={"authorization": f"Bearer {token}"}).status_code == 403


def test_whatever_looks_like_no_token_of_a_provider_asks_nobody(provider: IdentityServer, running: Running) -> None:
    with httpx.Client(trust_env=False) as http:
        before = dict(provider.asked)
        opaque = ("x", "mcpt_abc", "a.b.c", "eyJ", "eyJ.eyJ", "eyJ..", ".." * 4000, "eyJhbGciOiJub25lIn0..")
        for given in opaque:
            answer = http.post(running.mcp, headers={"authorization": f"Bearer {given}"})
            assert answer.status_code in (400, 401), given
        assert dict(provider.asked) == before


def test_key_ids_that_are_made_up_do_not_have_us_ask_the_provider_as_often(
    provider: IdentityServer, running: Running
) -> None:
    before = provider.asked[JWKS]
    with httpx.Client(trust_env=False) as http:
        for number in range(60):
            token = provider.token(SigningPair(f"made-up-{number}", private=provider.keys[0].private))
            assert http.post(running.mcp, headers={"authorization": f"Bearer {token}"}).status_code == 401
    assert provider.asked[JWKS] - before <= 2  # one of them, and the one that comes every few minutes


def test_a_token_of_a_megabyte_is_turned_away_and_the_gateway_goes_on(
    provider: IdentityServer, running: Running
) -> None:
    token = provider.token(scope="look", x="x" * 1_000_000)
    before = memory(running.process.pid)
    for _ in range(20):
        with connected(running.url) as raw:
            raw.send(request("POST /mcp HTTP/1.1", f"Authorization: Bearer {token}", body=b"{}"))
            found = statuses(raw.rest(10))
            assert not found or found[0] in (400, 401, 431)
    assert memory(running.process.pid) - before < 100 << 20
    middling = provider.token(scope="look", x="x" * 20_000)
    answer = httpx.post(running.mcp, headers={"authorization": f"Bearer {middling}"}, trust_env=False)
    assert answer.status_code == 401
    assert "longer than" in answer.json()["error"]["message"]


def test_a_call_that_waits_until_its_token_has_ended_is_not_sent(
    provider: IdentityServer, running: Running, folder: Path
) -> None:
    first, waiting = fresh(), fresh()
    log = Log(folder / "one.heard")
    said: dict[str, str] = {}

    def call(wire: Wire, tool: str, mark: str, **arguments: Any) -> None:
        asked = params("gate", "one", tool, mark, **arguments)
        try:
            said[mark] = "error" if wire.request("tools/call", asked).get("isError") else "answer"
        except RpcError:
            said[mark] = "error"

    with latch(folder) as busy:
        holder = Wire(running.mcp, token=provider.token(scope="all"))
        holding = threading.Thread(target=call, args=(holder, "look", first), kwargs={"until": str(busy)})
        holding.start()
        until(lambda: log.calls(first), what="the first call at its server")
        ends = int(time.time()) + 4
        wire = Wire(running.mcp, token=provider.token(scope="all", exp=ends))
        queued = threading.Thread(target=call, args=(wire, "wipe", waiting))
        queued.start()
        until(lambda: _waiting(running) == 1, what="a call that waits")
        until(lambda: time.time() > ends, what="the end of the token")
    holding.join(60)
    queued.join(60)
    assert not log.calls(waiting)
    assert said == {first: "answer", waiting: "error"}


def _waiting(running: Running) -> int:
    lines = running.client.get("/metrics").text.splitlines()
    found = [line for line in lines if line.startswith('mcpproxy_upstream_calls_waiting{server="one"}')]
    return int(float(found[0].split(" ")[-1])) if found else 0


# The keys themselves.

WRONG_KEYS: dict[str, Callable[[Any], None]] = {
    "a page": lambda request: reply(request, b"<!doctype html><h1>Sign in</h1>"),
    "huge": lambda request: reply(request, b'{"keys": [' + b" " * (64 << 20) + b"]}"),
    "deep": lambda request: reply(request, b"[" * 200_000),
    "a number of many digits": lambda request: reply(request, b'{"keys": [' + b"9" * 100_000 + b"]}"),
    "no signature keys": lambda request: reply(request, {"keys": [SigningPair("first", use="enc").jwk]}),
    "a secret": lambda request: reply(request, {"keys": [{"kty": "oct", "kid": "first", "k": "AAAA", "alg": "HS256"}]}),
}


@pytest.mark.parametrize("what", WRONG_KEYS)
def test_keys_that_are_none_let_nobody_in_and_break_nothing(tmp_path: Path, what: str) -> None:
    with identity_server() as provider:
        provider.instead[JWKS] = WRONG_KEYS[what]
        with started(tmp_path, provider) as running:
            for token in (provider.token(scope="all"), with_the_public_key_as_secret(provider, "pem")):
                answer = httpx.post(running.mcp, headers={"authorization": f"Bearer {token}"}, trust_env=False)
                assert answer.status_code in (401, 503)
            assert running.client.get("/healthz").status_code == 200


def test_keys_that_hang_hold_up_nobody_but_who_needs_them(tmp_path: Path) -> None:
    with identity_server() as provider, started(tmp_path, provider) as running:
        known = provider.token(scope="look")
        assert not Wire(running.mcp, token=known).read("one:look", {"mark": "x"}).get("isError")
        provider.instead[JWKS] = lambda request: provider.released.wait(120)
        stuck: list[int] = []

        def needs_them() -> None:
            token = provider.token(SigningPair("new"), scope="look")
            with httpx.Client(trust_env=False, timeout=120) as http:
                stuck.append(http.post(running.mcp, headers={"authorization": f"Bearer {token}"}).status_code)

        waiting = threading.Thread(target=needs_them)
        waiting.start()
        for number in range(5):
            wire = Wire(running.mcp, token=provider.token(scope="look", jti=str(number)))
            assert not wire.read("one:look", {"mark": "x"}).get("isError")
        assert running.client.get("/healthz").status_code == 200
        waiting.join(60)
        assert stuck and stuck[0] in (401, 503)
