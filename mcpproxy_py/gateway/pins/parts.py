"""What of a server is known in this life of the gateway. Tools and instructions are listed at one time, prompts at
another, and one pin has them all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from mcpproxy_py.core.pins.canonical import digest
from mcpproxy_py.core.pins.listing import PROMPT, PinnedListing
from mcpproxy_py.gateway.pins.review import PinReview
from mcpproxy_py.gateway.pins.storage import Pin
from mcpproxy_py.upstream.spec import UpstreamSpec

Part = Literal["listing", "prompts"]


@dataclass
class ServerPins:
    """What is known of one server in this life of the gateway."""

    spec: UpstreamSpec
    listing: PinReview | None = None
    prompts: PinReview | None = None
    """Only read when somebody asks for them."""
    told: str = ""

    @property
    def reviews(self) -> list[PinReview]:
        return [each for each in (self.listing, self.prompts) if each is not None]

    @property
    def seen(self) -> str:
        return digest([each.seen for each in self.reviews])

    def listed(self) -> PinnedListing:
        """All that it lists, as far as it was heard."""
        listing, prompts = self.listing, self.prompts
        return PinnedListing(
            listing.listed.tools if listing else {},
            listing.listed.instructions if listing else None,
            prompts.listed.prompts if prompts else {},
            about=listing.listed.about if listing else None,
        )

    def waiting(self) -> dict[str, Any]:
        return {subject: found for each in self.reviews for subject, found in each.judged.waiting.items()}


def of_part(pin: Pin, part: Part) -> Pin:
    """Tools and instructions are listed at one time, prompts at another."""
    approved, digests = pin.approved, pin.known_by_digest
    ours = {each: known for each, known in digests.items() if each.startswith(PROMPT) == (part == "prompts")}
    if approved is not None and part == "listing":
        approved = replace(approved, prompts={})
    elif approved is not None:
        approved = PinnedListing({}, None, approved.prompts, approved.rejected) if pin.prompts_read else None
    return replace(pin, approved=approved, known_by_digest=ours)


def merged(pin: Pin, to_keep: PinnedListing, part: Part, review: PinReview) -> PinnedListing:
    was = pin.approved or PinnedListing()
    same_part = lambda each: each.startswith(PROMPT) == (part == "prompts")  # noqa: E731
    rejected = {each: known for each, known in was.rejected.items() if not same_part(each)}
    rejected |= {each: known for each, known in to_keep.rejected.items() if same_part(each)}
    if part == "listing":
        return replace(to_keep, prompts=was.prompts, rejected=rejected)
    return replace(was, prompts=to_keep.prompts, rejected=rejected)


def approved_after(pin: Pin, kept: PinnedListing, by: str, *, prompts_read: bool, findings: Mapping[str, Any]) -> Pin:
    there = set(kept.subjects())
    digests = {each: known for each, known in pin.known_by_digest.items() if each not in there}
    found = {each: rows for each, rows in {**pin.findings, **findings}.items() if each in there or each in digests}
    return replace(pin, approved=kept, known_by_digest=digests, prompts_read=prompts_read, findings=found, by=by)
