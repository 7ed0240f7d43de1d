"""What the operator says of one server's login.

By itself, because every server's entry is read with it; the rest of OAuth comes with the first server that may need a
login (PERF-6).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Grant = Literal["authorization_code", "client_credentials", "identity_assertion"]
Prompt = Literal["auto", "omit", "consent", "login", "select_account"]


@dataclass(frozen=True, slots=True)
class AssertionSource:
    """The enterprise's identity provider, and the token that it exchanges for an assertion (SEP-990)."""

    issuer: str
    client_id: str
    subject_token: str = field(repr=False)
    client_secret: str | None = field(default=None, repr=False)
    subject_token_type: Literal["id_token", "refresh_token"] = "id_token"


@dataclass(frozen=True, slots=True)
class OAuthOptions:
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    client_metadata_url: str | None = None
    issuer: str | None = None
    scopes: tuple[str, ...] | None = None
    grant: Grant = "authorization_code"
    identity_provider: AssertionSource | None = None
    """For the grant `identity_assertion`."""
    signs: bool = False
    """There is a private key to show who we are with."""
    resource: bool = True
    prompt: Prompt = "auto"
    redirect_uri: str | None = None
    expected: bool = False
    """It is configured that this server wants a login, and not found out."""

    @property
    def registers(self) -> bool:
        """Whether the gateway registers a client of its own, and so chooses where answers come in."""
        return self.client_id is None and self.client_metadata_url is None and self.redirect_uri is None
