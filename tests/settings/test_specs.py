"""What is configured for an upstream reaches the room that acts on it, whatever kind of upstream it is."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from mcpproxy_py.app.builtin_upstreams import server_specs, spec_of
from mcpproxy_py.core.oauth.options import AssertionSource, OAuthOptions
from mcpproxy_py.settings import ProviderSettings, ServerSettings, Settings, UpstreamSettings
from mcpproxy_py.upstream.spec import UpstreamSpec

SET = {
    "enabled": False,
    "timeout": 7.0,
    "max_concurrency": 3,
    "trust_annotations": False,
    "tools": {"x": "read"},
    "allow_tools": ["x", "y"],
    "deny_tools": ["y"],
    "confirm": "write",
    "confirm_by": "page",
    "result_tokens": 4000,
}
NOT_OF_THE_SPEC = {"tools", "result_tokens"}
"""What the part that connects has under another name, or has no use for."""


@pytest.mark.proves("UP-1")
@pytest.mark.parametrize("kind", [ServerSettings, ProviderSettings])
def test_everything_that_can_be_set_for_any_upstream_reaches_its_spec(kind: type[UpstreamSettings]) -> None:
    assert SET.keys() == UpstreamSettings.model_fields.keys(), "a new switch belongs into this test"
    reach = {"command": "x"} if kind is ServerSettings else {"object": "x:y"}
    spec = spec_of("s", kind.model_validate({**reach, **SET}))
    assert spec.overrides == {"x": (("read", None),)}
    for key in SET.keys() - NOT_OF_THE_SPEC:
        wanted = tuple(SET[key]) if isinstance(SET[key], list) else SET[key]  # type: ignore[arg-type]
        assert getattr(spec, key) == wanted


@pytest.mark.proves("UP-1")
def test_a_servers_own_keys_all_reach_its_spec() -> None:
    known = {field.name for field in fields(UpstreamSpec)}
    assert ServerSettings.model_fields.keys() - {*NOT_OF_THE_SPEC, "auth"} <= known


@pytest.mark.proves("UP-9")
def test_how_to_log_in_reaches_the_spec_and_what_is_configured_goes_before_what_is_found_out() -> None:
    def spec(**entry: Any) -> UpstreamSpec:
        server = {"url": "https://x.example/mcp", **entry}
        return server_specs(Settings.model_validate({"mcpServers": {"s": server}}))["s"]

    assert spec().oauth == OAuthOptions()
    assert spec(headers={"X-Key": "k"}).oauth == OAuthOptions()
    assert spec(headers={"authorization": "Basic x"}).oauth is None
    assert spec(auth={"type": "none"}).oauth is None
    assert spec(headers={"X-Key": "k"}, auth={"type": "headers"}).oauth is None
    bearer = spec(auth={"type": "bearer", "token": "sesame"})
    assert (bearer.oauth, dict(bearer.headers)) == (None, {"Authorization": "Bearer sesame"})
    machine = spec(auth={"type": "oauth", "grant": "client_credentials", "client_id": "me", "private_key": "PEM",
                         "issuer": "https://as.example", "scopes": ["a"], "resource": False})  # fmt: skip
    assert machine.oauth == OAuthOptions(
        client_id="me", issuer="https://as.example", grant="client_credentials", scopes=("a",), resource=False,
        signs=True, expected=True,
    )  # fmt: skip
    idp: dict[str, Any] = {
        "issuer": "https://idp.example",
        "client_id": "us",
        "client_secret": "s3same",
        "subject_token": "t0ken",
    }
    person = spec(auth={"type": "oauth", "grant": "identity_assertion", "client_id": "me", "client_secret": "PEM",
                        "issuer": "https://as.example", "identity_provider": idp})  # fmt: skip
    assert person.oauth is not None and person.oauth.identity_provider == AssertionSource(**idp)
    assert not {each for each in ("PEM", "s3same", "t0ken") if each in repr(person)}
    assert machine.private_key == "PEM"
    assert "PEM" not in repr(machine)


@pytest.mark.parametrize(
    "auth",
    [
        {"type": "bearer"}, {"type": "oauth", "token": "x"}, {"type": "none", "client_id": "x"},
        {"type": "oauth", "client_secret": "x"}, {"type": "oauth", "client_id": "x", "client_secret": "x"},
        {"type": "oauth", "grant": "client_credentials"}, {"type": "oauth", "prompt": "please"}, {"type": "magic"},
        {"type": "oauth", "client_id": "x", "issuer": "https://x", "client_secret": "x", "private_key": "x"},
        {"type": "oauth", "client_id": "x", "issuer": "https://x", "client_secret": "x", "grant": "identity_assertion"},
        {"type": "oauth", "client_id": "x", "issuer": "https://x", "client_secret": "x", "identity_provider": {
            "issuer": "https://idp.example", "client_id": "us", "subject_token": "t"}},
        {"type": "oauth", "client_id": "x", "issuer": "https://x", "grant": "identity_assertion", "identity_provider": {
            "issuer": "https://idp.example", "client_id": "us", "subject_token": "t"}},
    ],
)  # fmt: skip
def test_an_auth_that_could_not_work_or_would_tell_a_secret_to_anybody_is_refused(auth: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"auth|token|secret|client|grant|prompt|type|issuer"):
        ServerSettings.model_validate({"url": "https://x.example/mcp", "auth": auth})
    with pytest.raises(ValueError, match="stdio"):
        ServerSettings.model_validate({"command": "x", "auth": {"type": "none"}})
