"""Every key of the configuration has a rule for what loosens and what tightens, and each is tried both ways (UP-8)."""

from __future__ import annotations

from typing import Any

import pytest

from mcpproxy_py.settings.access.profiles import Profile
from mcpproxy_py.settings.changes import OF_A_PROFILE, OF_A_PROVIDER, OF_A_SERVER, OF_ANY, RULES, compared
from mcpproxy_py.settings.environment import known_keys, written_name
from mcpproxy_py.settings.models import MaskPattern, Settings
from mcpproxy_py.settings.servers import OverrideEntry, ProviderSettings, ServerSettings, UpstreamSettings

pytestmark = pytest.mark.proves("UP-8")

ONE, OTHER = "0123456789abcdef-one", "0123456789abcdef-other"
SQL = {"properties": {"sql": {"type": "string", "pattern": "^select"}}, "required": ["sql"]}
WIDER = {"properties": {"sql": {"type": "string", "pattern": "^(select|with)"}}, "required": ["sql"]}
OLD = {"required": ["dry_run"]}
L, T, N, B = {"looser"}, {"tighter"}, set[str](), {"looser", "tighter"}
NOTHING = object()


def made(values: dict[str, Any]) -> Settings:
    return Settings.model_validate(values)


def nested(key: str, value: Any) -> dict[str, Any]:
    first, _, rest = key.partition(".")
    if value is NOTHING:
        return {}
    return {first: nested(rest, value) if rest else value}


def directions(before: Settings, after: Settings) -> set[str]:
    return {change.direction for change in compared(before, after)}


PATTERN = {"name": "badge", "pattern": "B[0-9]+"}
OF_SETTINGS: dict[str, tuple[Any, Any, set[str], set[str]]] = {
    "listen": ("127.0.0.1:1", "0.0.0.0:1", L, T),
    "data_dir": ("/a", "/b", L, L),
    "surfaces": (["gate"], ["gate", "direct"], L, T),
    "require_mcp_auth": (True, False, L, T),
    "mcp_token": (ONE, NOTHING, L, T),
    "auth.public_url": ("https://a.example", "https://b.example", N, N),
    "sealing_keys": ([ONE], [ONE, OTHER], L, T),
    "api_key": (ONE, OTHER, N, N),
    "allowed_hosts": ([], ["*"], L, T),
    "allowed_origins": ([], ["https://x"], L, T),
    "intent_declaration.strict_server_validation": (True, False, L, T),
    "intent_declaration.unannotated": ("destructive", "allow", L, T),
    "intent_declaration.missing": ("refuse", "infer", L, T),
    "intent_declaration.host_confirm": ("destructive", "never", L, T),
    "intent_declaration.schema": ("nested", "flat", N, N),
    "discovery.detail": ("auto", "full", N, N),
    "catalog.registries": (["https://a.example"], ["https://b.example"], B, B),
    "capture_missing_capabilities": (True, False, N, N),
    "request_capability_description": ("a", "b", N, N),
    "activity.on_failure": ("refuse", "allow", L, T),
    "activity.max_payload_bytes": (65_536, 0, L, T),
    "activity.mask_patterns": ([PATTERN], [], L, T),
    "activity.database_url": ("postgresql://one", "postgresql://other", L, L),
    "activity.ack": ("commit", "local", L, T),
    "activity.retention_days": (NOTHING, 1, L, T),
    "activity.max_size_mb": (2, 1, L, T),
    "activity.max_journal_mb": (1, 2, L, T),
    "limits.max_body_bytes": (1, 2, L, T),
    "limits.max_body_values": (1, 2, L, T),
    "limits.max_result_bytes": (1, 2, L, T),
    "limits.max_result_values": (1, 2, L, T),
    "limits.max_argument_depth": (1, 2, L, T),
    "limits.max_sessions": (1, 2, L, T),
    "limits.max_in_flight": (1, 2, L, T),
    "limits.input_timeout": (1, 2, L, T),
    "limits.max_connections": (1, 2, L, T),
    "limits.max_connections_per_address": (1, 2, L, T),
    "limits.head_timeout": (1, 2, L, T),
    "limits.body_timeout": (1, 2, L, T),
    "limits.read_timeout": (1, 2, L, T),
    "limits.idle_timeout": (1, 2, L, T),
    "limits.per_principal.in_flight": (1, 2, L, T),
    "limits.per_principal.questions": (1, 2, L, T),
    "limits.per_principal.sessions": (1, 2, L, T),
    "limits.per_principal.streams": (1, 2, L, T),
    "limits.per_principal.subscriptions": (1, 2, L, T),
    "limits.per_principal.record_mb": (1, 2, L, T),
    "notify_desktop": (True, False, N, N),
    "limits.per_principal.kept_results_mb": (1, 2, L, T),
    "limits.result_tokens": (1000, 2000, N, N),
    "limits.kept_results_mb": (1, 2, L, T),
    "limits.kept_results_seconds": (1, 2, L, T),
    "shutdown_timeout": (1, 2, N, N),
    "log.level": ("info", "error", N, N),
    "log.format": ("text", "json", N, N),
}
ISSUER = {"issuer": "https://a.example", "audience": ["https://gate.example/mcp"]}
OF_JWT: dict[str, tuple[Any, Any, set[str], set[str]]] = {
    "issuer": ("https://a.example", "https://b.example", B, B),
    "audience": (["one"], ["one", "two"], L, T),
    "jwks": ("/keys/a.json", "/keys/b.json", L, L),
    "algorithms": (["RS256"], ["RS256", "ES256"], L, T),
    "principal_claim": ("sub", "email", L, L),
    "profile_claim": (NOTHING, "profile", L, L),
    "profile": ("one", NOTHING, L, L),
    "scopes_claim": (NOTHING, "roles", L, L),
    "operations": ({"mcp": ["read"]}, {"mcp": ["read", "write"]}, L, T),
    "servers_claim": ("servers", NOTHING, L, L),
    "required_scopes": (["mcp"], [], L, T),
    "login_scopes": (["r"], ["r", "w"], N, N),
    "leeway": (0, 60, L, T),
}
"""Of `auth.jwt`, where there is one before and after."""
OF_UPSTREAMS: dict[str, tuple[Any, Any, set[str], set[str]]] = {
    "enabled": (False, True, L, T),
    "timeout": (1, 2, L, T),
    "max_concurrency": (1, 2, L, T),
    "trust_annotations": (False, True, L, T),
    "tools": ({"t": "destructive"}, {"t": "read"}, L, T),
    "allow_tools": (["a"], ["a", "b"], L, T),
    "deny_tools": (["a", "{b}"], ["a"], L, T),
    "confirm": ("destructive", "none", L, T),
    "confirm_by": ("page", "either", L, T),
    "result_tokens": (1000, {"a*": 2000}, N, N),
}
OF_SERVERS: dict[str, tuple[Any, Any, set[str], set[str]]] = {
    "args": (["a"], ["b"], L, L),
    "env": ({"A": "a"}, {"A": "b"}, L, L),
    "cwd": ("/a", "/b", L, L),
    "lazy": (True, False, N, N),
    "trust": ("manual", "auto", L, T),
    "connect_timeout": (1, 2, N, N),
    "sessions": ("exclusive", "shared", L, T),
}
OF_PROFILES: dict[str, tuple[Any, Any, set[str], set[str]]] = {
    "servers": (["a"], ["a", "b"], L, T),
    "tools": (["a:get_*"], NOTHING, L, T),
    "operations": (["read"], ["read", "write"], L, T),
    "unannotated": ("destructive", "allow", L, T),
    "confirm": ("destructive", "none", L, T),
    "confirm_by": ("page", "either", L, T),
    "strict": (True, False, L, T),
    "description": ("a", "b", N, N),
}
WHOLE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "transport": ({"url": "http://x", "transport": "http"}, {"url": "http://x", "transport": "sse"}),
    "command": ({"command": "a"}, {"command": "b"}),
    "url": ({"url": "http://x"}, {"url": "http://y"}),
    "auth": (
        {"url": "http://x", "auth": {"type": "bearer", "token": "hunter2"}},
        {"url": "http://x", "auth": {"type": "bearer", "token": "hunter3"}},
    ),
    "headers": ({"url": "http://x", "headers": {"A": "hunter2"}}, {"url": "http://x", "headers": {"A": "hunter3"}}),
}


def test_every_key_has_a_rule_and_no_rule_is_of_no_key() -> None:
    assert RULES.keys() == {key for key, _ in known_keys()} - {"mcpServers", "providers", "profiles"}
    every = {model: {written_name(*each) for each in model.model_fields.items()} for model in
             (UpstreamSettings, ServerSettings, ProviderSettings, Profile)}  # fmt: skip
    assert OF_A_PROFILE.keys() == every[Profile]
    assert OF_ANY.keys() == every[UpstreamSettings]
    assert OF_ANY.keys() | OF_A_SERVER.keys() == every[ServerSettings]
    assert OF_ANY.keys() | OF_A_PROVIDER.keys() == every[ProviderSettings]


def test_what_is_compared_inside_a_list_has_no_part_that_no_rule_looks_at() -> None:
    assert {written_name(*each) for each in OverrideEntry.model_fields.items()} == {"when", "class"}
    assert {written_name(*each) for each in MaskPattern.model_fields.items()} == {"name", "pattern"}


def test_every_rule_is_tried_here() -> None:
    assert OF_SETTINGS.keys() | {f"auth.jwt.{key}" for key in OF_JWT} == RULES.keys()
    assert OF_UPSTREAMS.keys() == OF_ANY.keys()
    assert OF_PROFILES.keys() == OF_A_PROFILE.keys()
    assert OF_SERVERS.keys() | WHOLE.keys() == OF_A_SERVER.keys()


@pytest.mark.parametrize("key", OF_SETTINGS)
def test_what_a_setting_loosens_one_way_it_tightens_the_other(key: str) -> None:
    was, now, forth, back = OF_SETTINGS[key]
    before, after = made(nested(key, was)), made(nested(key, now))
    assert (directions(before, after), directions(after, before)) == (forth, back)
    assert {change.key for change in compared(before, after)} <= {key}
    assert not compared(before, before)


@pytest.mark.parametrize("key", OF_JWT)
def test_so_does_every_key_of_an_identity_provider(key: str) -> None:
    was, now, forth, back = OF_JWT[key]
    entries = ({**ISSUER, **nested(key, each)} for each in (was, now))
    before, after = (made({"auth": {"jwt": entry}}) for entry in entries)
    assert (directions(before, after), directions(after, before)) == (forth, back)
    assert {change.key for change in compared(before, after)} <= {f"auth.jwt.{key}"}


def test_a_provider_that_is_believed_from_now_on_loosens_and_asks_everybody_for_a_token() -> None:
    before, after = made({}), made({"auth": {"jwt": ISSUER}})
    assert {(each.direction, each.key) for each in compared(before, after)} == {
        ("looser", "auth.jwt.issuer"), ("tighter", "auth.jwt.issuer"),
    }  # fmt: skip
    assert directions(after, before) == B


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        ({}, {"mcp": ["destructive"]}, T),
        ({"mcp": ["read"]}, {}, L),
        ({"mcp": ["read"]}, {"mcp": ["read"], "mcp:write": ["write"]}, L),
        ({"mcp": ["read"]}, {"other": ["read"]}, B),
        ({"mcp": ["write"]}, {"mcp": ["read", "write"]}, N),
    ],
)
def test_scopes_are_compared_by_the_highest_that_each_allows(was: Any, now: Any, expected: set[str]) -> None:
    before, after = (made({"auth": {"jwt": {**ISSUER, "operations": each}}}) for each in (was, now))
    assert directions(before, after) == expected


@pytest.mark.parametrize("key", [*OF_UPSTREAMS, *OF_SERVERS])
def test_so_does_every_key_of_a_server(key: str) -> None:
    was, now, forth, back = {**OF_UPSTREAMS, **OF_SERVERS}[key]
    before, after = (made({"mcpServers": {"s": {"command": "x", key: value}}}) for value in (was, now))
    assert (directions(before, after), directions(after, before)) == (forth, back)
    assert {change.key for change in compared(before, after)} <= {f"mcpServers.s.{key}"}


@pytest.mark.parametrize("key", OF_UPSTREAMS)
def test_so_does_every_key_of_a_provider(key: str) -> None:
    was, now, forth, back = OF_UPSTREAMS[key]
    before, after = (made({"providers": {"p": {"object": "m:p", key: value}}}) for value in (was, now))
    assert (directions(before, after), directions(after, before)) == (forth, back)


@pytest.mark.parametrize("key", WHOLE)
def test_another_server_behind_a_name_is_a_loosening_and_no_value_of_it_is_said(key: str) -> None:
    before, after = (made({"mcpServers": {"s": server}}) for server in WHOLE[key])
    (change,) = compared(before, after)
    assert (change.direction, change.key) == ("looser", f"mcpServers.s.{key}")
    assert "hunter" not in change.says


def test_another_provider_of_a_name_is_a_loosening_and_one_that_goes_a_tightening() -> None:
    one, other = (made({"providers": {"p": f"m:{name}"}}) for name in ("one", "other"))
    assert directions(one, other) == L
    assert directions(one, made({})) == T
    assert directions(made({}), one) == N


def test_a_secret_is_never_in_a_sentence() -> None:
    before = made({"mcp_token": ONE, "api_key": ONE, "sealing_keys": [ONE],
                   "activity": {"database_url": "postgresql://u:hunter2@h"}})  # fmt: skip
    after = made({"mcp_token": OTHER, "api_key": OTHER, "sealing_keys": [OTHER]})
    assert not any(word in repr(compared(before, after)) for word in (ONE, OTHER, "hunter2"))


def override(*entries: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"class": tool_class, **({} if when is None else {"when": when})} for tool_class, when in entries]


READS = override(("read", SQL), ("destructive", None))


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        (READS, READS, N),
        (READS, override(("read", WIDER), ("destructive", None)), B),  # widened or narrowed: nobody can say
        (READS, override(("destructive", None)), T),
        (READS, override(("read", None)), L),
        (READS, override(("read", SQL), ("write", None)), L),
        (READS, override(("write", SQL), ("destructive", None)), T),
        (READS, override(("read", SQL), ("write", OLD), ("destructive", None)), L),
        (READS, override(("destructive", OLD), ("read", SQL), ("destructive", None)), T),
        (READS, override(("destructive", SQL), ("read", SQL), ("destructive", None)), T),  # the second never decides
        # Reordered: which decides where both hold.
        (override(("destructive", OLD), ("read", SQL), ("destructive", None)),
         override(("read", SQL), ("destructive", OLD), ("destructive", None)), L),
        (override(("read", OLD), ("read", SQL), ("destructive", None)),
         override(("read", SQL), ("read", OLD), ("destructive", None)), N),
        # Fewer destructive entries.
        (override(("destructive", OLD), ("write", None)), override(("write", None)), L),
        # Before or after: as its server says, which may be anything.
        (None, "destructive", T),
        (None, "read", L),
        (None, "write", B),
        (None, READS, B),
        ("read", None, T),
        ("destructive", None, L),
        ("read", "destructive", T),
    ],
)  # fmt: skip
def test_overrides_are_compared_by_what_they_can_say_of_the_same_arguments(
    was: Any, now: Any, expected: set[str]
) -> None:
    before, after = (
        made({"mcpServers": {"s": {"command": "x", "tools": {} if each is None else {"t": each}}}})
        for each in (was, now)
    )
    assert directions(before, after) == expected
    swapped = {"looser": "tighter", "tighter": "looser"}
    assert directions(after, before) == {swapped[direction] for direction in expected}


def with_profile(**values: Any) -> Settings:
    given = {key: value for key, value in {"servers": ["a"], **values}.items() if value is not NOTHING}
    return made({"profiles": {"frontend": given}})


@pytest.mark.proves("SURF-12")
@pytest.mark.parametrize("key", OF_PROFILES)
def test_what_a_profile_loosens_one_way_it_tightens_the_other(key: str) -> None:
    was, now, forth, back = OF_PROFILES[key]
    before, after = with_profile(**{key: was}), with_profile(**{key: now})
    assert (directions(before, after), directions(after, before)) == (forth, back)
    assert {change.key for change in compared(before, after)} <= {f"profiles.frontend.{key}"}


@pytest.mark.proves("SURF-12")
@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        (["g*"], ["github:delete_repo"], {"looser", "tighter"}),  # as one text, the first would mean the second
        (["get_*"], ["a:get_x"], {"tighter"}),
        (["a:get_x"], ["A:GET_X"], set()),
        (["*:get_*"], ["get_*"], set()),
        (["a:*", "b:*"], ["b:*", "a:*"], set()),
    ],
)
def test_globs_of_a_profile_are_compared_by_their_parts(was: list[str], now: list[str], said: set[str]) -> None:
    assert directions(with_profile(tools=was), with_profile(tools=now)) == said


@pytest.mark.proves("SURF-12")
def test_a_profile_that_comes_is_on_record_and_one_that_goes_takes_what_it_gave() -> None:
    assert directions(made({}), with_profile()) == L
    assert directions(with_profile(), made({})) == T
