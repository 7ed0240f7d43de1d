"""Enterprise-managed authorization (SEP-990): a person's token at the enterprise's identity provider goes to that
provider only, and its assertion to the configured authorization server only (UP-9)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.authserver import Answer, Asked, AuthServer, Site, as_json, auth_server, oauth_error, site
from tests.support.gateway import Running, gateway, until
from tests.support.wire import Wire, text

pytestmark = pytest.mark.proves("UP-9")

TYPE = "urn:ietf:params:oauth:token-type:"
SUBJECT, SECRET, OWN_SECRET = "person-token-0123456789", "idp-sesame-open-it", "as-sesame-open-it"
ASSERTION = "eyJhc3NlcnRpb24.of.alice"
METADATA = "/.well-known/oauth-authorization-server"
numbers = itertools.count(1)


class Enterprise:
    """The identity provider: what it answers can be replaced, path by path."""

    def __init__(self) -> None:
        self.instead: dict[str, Answer] = {}
        self.site: Site

    def answer(self, asked: Asked) -> Answer:
        if (other := self.instead.get(asked.path)) is not None:
            return other
        if asked.path == METADATA:
            at = self.site.url
            return as_json({
                "issuer": at, "authorization_endpoint": f"{at}/authorize", "token_endpoint": f"{at}/token",
                "response_types_supported": ["code"], "token_endpoint_auth_methods_supported": ["client_secret_post"],
            })  # fmt: skip
        if asked.path == "/token":
            return as_json({"access_token": ASSERTION, "issued_token_type": f"{TYPE}id-jag", "token_type": "N_A"})
        return as_json({}, 404)

    @property
    def exchanges(self) -> list[dict[str, str]]:
        return [asked.form for asked in self.site.asked if asked.path == "/token"]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with gateway(tmp_path_factory.mktemp("enterprise") / "data", {"mcpServers": {}}) as found:
        yield found


@pytest.fixture
def auth() -> Iterator[AuthServer]:
    with auth_server() as found:
        yield found


@pytest.fixture
def enterprise() -> Iterator[Enterprise]:
    found = Enterprise()
    with site(found.answer) as found.site:
        yield found


@pytest.fixture
def thief() -> Iterator[Site]:
    with site(lambda asked: as_json({"access_token": "x", "token_type": "Bearer", "issuer": "x"})) as found:
        yield found


def added(running: Running, auth: AuthServer, enterprise: Enterprise, **more: Any) -> str:
    provider = {
        "issuer": enterprise.site.url,
        "client_id": "gateway",
        "client_secret": SECRET,
        "subject_token": SUBJECT,
    }
    entry = {"type": "oauth", "grant": "identity_assertion", "client_id": "known-1", "client_secret": OWN_SECRET,
             "issuer": auth.issuer.url, "identity_provider": {**provider, **more}}  # fmt: skip
    name = f"e{next(numbers)}"
    answer = running.post("/servers", {"name": name, "config": {"url": auth.url, "auth": entry}})
    assert answer.status_code == 201, answer.text
    until(lambda: row(running, name)["state"] in ("needs_login", "failed", "connected"), what=f"{name} settled")
    return name


def row(running: Running, name: str) -> dict[str, Any]:
    return next(each for each in running.get("/servers")["servers"] if each["name"] == name)


def sent_to(there: Site) -> str:
    return "".join(f"{asked.headers}{asked.query}{asked.body.decode('utf-8', 'replace')}" for asked in there.asked)


@pytest.mark.parametrize("kind", ["id_token", "refresh_token"])
def test_each_token_goes_to_whom_it_is_for_and_is_shown_nowhere(
    running: Running, auth: AuthServer, enterprise: Enterprise, kind: str
) -> None:
    name = added(running, auth, enterprise, subject_token_type=kind)
    assert row(running, name)["state"] == "connected", row(running, name)
    assert text(Wire(running.mcp).read(f"{name}:look", {})) == "did look"
    exchange = enterprise.exchanges[0]
    assert exchange["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange"
    assert exchange["requested_token_type"] == f"{TYPE}id-jag"
    assert exchange["subject_token_type"] == f"{TYPE}{kind}"
    assert (exchange["subject_token"], exchange["client_secret"]) == (SUBJECT, SECRET)
    assert (exchange["audience"], exchange["resource"]) == (auth.issuer.url, auth.url)
    grant = next(asked.form for asked in auth.issuer.asked if asked.path == "/token")
    assert grant["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assert (grant["assertion"], grant["resource"]) == (ASSERTION, auth.url)
    for there, foreign in (
        (enterprise.site, (OWN_SECRET, ASSERTION)), (auth.issuer, (SUBJECT, SECRET)),
        (auth.server, (SUBJECT, SECRET, OWN_SECRET, ASSERTION)),
    ):  # fmt: skip
        assert not [secret for secret in foreign if secret in sent_to(there)]
    everything = f"{running.get('/config')}{running.get('/servers')}{running.stderr()}"
    assert not [secret for secret in (SUBJECT, SECRET, OWN_SECRET, ASSERTION) if secret in everything]


def test_a_server_that_names_another_authorization_server_gets_no_assertion_made(
    running: Running, auth: AuthServer, enterprise: Enterprise, thief: Site
) -> None:
    auth.resource_metadata["authorization_servers"] = [thief.url]
    name = added(running, auth, enterprise)
    assert "its entry says" in row(running, name)["error"]
    assert thief.asked == enterprise.site.asked == []


METADATA_OF_ANOTHER = as_json({
    "issuer": "https://evil.example", "authorization_endpoint": "https://evil.example/a",
    "token_endpoint": "https://evil.example/token", "response_types_supported": ["code"],
})  # fmt: skip
WRONG: dict[str, tuple[Callable[[Enterprise, Site], tuple[str, Answer]], str]] = {
    "an access token": (
        lambda idp, _: ("/token", as_json({"access_token": "x", "issued_token_type": f"{TYPE}access_token"})),
        "another type",
    ),
    "no type": (lambda idp, _: ("/token", as_json({"access_token": "x"})), "another type"),
    "a line break": (
        lambda idp, _: ("/token", as_json({"access_token": "a\r\nx: y", "issued_token_type": f"{TYPE}id-jag"})),
        "cannot be used",
    ),
    "nothing": (lambda idp, _: ("/token", as_json({"issued_token_type": f"{TYPE}id-jag"})), "cannot be used"),
    "HTML": (lambda idp, _: ("/token", (200, {"content-type": "text/html"}, b"<html>")), "refused"),
    "a refusal": (lambda idp, _: ("/token", oauth_error("invalid_grant")), "invalid_grant"),
    "a megabyte": (lambda idp, _: ("/token", as_json({"access_token": "a" * 1_000_000})), "larger than"),
    "a redirect": (lambda idp, thief: ("/token", (307, {"location": f"{thief.url}/token"}, b"")), "refused"),
    "metadata of another provider": (lambda idp, _: (METADATA, METADATA_OF_ANOTHER), "that of another one"),
    "metadata that leads to a cloud's credentials": (
        lambda idp, _: (METADATA, as_json({
            "issuer": idp.site.url, "authorization_endpoint": f"{idp.site.url}/a", "response_types_supported": ["code"],
            "token_endpoint": "http://169.254.169.254/token"})),
        "never asked",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_assertion_is_refused_and_sent_to_nobody(
    running: Running, auth: AuthServer, enterprise: Enterprise, thief: Site, case: str
) -> None:
    made, expected = WRONG[case]
    path, answer = made(enterprise, thief)
    enterprise.instead[path] = answer
    name = added(running, auth, enterprise)
    assert expected in row(running, name)["error"], row(running, name)["error"]
    assert SUBJECT not in row(running, name)["error"]
    assert not [asked for asked in auth.issuer.asked if asked.path == "/token"]
    assert thief.asked == []
    assert SUBJECT not in running.stderr()


def test_a_token_of_the_person_that_has_ended_ends_the_login_when_its_token_does(
    running: Running, auth: AuthServer, enterprise: Enterprise
) -> None:
    """Each token of the server is had by a new assertion."""
    auth.token = {"refresh_token": None}
    name = added(running, auth, enterprise)
    assert text(Wire(running.mcp).read(f"{name}:look", {})) == "did look"
    auth.end_access()
    assert text(Wire(running.mcp).read(f"{name}:look", {})) == "did look"
    assert len(enterprise.exchanges) == 2
    enterprise.instead["/token"] = oauth_error("invalid_grant")
    auth.end_access()
    refused = Wire(running.mcp).read(f"{name}:look", {})
    assert refused["isError"]
    assert "invalid_grant" in text(refused)
