"""A login with a person: from the challenge of a server to a token, in a browser or by a code on another device."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

from mcpproxy_py.core.oauth.addresses import shown
from mcpproxy_py.core.oauth.discovery import (
    DEVICE_GRANT,
    OFFLINE,
    Challenge,
    Discovered,
    LoginContext,
    as_object,
    chosen_scope,
    client_for,
    discover,
    error_of,
    refuse_mix_up,
    refuse_other_origin,
)
from mcpproxy_py.core.oauth.errors import OAuthRefused, OAuthUnreachable
from mcpproxy_py.core.oauth.tokens import granted, token_request
from mcpproxy_py.core.oauth.values import (
    AuthorizationServer,
    Flow,
    OAuthClient,
    OAuthTokens,
    PauseWanted,
    PersonWanted,
    StoredLogin,
)

S256: Final = "S256"
CODE_GRANTS: Final = ("authorization_code", "refresh_token")
DEVICE_GRANTS: Final = (DEVICE_GRANT, "refresh_token")
MAX_PARAMETER: Final = 8192
MAX_ANSWER: Final = 32_768
LONGEST_WAIT: Final = 900.0
FIRST_INTERVAL: Final = 5.0


class LoginSecrets(NamedTuple):
    """Made for one login: the state that its answer has to bring, and the two halves of PKCE."""

    state: str
    verifier: str
    challenge: str


def answer_of(address: str) -> Mapping[str, str]:
    """The parameters of the address that a browser was sent to. Raises `OAuthRefused`."""
    if len(address) > MAX_ANSWER:
        raise OAuthRefused("that address is too long")
    try:
        found = parse_qsl(urlsplit(address.strip()).query, keep_blank_values=True, max_num_fields=32)
    except ValueError:
        raise OAuthRefused("that is no address that a browser was sent to") from None
    names = [name for name, _ in found]
    if len(names) != len(set(names)):
        raise OAuthRefused("that address says something twice")
    return dict(found)


def person_login(
    context: LoginContext, challenge: Challenge | None, known: StoredLogin | None, secrets: LoginSecrets,
    redirect_uris: tuple[str, ...], now: float, *, device: bool = False,
) -> Flow[StoredLogin]:  # fmt: skip
    """`known` is what there is of a login before. Of the `redirect_uris` the first is used."""
    context.progress.on("begin")
    found = yield from discover(context, challenge, known)
    before = None
    if known is not None and challenge is not None and challenge.error == "insufficient_scope":
        before = union_of(known)
    scope = chosen_scope(context, found, challenge, before)
    if device and found.server.device_authorization_endpoint is None:
        raise OAuthRefused(f"{shown(found.server.issuer)} offers no login by a code; log in without --device")
    grants = DEVICE_GRANTS if device else CODE_GRANTS
    if device:
        refuse_mix_up(context, found.server, device=True)
    else:
        _must_do_pkce(found.server)
    if context.options.registers:  # for each issuer another address, so that no issuer gets the answer of another
        mark = hashlib.sha256(found.server.issuer.encode()).hexdigest()[:16]
        redirect_uris = tuple(urljoin(each, f"/{mark}{urlsplit(each).path}") for each in redirect_uris)
    client = yield from client_for(context, found, known, redirect_uris, scope, grants, now)
    ask = _by_device if device else _by_browser
    tokens = yield from ask(context, found, client, secrets, redirect_uris, scope)
    context.progress.on("granted")
    return StoredLogin(context.server_url, found.server.issuer, found.server, client, found.resource, tokens, scope)


def union_of(known: StoredLogin) -> str | None:
    """All that was asked for and all that was given."""
    given = known.tokens.scope if known.tokens is not None else None
    return " ".join(dict.fromkeys([*(known.asked_scope or "").split(), *(given or "").split()])) or None


def _must_do_pkce(server: AuthorizationServer) -> None:
    if not server.assumed and S256 not in (server.code_challenge_methods or ()):
        raise OAuthRefused(f"{shown(server.issuer)} does not say that it protects a code by PKCE with S256")


def _by_browser(
    context: LoginContext, found: Discovered, client: OAuthClient, secrets: LoginSecrets,
    redirect_uris: tuple[str, ...], scope: str | None,
) -> Flow[OAuthTokens]:  # fmt: skip
    redirect = redirect_uris[0]
    url = _authorization_url(context, found, client, secrets, redirect, scope)
    context.progress.on("person_asked")
    told: Mapping[str, str] = yield PersonWanted(url, redirect)
    code = checked_code(told, found.server, secrets)
    context.progress.on("answered")
    form = {
        "grant_type": "authorization_code", "code": code, "redirect_uri": redirect, "code_verifier": secrets.verifier,
        "resource": found.resource,
    }  # fmt: skip
    answer = yield from token_request(context, found.server, client, form, "the token")
    return granted(answer, None, scope)


def _authorization_url(
    context: LoginContext, found: Discovered, client: OAuthClient, secrets: LoginSecrets, redirect: str,
    scope: str | None,
) -> str:  # fmt: skip
    endpoint = found.server.authorization_endpoint
    if endpoint is None:
        raise OAuthRefused(f"{shown(found.server.issuer)} has no page to log in")
    parts = urlsplit(context.rules.check(endpoint, "its authorization_endpoint"))
    asked = {
        "response_type": "code", "client_id": client.client_id, "redirect_uri": redirect, "state": secrets.state,
        "code_challenge": secrets.challenge, "code_challenge_method": S256, "scope": scope, "resource": found.resource,
        "prompt": _prompt(context, scope),
    }  # fmt: skip
    ours = [(key, value) for key, value in asked.items() if value is not None]
    theirs = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] not in asked]
    return urlunsplit(parts._replace(query=urlencode([*theirs, *ours])))


def _prompt(context: LoginContext, scope: str | None) -> str | None:
    """OpenID Connect wants a person's consent for what goes on without them."""
    wanted = context.options.prompt
    if wanted == "auto":
        return "consent" if OFFLINE in (scope or "").split() else None
    return None if wanted == "omit" else wanted


def checked_code(told: Mapping[str, str], server: AuthorizationServer, secrets: LoginSecrets) -> str:
    """The code of an answer that is one to what was asked, and from whom it was asked (RFC 9207). Raises
    `OAuthRefused`."""
    if not hmac.compare_digest(told.get("state", "").encode(), secrets.state.encode()):
        raise OAuthRefused("that answer is not one to this login")
    issuer = told.get("iss")
    if issuer is not None and issuer != server.issuer:
        raise OAuthRefused(f"the answer is from {shown(issuer)}, and {shown(server.issuer)} was asked")
    if issuer is None and server.names_itself:
        raise OAuthRefused(f"the answer does not say that it is from {shown(server.issuer)}, as its answers do")
    if "error" in told:
        error, said = error_of_parameters(told)
        raise OAuthRefused(f"the login was refused: {said}", error)
    code = told.get("code", "")
    if not code or len(code) > MAX_PARAMETER:
        raise OAuthRefused("the answer holds no code")
    return code


def error_of_parameters(told: Mapping[str, str]) -> tuple[str, str]:
    code = "".join(each for each in told["error"][:64] if " " <= each <= "~")
    return code, code or "no reason was given"


# By a code on another device (RFC 8628).


def _by_device(
    context: LoginContext, found: Discovered, client: OAuthClient, secrets: LoginSecrets,
    redirect_uris: tuple[str, ...], scope: str | None,
) -> Flow[OAuthTokens]:  # fmt: skip
    server, what = found.server, "the code for another device"
    form = {"client_id": client.client_id, "scope": scope, "resource": found.resource}
    answer = yield from token_request(context, server, client, form, what, server.device_authorization_endpoint)
    said = as_object(answer.body)
    if answer.status != 200 or said is None:
        error, why = error_of(answer)
        raise OAuthRefused(f"{what} was refused: {why}", error)
    device_code, person = _device(context, server, said, what)
    context.progress.on("person_asked")
    yield person
    poll = {"grant_type": DEVICE_GRANT, "device_code": device_code, "resource": found.resource}
    pause, waited = _seconds(said.get("interval"), FIRST_INTERVAL, 60.0), 0.0
    while waited < person.lasts:
        yield PauseWanted(pause)
        waited += pause
        try:
            answer = yield from token_request(context, server, client, poll, "the token")
            error = error_of(answer)[0] if answer.status != 200 else ""
            if error not in ("authorization_pending", "slow_down"):
                tokens = granted(answer, None, scope)
                context.progress.on("answered")
                return tokens
            pause += FIRST_INTERVAL * (error == "slow_down")
        except OAuthUnreachable:
            pause = min(pause * 2, 60.0)
    raise OAuthRefused("nobody entered the code in time", "expired_token")


def _device(
    context: LoginContext, server: AuthorizationServer, said: Mapping[str, Any], what: str
) -> tuple[str, PersonWanted]:
    code, user_code, where = said.get("device_code"), said.get("user_code"), said.get("verification_uri")
    if not isinstance(code, str) or not isinstance(user_code, str) or not isinstance(where, str):
        raise OAuthRefused(f"the answer to {what} cannot be used")
    if not 0 < len(user_code) <= 64 or not user_code.isprintable() or len(code) > MAX_PARAMETER:
        raise OAuthRefused(f"the answer to {what} cannot be used")
    context.rules.check(where, "the page for the code")
    whole = said.get("verification_uri_complete")
    url = context.rules.check(whole, "the page for the code") if isinstance(whole, str) else where
    for page in (where, url):
        refuse_other_origin(context, server, "its page for the code", page)
    lasts = _seconds(said.get("expires_in"), LONGEST_WAIT, LONGEST_WAIT)
    return code, PersonWanted(url, user_code=user_code, verification_uri=where, lasts=lasts)


def _seconds(value: object, default: float, most: float) -> float:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return min(float(value), most) if fits and isinstance(value, int | float) else default
