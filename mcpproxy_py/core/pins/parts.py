"""Which parts of a wire object are pinned.

Of a tool and of a prompt that is all of it, also keys that the protocol does not define yet, but for `_meta`: there
anybody may write anything (versions, times, counters), so only what hosts act on or show is pinned. `ACTED_ON` is the
table of it. What is in `_meta` beside that goes to clients as the server gives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from mcpproxy_py.core import json_values
from mcpproxy_py.core.late_patterns import late
from mcpproxy_py.core.protocol.constants import SERVER_INFO

MetaChange = Literal["raises_risk", "lowers_risk", "breaks_callers", "rewords"]


class PinnedMeta(NamedTuple):
    """A key of `_meta`, or all that begin so (`anthropic/*`), and what a change of it is."""

    key: str
    change: MetaChange
    why: str
    set_to_true: MetaChange | None = None
    """Where it is a switch: what it is when it becomes `true`. The way back is `change`."""

    @property
    def prefix(self) -> str | None:
        return self.key[:-1] if self.key.endswith("*") else None


ACTED_ON: Final = (
    PinnedMeta("anthropic/requiresUserInteraction", "lowers_risk",
               "the host asks its user before each call", "raises_risk"),
    PinnedMeta("anthropic/alwaysLoad", "breaks_callers",
               "keeps the tool before the model where the host has a tool search"),
    PinnedMeta("anthropic/maxResultSizeChars", "breaks_callers", "how much of a result the model gets"),
    PinnedMeta("anthropic/searchHint", "rewords", "text that a host's tool search finds it by"),
    PinnedMeta("anthropic/*", "breaks_callers", "whatever else Anthropic's hosts act on"),
    PinnedMeta("ui", "breaks_callers", "MCP Apps: the page that the host shows, and whether model or page may call"),
    PinnedMeta("ui/*", "breaks_callers", "the older spelling of it"),
    PinnedMeta("openai/toolInvocation/*", "rewords", "text that the host shows while the tool runs"),
    PinnedMeta("openai/widgetDescription", "rewords", "text about the page that the model gets"),
    PinnedMeta("openai/*", "breaks_callers",
               "Apps SDK: the page, whether it may call, whether the tool is hidden, which arguments are files"),
    PinnedMeta("securitySchemes", "breaks_callers", "Apps SDK: which login and scopes a call takes"),
    PinnedMeta("io.modelcontextprotocol/*", "breaks_callers", "extensions of the protocol"),
    PinnedMeta("io.modelcontextprotocol.*", "breaks_callers", "extensions of the protocol, by another prefix"),
    PinnedMeta("modelcontextprotocol.io/*", "breaks_callers", "the protocol's reserved prefix"),
    PinnedMeta("mcp.io/*", "breaks_callers", "the protocol's reserved prefix"),
    PinnedMeta("com.anthropic/*", "breaks_callers", "as `anthropic/*`, with the prefix written as a domain"),
    PinnedMeta("com.openai/*", "breaks_callers", "as `openai/*`, with the prefix written as a domain"),
    PinnedMeta("com.microsoft/*", "breaks_callers", "Copilot and its editors"),
    PinnedMeta("mcpui.dev/*", "breaks_callers", "MCP-UI: how a host shows the page"),
)  # fmt: skip
"""In order; the first that fits a key counts."""
_NAMED: Final = {each.key: each for each in ACTED_ON if each.prefix is None}
_PREFIXES: Final = tuple((each.prefix, each) for each in ACTED_ON if each.prefix is not None)
META: Final = "_meta"


def pinned_meta(key: str) -> PinnedMeta | None:
    """The row of a key of `_meta`; `None` for one that is not pinned."""
    if (found := _NAMED.get(key)) is not None:
        return found
    return next((row for prefix, row in _PREFIXES if key.startswith(prefix)), None)


def pinned_part(wire: Mapping[str, Any]) -> Mapping[str, Any]:
    """The wire object without what is not pinned of it. A key that holds null is one that is missing."""
    if META not in wire and None not in wire.values():
        return wire
    kept = _kept(wire.get(META))
    part = {key: value for key, value in wire.items() if key != META and value is not None}
    return {**part, META: kept} if kept else part


def _kept(meta: object) -> dict[str, Any]:
    said = json_values.as_object(meta)
    return {key: value for key, value in said.items() if pinned_meta(key)} if said else {}


def with_unpinned(pinned: Mapping[str, Any], wire: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is pinned, and of `_meta` what is not as it is listed now."""
    kept = _kept(pinned.get(META))
    listed = json_values.as_object(wire.get(META)) or {}
    meta = {**{key: value for key, value in listed.items() if pinned_meta(key) is None}, **kept}
    part = {key: value for key, value in pinned.items() if key != META}
    return {**part, META: meta} if meta else part


PAGE_KEYS: Final = ("resultType", "ttlMs", "cacheScope", "nextCursor")
"""What the protocol has beside the entries of a list."""
_VERSION: Final = late(r"[\w.+-]{1,64}")
"""A version changes with each release, so it is not pinned. Anything longer, or with a space, is text, and is."""


def about_server(info: Mapping[str, Any], capabilities: Mapping[str, Any], extras: Mapping[str, Any]) -> dict[str, Any]:
    """What a server says about itself, without its instructions. `extras`: what its `tools/list` says beside tools."""
    beside = {key: value for key, value in extras.items() if key not in PAGE_KEYS}
    meta = {key: value for key, value in _kept(beside.pop(META, None)).items() if key != SERVER_INFO}
    said = {
        "serverInfo": {key: value for key, value in info.items() if key != "version" or not _is_version(value)},
        "experimental": capabilities.get("experimental"),
        "tools/list": {**beside, META: meta} if meta else beside,
    }
    return {key: value for key, value in said.items() if value}


def _is_version(value: object) -> bool:
    return isinstance(value, str) and _VERSION.fullmatch(value) is not None


def shown_about(
    about: Mapping[str, Any], name: str, info: Mapping[str, Any], capabilities: Mapping[str, Any],
    extras: Mapping[str, Any],
) -> tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]:  # fmt: skip
    """`serverInfo`, capabilities and extras of the tool list, with the approved `about` in place of what is pinned of
    them. `name` stands for a server that has no approved name."""
    version = info.get("version")
    listed_version = {"version": version} if _is_version(version) else {}
    shown_info = {**({"name": name} if info else {}), **listed_version, **about.get("serverInfo", {})}
    experimental = {"experimental": about["experimental"]} if "experimental" in about else {}
    others = {key: value for key, value in capabilities.items() if key != "experimental"}
    return shown_info, {**others, **experimental}, shown_page(about.get("tools/list", {}), extras)


def shown_page(approved: Mapping[str, Any], listed: Mapping[str, Any]) -> Mapping[str, Any]:
    """A page of a list: what is approved of it, and of what is listed now what needs no approval."""
    return {**{key: listed[key] for key in PAGE_KEYS if key in listed}, **with_unpinned(approved, listed)}
