"""Servers and authorization servers that want a token, a code or a request that is not theirs (UP-9, SEC-1)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

from tests.support.authserver import Answer, AuthServer, Site, as_json, auth_server, site
from tests.support.browser import visit
from tests.support.gateway import Running, gateway, until
from tests.support.wire import Wire, text

pytestmark = pytest.mark.proves("UP-9")

HTML: Answer = (200, {"content-type": "text/html"}, b"<html>Sign in</html>")
PRM = "/.well-known/oauth-protected-resource/mcp"
METADATA = "/.well-known/oauth-authorization-server"
CLOUD = "http://169.254.169.254/latest/meta-data"
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with gateway(tmp_path_factory.mktemp("thieves") / "data", {"mcpServers": {}}) as found:
        yield found


@pytest.fixture
def auth() -> Iterator[AuthServer]:
    with auth_server() as found:
        yield found


@pytest.fixture
def thief() -> Iterator[Site]:
    """Somebody else's machine: it says yes to everything, and keeps what it gets."""
    with site(lambda asked: as_json({"access_token": "x", "token_type": "Bearer", "issuer": "x"})) as found:
        yield found


def added(running: Running, url: str, **entry: Any) -> str:
    name = f"s{next(numbers)}"
    answer = running.post("/servers", {"name": name, "config": {"url": url, **entry}})
    assert answer.status_code == 201, answer.text
    until(lambda: row(running, name)["state"] in ("needs_login", "failed", "connected"), what=f"{name} settled")
    return name


def row(running: Running, name: str) -> dict[str, Any]:
    return next(each for each in running.get("/servers")["servers"] if each["name"] == name)


def begin(running: Running, name: str) -> httpx.Response:
    return running.post(f"/servers/{name}/login", {})


def log_in(running: Running, name: str) -> httpx.Response:
    begun = begin(running, name)
    assert begun.status_code == 200, begun.text
    ended = visit(begun.json()["authorization_url"], goes_home=False)
    return running.post(f"/servers/{name}/login/answer", {"address": ended})


def said(answer: httpx.Response) -> str:
    assert answer.status_code in (400, 409, 503), answer.text
    return answer.json()["error"]["message"]


def kept_its_secrets(auth: AuthServer, *others: Site) -> None:
    for other in others:
        for asked in other.asked:
            whole = str(asked.headers) + str(asked.query) + asked.body.decode("utf-8", "replace")
            assert not any(secret in whole for secret in auth.secrets)


# What a server says of where to log in.


def its_metadata(**said: Any) -> Callable[[AuthServer], None]:
    return lambda auth: auth.resource_metadata.update(said)


def its_issuers(**said: Any) -> Callable[[AuthServer], None]:
    return lambda auth: auth.metadata.update(said)


def answers(path: str, answer: Answer) -> Callable[[AuthServer], None]:
    return lambda auth: auth.faults.update({path: lambda asked: answer})


def to_itself(auth: AuthServer) -> None:
    auth.resource_metadata["authorization_servers"] = [auth.url]


DISCOVERIES: dict[str, tuple[Callable[[AuthServer], None], str]] = {
    "metadata that is HTML": (answers(PRM, HTML), "cannot be read"),
    "metadata that is huge": (answers(PRM, (200, {}, b" " * 1_000_000)), "larger than"),
    "metadata that is nested without end": (answers(PRM, (200, {}, b"[" * 200_000)), "cannot be read"),
    "metadata that is compressed": (answers(PRM, (200, {"content-encoding": "gzip"}, b"x")), "compressed"),
    "metadata that is a list": (answers(PRM, as_json([])), "cannot be read"),
    "metadata that names nobody": (its_metadata(authorization_servers=[]), "cannot be read"),
    "metadata of another server": (its_metadata(resource="https://bank.example/mcp"), "that of another one"),
    "metadata that is about to come": (answers(PRM, (503, {}, b"")), "HTTP status 503"),
    "metadata that leads back to itself": (to_itself, "has no metadata"),
    "an authorization server among a cloud's credentials": (its_metadata(authorization_servers=[CLOUD]), "never asked"),
    "a credential in the address": (its_metadata(authorization_servers=["http://a:b@127.0.0.1/"]), "more than an addr"),
    "a file": (its_metadata(authorization_servers=["file:///etc/passwd"]), "cannot be read"),
    "an authorization server that says HTML": (answers(METADATA, HTML), "cannot be read"),
    "one that says that it is another one": (its_issuers(issuer="https://as.example"), "that of another one"),
    "a page that is a script": (its_issuers(authorization_endpoint="javascript:alert(1)"), "cannot be read"),
    "a page that is a file": (its_issuers(authorization_endpoint="file:///etc/passwd"), "cannot be read"),
    "tokens from a cloud's credentials": (its_issuers(token_endpoint=CLOUD), "never asked"),
    "a registration among a cloud's credentials": (its_issuers(registration_endpoint=CLOUD), "never asked"),
    "tokens over plain http from elsewhere": (its_issuers(token_endpoint="http://224.0.0.1/token"), "never asked"),
    "codes that are not protected": (its_issuers(code_challenge_methods_supported=["plain"]), "PKCE"),
    "codes of which nothing is said": (its_issuers(code_challenge_methods_supported=None), "PKCE"),
    "a registration that fails": (answers("/register", as_json({"error": "invalid_redirect_uri"}, 400)), "refused"),
    "a registration that is HTML": (answers("/register", HTML), "cannot be used"),
    "a registration of nobody": (answers("/register", as_json({"client_id": None}, 201)), "cannot be used"),
}  # fmt: skip


@pytest.mark.parametrize("case", DISCOVERIES)
def test_a_place_to_log_in_that_is_none_is_refused_and_said(running: Running, auth: AuthServer, case: str) -> None:
    order, expected = DISCOVERIES[case]
    order(auth)
    name = added(running, auth.url)
    assert expected in said(begin(running, name))
    assert auth.counts["authorize"] == auth.counts["authorization_code"] == 0


def test_metadata_on_another_origin_is_not_even_asked_for(running: Running, auth: AuthServer, thief: Site) -> None:
    auth.challenge = f'Bearer resource_metadata="{thief.url}/{PRM}"'
    name = added(running, auth.url)
    assert row(running, name)["state"] == "failed"
    assert "another origin" in row(running, name)["error"]
    assert "another origin" in said(begin(running, name))
    assert thief.asked == []


def test_an_authorization_server_that_is_not_the_configured_one_gets_no_secret(
    running: Running, auth: AuthServer, thief: Site
) -> None:
    auth.resource_metadata["authorization_servers"] = [thief.url]
    known = {"type": "oauth", "client_id": "known-1", "client_secret": "sesame-open-it", "issuer": auth.issuer.url}
    for grant in ("authorization_code", "client_credentials"):
        name = added(running, auth.url, auth={**known, "grant": grant})
        if grant == "authorization_code":
            assert "its entry says" in said(begin(running, name))
        else:
            assert "its entry says" in row(running, name)["error"]
    assert thief.asked == []


# What an authorization server answers with.


def gives(**said: Any) -> Callable[[AuthServer], None]:
    return lambda auth: auth.token.update(said)


TOKENS: dict[str, tuple[Callable[[AuthServer], None], str]] = {
    "of a megabyte": (gives(access_token="a" * 1_000_000), "larger than"),
    "of more than a header": (gives(access_token="a" * 20_000), "more than 16384"),
    "with a line break": (gives(access_token="a\r\nx-injected: 1"), "cannot be used"),
    "with a space": (gives(access_token="a b"), "cannot be used"),
    "that is empty": (gives(access_token=""), "cannot be used"),
    "that is a number": (gives(access_token=7), "cannot be used"),
    "that is missing": (gives(access_token=None), "cannot be used"),
    "that is no bearer's": (gives(token_type="DPoP"), "no bearer's"),
    "that ended before it began": (gives(expires_in=-1), "no time to come"),
    "that ends now": (gives(expires_in=0), "no time to come"),
    "that ends soon": (gives(expires_in="soon"), "no time to come"),
    "that ends in truth": (gives(expires_in=True), "no time to come"),
    "that never ends": (gives(expires_in=1e300), "no time to come"),
    "with a refresh token that breaks a line": (gives(refresh_token="a\nb"), "cannot be used"),
    "that is HTML": (answers("/token", HTML), "no token"),
    "that is an error in disguise": (answers("/token", as_json({"error": "bad_verification_code"})), "refused"),
    "that never comes": (answers("/token", (500, {}, b"")), "HTTP status 500"),
}


@pytest.mark.parametrize("case", TOKENS)
def test_a_token_that_is_none_is_refused_and_said(running: Running, auth: AuthServer, case: str) -> None:
    order, expected = TOKENS[case]
    name = added(running, auth.url)
    order(auth)
    assert expected in said(log_in(running, name))
    assert row(running, name)["state"] == "needs_login"
    auth.token.clear()
    auth.faults.clear()
    assert log_in(running, name).status_code == 200, "it can be tried again"


@pytest.mark.parametrize("lasts", ["3600", None, 0.5])
def test_a_life_that_is_only_written_oddly_is_taken(running: Running, auth: AuthServer, lasts: Any) -> None:
    name = added(running, auth.url)
    auth.token["expires_in"] = lasts
    assert log_in(running, name).status_code == 200
    running.wait_for(name)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_of_the_token_request_is_not_followed(
    running: Running, auth: AuthServer, thief: Site, status: int
) -> None:
    name = added(running, auth.url)
    auth.faults["/token"] = lambda asked: (status, {"location": f"{thief.url}/token"}, b"")
    assert "redirects" in said(log_in(running, name))
    assert thief.asked == []


# What comes back by the browser.


def test_an_answer_to_another_login_is_not_taken_and_the_right_one_counts_once(
    running: Running, auth: AuthServer
) -> None:
    name = added(running, auth.url)
    begun = begin(running, name).json()
    ended = visit(begun["authorization_url"], goes_home=False)
    home = ended.partition("?")[0]
    for wrong in (f"{home}?code=x&state=guessed", f"{home}?code=x", home, "nonsense", f"{ended}&code=other",
                  f"{ended}&state=x"):  # fmt: skip
        answer = running.post(f"/servers/{name}/login/answer", {"address": wrong})
        assert answer.status_code == 400, wrong
        assert httpx.get(wrong, trust_env=False).status_code == 400 if "://" in wrong else True
    assert auth.counts["authorization_code"] == 0
    assert httpx.get(ended, trust_env=False).status_code == 200
    running.wait_for(name)
    again = running.post(f"/servers/{name}/login/answer", {"address": ended})
    assert again.status_code == 409
    assert auth.counts["authorization_code"] == 1


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"iss": "https://evil.example"}, "was asked"), ({"iss": ""}, "does not say"),
        ({"code": "", "error": "access_denied"}, "access_denied"), ({"code": ""}, "no code"),
    ],
)  # fmt: skip
def test_an_answer_from_somebody_else_or_without_a_code_is_refused_before_anything_is_sent(
    running: Running, auth: AuthServer, sent: dict[str, str], expected: str
) -> None:
    name = added(running, auth.url)
    auth.redirects_with = sent
    assert expected in said(log_in(running, name))
    assert auth.counts["authorization_code"] == 0


def test_the_page_for_answers_shows_nothing_of_what_it_is_sent_and_runs_nothing(
    running: Running, auth: AuthServer
) -> None:
    name = added(running, auth.url)
    home = begin(running, name).json()["redirect_uri"]
    page = httpx.get(f"{home}?code=x&state=x&error=<script>alert(1)</script>", trust_env=False)
    assert "<script" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert httpx.get(home.replace("/callback", "/other"), trust_env=False).status_code == 404
    assert httpx.post(home, trust_env=False).status_code == 404


def test_a_login_that_was_replaced_takes_no_answer(running: Running, auth: AuthServer) -> None:
    name = added(running, auth.url)
    first = visit(begin(running, name).json()["authorization_url"], goes_home=False)
    begin(running, name)
    assert running.post(f"/servers/{name}/login/answer", {"address": first}).status_code == 400
    assert auth.counts["authorization_code"] == 0


# A server that mixes its own addresses with those of an honest provider (RFC 9700, section 4.4).


@pytest.fixture
def honest() -> Iterator[AuthServer]:
    """A provider that says in no answer who it is."""
    with auth_server() as found:
        found.redirects_with = {"iss": ""}
        yield found


def mixes_in(evil: AuthServer, honest: AuthServer, *, announces: bool = False) -> None:
    """The page is the honest provider's; the client, the code and the verifier go to the hostile one."""
    evil.metadata = {
        "authorization_endpoint": f"{honest.issuer.url}/authorize",
        "authorization_response_iss_parameter_supported": announces,
    }
    evil.faults["/register"] = lambda asked: as_json({**json.loads(asked.body), "client_id": "known-1"}, 201)


def got_no_code(evil: AuthServer, honest: AuthServer) -> None:
    assert [asked.path for asked in evil.issuer.asked if asked.path == "/token"] == []
    kept_its_secrets(honest, evil.issuer, evil.server)


def test_a_page_of_an_honest_provider_with_the_tokens_of_another_is_refused(
    running: Running, auth: AuthServer, honest: AuthServer
) -> None:
    mixes_in(auth, honest)
    name = added(running, auth.url)
    begun = begin(running, name)
    if begun.status_code == 200:  # the person sees the honest page, and the attacker gets the code
        ended = visit(begun.json()["authorization_url"], goes_home=False)
        running.post(f"/servers/{name}/login/answer", {"address": ended})
    got_no_code(auth, honest)
    assert honest.counts["authorize"] == 0
    why = said(begun)
    for word in (auth.issuer.url, honest.issuer.url, "authorization_endpoint", '"issuer"', "`auth`"):
        assert word in why
    assert why.partition("not possible: ")[2] in row(running, name)["error"]


@pytest.mark.parametrize("endpoint", ["token", "registration", "revocation", "device_authorization"])
def test_any_address_of_another_origin_is_refused(
    running: Running, auth: AuthServer, honest: AuthServer, endpoint: str
) -> None:
    auth.metadata = {
        f"{endpoint}_endpoint": f"{honest.issuer.url}/x", "authorization_response_iss_parameter_supported": None,
    }  # fmt: skip
    why = said(begin(running, added(running, auth.url)))
    assert honest.issuer.url in why and f"its {endpoint}_endpoint" in why
    assert honest.issuer.asked == []


@pytest.mark.parametrize("sent", ["nothing", "itself"])
def test_who_promises_to_name_itself_is_held_to_it(
    running: Running, auth: AuthServer, honest: AuthServer, sent: str
) -> None:
    mixes_in(auth, honest, announces=True)
    honest.redirects_with = {"iss": "" if sent == "nothing" else honest.issuer.url}
    answer = log_in(running, added(running, auth.url))
    assert ("does not say" if sent == "nothing" else "was asked") in said(answer)
    assert honest.counts["authorize"] == 1
    got_no_code(auth, honest)


def test_the_operator_may_say_that_two_origins_are_one_provider(running: Running, auth: AuthServer) -> None:
    """Then exactly this issuer counts, and no other server gets its tokens by saying so."""
    with site(auth.authorize) as other:
        auth.metadata = {
            "token_endpoint": f"{other.url}/token", "authorization_response_iss_parameter_supported": None,
        }  # fmt: skip
        auth.redirects_with = {"iss": ""}
        assert "its token_endpoint" in said(begin(running, added(running, auth.url)))
        name = added(running, auth.url, auth={"type": "oauth", "issuer": auth.issuer.url})
        assert log_in(running, name).status_code == 200
        running.wait_for(name)
        assert [asked.path for asked in other.asked] == ["/token"]


@pytest.mark.parametrize("case", ["endpoint", "page"])
def test_a_code_for_another_device_is_of_one_origin_since_no_answer_names_its_issuer(
    running: Running, auth: AuthServer, honest: AuthServer, case: str
) -> None:
    if case == "endpoint":
        auth.metadata = {"device_authorization_endpoint": f"{honest.issuer.url}/device"}
    else:
        page = {"device_code": "d", "user_code": "ABCD", "verification_uri": f"{honest.issuer.url}/enter"}
        auth.faults["/device"] = lambda asked: as_json(page)
    name = added(running, auth.url)
    why = said(running.post(f"/servers/{name}/login", {"device": True}))
    assert honest.issuer.url in why and auth.issuer.url in why
    assert honest.counts["device"] == auth.counts["device_code"] == 0


@pytest.mark.parametrize("device", [False, True])
def test_a_configured_client_goes_to_no_issuer_that_neither_it_nor_the_operator_names(
    running: Running, auth: AuthServer, device: bool
) -> None:
    """Its page could lead on to the provider that knows this client, and the code would come here."""
    auth.metadata = {"authorization_response_iss_parameter_supported": device}
    known = {"type": "oauth", "client_id": "known-1"}
    name = added(running, auth.url, auth=known)
    assert '"issuer"' in said(running.post(f"/servers/{name}/login", {"device": device}))
    assert auth.counts["authorize"] == auth.counts["device"] == 0
    name = added(running, auth.url, auth={**known, "issuer": auth.issuer.url})
    assert running.post(f"/servers/{name}/login", {"device": device}).status_code == 200


def test_each_issuer_has_an_address_for_answers_of_its_own(
    running: Running, auth: AuthServer, honest: AuthServer
) -> None:
    """What was meant for one is not taken from another, and no client is registered for both."""
    homes: dict[str, str] = {}
    for each in (auth, honest):
        each.metadata = {"authorization_response_iss_parameter_supported": None}
        begun = begin(running, added(running, each.url)).json()
        homes[each.url] = begun["redirect_uri"]
        registered = next(asked for asked in each.issuer.asked if asked.path == "/register")
        assert begun["redirect_uri"] in json.loads(registered.body)["redirect_uris"]
    assert homes[auth.url] != homes[honest.url]
    name = added(running, auth.url)
    ended = visit(begin(running, name).json()["authorization_url"], goes_home=False)
    query = ended.partition("?")[2]
    for elsewhere in (homes[honest.url], urljoin(homes[honest.url], "/callback")):
        answer = running.post(f"/servers/{name}/login/answer", {"address": f"{elsewhere}?{query}"})
        assert answer.status_code == 400, answer.text
        assert httpx.get(f"{elsewhere}?{query}", trust_env=False).status_code == 400
    assert auth.counts["authorization_code"] == 0
    assert httpx.get(ended, trust_env=False).status_code == 200


def test_a_login_of_another_issuer_is_not_used_once_the_operator_names_one(
    running: Running, auth: AuthServer, honest: AuthServer
) -> None:
    name = added(running, auth.url)
    assert log_in(running, name).status_code == 200
    running.wait_for(name)
    calls, refreshed = len(auth.server.asked), auth.counts["refresh_token"]
    config = {"url": auth.url, "auth": {"type": "oauth", "issuer": honest.issuer.url}}
    assert running.post("/servers", {"name": name, "config": config, "replace": True}).status_code == 201
    until(lambda: row(running, name)["state"] in ("needs_login", "failed"), what=f"{name} to need a login")
    assert not any("authorization" in asked.headers for asked in auth.server.asked[calls:])
    assert auth.counts["refresh_token"] == refreshed
    assert "its entry says" in said(begin(running, name))


def test_of_several_authorization_servers_the_one_of_the_login_stays(
    running: Running, auth: AuthServer, thief: Site
) -> None:
    name = added(running, auth.url)
    assert log_in(running, name).status_code == 200
    running.wait_for(name)
    auth.resource_metadata = {"authorization_servers": [thief.url, auth.issuer.url]}
    assert log_in(running, name).status_code == 200
    named = added(running, auth.url, auth={"type": "oauth", "issuer": auth.issuer.url})
    assert log_in(running, named).status_code == 200
    assert thief.asked == []


def test_a_token_is_renewed_where_it_came_from_whatever_is_said_later(
    running: Running, auth: AuthServer, thief: Site
) -> None:
    name = added(running, auth.url)
    assert log_in(running, name).status_code == 200
    running.wait_for(name)
    auth.metadata = {"token_endpoint": f"{thief.url}/token", "revocation_endpoint": f"{thief.url}/revoke"}
    auth.resource_metadata = {"authorization_servers": [thief.url]}
    auth.end_access()
    assert "did look" in text(Wire(running.mcp).via("read", f"{name}:look"))
    assert auth.counts["refresh_token"] == 1
    assert running.post(f"/servers/{name}/logout", {"revoke": True}).status_code == 200
    assert thief.asked == []


# Where a token goes.


def test_a_token_goes_to_its_server_and_nowhere_else(running: Running, auth: AuthServer, thief: Site) -> None:
    name = added(running, auth.url)
    assert log_in(running, name).status_code == 200
    running.wait_for(name)
    where = urlsplit(auth.url)
    for target in (f"{thief.url}/mcp", f"http://localhost:{where.port}/mcp", "//evil.example/mcp"):
        auth.faults["/mcp"] = lambda asked, target=target: (307, {"location": target}, b"")
        text(Wire(running.mcp).via("read", f"{name}:look"))
    auth.faults.clear()
    assert [asked.headers.get("host") for asked in auth.server.asked if asked.headers["host"] != where.netloc] == []
    assert thief.asked == []


def test_a_server_that_moves_takes_no_token_along(running: Running, auth: AuthServer, thief: Site) -> None:
    name = added(running, auth.url)
    assert log_in(running, name).status_code == 200
    running.wait_for(name)
    moved = running.post("/servers", {"name": name, "config": {"url": f"{thief.url}/mcp"}, "replace": True})
    assert moved.status_code == 201
    until(lambda: thief.asked, what="the new address to be asked")
    until(lambda: row(running, name)["state"] == "failed", what="it to fail")
    assert not any("authorization" in asked.headers for asked in thief.asked)
    kept_its_secrets(auth, thief)


def test_a_server_that_refuses_a_good_token_for_ever_is_not_asked_for_ever(running: Running, auth: AuthServer) -> None:
    name = added(running, auth.url)
    assert log_in(running, name).status_code == 200
    running.wait_for(name)
    auth.faults["/mcp"] = lambda asked: as_json({}, 401, **{"www-authenticate": "Bearer"})
    asked, refreshed = len(auth.server.asked), auth.counts["refresh_token"]
    assert "upstream login" in text(Wire(running.mcp).via("read", f"{name}:look"))
    assert len(auth.server.asked) - asked <= 2
    assert auth.counts["refresh_token"] - refreshed <= 1


def test_a_write_is_not_repeated_after_an_answer_that_may_mean_that_it_was_done(
    running: Running, auth: AuthServer
) -> None:
    name = added(running, auth.url)
    assert log_in(running, name).status_code == 200
    running.wait_for(name)
    for status in (400, 403, 500, 502):
        auth.faults["/mcp"] = lambda asked, status=status: (status, {"www-authenticate": "Bearer"}, b"")
        before = len(auth.server.asked)
        text(Wire(running.mcp).via("write", f"{name}:change"))
        assert len(auth.server.asked) == before + 1
