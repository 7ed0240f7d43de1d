"""What a change of the configuration means: what it loosens, and what of it has to wait for a restart. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mcpproxy_py.settings.models import Settings
from mcpproxy_py.settings.servers import ServerSettings

ASKS_MORE: Final[Mapping[str, int]] = {"none": 0, "destructive": 1, "write": 2}
"""`confirm: write` asks for destructive calls too."""
STRICTNESS: Final[Mapping[str, int]] = {
    "allow": 0, "read": 0, "infer": 0, "write": 1, "refuse": 1, "destructive": 2,
}  # fmt: skip
FIXED_AT_START: Final = (
    "listen", "require_mcp_auth", "mcp_token", "sealing_keys", "api_key", "allowed_hosts", "allowed_origins",
    "activity", "limits", "shutdown_timeout", "log",
)  # fmt: skip


def needs_restart(old: Settings, new: Settings) -> list[str]:
    """Keys whose change is not applied while running."""
    return [key for key in FIXED_AT_START if getattr(old, key) != getattr(new, key)]


def loosened(old: Settings, new: Settings) -> list[str]:
    """Sentences about everything that this change permits and that was refused before (UP-8)."""
    return [*_loosened_rules(old, new), *_loosened_servers(old.servers, new.servers)]


def _loosened_rules(old: Settings, new: Settings) -> Iterator[str]:
    before, after = old.intent_declaration, new.intent_declaration
    if before.strict_server_validation and not after.strict_server_validation:
        yield "intent_declaration.strict_server_validation is off: contradictions warn instead of refusing"
    for key in ("unannotated", "missing"):
        if _lower(getattr(before, key), getattr(after, key)):
            yield f"intent_declaration.{key} went from {getattr(before, key)} to {getattr(after, key)}"
    for pattern in old.activity.mask_patterns:
        if pattern not in new.activity.mask_patterns:
            yield f"activity.mask_patterns: {pattern.name} is no longer masked"
    for surface in new.surfaces:
        if surface not in old.surfaces:
            yield f"surface {surface} was opened"


def _loosened_servers(old: Mapping[str, ServerSettings], new: Mapping[str, ServerSettings]) -> Iterator[str]:
    for name, after in new.items():
        if (before := old.get(name)) is not None:
            yield from (f"{name}: {sentence}" for sentence in _loosened_server(before, after))


def _loosened_server(before: ServerSettings, after: ServerSettings) -> Iterator[str]:
    if not before.trust_annotations and after.trust_annotations:
        yield "its annotations are trusted now"
    if ASKS_MORE[after.confirm] < ASKS_MORE[before.confirm]:
        yield f"confirm went from {before.confirm} to {after.confirm}"
    for tool in sorted(set(before.deny_tools) - set(after.deny_tools)):
        yield f"{tool} is no longer denied"
    if before.allow_tools is not None and (
        after.allow_tools is None or set(after.allow_tools) - set(before.allow_tools)
    ):
        yield "more tools are allowed"
    for tool in sorted({*before.overrides, *after.overrides}):
        was, now = _lowest(before, tool), _lowest(after, tool)
        if now is not None and (was is None or _lower(was, now)):
            yield f"the override of {tool} can class it {now}" + (
                f", before {was}" if was else ", before as its server says"
            )
        elif was is not None and now is None:
            yield f"the override of {tool} ({was}) is gone"


def _lowest(server: ServerSettings, tool: str) -> str | None:
    entries: Any = server.overrides.get(tool)
    return min((tool_class for tool_class, _ in entries), key=STRICTNESS.__getitem__) if entries else None


def _lower(before: str, after: str) -> bool:
    return STRICTNESS[after] < STRICTNESS[before]
