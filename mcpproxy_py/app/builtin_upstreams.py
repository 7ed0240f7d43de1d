"""The upstreams that live inside the gateway: the catalog, and the operator's own providers.

From what is configured for an upstream to what the upstream room wants, for every kind of upstream.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any, Final

from mcpproxy_py.core.oauth.options import AssertionSource, OAuthOptions
from mcpproxy_py.providers import Loader, installed
from mcpproxy_py.settings import ProviderSettings, ServerSettings, Settings, UpstreamSettings, check_name
from mcpproxy_py.upstream.spec import ShowsPages, UpstreamSpec
from mcpproxy_py.upstream.transports.in_process import InProcessServer


def spec_of(name: str, configured: UpstreamSettings, **other: Any) -> UpstreamSpec:
    """All that both have under the same name, so that a new switch reaches every kind; `other` goes before."""
    common = {field.name for field in fields(UpstreamSpec)} - {"name", *other}
    taken = {key: getattr(configured, key) for key in common if hasattr(configured, key)}
    return UpstreamSpec(name, **taken, **other)


WORK_DIR: Final = "work"
"""Below the data directory: where servers run that have no `cwd`."""


def server_specs(settings: Settings) -> dict[str, UpstreamSpec]:
    """The servers of the configuration."""
    missing, work_dir = settings.missing_secrets, str(settings.data_dir / WORK_DIR)
    pages = shows_pages(settings.surfaces)
    return {
        name: spec_of(
            name,
            server,
            missing_secret=missing.get(name),
            sessions_why=_why(server),
            work_dir=work_dir,
            shows_pages=pages,
            **_credentials(server),
        )
        for name, server in settings.servers.items()
    }


def shows_pages(surfaces: Collection[str]) -> ShowsPages:
    """Hosts show them on direct and on passthrough; the gate has none (SURF-10)."""
    if "direct" not in surfaces and "passthrough" not in surfaces:
        return "never"
    return "in_lists" if "gate" in surfaces else "always"


def _credentials(server: ServerSettings) -> dict[str, Any]:
    """What is sent with each request, and how to log in. A server whose `Authorization` is configured is not logged in
    to; one of which nothing is said may turn out to want it."""
    auth, headers = server.auth, dict(server.headers)
    has_its_own = any(name.lower() == "authorization" for name in headers)
    if server.url is None or (auth is None and has_its_own) or (auth is not None and auth.type in ("headers", "none")):
        return {"headers": headers}
    if auth is not None and auth.type == "bearer":
        return {"headers": {**headers, "Authorization": f"Bearer {auth.token}"}}
    if auth is None:
        return {"headers": headers, "oauth": OAuthOptions()}
    taken = {field.name for field in fields(OAuthOptions)} - {"signs", "expected", "identity_provider"}
    provider = auth.identity_provider
    options = OAuthOptions(
        **{name: getattr(auth, name) for name in taken}, signs=auth.private_key is not None, expected=True,
        identity_provider=None if provider is None else AssertionSource(**provider.model_dump()),
    )  # fmt: skip
    key = {"private_key": auth.private_key, "signing_algorithm": auth.signing_algorithm}
    return {"headers": headers, "oauth": options, **key}


def _why(server: ServerSettings) -> str:
    """Why its sessions are shared as they are configured to be, where the catalog knows."""
    if server.sessions == "auto" or server.command is None:
        return ""
    from mcpproxy_py.providers.catalog.recommended_sessions import recommended_sessions  # reads a file

    mode, why = recommended_sessions(server.command, server.args) or ("", "")
    return why if mode == server.sessions else ""


log = logging.getLogger(__name__)

CATALOG: Final = "catalog"


class BuiltinUpstreams:
    """What lives in here, made once: a provider that stays configured keeps what it remembers through a reload."""

    def __init__(self, catalog: InProcessServer, providers: Loader, found: Mapping[str, str] | None = None) -> None:
        """`found` are the installed providers, name to `module:object`; looked for once, because it takes a while."""
        self._catalog = catalog
        self._providers = providers
        self._found = installed() if found is None else found

    def specs(self, settings: Settings) -> dict[str, UpstreamSpec]:
        return {CATALOG: UpstreamSpec(CATALOG, transport="local"), **provider_specs(settings, self._found)}

    def served(self, specs: Mapping[str, UpstreamSpec]) -> dict[str, InProcessServer]:
        wanted = {name: spec.command or "" for name, spec in specs.items() if name != CATALOG}
        return {CATALOG: self._catalog, **self._providers.served(wanted)}


def provider_specs(settings: Settings, found: Mapping[str, str] | None = None) -> dict[str, UpstreamSpec]:
    """Every provider, configured or `found` as an installed package. `command` is its `module:object`.

    One that is configured without an object and not installed gets a spec all the same, so that it is shown as failed.
    """
    found = installed() if found is None else found
    unasked = {
        name: ProviderSettings() for name in found if name not in settings.providers and _may_have(name, settings)
    }
    return {
        name: spec_of(name, provider, transport="local", command=provider.object or found.get(name, ""))
        for name, provider in {**unasked, **settings.providers}.items()
    }


def _may_have(name: str, settings: Settings) -> bool:
    """A package cannot take a name that means something else here."""
    try:
        check_name(name)
    except ValueError as error:
        log.warning("the installed provider %r is not served: it needs %s", name, error)
        return False
    if name in settings.servers:
        log.warning("the installed provider %s is not served: a server has that name", name)
    return name not in settings.servers
