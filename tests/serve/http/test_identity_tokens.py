"""Which tokens of an identity provider are accepted, and what they are good for: a real provider, over real HTTP."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from mcpproxy_py.core.policy.scope import NOTHING_IN_SCOPE, Scope
from mcpproxy_py.core.values import Policy
from mcpproxy_py.serve.http.identity import keys as keys_module
from mcpproxy_py.serve.http.identity.claims import Lacking
from mcpproxy_py.serve.http.identity.fetch import KeysUnavailable
from mcpproxy_py.serve.http.identity.keys import KeySet
from mcpproxy_py.serve.http.identity.parsing import MAX_TOKEN, BadToken, looks_like_jwt
from mcpproxy_py.serve.http.identity.tokens import MOST_KNOWN, IdentityTokens, UserAccess
from mcpproxy_py.settings.access.auth import JwtAuth
from tests.support.gateway import until
from tests.support.identity import JWKS, METADATA, IdentityServer, SigningPair, foreign, identity_server, reply

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SEC-2")]

PROFILES = {"frontend": Scope(servers=(("github",),), ceiling="write")}
ALGORITHMS = ["RS256", "PS256", "ES256", "ES384", "ES512", "EdDSA"]


@pytest.fixture
def provider() -> Iterator[IdentityServer]:
    with identity_server() as found:
        yield found


def profile_scope(name: str) -> Scope:
    return PROFILES.get(name, NOTHING_IN_SCOPE)


def tokens(provider: IdentityServer, **settings: Any) -> IdentityTokens:
    told = {"issuer": provider.issuer, "audience": [provider.audience], **settings}
    return IdentityTokens(JwtAuth.model_validate(told), profile_scope)


async def verified(provider: IdentityServer, token: str, **settings: Any) -> UserAccess:
    return await tokens(provider, **settings).verified(token)


async def refused(provider: IdentityServer, token: str, **settings: Any) -> str:
    with pytest.raises(BadToken) as caught:
        await verified(provider, token, **settings)
    return str(caught.value)


def part(value: Any) -> str:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def signed_by_hand(provider: IdentityServer, header: Any, claims: Any) -> str:
    """With the provider's real key, whatever the bytes say."""
    text = f"{part(header)}.{part(claims)}"
    signature = jwt.get_algorithm_by_name("RS256").sign(text.encode(), provider.keys[0].private)
    return f"{text}.{part(signature)}"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_a_token_of_the_provider_says_who_it_is(provider: IdentityServer, algorithm: str) -> None:
    provider.keys = [SigningPair("k", algorithm)]
    access = await verified(provider, provider.token(), algorithms=ALGORITHMS)
    assert (access.principal, access.everything, access.scope) == ("user:alice", False, None)


async def test_the_second_call_with_a_token_asks_nobody_and_checks_nothing(
    provider: IdentityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked, token = tokens(provider), provider.token()
    assert checked.find(token) is None
    access = await checked.verified(token)
    asked = dict(provider.asked)
    monkeypatch.setattr(jwt.PyJWS, "decode", None)
    assert checked.find(token) is access
    assert provider.asked == asked


Make = Callable[[IdentityServer], str]


def hmac_with_the_public_key(provider: IdentityServer, algorithm: str = "HS256") -> str:
    public = provider.keys[0].private.public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    text = f"{part({'alg': algorithm, 'kid': 'first'})}.{part(provider.claims())}"
    return f"{text}.{part(hmac.digest(pem, text.encode(), hashlib.sha256))}"


def doubled(provider: IdentityServer, name: str, first: Any) -> str:
    claims = provider.claims()
    text = json.dumps(claims)[:-1] + f", {json.dumps(name)}: {json.dumps(claims[name])}}}"
    text = text.replace(json.dumps(claims[name]), json.dumps(first), 1)
    return signed_by_hand(provider, {"alg": "RS256", "kid": "first"}, text.encode())


HEAD = {"alg": "RS256", "kid": "first"}


def with_end(provider: IdentityServer, written: str) -> str:
    text = json.dumps({**provider.claims(), "exp": 0}).replace('"exp": 0', f'"exp": {written}')
    return signed_by_hand(provider, HEAD, text.encode())


BAD: dict[str, tuple[Make, str]] = {
    "no signature": (lambda p: f"{part({'alg': 'none'})}.{part(p.claims())}.", "not signed with one of"),
    "NoNe": (lambda p: f"{part({'alg': 'NoNe'})}.{part(p.claims())}.", "not signed with one of"),
    "no alg": (lambda p: f"{part({'kid': 'first'})}.{part(p.claims())}.AA", "not signed with one of"),
    "alg is a list": (lambda p: signed_by_hand(p, {**HEAD, "alg": ["RS256"]}, p.claims()), "not signed with one of"),
    "the public key as a secret": (hmac_with_the_public_key, "not signed with one of"),
    "a signature of nothing": (lambda p: p.token().rpartition(".")[0] + ".", "signature"),
    "another's signature": (lambda p: p.token(foreign("first")), "signature"),
    "claims changed": (lambda p: ".".join([p.token().split(".")[0], part(p.claims(sub="eve")),
                                           p.token().split(".")[2]]), "signature"),
    "another algorithm than the key's": (
        lambda p: p.token(SigningPair("first", "PS256", p.keys[0].private)), "does not have"),
    "an unknown key id": (lambda p: p.token(header={"kid": "other"}), "does not have"),
    "a key id that is a path": (lambda p: p.token(header={"kid": "../../../../etc/passwd"}), "does not have"),
    "a key id that is no text": (lambda p: signed_by_hand(p, {**HEAD, "kid": 7}, p.claims()), "(kid)"),
    "a key id that is long": (lambda p: p.token(header={"kid": "k" * 300}), "(kid)"),
    "a key of its own": (lambda p: p.token(SigningPair("mine"), header={"jwk": SigningPair("mine").jwk}),
                         "does not have"),
    "an address of keys of its own": (
        lambda p: p.token(SigningPair("mine"), header={"jku": "https://evil.example/keys"}), "does not have"),
    "an extension": (lambda p: p.token(header={"crit": ["exp"]}), "(crit)"),
    "detached": (lambda p: signed_by_hand(p, {**HEAD, "b64": True}, p.claims()), "(crit)"),
    "a token for a logout": (lambda p: p.token(header={"typ": "logout+jwt"}), "(typ)"),
    "a proof": (lambda p: p.token(header={"typ": "dpop+jwt"}), "(typ)"),
    "another issuer": (lambda p: p.token(iss="https://evil.example"), "(iss)"),
    "no issuer": (lambda p: p.token(iss=None), "(iss)"),
    "several issuers": (lambda p: signed_by_hand(p, HEAD, {**p.claims(), "iss": [p.issuer]}), "(iss)"),
    "another audience": (lambda p: p.token(aud="https://other.example"), "(aud)"),
    "no audience": (lambda p: p.token(aud=None), "(aud)"),
    "a longer audience": (lambda p: p.token(aud=p.audience + "/x"), "(aud)"),
    "an audience that is no text": (lambda p: p.token(aud=[p.audience, 7]), "(aud)"),
    "over": (lambda p: p.token(exp=int(time.time()) - 61), "(exp)"),
    "without an end": (lambda p: p.token(exp=None), "(exp)"),
    "an end that is no date": (lambda p: signed_by_hand(p, HEAD, {**p.claims(), "exp": "tomorrow"}), "exp"),
    "an end that is true": (lambda p: signed_by_hand(p, HEAD, {**p.claims(), "exp": True}), "exp"),
    "an end without end": (lambda p: with_end(p, "1e999"), "exp"),
    "an end that is NaN": (lambda p: with_end(p, "NaN"), "cannot be read"),
    "a number of many digits": (lambda p: with_end(p, "1" + "0" * 400), "exp"),
    "not yet": (lambda p: p.token(nbf=int(time.time()) + 3600), "(nbf)"),
    "from the future": (lambda p: p.token(iat=int(time.time()) + 3600), "(iat)"),
    "an issuer twice": (lambda p: doubled(p, "iss", "https://evil.example"), "each name once"),
    "a subject twice": (lambda p: doubled(p, "sub", "eve"), "each name once"),
    "bound to a key": (lambda p: p.token(cnf={"jkt": "x"}), "(cnf)"),
    "nobody": (lambda p: p.token(sub=None), "sub"),
    "nobody by name": (lambda p: p.token(sub=""), "sub"),
    "a number": (lambda p: signed_by_hand(p, HEAD, {**p.claims(), "sub": 7}), "sub"),
    "a long name": (lambda p: p.token(sub="x" * 129), "sub"),
    "a name of two lines": (lambda p: p.token(sub="alice\nadmin"), "sub"),
    "a name that hides something": (lambda p: p.token(sub="alice\u202e"), "sub"),
    "deep": (lambda p: signed_by_hand(p, HEAD, b'{"a":' * 700 + b"1" + b"}" * 700), ""),
    "no object": (lambda p: signed_by_hand(p, HEAD, b'["eyJ"]'), "no signed JWT"),
    "a megabyte": (lambda p: p.token(x="x" * 1_000_000), "longer than"),
    "five parts": (lambda p: p.token() + ".a.b", "no signed JWT"),
    "padding": (lambda p: p.token() + "=", "no signed JWT"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
async def test_what_is_wrong_with_a_token_is_said_and_nothing_of_it(provider: IdentityServer, what: str) -> None:
    make, says = BAD[what]
    token = make(provider)
    why = await refused(provider, token)
    assert says in why
    assert "eve" not in why
    assert "evil" not in why


async def test_a_token_that_is_not_for_us_has_no_keys_fetched(provider: IdentityServer) -> None:
    for what in ("another issuer", "another audience", "over", "no signature", "a megabyte", "an issuer twice"):
        await refused(provider, BAD[what][0](provider))
    assert not provider.asked


def test_opaque_tokens_look_like_no_jwt() -> None:
    assert not any(looks_like_jwt(text) for text in ("", "mcpt_abc", "a.b.c", "eyJ", "eyJx.eyJy", "." * MAX_TOKEN))
    assert looks_like_jwt("eyJx.eyJy.z")


async def test_clocks_may_differ_by_the_leeway(provider: IdentityServer) -> None:
    now = int(time.time())
    token = provider.token(exp=now - 30, nbf=now + 30, iat=now + 30)
    assert (await verified(provider, token)).principal == "user:alice"
    assert "(exp)" in await refused(provider, token, leeway=0.0)


async def test_a_token_is_known_until_it_ends_and_then_allows_nothing(provider: IdentityServer) -> None:
    now = [time.time()]
    told = JwtAuth(issuer=provider.issuer, audience=(provider.audience,), leeway=0.0)
    checked, token = IdentityTokens(told, profile_scope, clock=lambda: now[0]), provider.token(exp=now[0] + 10)
    access = await checked.verified(token)
    now[0] += 9
    assert checked.find(token) is access
    assert access.scope is None
    now[0] += 2
    assert checked.find(token) is None
    assert access.scope is NOTHING_IN_SCOPE
    with pytest.raises(BadToken, match="expired"):
        await checked.verified(token)


async def test_what_is_kept_is_bounded(provider: IdentityServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpproxy_py.serve.http.identity.tokens.MOST_KNOWN", 3)
    monkeypatch.setattr("mcpproxy_py.serve.http.identity.tokens.MOST_BAD", 3)
    assert MOST_KNOWN > 1000
    checked = tokens(provider)
    given = [provider.token(jti=str(number)) for number in range(5)]
    for token in given:
        await checked.verified(token)
        with pytest.raises(BadToken):
            await checked.verified(token[:-6] + "AAAAAA")
    assert [checked.find(token) is not None for token in given] == [False, False, True, True, True]
    assert len(checked._bad) == 3  # pyright: ignore[reportPrivateUsage]


# What a token is good for.


@pytest.mark.parametrize(
    ("settings", "claims", "scope"),
    [
        ({}, {}, None),
        ({"operations": {"r": "read", "w": ["read", "write"]}}, {"scope": "r"}, Scope(ceiling="read")),
        ({"operations": {"r": "read", "w": ["read", "write"]}}, {"scope": "x r w"}, Scope(ceiling="write")),
        ({"operations": {"r": "read", "a": "destructive"}}, {"scp": ["a"]}, None),
        ({"operations": {"Dev": "write"}, "scopes_claim": "roles"}, {"roles": ["Dev"]}, Scope(ceiling="write")),
        ({"operations": {"dev": "read"}, "scopes_claim": "realm.roles"}, {"realm": {"roles": ["dev"]}},
         Scope(ceiling="read")),
        ({"operations": {"dev": "read"}, "scopes_claim": "https://x.example/roles"}, {"https://x.example/roles": "dev"},
         Scope(ceiling="read")),
        ({"servers_claim": "servers"}, {"servers": ["b", "a"]}, Scope(servers=(("a", "b"),))),
        ({"servers_claim": "servers"}, {"servers": "a b"}, Scope(servers=(("a", "b"),))),
        ({"servers_claim": "servers"}, {}, Scope(servers=((),))),
        ({"servers_claim": "servers"}, {"servers": {"a": 1}}, Scope(servers=((),))),
        ({"servers_claim": "servers"}, {"servers": ["a", 7]}, Scope(servers=((),))),
        ({"profile": "frontend"}, {}, PROFILES["frontend"]),
        ({"profile": "gone"}, {}, NOTHING_IN_SCOPE),
        ({"profile_claim": "team"}, {"team": "frontend"}, PROFILES["frontend"]),
        ({"profile_claim": "team"}, {"team": ["frontend"]}, PROFILES["frontend"]),
        ({"profile_claim": "team"}, {"team": ["frontend", "backend"]}, NOTHING_IN_SCOPE),
        ({"profile_claim": "team"}, {"team": 7}, NOTHING_IN_SCOPE),
        ({"profile_claim": "team"}, {}, NOTHING_IN_SCOPE),
        ({"profile_claim": "team", "profile": "frontend"}, {}, PROFILES["frontend"]),
        ({"profile_claim": "team", "profile": "frontend"}, {"team": "gone"}, NOTHING_IN_SCOPE),
        ({"profile": "frontend", "operations": {"r": "read"}}, {"scope": "r"},
         Scope(servers=(("github",),), ceiling="read")),
    ],
)  # fmt: skip
async def test_claims_narrow_and_what_is_missing_narrows_most(
    provider: IdentityServer, settings: Any, claims: Any, scope: Scope | None
) -> None:
    found = (await verified(provider, provider.token(**claims), **settings)).scope
    if scope is None or found is None:
        assert found is scope
    else:
        allowed = found.tightened(Policy()).token_ceiling
        assert (found.servers, allowed) == (scope.servers, scope.ceiling)


@pytest.mark.parametrize(
    ("settings", "claims"),
    [
        ({"required_scopes": ["mcp"]}, {}),
        ({"required_scopes": ["mcp", "more"]}, {"scope": "mcp"}),
        ({"operations": {"r": "read"}}, {"scope": "R"}),
        ({"operations": {"r": "read"}}, {"scope": 7}),
        ({"operations": {"r": "read"}, "scopes_claim": "roles"}, {"scope": "r"}),
    ],
)
async def test_a_token_without_the_scopes_that_are_needed_is_good_for_nothing(
    provider: IdentityServer, settings: Any, claims: Any
) -> None:
    with pytest.raises(Lacking):
        await verified(provider, provider.token(**claims), **settings)


async def test_an_email_counts_unless_the_provider_says_that_it_is_not_verified(provider: IdentityServer) -> None:
    told = {"email": "a@example.com", "email_verified": True}
    assert (await verified(provider, provider.token(**told), principal_claim="email")).principal == "user:a@example.com"
    for unverified in (False, "true", "false", "no", 0, 1, None, [], [True], {}):
        token = provider.token(**{**told, "email_verified": unverified})
        assert "email_verified" in await refused(provider, token, principal_claim="email")
    nested = provider.token(user={"email": "a@example.com", "email_verified": True})
    assert (await verified(provider, nested, principal_claim="user.email")).principal == "user:a@example.com"
    assert "user.email_verified" in await refused(
        provider, provider.token(user={"email": "a@example.com"}, email_verified=True), principal_claim="user.email"
    )
    assert "space" in await refused(provider, provider.token(sub="ann "))


RULES = {"operations": {"r": "read", "all": "destructive", "w": "write"}, "required_scopes": ["base"]}


@pytest.mark.parametrize(
    ("has", "operation", "scopes"),
    [
        ("r", "read", "base r"),
        ("r", "write", "base r w"),
        ("r", "destructive", "base r all"),
        ("w", "destructive", "base w all"),
        ("", "read", "base r"),
    ],
)
async def test_the_scopes_that_would_allow_more_are_told_with_those_that_there_are(
    provider: IdentityServer, has: str, operation: Any, scopes: str
) -> None:
    """Scopes of the token that the gateway does not know are not repeated: they go into a header."""
    known = tokens(provider, **RULES)
    assert known.scopes_for(frozenset(f'base {has} other "quoted"'.split()), operation) == scopes
    if has:
        access = await known.verified(provider.token(scope=f"base {has} other"))
        assert access.scopes_for is not None and access.scopes_for(operation) == scopes
        inner = access.within(lambda: None)
        assert inner.scopes_for is not None and inner.scopes_for(operation) == scopes


@pytest.mark.parametrize(("has", "ceiling"), [("r", "read"), ("w", "write"), ("r w", "write"), ("all", "destructive")])
async def test_what_another_token_would_allow_is_visible_and_not_allowed(
    provider: IdentityServer, has: str, ceiling: str
) -> None:
    scope = (await verified(provider, provider.token(scope=f"base {has}"), **RULES)).scope
    if ceiling == "destructive":
        assert scope is None
    else:
        assert scope is not None and (scope.ceiling, scope.token_ceiling) == ("destructive", ceiling)
        policy = scope.tightened(Policy())
        assert (policy.ceiling, policy.token_ceiling) == ("destructive", ceiling)


async def test_a_profile_that_forbids_it_is_no_reason_to_ask_for_more_scopes(provider: IdentityServer) -> None:
    rules = {"operations": {"r": "read", "all": "destructive"}}
    own = await verified(provider, provider.token(scope="r"), **rules, profile="frontend")
    by_path = (await verified(provider, provider.token(scope="r"), **rules)).within(lambda: PROFILES["frontend"])
    for access in (own, by_path):
        assert access.scope is not None
        assert (access.scope.ceiling, access.scope.token_ceiling) == ("write", "read")


async def test_where_no_scope_would_help_none_is_told(provider: IdentityServer) -> None:
    roles = {"operations": {"dev": "read", "admin": "write"}, "scopes_claim": "roles"}
    by_role = await verified(provider, provider.token(roles=["dev"]), **roles)
    nobody_may = await verified(provider, provider.token(scope="r"), operations={"r": "read"})
    for access in (by_role, nobody_may):
        assert access.scope is not None and access.scope.tightened(Policy()).ceiling == "read"


@pytest.mark.parametrize(
    ("settings", "first", "every"),
    [
        ({}, "base r all w", "base r all w"),
        ({"login_scopes": ["r"]}, "base r", "base r all w"),
        ({"login_scopes": []}, "base", "base r all w"),
        ({"login_scopes": ["api://gate/r", "w"]}, "base api://gate/r w", "base api://gate/r w r all"),
        ({"scopes_claim": "roles"}, "base", "base"),
    ],
)
def test_the_first_login_asks_for_what_the_operator_says_or_for_all(
    settings: dict[str, Any], first: str, every: str
) -> None:
    told = JwtAuth.model_validate({"issuer": "https://login.example", "audience": "gate", **RULES, **settings})
    assert (" ".join(told.first_scopes), " ".join(told.all_scopes)) == (first, every)


@pytest.mark.parametrize("scope", ['mcp:"read', "mcp\\read", "mcp read", "", "mcp\r\nread"])
def test_a_scope_that_breaks_the_header_is_no_login_scope(scope: str) -> None:
    with pytest.raises(ValueError, match="a scope"):
        JwtAuth.model_validate({"issuer": "https://login.example", "audience": "gate", "login_scopes": [scope]})


# Its keys.


async def test_a_key_that_is_new_is_fetched_once_a_minute_at_most(
    provider: IdentityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    checked = tokens(provider)
    monkeypatch.setattr(checked.keys, "_clock", lambda: now[0])
    await checked.verified(provider.token())
    for number in range(20):
        with pytest.raises(BadToken):
            await checked.verified(provider.token(SigningPair(f"made up {number}", private=provider.keys[0].private)))
    assert provider.asked[JWKS] == 1
    provider.keys.append(SigningPair("second"))
    now[0] += keys_module.RETRY
    assert (await checked.verified(provider.token(provider.keys[1]))).principal == "user:alice"
    assert provider.asked[JWKS] == 2


async def test_a_key_that_the_provider_takes_back_takes_its_tokens_along(
    provider: IdentityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[UserAccess] = []
    told = JwtAuth(issuer=provider.issuer, audience=(provider.audience,))
    checked = IdentityTokens(told, profile_scope, on_end=ended.append)
    token = provider.token()
    access = await checked.verified(token)
    provider.keys = [SigningPair("second")]
    monkeypatch.setattr(checked.keys, "_clock", lambda: time.monotonic() + keys_module.RETRY)
    await checked.verified(provider.token())
    assert checked.find(token) is None
    assert ended == [access]
    assert access.scope is NOTHING_IN_SCOPE


async def test_keys_that_could_not_be_fetched_for_long_are_not_believed(
    provider: IdentityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = tokens(provider)
    await checked.verified(provider.token())
    provider.instead[JWKS] = lambda request: reply(request, {}, 500)
    monkeypatch.setattr(checked.keys, "_clock", lambda: time.monotonic() + keys_module.BELIEVED + 1)
    with pytest.raises(KeysUnavailable):
        await checked.verified(provider.token(jti="another"))


HTML = b"<!doctype html><title>Sign in</title>"
UNUSABLE: dict[str, tuple[Any, str]] = {
    "html": (HTML, "no JSON"),
    "an error": (None, "answers 500"),
    "huge": (b'{"keys": [' + b" " * 600_000 + b"]}", "more than"),
    "deep": (b"[" * 100_000, "no JSON"),
    "no keys": ({"keys": []}, "no key"),
    "not a list": ({"keys": {"kid": "first"}}, "no list"),
    "a list": ([], "no list"),
    "nonsense": ({"keys": [7, None, {}, {"kty": "RSA"}, {"kty": "RSA", "kid": "first", "n": "!", "e": "AQAB"}]},
                 "no key"),
    "a secret": ({"keys": [{"kty": "oct", "kid": "first", "k": "c2VjcmV0"}]}, "no key"),
}  # fmt: skip


@pytest.mark.parametrize("what", UNUSABLE)
async def test_keys_that_cannot_be_had_leave_the_token_unchecked_and_refused(
    provider: IdentityServer, what: str
) -> None:
    answer, says = UNUSABLE[what]
    provider.instead[JWKS] = lambda request: reply(request, answer, 500 if answer is None else 200)
    with pytest.raises(KeysUnavailable, match=says):
        await verified(provider, provider.token())


async def test_a_redirect_of_the_keys_is_not_followed(provider: IdentityServer) -> None:
    def elsewhere(request: Any) -> None:
        request.send_response(302)
        request.send_header("location", f"{provider.issuer}/other")
        request.send_header("content-length", "0")
        request.end_headers()

    provider.instead[JWKS] = elsewhere
    with pytest.raises(KeysUnavailable, match="answers 302"):
        await verified(provider, provider.token())
    assert not provider.asked["/other"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"issuer": "https://evil.example"}, "another issuer"),
        ({"jwks_uri": "http://keys.example/keys"}, "can be trusted"),
        ({"jwks_uri": "file:///etc/passwd"}, "can be trusted"),
        ({"jwks_uri": 7}, "can be trusted"),
        ({"jwks_uri": "http://[::1"}, "can be trusted"),
    ],
)
async def test_metadata_may_only_lead_to_where_it_can_be_trusted(
    provider: IdentityServer, change: Any, says: str
) -> None:
    provider.instead[METADATA] = lambda request: reply(request, {**provider.metadata, **change})
    with pytest.raises(KeysUnavailable, match=says):
        await verified(provider, provider.token())


async def test_the_metadata_of_openid_connect_will_do(provider: IdentityServer) -> None:
    provider.instead[METADATA] = lambda request: reply(request, {}, 404)
    provider.instead["/.well-known/openid-configuration"] = lambda request: reply(request, provider.metadata)
    assert (await verified(provider, provider.token())).principal == "user:alice"


async def test_keys_that_hang_hold_up_the_token_that_needs_them_and_no_other(
    provider: IdentityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked, known = tokens(provider), provider.token()
    await checked.verified(known)
    provider.instead[JWKS] = lambda request: provider.released.wait(60)
    monkeypatch.setattr(checked.keys, "_clock", lambda: time.monotonic() + keys_module.RETRY)
    monkeypatch.setattr(keys_module, "PATIENCE", 0.3)
    waiting = provider.token(SigningPair("new"))
    outcome: list[str] = []

    async def wait() -> None:
        with pytest.raises(KeysUnavailable, match="does not answer"):
            await checked.verified(waiting)
        outcome.append("late")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        while not checked.keys._fetching:  # pyright: ignore[reportPrivateUsage]
            await anyio.lowlevel.checkpoint()
        assert checked.find(known) is not None
        assert (await checked.verified(provider.token(jti="other"))).principal == "user:alice"
        assert not outcome
    assert outcome == ["late"]


async def test_a_file_of_keys_has_to_be_nobody_elses(provider: IdentityServer, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [provider.keys[0].jwk]}))
    path.chmod(0o644)
    assert (await verified(provider, provider.token(), jwks=str(path))).principal == "user:alice"
    assert not provider.asked
    path.chmod(0o666)
    with pytest.raises(KeysUnavailable, match="chmod"):
        await verified(provider, provider.token(), jwks=str(path))
    for other, says in (
        (tmp_path, "Is a directory"),
        (tmp_path / "none", "cannot be read"),
        (Path("/dev/zero"), "file"),
    ):
        with pytest.raises(KeysUnavailable, match=says):
            await verified(provider, provider.token(), jwks=str(other))


def test_only_keys_that_check_signatures_are_used() -> None:
    good = SigningPair("good").jwk
    weak = SigningPair("weak", private=rsa.generate_private_key(public_exponent=65537, key_size=1024)).jwk
    private = {**jwt.get_algorithm_by_name("RS256").to_jwk(SigningPair("x").private, as_dict=True), "kid": "private"}
    bad = [
        {**good, "kid": "enc", "use": "enc"}, {**good, "kid": "wrap", "key_ops": ["wrapKey"]}, weak, private,
        {**good, "kid": "hmac", "alg": "HS256"}, {**good, "kid": ["list"]}, {**good, "kid": "x" * 300},
        {**SigningPair("ec", "ES256").jwk, "crv": "secp256k1", "alg": "ES256K"},
    ]  # fmt: skip
    found = KeySet({"keys": [*bad, good]})
    assert [each.key_id for each in found] == ["good"]
    assert len(found.skipped) == len(bad)
    assert found.find("good", "RS256") is not None
    assert found.find("good", "PS256") is None  # it says that it is for RS256
    assert found.find(None, "RS256") is not None  # there is one only


def test_of_two_keys_with_one_name_neither_is_used() -> None:
    one, other = SigningPair("same").jwk, SigningPair("same").jwk
    third = SigningPair("third").jwk
    found = KeySet({"keys": [one, other, third]})
    assert found.find("same", "RS256") is None
    assert KeySet({"keys": [one, one]}).find("same", "RS256") is not None
    elliptic = SigningPair("same", "ES256").jwk
    assert KeySet({"keys": [one, elliptic]}).find("same", "ES256") is not None


def test_without_a_key_id_only_the_one_key_can_be_meant() -> None:
    two = KeySet({"keys": [SigningPair("a").jwk, SigningPair("b").jwk, SigningPair("c", "ES256").jwk]})
    assert two.find(None, "RS256") is None
    assert two.find(None, "ES256") is not None


@pytest.fixture
async def running(provider: IdentityServer) -> AsyncIterator[IdentityTokens]:
    checked = tokens(provider)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(checked.keys.run)
        yield checked
        tasks.cancel_scope.cancel()


async def test_keys_are_fetched_before_anybody_needs_them(provider: IdentityServer, running: IdentityTokens) -> None:
    there = partial(until, lambda: running.keys.at_hand("first", "RS256"), what="the keys")
    await anyio.to_thread.run_sync(there)
    await running.verified(provider.token())
    assert provider.asked[JWKS] == 1
