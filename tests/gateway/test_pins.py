"""The service of pins, with a database that fails, answers late, or was written by another gateway first (SEC-3)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcpproxy_py.core.values import Caller, ClientInfo
from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.gateway.masker import MASKER
from mcpproxy_py.gateway.pins import service
from mcpproxy_py.gateway.pins.service import PinService, PinStep
from mcpproxy_py.gateway.pins.storage import PinStorage
from mcpproxy_py.store.sealed_records import RecordConflict, SealedRecord, SealedRecords, UnbelievedRecord
from mcpproxy_py.upstream.lists.in_force import ListingInForce, SaidListing
from mcpproxy_py.upstream.spec import UpstreamSpec

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SEC-3")]
SERVER = "files"
SPEC, MANUAL = UpstreamSpec(SERVER), UpstreamSpec(SERVER, trust="manual")
ANN = Caller("ann", "api", ClientInfo())
READS, DELETES = {"readOnlyHint": True}, {"destructiveHint": True}


def tool(name: str, hints: Mapping[str, Any] = READS, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"It is {name}",
        "inputSchema": {"type": "object"},
        "annotations": hints,
        **more,
    }


def said(*tools: dict[str, Any], heard: bool = True, instructions: str | None = None) -> SaidListing:
    return SaidListing(list(tools), instructions, heard)


class Shelf:
    """A database that several gateways share."""

    def __init__(self) -> None:
        self.rows: dict[str, SealedRecord] = {}
        self.texts: dict[str, Any] = {}
        self.said: list[Mapping[str, Any]] = []
        self.fails_to_read = self.fails_to_write = False
        self.doubt: UnbelievedRecord | None = None

    async def sealed_records(self, kind: str) -> SealedRecords:
        self._may_read()
        return SealedRecords(dict(self.rows), {})

    async def sealed_record(self, kind: str, name: str) -> SealedRecord | UnbelievedRecord | None:
        self._may_read()
        return self.doubt or self.rows.get(name)

    async def put_sealed_record(
        self, kind: str, name: str, value: Any, *, expected: int | None = None, details: Mapping[str, Any] = {}
    ) -> SealedRecord:
        await anyio.lowlevel.checkpoint()
        self._may_write()
        there = self.rows[name].version if name in self.rows else 0
        if expected not in (None, there):
            raise RecordConflict(kind, name, there)
        self.rows[name] = SealedRecord(name, value, there + 1, 1.0)
        self.said.append(details)
        return self.rows[name]

    async def load(self, digests: Sequence[str]) -> Mapping[str, Any]:
        self._may_read()
        return {each: self.texts[each] for each in digests if each in self.texts}

    async def save(self, values: Mapping[str, Any]) -> None:
        self._may_write()
        self.texts.update(values)

    async def forget(self, but: Sequence[str]) -> None:
        self.texts = {each: text for each, text in self.texts.items() if each in but}

    def _may_read(self) -> None:
        if self.fails_to_read:
            raise StoreUnavailable("nobody there.")

    def _may_write(self) -> None:
        if self.fails_to_write:
            raise StoreUnavailable("the disk is full.")


def gateway(shelf: Shelf) -> PinService:
    return PinService(PinStorage(shelf, shelf, MASKER), lambda listener: lambda: None)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
async def running(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PinService]:
    """One that goes on trying."""
    monkeypatch.setattr(service, "AGAIN", 0.01)
    pins = gateway(shelf)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pins.run)
        yield pins
        tasks.cancel_scope.cancel()


async def after(pins: PinService, what: Any) -> None:
    with anyio.fail_after(30):
        while not what():  # noqa: ASYNC110
            await anyio.sleep(0.01)


def texts(in_force: ListingInForce) -> list[Any]:
    return [wire.get("description") for wire in in_force.tools.values()]


async def test_of_two_gateways_that_see_a_server_first_one_writes_and_the_other_holds_its_listing_against_that(
    shelf: Shelf,
) -> None:
    one, two = gateway(shelf), gateway(shelf)
    found: dict[str, ListingInForce] = {}

    async def sees(pins: PinService, name: str, wire: dict[str, Any]) -> None:
        found[name] = await pins.judged(SPEC, said(wire))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sees, one, "one", tool("wipe", DELETES))
        tasks.start_soon(sees, two, "two", tool("wipe", READS))
    kept = [name for name, each in found.items() if not each.blocked]
    assert shelf.rows[SERVER].version in (1, 2)  # 2: what the second saw was riskier, and applied
    assert not (kept == ["one", "two"] and found["two"].tools["wipe"]["annotations"] == READS
                and shelf.rows[SERVER].version == 1)  # fmt: skip


async def test_a_first_listing_is_none_where_the_database_cannot_say_so(running: PinService, shelf: Shelf) -> None:
    again: list[str] = []

    async def judge_again(server: str) -> None:
        again.append(server)

    running.serve(_not_asked, judge_again)
    shelf.fails_to_read = True
    in_force = await running.judged(SPEC, said(tool("fetch")))
    assert "cannot be read" in in_force.blocked["fetch"]
    assert texts(in_force) == [None]
    shelf.fails_to_read = False
    await after(running, lambda: again)
    assert not (await running.judged(SPEC, said(tool("fetch")))).blocked
    assert shelf.rows[SERVER].version == 1


async def test_what_cannot_be_written_is_in_force_and_is_written_later(running: PinService, shelf: Shelf) -> None:
    shelf.fails_to_write = True
    assert not (await running.judged(SPEC, said(tool("wipe", DELETES)))).blocked
    assert running.rows()[0]["unwritten"]
    assert (await running.judged(SPEC, said(tool("wipe", READS)))).blocked  # by then it is no first listing
    shelf.fails_to_write = False
    await after(running, lambda: SERVER in shelf.rows)
    assert (await gateway(shelf).judged(SPEC, said(tool("wipe", READS)))).blocked


async def test_what_is_in_memory_goes_on_while_the_database_is_away(shelf: Shelf) -> None:
    pins = gateway(shelf)
    await pins.judged(SPEC, said(tool("fetch"), tool("wipe", DELETES)))
    shelf.fails_to_read = shelf.fails_to_write = True
    in_force = await pins.judged(SPEC, said(tool("fetch"), tool("wipe", READS)))
    assert list(in_force.blocked) == ["wipe"]


async def test_a_pin_in_a_form_of_another_version_approves_nothing_and_is_kept(shelf: Shelf) -> None:
    shelf.rows[SERVER] = SealedRecord(SERVER, {"format": 99, "subjects": {}}, 4, 1.0)
    pins = gateway(shelf)
    await pins.load()
    in_force = await pins.judged(SPEC, said(tool("fetch")))
    assert "another version" in in_force.blocked["fetch"]
    assert shelf.rows[SERVER].version == 4


async def test_what_holds_a_secret_is_known_by_its_digest_and_its_text_is_not_kept(shelf: Shelf) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    fetch = tool("fetch", _meta={"anthropic/searchHint": secret})
    await gateway(shelf).judged(SPEC, said(fetch, tool("wipe", DELETES)))
    assert secret not in str(shelf.texts)
    again = gateway(shelf)
    await again.load()
    assert not (await again.judged(SPEC, said(fetch, tool("wipe", DELETES)))).blocked
    in_force = await again.judged(SPEC, said({**fetch, "description": "Other words"}, tool("wipe", DELETES)))
    assert list(in_force.blocked) == ["fetch"]
    assert "digest" in in_force.blocked["fetch"]


async def test_a_name_that_holds_a_secret_is_approved_and_refused_without_being_kept(shelf: Shelf) -> None:
    secret, other = ("ghp_" + "a1B2c3D4e5" * 3 + end for end in ("f6G7h8", "k6G7h8"))
    fetch, gone = tool(f"fetch_{secret}", description="\x1b[2J"), tool(f"gone_{other}")
    pins = gateway(shelf)

    async def judge_again(_: str) -> None:
        await pins.judged(MANUAL, said(fetch, gone, tool("wipe")))

    pins.serve(_on_record, judge_again)
    await judge_again(SERVER)
    decisions: list[tuple[PinStep, str]] = [("reject", f"tool:{gone['name']}"), ("approve", f"tool:{fetch['name']}")]
    for step, subject in decisions:
        shown = await pins.show(SERVER)
        await pins.decide(SERVER, step, [subject], shown["seen"], ANN, {})
    kept = str((shelf.texts, shelf.rows, shelf.said))
    assert secret not in kept and other not in kept
    assert len(shelf.said) == 2

    for _ in range(2):  # what the first start tidies away, the second one misses
        again = gateway(shelf)
        await again.load()
    assert list((await again.judged(MANUAL, said(fetch, gone))).blocked) == [gone["name"]]
    shown = await again.show(SERVER)
    assert shown["refused"] == [f"tool:{gone['name']}"]
    assert list(shown["finding_rows"]) == [f"tool:{fetch['name']}"]
    changed = await again.judged(MANUAL, said({**fetch, "description": "Other words"}))
    assert "digest" in changed.blocked[fetch["name"]]


@pytest.mark.parametrize("hides", [{"_meta": {"x": "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"}}, {}])
async def test_a_start_tidies_away_nothing_that_a_pin_names(shelf: Shelf, hides: dict[str, Any]) -> None:
    listed = said(tool("a"), tool("fetch", **hides), tool("wipe", DELETES))
    await gateway(shelf).judged(SPEC, listed)
    shelf.texts["of nobody"] = "x"
    for _ in range(3):
        again = gateway(shelf)
        await again.load()
    assert "of nobody" not in shelf.texts
    assert again.rows()[0]["unusable"] is None
    assert not (await again.judged(SPEC, listed)).blocked
    assert shelf.rows[SERVER].version == 1


async def test_a_listing_that_is_only_remembered_approves_nothing_new(shelf: Shelf) -> None:
    pins = gateway(shelf)
    await pins.judged(SPEC, said(tool("fetch"), heard=False))
    assert shelf.rows == {}
    await pins.judged(SPEC, said(tool("fetch"), instructions="Ask."))
    in_force = await pins.judged(SPEC, said(tool("fetch"), tool("read_the_moon"), heard=False))
    assert list(in_force.blocked) == ["read_the_moon"]
    assert in_force.instructions == "Ask."
    assert shelf.rows[SERVER].version == 1


async def test_with_manual_trust_nothing_is_kept_before_a_person_says_so(shelf: Shelf) -> None:
    in_force = await gateway(shelf).judged(MANUAL, said(tool("fetch"), instructions="Ask."))
    assert list(in_force.blocked) == ["fetch"]
    assert in_force.instructions is None
    assert texts(in_force) == [None]
    assert shelf.rows == {}


async def test_policy_approves_no_more_names_than_there_is_room_for(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MOST_SUBJECTS", 3)
    pins = gateway(shelf)
    await pins.judged(SPEC, said(tool("alpha"), tool("beta"), tool("gamma")))
    in_force = await pins.judged(SPEC, said(tool("alpha"), tool("delta", description="Something else altogether")))
    assert list(in_force.blocked) == ["delta"]


async def _on_record(action: str, server: str | None, by: Caller, details: Any, act: Any) -> Any:
    return await act()


async def _not_asked(*_: Any) -> Any:
    raise AssertionError("nobody decided")
