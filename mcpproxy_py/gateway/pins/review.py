"""One listing held against what is approved: what is in force, what waits for a person, and how that is shown. Pure but
for the time it takes, so call it in a worker thread."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from mcpproxy_py.core.pins.canonical import digest
from mcpproxy_py.core.pins.compare import Difference
from mcpproxy_py.core.pins.judge import JudgedListing, judge
from mcpproxy_py.core.pins.listing import INSTRUCTIONS, PROMPT, SERVER, TOOL, PinnedListing
from mcpproxy_py.core.pins.scan.finding import ABOUT_OTHERS, Finding
from mcpproxy_py.gateway.pins.storage import FindingRow, Pin
from mcpproxy_py.upstream.lists.in_force import ListingInForce

NO_TEXT: Final = "what was approved of it is known by its digest only, and this is something else"
MOST_TOLD: Final = 20
OTHER_SERVER: Final = re.compile(r" of server ([^ ]{1,60}?)[.:](?: |$)")
"""The server in the sentence of such a finding."""
Findings = Mapping[str, Sequence[Finding]]


@dataclass(frozen=True)
class PinReview:
    """What one listing of a server comes to."""

    pin: Pin
    listed: PinnedListing
    judged: JudgedListing
    findings: Findings = field(default_factory=dict[str, Sequence[Finding]])
    """Of what is not approved yet."""

    @cached_property
    def seen(self) -> str:
        """Of all that waits, as it is now: who decides says what was looked at."""
        waits = sorted((subject, self.listed.digest_of(subject)) for subject in {*self.judged.waiting, *self.refused})
        return digest([self.pin.version, self.pin.unusable, waits])

    @cached_property
    def refused(self) -> tuple[str, ...]:
        """What a person said no to, where it is still listed so."""
        rejected = (self.pin.approved or PinnedListing()).rejected
        return tuple(subject for subject, known in rejected.items() if self.listed.digest_of(subject) == known)

    def in_force(self, server: str, trust: str) -> ListingInForce:
        judged = self.judged
        blocked = {name: told(why, server) for name, why in judged.blocked.items()}
        in_force = judged.in_force
        return ListingInForce(in_force.tools, blocked, in_force.instructions, self.summary(trust), in_force.about or {})

    def summary(self, trust: str) -> dict[str, Any]:
        """Beside the server, for those who look after it."""
        rows = findings_of(self)
        shown = [{"subject": subject, "kind": row[0], "text": row[3]} for subject in rows for row in rows[subject]]
        return {
            "trust": trust,
            "approved": len((self.pin.approved or PinnedListing()).tools),
            "waiting": len(self.judged.waiting),
            "blocked": len(self.judged.blocked),
            "first": self.pin.approved is None and self.pin.unusable is None,
            "unusable": self.pin.unusable,
            "findings": shown[:MOST_TOLD],
        }


def told(why: str, server: str) -> str:
    """Why a tool is blocked, for whoever calls it: an agent tells its person what to run."""
    said = why if why.startswith(("changed:", "new:")) else f"changed: {why}"
    return said if "`mcpproxy pins" in said else f"{said}. To see and decide it, run `mcpproxy pins diff {server}`"


def findings_of(review: PinReview) -> dict[str, list[FindingRow]]:
    """What was found in what is approved, and in what waits."""
    kept: dict[str, list[FindingRow]] = {subject: list(rows) for subject, rows in review.pin.findings.items()}
    return {**kept, **{subject: rows_of(found) for subject, found in review.findings.items()}}


def without_removed(
    findings: Mapping[str, Sequence[FindingRow]], configured: Container[str]
) -> dict[str, list[FindingRow]]:
    """Without what was found about tools of servers that are no longer configured."""
    kept: dict[str, list[FindingRow]] = {}
    for subject, rows in findings.items():
        servers = [OTHER_SERVER.search(row[3]) if row[0] in ABOUT_OTHERS else None for row in rows]
        left = [row for row, found in zip(rows, servers, strict=True) if found is None or found[1] in configured]
        if left:
            kept[subject] = left
    return kept


def rows_of(findings: Iterable[Finding]) -> list[FindingRow]:
    return [[each.kind, each.where, each.excerpt, each.text] for each in findings]


def review_of(
    pin: Pin,
    listed: PinnedListing,
    *,
    manual: bool,
    trusted: bool,
    server: str,
    others: Mapping[str, Iterable[Mapping[str, Any]]],
) -> PinReview:
    """`others`: the tools of the other servers that are in force."""
    if pin.unusable is not None:
        return PinReview(pin, listed, _nothing(judge_new(listed, trusted, server), pin.unusable))
    approved, lost = pin.approved_with(listed), pin.lost(listed)
    known = _without(listed, lost)
    findings = _scan(approved, listed, others)
    judged = judge(approved, known, manual=manual, trusted=trusted, findings=findings, server=server)
    return PinReview(pin, listed, _with_lost(judged, listed, lost) if lost else judged, findings)


def judge_new(listed: PinnedListing, trusted: bool, server: str) -> JudgedListing:
    """All of it waits."""
    return judge(None, listed, manual=True, trusted=trusted, findings={}, server=server)


def _nothing(judged: JudgedListing, why: str) -> JudgedListing:
    blocked = dict.fromkeys(judged.in_force.tools, why)
    return replace(judged, blocked=blocked, to_keep=None)


def _without(listed: PinnedListing, subjects: frozenset[str]) -> PinnedListing:
    if not subjects:
        return listed
    return PinnedListing(
        {name: wire for name, wire in listed.tools.items() if TOOL + name not in subjects},
        None if INSTRUCTIONS in subjects else listed.instructions,
        {name: wire for name, wire in listed.prompts.items() if PROMPT + name not in subjects},
        about=None if SERVER in subjects else listed.about,
    )


def _with_lost(judged: JudgedListing, listed: PinnedListing, lost: frozenset[str]) -> JudgedListing:
    names = [subject.removeprefix(TOOL) for subject in lost if subject.startswith(TOOL)]
    bare = {name: {"name": name, "inputSchema": {"type": "object"}} for name in names}
    differences = {
        subject: (Difference(subject, "", "breaks_callers", None, listed.digest_of(subject), f"{subject}: {NO_TEXT}"),)
        for subject in lost
    }
    return JudgedListing(
        replace(judged.in_force, tools={**judged.in_force.tools, **bare}),
        {**judged.blocked, **dict.fromkeys(names, NO_TEXT)},
        {**judged.waiting, **differences},
        judged.to_keep,
    )


def _scan(
    approved: PinnedListing | None, listed: PinnedListing, others: Mapping[str, Iterable[Mapping[str, Any]]]
) -> Findings:
    """Of what is not approved as it is: a person who approved a text has seen what was found in it."""
    was = approved or PinnedListing()
    new = frozenset(each for each in listed.subjects() if was.digest_of(each) != listed.digest_of(each))
    if not new:
        return {}
    tools = {name: wire for name, wire in listed.tools.items() if TOOL + name in new}
    prompts = {name: wire for name, wire in listed.prompts.items() if PROMPT + name in new}
    instructions = listed.instructions if INSTRUCTIONS in new else None
    about = listed.about if SERVER in new else None
    from mcpproxy_py.core.pins import text_scan  # its patterns take a while to compile, and a start has no time

    return text_scan.scan_listing(tools, instructions, prompts, text_scan.OtherTools(others, listed.tools), about)
