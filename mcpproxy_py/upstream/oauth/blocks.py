"""What the SDK knows of OAuth: its models and helpers, for flows that are our own.

Importing `mcp` takes a third of a second, so this module is imported in a thread, when a server first needs a login.
Identifiers are taken as they were written, not as a model writes them: they are compared as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from mcp.client.auth import PKCEParameters
from mcp.client.auth import utils as sdk
from mcp.client.auth.exceptions import OAuthRegistrationError
from mcp.client.auth.oauth2 import check_registration_usable
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    ProtectedResourceMetadata,
)
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from pydantic import AnyUrl, BaseModel, ValidationError

from mcpproxy_py import __version__
from mcpproxy_py.core.oauth.values import AuthorizationServer, OAuthClient, ResourceDescription

M = TypeVar("M", bound=BaseModel)
NAME = "mcpproxy"


class SdkBlocks:
    """As `core.oauth.values.OAuthBlocks` wants them."""

    def resource_metadata_urls(self, challenged: str | None, server_url: str) -> list[str]:
        return sdk.build_protected_resource_metadata_discovery_urls(challenged, server_url)

    def server_metadata_urls(self, issuer: str | None, server_url: str) -> list[str]:
        return sdk.build_oauth_authorization_server_metadata_discovery_urls(issuer, server_url)

    def read_resource_metadata(self, body: bytes) -> ResourceDescription:
        said = _read(ProtectedResourceMetadata, body)
        scopes = said.get("scopes_supported")
        return ResourceDescription(
            said["resource"], tuple(said["authorization_servers"]), None if scopes is None else tuple(scopes)
        )

    def read_server_metadata(self, body: bytes) -> AuthorizationServer:
        """One without a page to log in serves machines; the SDK's model wants one all the same."""
        said = _object(body)
        pages = {"authorization_endpoint": said.get("authorization_endpoint") or said.get("token_endpoint")}
        _checked(OAuthMetadata, {**said, **pages})
        device = said.get("device_authorization_endpoint")
        return AuthorizationServer(
            issuer=said["issuer"],
            token_endpoint=said["token_endpoint"],
            authorization_endpoint=said.get("authorization_endpoint"),
            registration_endpoint=said.get("registration_endpoint"),
            revocation_endpoint=said.get("revocation_endpoint"),
            device_authorization_endpoint=device if isinstance(device, str) else None,
            scopes_supported=tuple(said.get("scopes_supported") or ()),
            token_endpoint_auth_methods=_maybe(said.get("token_endpoint_auth_methods_supported")),
            code_challenge_methods=_maybe(said.get("code_challenge_methods_supported")),
            takes_metadata_documents=said.get("client_id_metadata_document_supported") is True,
            names_itself=said.get("authorization_response_iss_parameter_supported") is True,
        )

    def registration(
        self, redirect_uris: tuple[str, ...], auth_method: str, grants: tuple[str, ...], scope: str | None
    ) -> dict[str, Any]:
        metadata = OAuthClientMetadata(
            client_name=NAME,
            software_id="mcpproxy-py",
            software_version=__version__,
            redirect_uris=[AnyUrl(each) for each in redirect_uris],
            token_endpoint_auth_method=cast("Any", auth_method),
            grant_types=list(grants),
            application_type="native" if all(_is_native(each) for each in redirect_uris) else "web",
            scope=scope,
        )
        body = metadata.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {**body, "redirect_uris": list(redirect_uris)}

    def read_client(self, body: bytes, asked_method: str) -> OAuthClient:
        said = _object(body)
        said.pop("issuer", None)
        found = OAuthClientInformationFull.model_validate(said) if said else None
        if found is None:
            raise ValueError("it names no client")
        found.token_endpoint_auth_method = found.token_endpoint_auth_method or asked_method
        try:
            check_registration_usable(found)
        except OAuthRegistrationError as error:
            raise ValueError(str(error)[:200]) from None
        uris = said.get("redirect_uris") or ()
        return OAuthClient(
            found.client_id, "registered", found.client_secret, found.token_endpoint_auth_method,
            tuple(each for each in uris if isinstance(each, str)), float(found.client_secret_expires_at or 0),
        )  # fmt: skip

    def is_metadata_url(self, url: str) -> bool:
        return sdk.is_valid_client_metadata_url(url)

    def resource_fits(self, server_url: str, resource: str) -> bool:
        return check_resource_allowed(resource_url_from_server_url(server_url), resource)

    def resource_of(self, server_url: str) -> str:
        return resource_url_from_server_url(server_url)

    def same_issuer(self, one: str, other: str) -> bool:
        return sdk.issuers_match(one, other)

    def pkce(self) -> tuple[str, str]:
        made = PKCEParameters.generate()
        return made.code_verifier, made.code_challenge


def _is_native(uri: str) -> bool:
    return (urlsplit(uri).hostname or "") in ("127.0.0.1", "::1", "localhost")


def _maybe(values: Any) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON") from None
    if not isinstance(found, dict):
        raise ValueError("it is no object")
    return {key: value for key, value in cast("Mapping[str, Any]", found).items() if value is not None}


def _read(model: type[M], body: bytes) -> dict[str, Any]:
    said = _object(body)
    _checked(model, said)
    return said


def _checked(model: type[M], said: Mapping[str, Any]) -> None:
    """Fields that are wrong are named; what stands in them is not repeated."""
    try:
        model.model_validate(said)
    except ValidationError as error:
        places = [".".join(map(str, each["loc"])) for each in error.errors()][:5]
        raise ValueError(f"{', '.join(place for place in places if place.isprintable())[:100]} is wrong") from None


BLOCKS = SdkBlocks()
