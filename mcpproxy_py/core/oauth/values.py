"""OAuth towards a server, as values: what is to be sent, what came back, what is kept. No value shows a secret."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal, Protocol, TypeVar

ClientOrigin = Literal["document", "configured", "registered"]

EARLY: Final = 60.0
"""Seconds before its end at which a token is refreshed, or a fifth of its life where that is less."""


# What a flow wants.


@dataclass(frozen=True, slots=True)
class HttpWanted:
    """One request. No redirect of it is followed."""

    method: Literal["GET", "POST"]
    url: str = field(repr=False)
    what: str
    """For messages: what is asked for."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    form: Mapping[str, str] | None = field(default=None, repr=False)
    json: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """`at` is when it came, in seconds since 1970 by the clock of who sent the request."""

    status: int
    body: bytes = field(repr=False)
    at: float
    challenge: str = ""
    """Its `WWW-Authenticate`."""


@dataclass(frozen=True, slots=True)
class PersonWanted:
    """Somebody has to open `url`. With a `user_code` they enter it there and nothing is sent back for them; else the
    answer is the parameters with which their browser is sent to `redirect_uri`."""

    url: str
    redirect_uri: str = ""
    user_code: str = ""
    verification_uri: str = ""
    lasts: float = 600.0


@dataclass(frozen=True, slots=True)
class SignatureWanted:
    """A signed assertion of who this client is, for this audience (RFC 7523)."""

    client_id: str
    audience: str


@dataclass(frozen=True, slots=True)
class AssertionWanted:
    """An assertion of the enterprise's identity provider (ID-JAG) for this authorization server and resource."""

    audience: str
    resource: str | None
    scope: str | None


@dataclass(frozen=True, slots=True)
class PauseWanted:
    seconds: float


Wanted = HttpWanted | PersonWanted | SignatureWanted | AssertionWanted | PauseWanted
T = TypeVar("T")
Flow = Generator[Wanted, Any, T]
"""A flow yields what it wants, is sent what came of it, and returns its result. It raises `OAuthRefused`, and lets
`OAuthUnreachable` through."""


# What authorization servers and protected resources say of themselves, checked.


@dataclass(frozen=True, slots=True)
class ResourceDescription:
    """RFC 9728, as it was written: identifiers are compared as they are."""

    resource: str
    authorization_servers: tuple[str, ...]
    scopes_supported: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class AuthorizationServer:
    """RFC 8414 or OpenID Connect Discovery, or what the first revision of MCP took for granted."""

    issuer: str
    token_endpoint: str
    authorization_endpoint: str | None = None
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    device_authorization_endpoint: str | None = None
    scopes_supported: tuple[str, ...] = ()
    token_endpoint_auth_methods: tuple[str, ...] | None = None
    code_challenge_methods: tuple[str, ...] | None = None
    takes_metadata_documents: bool = False
    names_itself: bool = False
    """It says that it puts `iss` into its answers (RFC 9207)."""
    assumed: bool = False
    """It has no metadata; its endpoints are where they used to be."""

    def endpoints(self) -> Mapping[str, str]:
        found = {
            "token_endpoint": self.token_endpoint, "authorization_endpoint": self.authorization_endpoint,
            "registration_endpoint": self.registration_endpoint, "revocation_endpoint": self.revocation_endpoint,
            "device_authorization_endpoint": self.device_authorization_endpoint,
        }  # fmt: skip
        return {name: url for name, url in found.items() if url is not None}


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """Who we are to one authorization server."""

    client_id: str
    origin: ClientOrigin
    secret: str | None = field(default=None, repr=False)
    auth_method: str = "none"
    redirect_uris: tuple[str, ...] = ()
    secret_expires_at: float = 0.0
    """0: never."""


@dataclass(frozen=True, slots=True)
class OAuthTokens:
    access: str = field(repr=False)
    obtained_at: float
    refresh: str | None = field(default=None, repr=False)
    scope: str | None = None
    expires_at: float | None = None
    """`None`: it was not said, so its end is found out by a 401."""

    @property
    def refresh_at(self) -> float | None:
        if self.expires_at is None:
            return None
        return self.expires_at - min(EARLY, (self.expires_at - self.obtained_at) / 5)

    def fresh(self, now: float) -> bool:
        """Whether it need not be refreshed yet."""
        return self.refresh_at is None or now < self.refresh_at

    def alive(self, now: float) -> bool:
        return self.expires_at is None or now < self.expires_at


@dataclass(frozen=True, slots=True)
class StoredLogin:
    """All that is kept of a login, so that nothing has to be found out again. It holds for one server and one issuer:
    it is used for `server_url` and nothing else."""

    server_url: str
    issuer: str
    server: AuthorizationServer
    client: OAuthClient
    resource: str | None = None
    tokens: OAuthTokens | None = None
    asked_scope: str | None = None
    """What was asked for last, which a step-up adds to."""

    def without_tokens(self) -> StoredLogin:
        return replace(self, tokens=None)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def stored_login(data: Mapping[str, Any]) -> StoredLogin:
    """From `as_json`. Raises `ValueError` for anything else."""
    try:
        rest = dict(data)
        server, client, tokens = dict(rest.pop("server")), dict(rest.pop("client")), rest.pop("tokens")
        for key in ("scopes_supported", "token_endpoint_auth_methods", "code_challenge_methods"):
            server[key] = None if server[key] is None else tuple(server[key])
        client["redirect_uris"] = tuple(client["redirect_uris"])
        kept = None if tokens is None else OAuthTokens(**tokens)
        return StoredLogin(**rest, server=AuthorizationServer(**server), client=OAuthClient(**client), tokens=kept)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("not a stored login") from error


class OAuthBlocks(Protocol):
    """What the SDK knows of formats and addresses, handed in by who may import it. The readers raise `ValueError`."""

    def resource_metadata_urls(self, challenged: str | None, server_url: str) -> list[str]: ...
    def server_metadata_urls(self, issuer: str | None, server_url: str) -> list[str]: ...
    def read_resource_metadata(self, body: bytes) -> ResourceDescription: ...
    def read_server_metadata(self, body: bytes) -> AuthorizationServer: ...
    def registration(
        self, redirect_uris: tuple[str, ...], auth_method: str, grants: tuple[str, ...], scope: str | None
    ) -> dict[str, Any]: ...
    def read_client(self, body: bytes, asked_method: str) -> OAuthClient: ...
    def is_metadata_url(self, url: str) -> bool: ...
    def resource_fits(self, server_url: str, resource: str) -> bool: ...
    def resource_of(self, server_url: str) -> str: ...
    def same_issuer(self, one: str, other: str) -> bool: ...
