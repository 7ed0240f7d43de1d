"""Pins as they are kept: one record with a seal for each server, and behind it what was approved, by its digests.

A listing may be megabytes, and what is read and written in one piece holds up everybody else. So the texts are rows of
their own, without a seal: each is held against its digest when it is read. So are lists of some of the digests, and the
record has the digests of these lists.

A text that is not there, was changed, or holds a secret and so was never written, is known by its digest alone. What
the server lists then is the same or it is not; if it is not, nobody can show what it was. A name that holds a secret
is kept as a digest too, until the server lists it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import anyio.to_thread

from mcpproxy_py.core import json_values
from mcpproxy_py.core.pins.canonical import digest
from mcpproxy_py.core.pins.listing import INSTRUCTIONS, PROMPT, SERVER, TOOL, VERSION, PinnedListing, is_prompt, is_tool
from mcpproxy_py.core.pins.parts import pinned_part
from mcpproxy_py.core.record.masking import Masker
from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.store.sealed_records import SAYS, SealedRecord, SealedRecords, UnbelievedRecord
from mcpproxy_py.upstream.turns import Made, uncollected

T = TypeVar("T")
KIND: Final = "pin"
FORMAT: Final = 1
PATIENCE: Final = 4.0
"""Seconds that a server's connection waits for the database."""
SINCE_BEFORE: Final = "was written by another version of mcpproxy, which this one cannot read"
DAMAGED: Final = "is damaged"
LISTS_GONE: Final = "lost what it names: somebody else changed or took it"
MOST_FINDINGS: Final = 200
IN_A_LIST: Final = 200
HIDDEN: Final = "(hidden) "
"""Before the digest of a subject whose name holds a secret. A server that gives a tool such a name gains nothing: the
digest of what is approved has the name in it."""
FindingRow = Sequence[str]
"""Kind, where, excerpt, sentence."""


@dataclass(frozen=True)
class Pin:
    """What is approved of one server, as this gateway knows it."""

    approved: PinnedListing | None = None
    """`None`: nothing yet, or nothing that is believed."""
    known_by_digest: Mapping[str, str] = field(default_factory=dict[str, str])
    """Subjects that are approved and whose texts are not there."""
    prompts_read: bool = False
    """Whether its prompts were ever listed: they are only read when somebody asks for them."""
    findings: Mapping[str, Sequence[FindingRow]] = field(default_factory=dict[str, Sequence[FindingRow]])
    """What the scan said of what is approved."""
    version: int = 0
    at: float | None = None
    by: str = ""
    doubt: str | None = None
    """Why what is stored is not believed."""
    unread: str | None = None
    """Why it is not known what is stored."""
    unwritten: bool = False
    """Whether this is in force here and could not be written yet."""
    lists: Sequence[str] = ()
    """What its record names, as it was written."""

    @property
    def unusable(self) -> str | None:
        """Why nothing of it may be taken for approved."""
        if self.doubt is not None:
            return f"its pin {self.doubt}"
        return None if self.unread is None else f"its pin cannot be read: {self.unread}"

    def approved_with(self, listed: PinnedListing) -> PinnedListing | None:
        """With what is known by its digest alone, where that is what the server lists."""
        approved = self.approved
        if approved is None or not self.known_by_digest:
            return approved
        same = [each for each, known in self.known_by_digest.items() if listed.digest_of(each) == known]
        return approved if not same else _with(approved, listed, same)

    def named(self, listed: PinnedListing) -> Pin:
        """With the names of what was kept without, where the server lists them."""
        rejected = self.approved.rejected if self.approved else {}
        if not any(HIDDEN in each for each in (*self.known_by_digest, *rejected)):
            return self
        names = {hidden(each): each for each in listed.subjects()}
        return replace(
            self, known_by_digest=_renamed(self.known_by_digest, names), findings=_renamed(self.findings, names),
            approved=replace(self.approved, rejected=_renamed(rejected, names)) if self.approved else None,
        )  # fmt: skip

    def lost(self, listed: PinnedListing) -> frozenset[str]:
        """Subjects of which nobody knows what was approved, only that it was not this."""
        return frozenset(
            each for each, known in self.known_by_digest.items() if listed.digest_of(each) not in (known, None)
        )


def hidden(subject: str) -> str:
    kind, _, _ = subject.partition(":")
    return f"{kind}:{HIDDEN}{digest(subject)}"


def _renamed(values: Mapping[str, T], names: Mapping[str, str]) -> dict[str, T]:
    return {names.get(subject, subject): value for subject, value in values.items()}


def _with(approved: PinnedListing, listed: PinnedListing, subjects: Iterable[str]) -> PinnedListing:
    tools, prompts = dict(approved.tools), dict(approved.prompts)
    instructions, about = approved.instructions, approved.about
    for subject in subjects:
        kind, _, name = subject.partition(":")
        if subject == INSTRUCTIONS:
            instructions = listed.instructions
        elif subject == SERVER:
            about = listed.about
        elif kind == "tool":
            tools[name] = listed.tools[name]
        else:
            prompts[name] = listed.prompts[name]
    return PinnedListing(tools, instructions, prompts, approved.rejected, about)


class RecordStore(Protocol):
    """What this needs of the store room."""

    async def sealed_records(self, kind: str) -> SealedRecords: ...
    async def sealed_record(self, kind: str, name: str) -> SealedRecord | UnbelievedRecord | None: ...
    async def put_sealed_record(
        self, kind: str, name: str, value: Any, *, expected: int | None = None, details: Mapping[str, Any] = ...
    ) -> SealedRecord: ...


class TextStore(Protocol):
    async def load(self, digests: Sequence[str]) -> Mapping[str, Any]: ...
    async def save(self, values: Mapping[str, Any]) -> None: ...
    async def forget(self, but: Sequence[str]) -> None: ...


class PinStorage:
    """Raises `StoreUnavailable`, after some seconds where the database does not answer: who wrote then goes on."""

    def __init__(self, records: RecordStore, texts: TextStore, masker: Masker) -> None:
        self._records = records
        self._texts = texts
        self._masker = masker
        self._there: set[str] = set()
        """Digests whose texts are in the database, or were left out of it."""

    async def all(self) -> dict[str, Pin]:
        found = await _within(self._records.sealed_records(KIND))
        pins = {name: unbelieved(each) for name, each in found.unbelieved.items()}
        for name, record in found.believed.items():
            pins[name] = await self._pin(record)
        return pins

    async def one(self, server: str) -> Pin:
        """Without a version where there is none."""
        found = await _within(self._records.sealed_record(KIND, server))
        if found is None:
            return Pin()
        return unbelieved(found) if isinstance(found, UnbelievedRecord) else await self._pin(found)

    async def keep(self, server: str, pin: Pin, details: Mapping[str, Any]) -> Pin:
        """The texts first, then the record that names them. Raises `RecordConflict` where another gateway was first."""
        value, texts = await beside(partial(self._stored, pin))
        await _within(self._texts.save(texts))
        self._there.update(digests_of(pin).values())
        record = await _within(
            self._records.put_sealed_record(
                KIND, server, value, expected=pin.version, details=self._masker.mask(details)
            )
        )
        return replace(
            pin, version=record.version, at=record.at, doubt=None, unread=None, unwritten=False, lists=value["lists"]
        )

    async def tidy(self, pins: Sequence[Pin]) -> None:
        """Takes out the texts that no pin has named for a while. `pins` are all that there are."""
        if any(pin.unusable for pin in pins):
            return  # what these name is not known
        await self._texts.forget(await beside(partial(_named, pins)))

    def _stored(self, pin: Pin) -> tuple[dict[str, Any], dict[str, Any]]:
        approved, subjects = pin.approved or PinnedListing(), digests_of(pin)
        names = {each: hidden(each) for each in {*subjects, *approved.rejected} if self._is_secret(each)}
        findings = {each: self._masker.mask(pin.findings[each]) for each in list(pin.findings)[:MOST_FINDINGS]}
        texts = {
            known: text
            for subject, known in subjects.items()
            if known not in self._there and subject not in names and (text := _text_of(approved, subject)) is not None
            and self._masker.mask(text) == text
        }  # fmt: skip
        lists = _lists(_renamed(subjects, names))
        value = {
            "format": FORMAT, "version": VERSION, "lists": list(lists),
            "rejected": _renamed(approved.rejected, names), "prompts_read": pin.prompts_read, "by": pin.by,
            "findings": {each: list(rows) for each, rows in _renamed(findings, names).items()},
        }  # fmt: skip
        return value, texts | lists

    def _is_secret(self, subject: str) -> bool:
        _, _, name = subject.partition(":")
        return not name.startswith(HIDDEN) and self._masker.mask(name) != name

    async def _pin(self, record: SealedRecord) -> Pin:
        value = json_values.as_object(record.value) or {}
        if (value.get("format"), value.get("version")) != (FORMAT, VERSION):
            return Pin(version=record.version, at=record.at, doubt=SINCE_BEFORE)
        lists, rejected = json_values.as_array(value.get("lists")), json_values.as_object(value.get("rejected"))
        if lists is None or rejected is None:
            return Pin(version=record.version, at=record.at, doubt=DAMAGED)
        found = await _within(self._texts.load(lists))
        subjects = await beside(partial(_subjects, lists, found))
        if subjects is None:
            return Pin(version=record.version, at=record.at, doubt=LISTS_GONE)
        texts = await _within(self._texts.load(list(subjects.values())))
        approved, lost = await beside(partial(_listing, subjects, rejected, texts))
        self._there.update(known for subject, known in subjects.items() if subject not in lost)
        return Pin(
            approved, lost, bool(value.get("prompts_read")), json_values.as_object(value.get("findings")) or {},
            record.version, record.at, str(value.get("by", "")), lists=tuple(lists),
        )  # fmt: skip


def unbelieved(record: UnbelievedRecord) -> Pin:
    return Pin(version=record.version, doubt=SAYS[record.why])


def digests_of(pin: Pin) -> dict[str, str]:
    """Of each subject that is approved."""
    approved = pin.approved or PinnedListing()
    found = {each: approved.digest_of(each) or "" for each in approved.subjects()}
    return {**{each: known for each, known in pin.known_by_digest.items() if each not in found}, **found}


def _named(pins: Sequence[Pin]) -> list[str]:
    return list({known for pin in pins for known in (*digests_of(pin).values(), *pin.lists)})


def _text_of(listing: PinnedListing, subject: str) -> Any:
    if subject in (INSTRUCTIONS, SERVER):
        return listing.instructions if subject == INSTRUCTIONS else listing.about
    kind, _, name = subject.partition(":")
    wire = (listing.tools if kind == "tool" else listing.prompts).get(name)
    return None if wire is None else dict(pinned_part(wire))


def _lists(subjects: Mapping[str, str]) -> dict[str, list[list[str]]]:
    """Some pairs of subject and digest at a time, by the digest of these."""
    pairs = [list(pair) for pair in subjects.items()]
    some = [pairs[at : at + IN_A_LIST] for at in range(0, len(pairs), IN_A_LIST)]
    return {digest(each): each for each in some}


def _subjects(lists: Sequence[Any], found: Mapping[str, Any]) -> dict[str, str] | None:
    """`None` where one of the lists is not there as it was."""
    subjects: dict[str, str] = {}
    for known in lists:
        pairs = found.get(known)
        if pairs is None or digest(pairs) != known:
            return None
        subjects.update((str(subject), str(each)) for subject, each in pairs)
    return subjects


def _listing(
    subjects: Mapping[str, str], rejected: Mapping[str, str], texts: Mapping[str, Any]
) -> tuple[PinnedListing, dict[str, str]]:
    """And what of it is known by its digest alone."""
    tools: dict[str, Any] = {}
    prompts: dict[str, Any] = {}
    instructions, about, lost = None, None, dict[str, str]()
    for subject, known in subjects.items():
        text = texts.get(known)
        if text is None or digest(text) != known:
            lost[subject] = known
        elif subject == INSTRUCTIONS and isinstance(text, str):
            instructions = text
        elif subject == SERVER and isinstance(text, dict):
            about = text
        elif subject.startswith(TOOL) and is_tool(text) and text["name"] == subject.removeprefix(TOOL):
            tools[text["name"]] = text
        elif subject.startswith(PROMPT) and is_prompt(text) and text["name"] == subject.removeprefix(PROMPT):
            prompts[text["name"]] = text
        else:
            lost[subject] = known
    return PinnedListing(tools, instructions, prompts, dict(rejected), about), lost


async def beside(make: Callable[[], Made]) -> Made:
    """In a worker thread, without a look for garbage: of what a large listing is made of, a look at all of it would
    hold up everybody for a quarter of a second."""
    return await anyio.to_thread.run_sync(partial(uncollected, make))


async def _within(work: Awaitable[T], seconds: float = PATIENCE) -> T:
    """It goes on where nobody waits any more: what is half written is worse than what is late."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(_looked_at)
    done, _ = await asyncio.wait((task,), timeout=seconds)
    if not done:
        raise StoreUnavailable(f"the database did not answer within {seconds:g} seconds.")
    return task.result()


def _looked_at(task: asyncio.Future[Any]) -> None:
    """So that nobody complains that nobody looked."""
    if not task.cancelled():
        task.exception()
