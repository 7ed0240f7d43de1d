"""From what is configured for an upstream to what the upstream room wants, for every kind of upstream."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from mcpproxy_py.settings import Handling, Settings
from mcpproxy_py.upstream.spec import UpstreamSpec


def spec_of(name: str, configured: Handling, **other: Any) -> UpstreamSpec:
    """All that both have under the same name, so that a new switch reaches every kind; `other` goes before."""
    common = {field.name for field in fields(UpstreamSpec)} - {"name", *other}
    taken = {key: getattr(configured, key) for key in common if hasattr(configured, key)}
    return UpstreamSpec(name, **taken, **other)


def server_specs(settings: Settings) -> dict[str, UpstreamSpec]:
    """The servers of the configuration."""
    return {name: spec_of(name, server) for name, server in settings.servers.items()}
