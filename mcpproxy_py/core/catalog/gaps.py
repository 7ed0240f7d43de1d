"""What was missing, ranked: wishes said aloud, hints in passing, searches in vain, tools refused and failing (MISS-3).

Pure and deterministic: the same sightings in any order give the same report. Near-duplicates are merged by the words
they have in common; which of them leads is decided by weight, then count, then the words themselves, so that no order
of arrival and no growing chain of resemblances decides what belongs together.

What is missing, and who has to do what about it (GAP-1).

A pure function from seven yes-or-no facts to one answer, by a ladder of rules: the first whose conditions all
hold decides. The last has no condition, so every combination has exactly one answer. `docs/reference/gap.md` is
printed from this table.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from mcpproxy_py.core.search.tokens import tokens

State = Literal["connected_enabled", "connected_disabled", "cataloged_not_connected", "uncataloged"]
Gap = Literal["tool_missing", "connector_missing", "connector_disabled", "unknown"]
NextAction = Literal["use_tool", "ask_human_to_connect", "ask_human_to_enable", "file_capability_request", "stop"]

STATES: Final[tuple[State, ...]] = ("connected_enabled", "connected_disabled", "cataloged_not_connected", "uncataloged")
GAPS: Final[tuple[Gap, ...]] = ("tool_missing", "connector_missing", "connector_disabled", "unknown")
NEXT_ACTIONS: Final[tuple[NextAction, ...]] = (
    "use_tool", "ask_human_to_connect", "ask_human_to_enable", "file_capability_request", "stop"
)  # fmt: skip
MOST_TOOLS: Final = 50


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one server, for one caller.

    `tool_present` says whether every tool that was asked for is there; it means nothing where none was.
    """

    cataloged: bool
    configured: bool
    enabled: bool
    connected: bool
    authorised: bool
    tool_asked: bool
    tool_present: bool


FACT_NAMES: Final = tuple(one.name for one in fields(Facts))


@dataclass(frozen=True, slots=True)
class GapRule:
    """`when` lists the facts that must hold; a leading `not ` turns one round."""

    name: str
    when: tuple[str, ...]
    gap: Gap
    next_action: NextAction
    approval_needed: bool
    reason: str


RULES: Final[tuple[GapRule, ...]] = (
    GapRule("disabled", ("connected", "not enabled"), "connector_disabled", "ask_human_to_enable", True,
         "The server is there but turned off; a person can enable it."),
    GapRule("unauthorised", ("connected", "not authorised"), "unknown", "stop", True,
         "The server is connected, but this caller may not use it; a person would have to allow that."),
    GapRule("tool_missing", ("connected", "tool_asked", "not tool_present"), "tool_missing", "file_capability_request",
         True, "The server is connected, but it does not offer every tool that was asked for."),
    GapRule("usable", ("connected",), "unknown", "use_tool", False,
         "Nothing is known to be missing: the server is connected and enabled, so use its tools."),
    GapRule("configured_disabled", ("configured", "not enabled"), "connector_disabled", "ask_human_to_enable", True,
         "The server is configured but turned off; a person can enable it."),
    GapRule("configured_down", ("configured",), "connector_missing", "ask_human_to_connect", True,
         "The server is configured but not connected now; a person can see why and fix it."),
    GapRule("cataloged", ("cataloged",), "connector_missing", "ask_human_to_connect", True,
         "The catalog knows the server, but nobody has connected it; a person can."),
    GapRule("uncataloged", (), "connector_missing", "file_capability_request", True,
         "Neither the catalog nor the configuration knows the server; ask for it with mcp_request_capability."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Classification:
    state: State
    rule: GapRule
    available_tools: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "gap": self.rule.gap,
            "available_tools": list(self.available_tools[:MOST_TOOLS]),
            "next_action": self.rule.next_action,
            "approval_needed": self.rule.approval_needed,
            "reason": self.rule.reason,
        }


def classify(facts: Facts, tools: Sequence[str] = ()) -> Classification:
    """The one answer for these facts. `tools` are those the caller could call; they count where the server can."""
    rule = next(rule for rule in RULES if all(_holds(condition, facts) for condition in rule.when))
    usable = facts.connected and facts.enabled and facts.authorised
    return Classification(state_of(facts), rule, tuple(tools) if usable else ())


def state_of(facts: Facts) -> State:
    if facts.connected:
        return "connected_enabled" if facts.enabled else "connected_disabled"
    return "cataloged_not_connected" if facts.cataloged else "uncataloged"


def _holds(condition: str, facts: Facts) -> bool:
    negated = condition.startswith("not ")
    return getattr(facts, condition.removeprefix("not ")) is not negated


Kind = Literal["request", "formal_request", "passive", "unmet_search", "refused", "failing"]

WEIGHTS: Final[Mapping[Kind, int]] = {
    "request": 10, "formal_request": 10, "passive": 3, "unmet_search": 2, "refused": 1, "failing": 1,
}  # fmt: skip
"""What one sighting counts for. Who says aloud that something is missing is believed before who only seems to."""
EXPLICIT: Final[tuple[Kind, ...]] = ("request", "formal_request")
ABOUT_TOOLS: Final[tuple[Kind, ...]] = ("refused", "failing")
"""These are about a tool that exists, and are merged by its name alone."""
REPEATED: Final = 2
"""A tool that was refused or failed once is no gap."""
ALIKE: Final = 0.6
"""Words in common among all words of two phrases."""
TELLING: Final = 2
"""Words that a phrase needs for its lying wholly within another to mean anything."""
MOST_EXAMPLES: Final = 3
CAP: Final = 500
_LACK: Final = re.compile(
    r"\b(?:no (?:such )?(?:tool|way|access|support)|not (?:available|supported|possible|offered)|missing|lack(?:s|ing)?"
    r"|unable|can ?not|can't|there is no|there's no|does(?:n't| not) (?:exist|have|offer|support)|work(?:ing)? ?around"
    r"|for want of|as a fallback|would need|wish(?:ed)? (?:there|i|we|for))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class GapSignal:
    """One sign that something was missing. `subject` says what; `text` is what was said, where that is more."""

    kind: Kind
    subject: str
    at_ms: int
    id: str
    text: str = ""


@dataclass(slots=True)
class _Cluster:
    words: frozenset[str]
    sightings: list[GapSignal] = field(default_factory=list[GapSignal])

    @property
    def weight(self) -> int:
        return sum(WEIGHTS[one.kind] for one in self.sightings)


def mentions_lack(said: str) -> bool:
    """Whether what an agent says of its intent hints at something that is not there. A guess by turns of phrase."""
    return _LACK.search(said[:CAP]) is not None


def report(sightings: Iterable[GapSignal]) -> list[dict[str, Any]]:
    """Gaps, explicit requests first, then by weight."""
    offers_requests: list[GapSignal] = []
    tools: defaultdict[str, list[GapSignal]] = defaultdict(list)
    for one in sightings:
        tools[one.subject].append(one) if one.kind in ABOUT_TOOLS else offers_requests.append(one)
    troubled = [_Cluster(frozenset((name,)), found) for name, found in tools.items() if len(found) >= REPEATED]
    return [_shown(cluster) for cluster in sorted([*_merged(_alike(offers_requests)), *troubled], key=_rank)]


def _alike(offers_requests: Iterable[GapSignal]) -> list[_Cluster]:
    """Those of exactly the same words, heaviest first."""
    found: dict[frozenset[str], _Cluster] = {}
    for one in offers_requests:
        words = frozenset(tokens(one.subject, CAP)) or frozenset((one.subject.strip().casefold(),))
        found.setdefault(words, _Cluster(words)).sightings.append(one)
    return sorted(found.values(), key=lambda each: (-each.weight, -len(each.sightings), sorted(each.words)))


def _merged(clusters: Sequence[_Cluster]) -> list[_Cluster]:
    """Each joins the heaviest leader that it resembles, or leads."""
    leaders: list[_Cluster] = []
    by_word: defaultdict[str, list[int]] = defaultdict(list)
    for cluster in clusters:
        near = sorted({number for word in cluster.words for number in by_word[word]})
        leader = next((leaders[at] for at in near if _similar(cluster.words, leaders[at].words)), None)
        if leader is not None:
            leader.sightings += cluster.sightings
            continue
        for word in cluster.words:
            by_word[word].append(len(leaders))
        leaders.append(_Cluster(cluster.words, list(cluster.sightings)))
    return leaders


def _similar(one: frozenset[str], other: frozenset[str]) -> bool:
    shared, smaller = len(one & other), min(len(one), len(other))
    return shared / len(one | other) >= ALIKE or (shared == smaller >= TELLING)


def _rank(cluster: _Cluster) -> tuple[Any, ...]:
    explicit = any(one.kind in EXPLICIT for one in cluster.sightings)
    return (not explicit, -cluster.weight, -max(one.at_ms for one in cluster.sightings), sorted(cluster.words))


def _shown(cluster: _Cluster) -> dict[str, Any]:
    times = [one.at_ms for one in cluster.sightings]
    counts = Counter(one.kind for one in cluster.sightings)
    return {
        "capability": _name(cluster.sightings),
        "count": len(times),
        "kinds": {kind: counts[kind] for kind in WEIGHTS if counts[kind]},
        "examples": _examples(cluster.sightings),
        "first_seen_ms": min(times),
        "last_seen_ms": max(times),
    }


def _name(sightings: Iterable[GapSignal]) -> str:
    """In the words that weigh most; among equals the shortest."""
    weights: Counter[str] = Counter()
    for one in sightings:
        weights[one.subject.strip()[:CAP]] += WEIGHTS[one.kind]
    return min(weights, key=lambda subject: (-weights[subject], len(subject), subject))


def _examples(sightings: Iterable[GapSignal]) -> list[dict[str, Any]]:
    """The newest of what was said, each wording once; `id` leads to its record."""
    newest: dict[str, GapSignal] = {}
    for one in sorted(sightings, key=lambda each: (-each.at_ms, each.id, each.kind, each.text, each.subject)):
        newest.setdefault((one.text or one.subject)[:CAP], one)
    return [{"text": text, "kind": one.kind, "id": one.id} for text, one in list(newest.items())[:MOST_EXAMPLES]]
