"""What goes on after a listing has changed: what is in force, what is blocked, what a person has to decide (SEC-3).

`BLOCKS`, `WAITS` and `APPLIES` are the rules. What blocks wins over what waits. Nothing gets in force that nobody
approved, but hints that raise a risk: those apply at once, and are kept, so that taking them back lowers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.pins.compare import Difference, Judgement, compare, hint_differences, is_hint
from mcpproxy_py.core.pins.hint_changes import raised
from mcpproxy_py.core.pins.listing import INSTRUCTIONS, PROMPT, SERVER, TOOL, PinnedListing
from mcpproxy_py.core.pins.parts import pinned_part, with_unpinned

WHY: Final[Mapping[Judgement, str]] = {
    "lowers_risk": "by its hints it is less of a risk than the approved tool",
    "breaks_callers": "what it takes or gives is not what was approved",
    "renames": "it may be a pinned tool under another name",
}
"""What an agent is told. A sentence with the server's words in it would bring it text that nobody approved."""
BLOCKS: Final[frozenset[Judgement]] = frozenset(WHY)
"""Nobody may use it until a person has decided."""
WAITS: Final[frozenset[Judgement]] = frozenset(("rewords", "widens_input"))
"""It goes on as it was approved until a person has decided."""
APPLIES: Final[frozenset[Judgement]] = frozenset(("raises_risk",))
"""At once, and kept. `adds` is approved by policy with `trust: auto`, and blocks with `manual`. What `removes` is just
gone; its pin stays."""
HIDES: Final = "its texts hide characters"
NEW: Final = "a person approves what this server lists"


class ScanFinding(Protocol):
    """What a scan of texts says of a subject; `core.pins.text_scan` has them."""

    @property
    def blocks(self) -> bool:
        """Whether it blocks by itself: hidden characters."""
        ...


Findings = Mapping[str, Sequence[ScanFinding]]


@dataclass(frozen=True)
class JudgedListing:
    """What a listing comes to, held against what is approved."""

    in_force: PinnedListing
    """What the gateway goes on with. Nothing is in it that nobody approved: of a tool that waits only the name. Prompts
    that are blocked are not in it."""
    blocked: Mapping[str, str]
    """Tools that may not be called nor listed, and why. Each of them is in `in_force`."""
    waiting: Mapping[str, tuple[Difference, ...]]
    """Of each subject what a person has to decide."""
    to_keep: PinnedListing | None
    """What is approved from now on and has to be stored; `None`: nothing new."""


def judge(
    approved: PinnedListing | None,
    listed: PinnedListing,
    *,
    manual: bool,
    trusted: bool,
    findings: Findings,
    server: str = "SERVER",
) -> JudgedListing:
    """`findings`: of each subject what the scan says of its text as it is listed now. `server` is for the sentences."""
    before = approved or PinnedListing()
    judging = _Judging(before, listed, manual, trusted, findings, server)
    by_subject: dict[str, list[Difference]] = {}
    for each in compare(before, listed, trusted):
        by_subject.setdefault(each.subject, []).append(each)
    for name, wire in listed.tools.items():
        judging.tool(name, wire, by_subject.get(f"{TOOL}{name}", []))
    for name, wire in listed.prompts.items():
        judging.prompt(name, wire, by_subject.get(f"{PROMPT}{name}", []))
    instructions = judging.instructions(by_subject.get(INSTRUCTIONS, []), first=approved is None)
    about = judging.about(by_subject.get(SERVER, []))
    return judging.judged(instructions, about, first=approved is None)


@dataclass
class _Judging:
    """One judgement, subject by subject."""

    approved: PinnedListing
    listed: PinnedListing
    manual: bool
    trusted: bool
    findings: Findings
    server: str
    tools: dict[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    prompts: dict[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    blocked: dict[str, str] = field(default_factory=dict[str, str])
    waiting: dict[str, tuple[Difference, ...]] = field(default_factory=dict[str, tuple[Difference, ...]])
    kept_tools: dict[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    kept_prompts: dict[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """What is approved by policy just now."""
    kept_instructions: str | None = None
    kept_about: Mapping[str, Any] | None = None

    def tool(self, name: str, wire: Mapping[str, Any], found: list[Difference]) -> None:
        subject, pinned = f"{TOOL}{name}", self.approved.tools.get(name)
        if pinned is None:
            if why := self._new(subject, found):
                self.tools[name] = _only_its_name(name)
                self._block(name, found, why)
            else:
                self.tools[name] = wire
                self.kept_tools[name] = pinned_part(wire)
            return
        if not found:
            self.tools[name] = wire
            return
        was = pinned_part(pinned)
        on = raised(was, wire, self.trusted)
        if on is not was:
            self.kept_tools[name] = on
            found = [*(each for each in found if not is_hint(each)), *hint_differences(subject, on, wire, self.trusted)]
        self.tools[name] = with_unpinned(on, wire)
        if why := self._why_blocked(subject, found):
            self._block(name, found, why)
        self._wait(subject, found)

    def prompt(self, name: str, wire: Mapping[str, Any], found: list[Difference]) -> None:
        subject, pinned = f"{PROMPT}{name}", self.approved.prompts.get(name)
        if pinned is None:
            if not self._new(subject, found):
                self.prompts[name] = wire
                self.kept_prompts[name] = pinned_part(wire)
        elif not found:
            self.prompts[name] = wire
        else:
            if not self._why_blocked(subject, found):
                self.prompts[name] = with_unpinned(pinned, wire)
            self._wait(subject, found)

    def instructions(self, found: list[Difference], *, first: bool) -> str | None:
        """Those in force. Of the first listing they are approved like its tools; what comes later is reworded."""
        listed = self.listed.instructions
        if listed is None or not found:
            return listed
        if first and not self.manual and not self._hides(INSTRUCTIONS):
            self.kept_instructions = listed
            return listed
        self._wait(INSTRUCTIONS, found)
        return self.approved.instructions

    def about(self, found: list[Difference]) -> Mapping[str, Any] | None:
        """What the server says about itself, in force. What it says first is approved like a new tool."""
        approved, listed = self.approved.about, self.listed.about
        if listed is None:
            return approved
        if approved is not None and found:
            self._wait(SERVER, found)
            return approved
        if approved is None:
            if self._new(SERVER, found):
                return None
            self.kept_about = listed
        return listed

    def _new(self, subject: str, found: list[Difference]) -> str | None:
        """Why it waits. What is new is approved by policy where nothing speaks against it."""
        if why := self._why_blocked(subject, found):
            self._wait(subject, found)
            return why
        if self.manual or subject in self.approved.rejected:  # also where it is another one than was refused
            self._wait(subject, found)
            return NEW
        return None

    def _why_blocked(self, subject: str, found: list[Difference]) -> str | None:
        reasons = [why for judgement, why in WHY.items() if any(each.judgement == judgement for each in found)]
        if self._hides(subject):
            reasons.append(HIDES)
        return "; ".join(reasons) or None

    def _hides(self, subject: str) -> bool:
        return any(each.blocks for each in self.findings.get(subject, ()))

    def _is_rejected(self, subject: str) -> bool:
        refused = self.approved.rejected.get(subject)
        return refused is not None and refused == self.listed.digest_of(subject)

    def _block(self, name: str, found: list[Difference], why: str) -> None:
        what = "changed" if name in self.approved.tools else "new"
        command = "diff" if what == "changed" or any(each.judgement == "renames" for each in found) else "show"
        refused = " A person refused it." if self._is_rejected(f"{TOOL}{name}") else ""
        self.blocked[name] = (
            f"{what}: {why}.{refused} To see and decide it, run `mcpproxy pins {command} {self.server}`"
        )

    def _wait(self, subject: str, found: list[Difference]) -> None:
        """What a person refused is not asked about again."""
        if (found or self._hides(subject)) and not self._is_rejected(subject):
            self.waiting[subject] = tuple(found)

    def judged(self, instructions: str | None, about: Mapping[str, Any] | None, *, first: bool) -> JudgedListing:
        return JudgedListing(
            in_force=PinnedListing(self.tools, instructions, self.prompts, about=about),
            blocked=self.blocked,
            waiting=self.waiting,
            to_keep=self._to_keep(first),
        )

    def _to_keep(self, first: bool) -> PinnedListing | None:
        """Of a first listing also nothing is kept, so that what comes later is no first one; but not where a person
        has to approve it."""
        of_itself = (self.kept_instructions, self.kept_about)
        new = self.kept_tools or self.kept_prompts or any(each is not None for each in of_itself)
        if not new and (not first or self.manual):
            return None
        instructions = self.approved.instructions if self.kept_instructions is None else self.kept_instructions
        return replace(
            self.approved,
            tools={**self.approved.tools, **self.kept_tools},
            prompts={**self.approved.prompts, **self.kept_prompts},
            instructions=instructions,
            about=self.approved.about if self.kept_about is None else self.kept_about,
        )


def _only_its_name(name: str) -> Mapping[str, Any]:
    """A tool that nobody approved: to be refused, and not to be shown."""
    return {"name": name, "inputSchema": {"type": "object"}}


# What a person decides.


def approve(approved: PinnedListing | None, listed: PinnedListing, subjects: Iterable[str]) -> PinnedListing:
    """With these subjects as they are listed now. One that is not listed any more loses its pin. Raises `ValueError`
    for one that is neither."""
    before = approved or PinnedListing()
    tools, prompts, rejected = dict(before.tools), dict(before.prompts), dict(before.rejected)
    instructions, about = before.instructions, before.about
    for subject in subjects:
        _must_be(subject, before, listed)
        rejected.pop(subject, None)
        if subject == INSTRUCTIONS:
            instructions = listed.instructions
            continue
        if subject == SERVER:
            about = listed.about
            continue
        kind, _, name = subject.partition(":")
        here, there = (tools, listed.tools) if kind == "tool" else (prompts, listed.prompts)
        if name in there:
            here[name] = pinned_part(there[name])
        else:
            here.pop(name, None)
    return PinnedListing(tools, instructions, prompts, rejected, about)


def reject(approved: PinnedListing | None, listed: PinnedListing, subjects: Iterable[str]) -> PinnedListing:
    """What was approved stays, and these subjects, as they are listed now, are not asked about again. Raises
    `ValueError` for one that is not listed."""
    before = approved or PinnedListing()
    rejected = dict(before.rejected)
    for subject in subjects:
        found = listed.digest_of(subject)
        if found is None:
            raise ValueError(f"the server lists no '{quoted(subject)}' that could be rejected")
        rejected[subject] = found
    return replace(before, rejected=rejected)


def _must_be(subject: str, before: PinnedListing, listed: PinnedListing) -> None:
    if before.digest_of(subject) is None and listed.digest_of(subject) is None:
        text = f"there is no '{quoted(subject)}', neither pinned nor listed; subjects are tool:NAME, prompt:NAME"
        raise ValueError(f"{text}, instructions and server")
