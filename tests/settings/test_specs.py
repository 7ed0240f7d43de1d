"""What is configured for an upstream reaches the room that acts on it, whatever kind of upstream it is."""

from __future__ import annotations

from dataclasses import fields

import pytest

from mcpproxy_py.app.builtin_upstreams import spec_of
from mcpproxy_py.settings import ProviderSettings, ServerSettings, UpstreamSettings
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
}


@pytest.mark.proves("UP-1")
@pytest.mark.parametrize("kind", [ServerSettings, ProviderSettings])
def test_everything_that_can_be_set_for_any_upstream_reaches_its_spec(kind: type[UpstreamSettings]) -> None:
    assert SET.keys() == UpstreamSettings.model_fields.keys(), "a new switch belongs into this test"
    reach = {"command": "x"} if kind is ServerSettings else {"object": "x:y"}
    spec = spec_of("s", kind.model_validate({**reach, **SET}))
    assert spec.overrides == {"x": (("read", None),)}
    for key in SET.keys() - {"tools"}:
        wanted = tuple(SET[key]) if isinstance(SET[key], list) else SET[key]  # type: ignore[arg-type]
        assert getattr(spec, key) == wanted


@pytest.mark.proves("UP-1")
def test_a_servers_own_keys_all_reach_its_spec() -> None:
    known = {field.name for field in fields(UpstreamSpec)}
    assert ServerSettings.model_fields.keys() - {"tools"} <= known
