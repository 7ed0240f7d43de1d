"""Token requests and their answers: a code for a token, a refresh, a machine's own token, revocation."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import quote

from mcpproxy_py.core.oauth.discovery import (
    ASKS_FOR_JSON,
    Challenge,
    LoginContext,
    as_object,
    checked_scope,
    chosen_scope,
    discover,
    error_of,
    server_metadata,
)
from mcpproxy_py.core.oauth.errors import OAuthRefused, OAuthUnreachable
from mcpproxy_py.core.oauth.options import AssertionSource
from mcpproxy_py.core.oauth.values import (
    AssertionWanted,
    AuthorizationServer,
    Flow,
    HttpAnswer,
    HttpWanted,
    OAuthClient,
    OAuthTokens,
    SignatureWanted,
    StoredLogin,
)

MAX_TOKEN: Final = 16_384
"""More fits into no header that a server would take."""
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:"
ID_JAG: Final = f"{TOKEN_TYPE}id-jag"
MAX_LIFE: Final = 10 * 366 * 86_400
SIGNED: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_TOKEN: Final = re.compile(r"[!-~]+")
LOST_GRANT: Final = frozenset(("invalid_grant",))
LOST_CLIENT: Final = frozenset(("invalid_client", "unauthorized_client"))


def token_request(
    context: LoginContext, server: AuthorizationServer, client: OAuthClient, form: Mapping[str, str | None], what: str,
    url: str | None = None,
) -> Flow[HttpAnswer]:  # fmt: skip
    """Sent to this authorization server and nowhere else, by the client that belongs to it."""
    sent = {key: value for key, value in form.items() if value is not None}
    headers = dict(ASKS_FOR_JSON)
    match client.auth_method:
        case "client_secret_basic":
            pair = f"{quote(client.client_id, safe='')}:{quote(client.secret or '', safe='')}"
            headers["authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        case "client_secret_post":
            sent |= {"client_id": client.client_id, "client_secret": client.secret or ""}
        case "private_key_jwt":
            assertion: str = yield SignatureWanted(client.client_id, server.issuer)
            sent |= {"client_id": client.client_id, "client_assertion_type": SIGNED, "client_assertion": assertion}
        case _:
            sent["client_id"] = client.client_id
    url = context.rules.check(url or server.token_endpoint, what)
    return (yield HttpWanted("POST", url, what, headers, form=sent))


def granted(answer: HttpAnswer, before: OAuthTokens | None, asked_scope: str | None) -> OAuthTokens:
    """The tokens of an answer. Raises `OAuthRefused`, and `OAuthUnreachable` where the server only could not answer."""
    if answer.status >= 500 or answer.status == 429:
        raise OAuthUnreachable(f"the authorization server answered with HTTP status {answer.status}")
    found = as_object(answer.body)
    if answer.status != 200 or found is None or "error" in found:
        error, said = error_of(answer)
        if answer.status == 200 and not error:
            raise OAuthUnreachable("the authorization server answered with what is no token")
        if 300 <= answer.status < 400:
            said = "it redirects, which is not followed with a secret"
        raise OAuthRefused(f"the authorization server refused: {said}", error)
    if str(found.get("token_type") or "bearer").lower() != "bearer":
        raise OAuthRefused("the authorization server gave a token that is no bearer's")
    scope = checked_scope(found.get("scope")) or (before.scope if before is not None else asked_scope)
    refresh = _token(found.get("refresh_token"), "a refresh token") if found.get("refresh_token") else None
    return OAuthTokens(
        access=_token(found.get("access_token"), "a token"),
        obtained_at=answer.at,
        refresh=refresh or (before.refresh if before is not None else None),
        scope=scope,
        expires_at=_end(found.get("expires_in"), answer.at),
    )


def _token(value: object, what: str) -> str:
    if not isinstance(value, str) or not _TOKEN.fullmatch(value):
        raise OAuthRefused(f"the authorization server gave {what} that cannot be used")
    if len(value) > MAX_TOKEN:
        raise OAuthRefused(f"the authorization server gave {what} of more than {MAX_TOKEN} characters")
    return value


def _end(lasts: object, at: float) -> float | None:
    """When it is over. Where that is not said, a 401 says it; some servers write the number as a text."""
    if lasts is None:
        return None
    if isinstance(lasts, str) and re.fullmatch(r"[0-9]{1,10}", lasts):
        lasts = int(lasts)
    if isinstance(lasts, bool) or not isinstance(lasts, int | float) or not 0 < lasts <= MAX_LIFE:
        raise OAuthRefused("the authorization server gave a token with an expires_in that is no time to come")
    return at + lasts


def refresh(context: LoginContext, login: StoredLogin) -> Flow[StoredLogin]:
    """Raises `OAuthRefused`, whose `error` says whether the refresh token or the client is lost by it, and lets
    `OAuthUnreachable` through, which loses nothing."""
    tokens = login.tokens
    if tokens is None or tokens.refresh is None:
        raise OAuthRefused("there is no refresh token", "invalid_grant")
    form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh, "resource": login.resource}
    answer = yield from token_request(context, login.server, login.client, form, "the refresh")
    return replace(login, tokens=granted(answer, tokens, login.asked_scope))


def machine_login(context: LoginContext, challenge: Challenge | None, known: StoredLogin | None) -> Flow[StoredLogin]:
    """A token for this client itself, for which nobody is asked."""
    context.progress.on("begin")
    found = yield from discover(context, challenge, known)
    options = context.options
    if options.client_id is None:
        raise OAuthRefused(f"`auth` needs a client_id for the grant {options.grant}")
    method = "private_key_jwt" if options.signs else "client_secret_basic"
    offered = found.server.token_endpoint_auth_methods
    if not options.signs and offered and method not in offered and "client_secret_post" in offered:
        method = "client_secret_post"
    client = OAuthClient(options.client_id, "configured", options.client_secret, method)
    scope = chosen_scope(context, found, challenge, None)
    context.progress.on("answered")
    form = {"grant_type": "client_credentials", "scope": scope, "resource": found.resource}
    if options.grant == "identity_assertion":
        assertion: str = yield AssertionWanted(found.server.issuer, found.resource, scope)
        form |= {"grant_type": JWT_BEARER, "assertion": assertion}
    answer = yield from token_request(context, found.server, client, form, "the token")
    tokens = granted(answer, None, scope)
    context.progress.on("granted")
    return StoredLogin(context.server_url, found.server.issuer, found.server, client, found.resource, tokens, scope)


def identity_assertion(context: LoginContext, source: AssertionSource, wanted: AssertionWanted) -> Flow[str]:
    """Exchanges the person's token at the enterprise's identity provider (RFC 8693) for an assertion that the
    authorization server of an MCP server takes (ID-JAG, SEP-990). The token is sent to that provider only."""
    server = yield from server_metadata(context, source.issuer)
    method = "none" if source.client_secret is None else "client_secret_basic"
    offered = server.token_endpoint_auth_methods
    if source.client_secret is not None and offered and method not in offered and "client_secret_post" in offered:
        method = "client_secret_post"
    client = OAuthClient(source.client_id, "configured", source.client_secret, method)
    form = {
        "grant_type": TOKEN_EXCHANGE, "requested_token_type": ID_JAG, "audience": wanted.audience,
        "resource": wanted.resource, "scope": wanted.scope, "subject_token": source.subject_token,
        "subject_token_type": f"{TOKEN_TYPE}{source.subject_token_type}",
    }  # fmt: skip
    answer = yield from token_request(context, server, client, form, "the assertion of the identity provider")
    if answer.status >= 500 or answer.status == 429:
        raise OAuthUnreachable(f"the identity provider answered with HTTP status {answer.status}")
    found = as_object(answer.body)
    if answer.status != 200 or found is None:
        error, said = error_of(answer)
        raise OAuthRefused(f"the identity provider refused: {said}", error)
    if found.get("issued_token_type") != ID_JAG:
        raise OAuthRefused("the identity provider gave a token of another type than an ID-JAG")
    return _token(found.get("access_token"), "an assertion")


def revoke(context: LoginContext, login: StoredLogin) -> Flow[None]:
    """RFC 7009. Raises `OAuthRefused` where it cannot be done."""
    url, tokens = login.server.revocation_endpoint, login.tokens
    if url is None:
        raise OAuthRefused(f"{login.issuer} offers no revocation")
    pairs = [] if tokens is None else [("refresh_token", tokens.refresh), ("access_token", tokens.access)]
    for hint, token in pairs:
        if token is not None:
            form = {"token": token, "token_type_hint": hint}
            answer = yield from token_request(context, login.server, login.client, form, "the revocation", url)
            if answer.status != 200:
                raise OAuthRefused(f"the revocation was refused: {error_of(answer)[1]}")
