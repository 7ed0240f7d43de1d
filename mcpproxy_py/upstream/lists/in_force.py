"""What of a server's own words is in force (SEC-3). Who keeps what was approved judges each listing before it is
published; nothing that nobody approved is published, be it a text, a schema or a hint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from mcpproxy_py.core.values import NOTHING
from mcpproxy_py.upstream.spec import UpstreamSpec

Listing = list[dict[str, Any]]


class SaidListing(NamedTuple):
    """What a server said of itself."""

    tools: Listing
    instructions: str | None = None
    heard: bool = False
    """Whether it said so in this life of the gateway. Else it is what is remembered of the last: without instructions,
    and no first listing that could be approved."""
    about: Mapping[str, Any] | None = None
    """What else it says about itself (`core.pins.parts`)."""


class ListingInForce(NamedTuple):
    """What the gateway goes on with."""

    tools: Mapping[str, Mapping[str, Any]]
    blocked: Mapping[str, str] = {}
    """Tools that nobody may call before a person has decided, and why."""
    instructions: str | None = None
    review: Mapping[str, Any] = NOTHING
    """What people are shown of it beside the server: how much waits for them, what the scan found."""
    about: Mapping[str, Any] = NOTHING


class ListingJudge(Protocol):
    """Whoever keeps what was approved. Nothing here is done on the event loop that takes long."""

    async def judged(self, spec: UpstreamSpec, said: SaidListing) -> ListingInForce: ...

    async def judged_prompts(self, spec: UpstreamSpec, said: Listing) -> Listing: ...


def is_judged(spec: UpstreamSpec) -> bool:
    """What lives in our own process can do what it likes anyway: its code was decided on when it was installed."""
    return spec.transport != "local"


class PromptsInForce:
    """The prompts of one server as they were approved. Found out once for each listing."""

    def __init__(self, judge: ListingJudge | None) -> None:
        self._judge = judge
        self._known: tuple[Listing, Listing] | None = None

    async def of(self, spec: UpstreamSpec, said: Listing) -> Listing:
        if self._judge is None or not is_judged(spec):
            return said
        known = self._known
        if known is None or known[0] is not said:
            known = self._known = said, await self._judge.judged_prompts(spec, said)
        return known[1]

    def forget(self) -> None:
        """Something was decided: they have to be judged again."""
        self._known = None
