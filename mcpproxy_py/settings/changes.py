"""What a change of the configuration loosens, what it tightens, and what of it has to wait for a restart. Pure.

Every key has its rule here, and a test fails for one that has none (UP-8). A rule is handed what was and what is, where
they differ, and gives sentences that say what got looser or tighter. No rule repeats a value that may be a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from mcpproxy_py.core.policy.scope import glob_covers
from mcpproxy_py.core.policy.tool_names import NamePattern, NameSet
from mcpproxy_py.core.policy.tool_names import compared as compared_name
from mcpproxy_py.settings.access.auth import ABSENT, escaped, issuer_changed, operations_changed, within
from mcpproxy_py.settings.access.registries import registries_changed
from mcpproxy_py.settings.fields import is_loopback, split_listen
from mcpproxy_py.settings.models import Settings

FIXED_AT_START: Final = (
    "listen", "require_mcp_auth", "mcp_token", "auth", "sealing_keys", "api_key", "allowed_hosts", "allowed_origins",
    "activity", "limits", "shutdown_timeout", "log",
)  # fmt: skip
CLASSES: Final[Mapping[str, int]] = {"read": 0, "write": 1, "destructive": 2}

Direction = Literal["looser", "tighter"]


class Change(NamedTuple):
    """`key` is dotted, as in the configuration file."""

    key: str
    direction: Direction
    says: str


Said = tuple[Direction, str]
Rule = Callable[[Any, Any], Iterable[Said]]
"""Asked only where both differ. `{key}` in a sentence is the key."""


def needs_restart(old: Settings, new: Settings) -> list[str]:
    """Keys whose change is not applied while running."""
    return [key for key in FIXED_AT_START if getattr(old, key) != getattr(new, key)]


def loosened(old: Settings, new: Settings) -> list[str]:
    """Sentences about everything that this change permits and that was refused before (UP-8). A server that is enabled
    is like one that is added: that it is there now is no rule that changed."""
    changes = compared(old, new)
    return [each.says for each in changes if each.direction == "looser" and not each.key.endswith(".enabled")]


def compared(old: Settings, new: Settings) -> list[Change]:
    """All that got looser or tighter."""
    return [
        *_compared(RULES, old, new),
        *_compared_by_name("mcpServers", {**OF_ANY, **OF_A_SERVER}, old.servers, new.servers),
        *_compared_by_name("providers", {**OF_ANY, **OF_A_PROVIDER}, old.providers, new.providers),
        *_compared_by_name("profiles", OF_A_PROFILE, old.profiles, new.profiles, "profile "),
        *(
            Change(f"profiles.{name}", "looser", f"profile {name} was added")
            for name in new.profiles.keys() - old.profiles.keys()
        ),
    ]


def _compared(rules: Mapping[str, Rule], old: Any, new: Any, key: str = "", name: str = "") -> Iterator[Change]:
    """`key` and `name` go before those of the rules: where an upstream's keys stand, and who it is."""
    for path, rule in rules.items():
        was, now = _at(old, path), _at(new, path)
        if was != now:
            for direction, says in rule(was, now):
                yield Change(key + path, direction, name + says.format(key=path))


def _compared_by_name(
    key: str, rules: Mapping[str, Rule], old: Mapping[str, Any], new: Mapping[str, Any], what: str = ""
) -> Iterator[Change]:
    """A server that is new has nothing that it could be looser than; its own record says that it was added."""
    for name, before in old.items():
        if name in new:
            yield from _compared(rules, before, new[name], f"{key}.{name}.", f"{what}{name}: ")
        else:
            yield Change(f"{key}.{name}", "tighter", f"{what}{name} was removed")


def _at(holder: Any, path: str) -> Any:
    for part in path.split("."):
        holder = ABSENT if holder is None else getattr(holder, FIELDS.get(part, part), ABSENT)
    return holder


FIELDS: Final[Mapping[str, str]] = {"schema": "schema_"}
"""Where a key is no name in Python."""


# The kinds of rules.


def neutral(was: Any, now: Any) -> Iterable[Said]:
    """Nothing that was refused is permitted by it, nor the other way round."""
    return ()


def strict_when(strict: bool, looser: str, tighter: str) -> Rule:
    return lambda was, now: [("tighter", tighter) if now is strict else ("looser", looser)]


def ranked(*loosest_first: str) -> Rule:
    """Values of which the earlier permit more."""

    def rule(was: str, now: str) -> Iterable[Said]:
        direction: Direction = "looser" if loosest_first.index(now) < loosest_first.index(was) else "tighter"
        yield direction, f"{{key}} went from {was} to {now}"

    return rule


def sized(more: Direction) -> Rule:
    """Numbers, of which `None` is the largest."""
    less: Direction = "tighter" if more == "looser" else "looser"

    def rule(was: float | None, now: float | None) -> Iterable[Said]:
        grew = now is None or (was is not None and now > was)
        yield more if grew else less, f"{{key}} went from {_number(was)} to {_number(now)}"

    return rule


def _number(value: float | None) -> str:
    return "no limit" if value is None else f"{value:g}" if value < 1e6 else str(value)


def listed(more: Direction, added: str, removed: str) -> Rule:
    """Sets of texts, each named."""
    less: Direction = "tighter" if more == "looser" else "looser"

    def rule(was: Iterable[str], now: Iterable[str]) -> Iterable[Said]:
        for each in now:
            if each not in was:
                yield more, added.format(each=escaped(each))
        for each in was:
            if each not in now:
                yield less, removed.format(each=escaped(each))

    return rule


def replaced(says: str) -> Rule:
    """Another thing stands in its place, of which nothing is known: what was refused there may be permitted now."""
    return lambda was, now: [("looser", says)]


def demanded(looser: str, tighter: str) -> Rule:
    """A secret: without one, nobody is asked. Another one is as good as the one before."""

    def rule(was: Any, now: Any) -> Iterable[Said]:
        if was is None or now is None:
            yield ("looser", looser) if now is None else ("tighter", tighter)

    return rule


# The rules that are of one key alone.


def _listening(was: str, now: str) -> Iterable[Said]:
    before, after = (is_loopback(split_listen(each)[0]) for each in (was, now))
    if before != after:
        yield ("tighter", "only this machine reaches it") if after else ("looser", f"listen: {now} is open to others")


def _sealing(was: Sequence[Any], now: Sequence[Any]) -> Iterable[Said]:
    if any(key not in was for key in now):
        yield "looser", "{key}: one more key is believed"
    if any(key not in now for key in was):
        yield "tighter", "{key}: one that was believed is not any more"


def _masked(was: Sequence[Any], now: Sequence[Any]) -> Iterable[Said]:
    for each in was:
        if each not in now:
            yield "looser", f"{{key}}: {each.name} is no longer masked"
    for each in now:
        if each not in was:
            yield "tighter", f"{{key}}: {each.name} is masked"


def _allowed(was: Sequence[str] | None, now: Sequence[str] | None) -> Iterable[Said]:
    if was is not None and (now is None or any(_beyond(now, was))):
        yield "looser", "more tools are allowed"
    if now is not None and (was is None or any(_beyond(was, now))):
        yield "tighter", "fewer tools are allowed"


def _in_scope(was: Sequence[str] | None, now: Sequence[str] | None) -> Iterable[Said]:
    before, after = was or ("*",), now or ("*",)
    if not all(any(glob_covers(other, each) for other in before) for each in after):
        yield "looser", "more tools are in it"
    if not all(any(glob_covers(other, each) for other in after) for each in before):
        yield "tighter", "fewer tools are in it"


def _denied(was: Sequence[str], now: Sequence[str]) -> Iterable[Said]:
    for each in _beyond(now, was):
        yield "tighter", f"{escaped(each)} is denied"
    for each in _beyond(was, now):
        yield "looser", f"{escaped(each)} is no longer denied"


def _beyond(names: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    """Entries that may mean a tool which none of the others means. Two globs together may cover what neither covers
    alone; that is not seen."""
    patterns = [NamePattern(each) for each in others]
    for each in names:
        if each not in others and not any(pattern.covers(NamePattern(each)) for pattern in patterns):
            yield each


Entries = Sequence[tuple[str, Any]]
"""Pairs of a class and its `when`, the first that fits decides; the last has no `when`."""


def _overridden(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterable[Said]:
    before_names = NameSet(was)
    for tool in sorted({*was, *now}):
        said = {each: None for before, after in _decided(tool, was, now) for each in _other_entries(before, after)}
        for direction, says in said:
            yield direction, says.format(tool=escaped(tool))
        name = compared_name(tool)
        if not before_names.names(name.normal) and before_names.resembled(name) is not None:
            yield "looser", f"{escaped(tool)} is no longer refused for looking like another name"


def _decided(tool: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[Entries | None, ...]]:
    """What may decide about the tools of this name or glob before and after: where there is no such entry, the globs
    that cover it. Of several the highest class wins, so each is compared."""
    befores, afters = ([tool] if tool in each else _covering(tool, each) for each in (was, now))
    for before in befores or [""]:
        for after in afters or [""]:
            pair = _entries(was.get(before)), _entries(now.get(after))
            if pair[0] != pair[1]:
                yield pair


def _covering(tool: str, overrides: Mapping[str, Any]) -> list[str]:
    wanted = NamePattern(tool)
    return [key for key in overrides if NamePattern(key).covers(wanted)]


def _entries(override: Any) -> Entries | None:
    return None if override is None else [(entry.tool_class, entry.when) for entry in override]


def _other_entries(was: Entries | None, now: Entries | None) -> Iterator[Said]:
    if was is None:
        # What the server says of it may be anything.
        lowest, highest = _range(now or ())
        if lowest != "destructive":
            yield "looser", f"the override of {{tool}} can class it {lowest}, before as its server says"
        if highest != "read":
            yield "tighter", f"the override of {{tool}} can class it {highest}, before as its server says"
    elif now is None:
        lowest, highest = _range(was)
        gone = f"the override of {{tool}} ({lowest}) is gone"
        if highest != "read":
            yield "looser", gone
        if lowest != "destructive":
            yield "tighter", gone
    else:
        yield from _moved(was, now)


def _range(entries: Entries) -> tuple[str, str]:
    classes = sorted((tool_class for tool_class, _ in entries), key=CLASSES.__getitem__)
    return classes[0], classes[-1]


def _moved(was: Entries, now: Entries) -> Iterator[Said]:
    """Whether there can be arguments whose class falls or rises. Conditions are compared, not understood: one that is
    written differently may hold for other arguments."""
    pairs = [
        (before, after)
        for number, (before, _) in enumerate(was)
        for other, (after, _) in enumerate(now)
        if _can_both_decide(was, number, now, other)
    ]
    moves = sorted((CLASSES[after] - CLASSES[before], before, after) for before, after in set(pairs))
    (fall, *lower), (rise, *higher) = moves[0], moves[-1]
    if fall < 0:
        yield "looser", f"the override of {{tool}} can class it {lower[1]}, before {lower[0]}"
    if rise > 0:
        yield "tighter", f"the override of {{tool}} can class it {higher[1]}, before {higher[0]}"


def _can_both_decide(was: Entries, number: int, now: Entries, other: int) -> bool:
    """No condition has to hold and to fail at once for these two entries to be the first that fit."""
    hold = [when for when in (was[number][1], now[other][1]) if when is not None]
    fail = [when for _, when in (*was[:number], *now[:other])]
    return not any(when in fail for when in hold)


# Every key, and its rule.

BOUNDS: Final = tuple(f"limits.{each}" for each in (
    "max_body_bytes", "max_body_values", "max_result_bytes", "max_result_values", "kept_results_mb",
    "kept_results_seconds", "max_argument_depth", "max_sessions", "max_in_flight", "input_timeout", "max_connections",
    "max_connections_per_address", "head_timeout", "body_timeout", "read_timeout", "idle_timeout",
    "per_principal.in_flight", "per_principal.questions", "per_principal.sessions", "per_principal.streams",
    "per_principal.subscriptions", "per_principal.record_mb", "per_principal.kept_results_mb",
))  # fmt: skip
"""Of which more is looser."""
RULES: Final[Mapping[str, Rule]] = {
    "listen": _listening,
    "data_dir": replaced("{key}: the record, the keys and the freeze are those of another directory"),
    "surfaces": listed("looser", "surface {each} was opened", "surface {each} was closed"),
    "require_mcp_auth": strict_when(True, "{key} is off: on this machine no token is asked for", "{key} is on"),
    "mcp_token": demanded("{key}: agents need no token", "{key}: agents need a token"),
    "auth.public_url": neutral,  # what clients are told; tokens are held to `audience`
    "auth.jwt.issuer": issuer_changed,
    "auth.jwt.audience": within(listed("looser", "tokens for {each} count", "tokens for {each} do not count any more")),
    "auth.jwt.jwks": within(replaced("{key}: other keys are believed")),
    "auth.jwt.algorithms": within(listed("looser", "{each} is believed", "{each} is not believed any more")),
    "auth.jwt.principal_claim": within(replaced("{key}: who comes with a token is somebody else")),
    "auth.jwt.profile_claim": within(replaced("{key}: other profiles apply")),
    "auth.jwt.profile": within(replaced("{key}: another profile applies")),
    "auth.jwt.scopes_claim": within(replaced("{key}: other claims decide what may be done")),
    "auth.jwt.operations": within(operations_changed),
    "auth.jwt.servers_claim": within(replaced("{key}: other claims decide which servers are in reach")),
    "auth.jwt.required_scopes": within(listed("tighter", "scope {each} is needed", "scope {each} is not needed")),
    "auth.jwt.login_scopes": neutral,  # what clients ask for; tokens are held to `operations`
    "auth.jwt.leeway": within(sized("looser")),
    "sealing_keys": _sealing,
    "api_key": neutral,  # there is always one
    "allowed_hosts": listed("looser", "host {each} is answered to", "host {each} is not answered to any more"),
    "allowed_origins": listed("looser", "pages of {each} are let in", "pages of {each} are not let in any more"),
    "intent_declaration.strict_server_validation": strict_when(
        True, "{key} is off: contradictions warn instead of refusing", "{key} is on: contradictions are refused"
    ),
    "intent_declaration.unannotated": ranked("allow", "write", "destructive"),
    "intent_declaration.missing": ranked("infer", "refuse"),
    "intent_declaration.host_confirm": ranked("never", "destructive"),
    "intent_declaration.schema": neutral,
    **dict.fromkeys(("discovery.detail", "capture_missing_capabilities", "request_capability_description"), neutral),
    "activity.on_failure": ranked("allow", "refuse"),
    "activity.max_payload_bytes": sized("tighter"),  # less is on record
    "activity.mask_patterns": _masked,
    "activity.database_url": replaced("{key}: the record, the freeze and the approvals are those of another database"),
    "activity.ack": ranked("local", "commit"),
    "activity.retention_days": sized("tighter"),
    "activity.max_size_mb": sized("tighter"),
    "activity.max_journal_mb": sized("looser"),
    "catalog.registries": registries_changed,
    "notify_desktop": neutral,
    "limits.result_tokens": neutral,  # all of a result is there, in more parts
    **dict.fromkeys(BOUNDS, sized("looser")),
    "shutdown_timeout": neutral,
    "log.level": neutral,
    "log.format": neutral,
}
OF_ANY: Final[Mapping[str, Rule]] = {
    "enabled": strict_when(False, "it is enabled", "it is disabled"),
    "timeout": sized("looser"),
    "max_concurrency": sized("looser"),
    "trust_annotations": strict_when(False, "its annotations are trusted now", "its annotations only raise a class"),
    "tools": _overridden,
    "allow_tools": _allowed,
    "deny_tools": _denied,
    "confirm": ranked("none", "destructive", "write"),
    "confirm_by": ranked("either", "client", "page"),
    "result_tokens": neutral,
}
OF_A_SERVER: Final[Mapping[str, Rule]] = {
    "transport": replaced("another server is reached: {key} changed"),
    "command": replaced("another server is started: {key} changed"),
    "args": replaced("another server is started: {key} changed"),
    **dict.fromkeys(("env", "cwd"), replaced("its server is started differently: {key} changed")),
    "url": replaced("another server is reached: {key} changed"),
    "headers": replaced("its server is asked as somebody else: {key} changed"),
    "auth": replaced("its server is asked as somebody else: {key} changed"),
    "lazy": neutral,
    "trust": ranked("auto", "manual"),
    "connect_timeout": neutral,
    "sessions": ranked("shared", "auto", "exclusive", "per_client"),
}
OF_A_PROFILE: Final[Mapping[str, Rule]] = {
    "servers": listed("looser", "{each} is in it now", "{each} is not in it any more"),
    "tools": _in_scope,
    "operations": listed("looser", "{each} calls are in it now", "{each} calls are not in it any more"),
    "unannotated": ranked("allow", "write", "destructive"),
    "confirm": ranked("none", "destructive", "write"),
    "confirm_by": ranked("either", "client", "page"),
    "strict": strict_when(True, "{key} is off", "{key} is on"),
    "description": neutral,
}
OF_A_PROVIDER: Final[Mapping[str, Rule]] = {"object": replaced("another provider is loaded: {key} changed")}
