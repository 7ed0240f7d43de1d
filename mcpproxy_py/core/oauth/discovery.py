"""From a server that answers 401 to the authorization server that it believes, and who we are there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

from mcpproxy_py.core.oauth.addresses import AddressRules, origin, shown
from mcpproxy_py.core.oauth.errors import NoLoginOffered, OAuthRefused
from mcpproxy_py.core.oauth.options import OAuthOptions
from mcpproxy_py.core.oauth.states import LoginProgress
from mcpproxy_py.core.oauth.values import (
    AuthorizationServer,
    Flow,
    HttpAnswer,
    HttpWanted,
    OAuthBlocks,
    OAuthClient,
    ResourceDescription,
    StoredLogin,
)

MAX_CHALLENGE: Final = 8192
MAX_SCOPE: Final = 4096
MAX_ISSUERS: Final = 16
MAX_PLACES: Final = 6
ASKS_FOR_JSON: Final = {"accept": "application/json"}
OFFLINE: Final = "offline_access"
DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
_PARAMETER: Final = re.compile(r'([A-Za-z][A-Za-z0-9_-]*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))')
_ERROR: Final = re.compile(r"[!#-\[\]-~ ]{1,64}")
_SCOPES: Final = re.compile(r"[!#-\[\]-~]+(?: [!#-\[\]-~]+)*")


class Challenge(NamedTuple):
    """What a `WWW-Authenticate` says (RFC 6750, RFC 9728)."""

    resource_metadata: str | None = None
    scope: str | None = None
    error: str = ""


def read_challenge(header: str) -> Challenge:
    """Of several schemes in one header the parameters of the last that has one count; all are for a bearer."""
    found = {
        key.lower(): re.sub(r"\\(.)", r"\1", quoted) if quoted else bare
        for key, quoted, bare in _PARAMETER.findall(header[:MAX_CHALLENGE])
    }
    return Challenge(found.get("resource_metadata"), checked_scope(found.get("scope")), found.get("error", ""))


def checked_scope(scope: object) -> str | None:
    """A scope as RFC 6749 writes it; anything else is as good as none."""
    if not isinstance(scope, str) or len(scope) > MAX_SCOPE:
        return None
    scope = " ".join(dict.fromkeys(scope.split()))
    return scope if _SCOPES.fullmatch(scope) else None


def union(one: str | None, other: str | None) -> str | None:
    """Both, each scope once, in this order."""
    return " ".join(dict.fromkeys([*(one or "").split(), *(other or "").split()])) or None


def as_object(body: bytes) -> Mapping[str, Any] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def error_of(answer: HttpAnswer) -> tuple[str, str]:
    """The code of an OAuth error, and what to tell a person. What a server writes besides is not repeated: it may hold
    what we sent."""
    found = as_object(answer.body) or {}
    error = found.get("error")
    code = error if isinstance(error, str) and _ERROR.fullmatch(error) else ""
    return code, code or f"HTTP status {answer.status}"


@dataclass(frozen=True, slots=True)
class LoginContext:
    """What all flows of one server go by."""

    server_url: str
    rules: AddressRules
    options: OAuthOptions
    blocks: OAuthBlocks
    progress: LoginProgress


class Discovered(NamedTuple):
    server: AuthorizationServer
    resource: str | None
    scopes_supported: tuple[str, ...] | None


def discover(context: LoginContext, challenge: Challenge | None, known: StoredLogin | None) -> Flow[Discovered]:
    """Asks the server whom it believes, and that one where its endpoints are. `known` is preferred if the server still
    names it."""
    resource = yield from _resource_metadata(context, challenge)
    issuer = _issuer(context, resource, known)
    server = yield from server_metadata(context, issuer)
    if context.options.issuer is not None and not context.blocks.same_issuer(server.issuer, context.options.issuer):
        raise OAuthRefused(f"the server believes {shown(server.issuer)}, and its entry says {context.options.issuer}")
    for name, url in server.endpoints().items():
        context.rules.check(url, f"its {name}")
    refuse_mix_up(context, server)
    wanted = None
    if context.options.resource:
        wanted = resource.resource if resource is not None else context.blocks.resource_of(context.server_url)
    return Discovered(server, wanted, resource.scopes_supported if resource is not None else None)


def refuse_mix_up(context: LoginContext, server: AuthorizationServer, *, device: bool = False) -> None:
    """Refuse a login whose code another authorization server may have issued (RFC 9700, section 4.4).

    The issuer is proved by `iss` in the answer (RFC 9207), or configured. A login by a device code has no answer.
    """
    options = context.options
    if options.issuer is not None or (server.names_itself and not device):
        return
    for name, url in server.endpoints().items():
        refuse_other_origin(context, server, f"its {name}", url)
    if options.client_id is not None or options.client_metadata_url is not None:
        raise OAuthRefused(
            f"{shown(server.issuer)} does not prove that an answer is its own (`iss`), and the configured client may "
            f"belong to another authorization server. If it belongs to this one, {_trusting(server)}"
        )


def refuse_other_origin(context: LoginContext, server: AuthorizationServer, what: str, url: str) -> None:
    """Only the operator can say that an address of another origin belongs to this authorization server."""
    if context.options.issuer is None and origin(url) != origin(server.issuer):
        raise OAuthRefused(
            f"the authorization server is at {origin_of(server.issuer)}, and {what} is at {origin_of(url)}: one of "
            f"them could get a code that is meant for the other. If you trust both, {_trusting(server)}"
        )


def _trusting(server: AuthorizationServer) -> str:
    return f'add "issuer": "{shown(server.issuer)}" to `auth` (of the type oauth) in the server\'s entry'


def _resource_metadata(context: LoginContext, challenge: Challenge | None) -> Flow[ResourceDescription | None]:
    told = challenge.resource_metadata if challenge is not None else None
    if told is not None and origin(context.rules.check(told, "the address of its metadata")) != origin(
        context.server_url
    ):
        raise OAuthRefused(f"its metadata is on another origin, which is not asked: {shown(told)}")
    failed = unreadable = ""
    for url in context.blocks.resource_metadata_urls(told, context.server_url)[:MAX_PLACES]:
        what = "the metadata of the server"
        answer: HttpAnswer = yield HttpWanted("GET", context.rules.check(url, what), what, ASKS_FOR_JSON)
        if answer.status == 200:
            try:
                found = context.blocks.read_resource_metadata(answer.body)
            except ValueError as error:
                unreadable = f"{what} at {shown(url)} cannot be read: {error}"
                if url == told:
                    break
                continue
            if not context.blocks.resource_fits(context.server_url, found.resource):
                raise OAuthRefused(f"{what} is that of another one, {shown(found.resource)}")
            return found
        if answer.status >= 500 or answer.status == 429:
            failed = f"{what} cannot be had: HTTP status {answer.status}"
    if failed or (unreadable and told is not None):
        raise OAuthRefused(failed or unreadable)
    return None


def _issuer(context: LoginContext, resource: ResourceDescription | None, known: StoredLogin | None) -> str | None:
    if resource is None:
        return None
    offered = resource.authorization_servers[:MAX_ISSUERS]
    wanted = [context.options.issuer, known.issuer if known is not None else None]
    for each in wanted:
        for issuer in offered:
            if each is not None and context.blocks.same_issuer(issuer, each):
                return issuer
    if context.options.issuer is not None:
        raise OAuthRefused(f"the server believes {shown(offered[0])}, and its entry says {context.options.issuer}")
    return offered[0]


def server_metadata(context: LoginContext, issuer: str | None) -> Flow[AuthorizationServer]:
    what = "the metadata of the authorization server"
    expected = issuer if issuer is not None else origin_of(context.server_url)
    context.rules.check(expected, "the authorization server")
    unreadable = ""
    for url in context.blocks.server_metadata_urls(issuer, context.server_url)[:MAX_PLACES]:
        answer: HttpAnswer = yield HttpWanted("GET", context.rules.check(url, what), what, ASKS_FOR_JSON)
        if answer.status == 200:
            try:
                found = context.blocks.read_server_metadata(answer.body)
            except ValueError as error:
                unreadable = f"{what} at {shown(url)} cannot be read: {error}"
                continue
            if not context.blocks.same_issuer(found.issuer, expected):
                raise OAuthRefused(f"{what} at {shown(url)} is that of another one, {shown(found.issuer)}")
            return found
        if answer.status >= 500 or answer.status == 429:
            raise OAuthRefused(f"{what} cannot be had: HTTP status {answer.status}")
    if unreadable:
        raise OAuthRefused(unreadable)
    if issuer is not None:
        raise OAuthRefused(f"the authorization server {shown(issuer)} has no metadata")
    if not context.options.expected:
        raise NoLoginOffered("it says of no place to log in")
    return AuthorizationServer(
        issuer=expected, authorization_endpoint=f"{expected}/authorize", token_endpoint=f"{expected}/token",
        registration_endpoint=f"{expected}/register", assumed=True,
    )  # fmt: skip


def origin_of(url: str) -> str:
    """As an issuer is written: without a port that goes without saying."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2].lower()}"


def chosen_scope(
    context: LoginContext, found: Discovered, challenge: Challenge | None, before: str | None
) -> str | None:
    """What is asked for: what the operator says, else what the server asked for, else all that it has; and all that
    was asked for `before`, since a permission more must not cost those that were given."""
    if context.options.scopes is not None:
        scope = checked_scope(" ".join(context.options.scopes))
    elif challenge is not None and challenge.scope is not None:
        scope = challenge.scope
    else:
        scope = checked_scope(" ".join(found.scopes_supported)) if found.scopes_supported else None
    scope = union(before, scope)
    offers = OFFLINE in found.server.scopes_supported and context.options.grant == "authorization_code"
    return union(scope, OFFLINE) if scope is not None and offers else scope


def client_for(
    context: LoginContext, found: Discovered, known: StoredLogin | None, redirect_uris: tuple[str, ...],
    scope: str | None, grants: tuple[str, ...], now: float,
) -> Flow[OAuthClient]:  # fmt: skip
    """Who we are there: by a document of ours, by configuration, or by registration, in this order."""
    options, server = context.options, found.server
    if options.client_metadata_url is not None and server.takes_metadata_documents:
        if not context.blocks.is_metadata_url(options.client_metadata_url):
            raise OAuthRefused("client_metadata_url has to be an https address with a path")
        return OAuthClient(options.client_metadata_url, "document", redirect_uris=redirect_uris)
    if options.client_id is not None:
        method = _method_of(server, options)
        return OAuthClient(options.client_id, "configured", options.client_secret, method, redirect_uris)
    if known is not None and _still_good(context, known, server, redirect_uris, now):
        return known.client
    if server.registration_endpoint is None:
        raise OAuthRefused(
            f"{shown(server.issuer)} registers nobody by itself: register a client there, and put its client_id into "
            "`auth` of the server's entry"
        )
    context.progress.on("client_unknown")
    return (yield from _register(context, server, redirect_uris, scope, grants))


def _still_good(
    context: LoginContext, known: StoredLogin, server: AuthorizationServer, redirect_uris: tuple[str, ...], now: float
) -> bool:
    client = known.client
    return (
        client.origin == "registered"
        and context.blocks.same_issuer(known.issuer, server.issuer)
        and set(redirect_uris) <= set(client.redirect_uris)
        and not 0 < client.secret_expires_at <= now
    )


def _method_of(server: AuthorizationServer, options: OAuthOptions) -> str:
    """How a configured client shows that it is the one."""
    offered = server.token_endpoint_auth_methods
    if options.signs:
        return "private_key_jwt"
    if options.client_secret is None:
        return "none"
    return next((each for each in ("client_secret_basic", "client_secret_post") if each in (offered or ())),
                "client_secret_basic")  # fmt: skip


def _register(
    context: LoginContext, server: AuthorizationServer, redirect_uris: tuple[str, ...], scope: str | None,
    grants: tuple[str, ...],
) -> Flow[OAuthClient]:  # fmt: skip
    what, offered = "the registration", server.token_endpoint_auth_methods
    methods = ("none", "client_secret_basic", "client_secret_post")
    method = next((each for each in methods if offered is None or each in offered), "none")
    body = context.blocks.registration(redirect_uris, method, grants, scope)
    url = server.registration_endpoint or ""
    answer: HttpAnswer = yield HttpWanted("POST", context.rules.check(url, what), what, ASKS_FOR_JSON, json=body)
    if answer.status not in (200, 201):
        error, said = error_of(answer)
        raise OAuthRefused(f"{what} was refused: {said}", error)
    try:
        return context.blocks.read_client(answer.body, method)
    except ValueError as error:
        raise OAuthRefused(f"the answer to {what} cannot be used: {error}") from None
