"""What was refused for a share is counted, and told once a minute; the record of a minute is bounded."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from mcpproxy_py.core.record.events import EventText
from mcpproxy_py.gateway import shares
from mcpproxy_py.gateway.shares import MOST_KEYS, NOT_KEPT, OTHERS, PrincipalShares, ShareLimits, ShareUsedUp

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SEC-7")]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def counted() -> tuple[PrincipalShares, list[tuple[str, str, int]]]:
    made = PrincipalShares(ShareLimits(in_flight=1, questions=2, record_bytes=6400))
    said: list[tuple[str, str, int]] = []
    made.report = lambda principal, share, count: said.append((principal, share, count))
    return made, said


async def test_the_first_refusal_is_told_at_once_and_the_others_together() -> None:
    made, said = counted()
    for _ in range(1000):
        made.count("agent", "in_flight")
    made.count("local", "in_flight")
    assert said == [("agent", "in_flight", 1), ("local", "in_flight", 1)]
    made.close()
    assert said[2:] == [("agent", "in_flight", 999)]
    assert made.refusals == {"in_flight": 1001}


async def test_a_flood_that_goes_on_is_told_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "MINUTE", 0.1)
    made, said = counted()
    with anyio.fail_after(30):
        made.count("agent", "streams")
        while len(said) < 4:
            made.count("agent", "streams")
            await anyio.lowlevel.checkpoint()
    assert [(principal, share) for principal, share, _ in said] == [("agent", "streams")] * 4
    assert sum(count for *_, count in said) <= made.refusals["streams"]
    made.close()
    assert sum(count for *_, count in said) == made.refusals["streams"]


async def test_after_a_quiet_minute_the_next_one_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "MINUTE", 0.01)
    made, said = counted()
    with anyio.fail_after(30):
        made.count("agent", "streams")
        while made._timer is not None:
            await anyio.lowlevel.checkpoint()
        made.count("agent", "streams")
    assert said == [("agent", "streams", 1)] * 2
    made.close()


async def test_addresses_that_are_made_up_are_told_together() -> None:
    made, said = counted()
    for number in range(10 * MOST_KEYS):
        made.count(f"2001:db8:{number:x}::/64", "connections")
    made.close()
    assert len(said) <= MOST_KEYS + 2
    assert said[-1][0] == OTHERS
    assert sum(count for *_, count in said) == 10 * MOST_KEYS


async def test_a_share_is_each_principals_own_and_is_given_back() -> None:
    made, _ = counted()
    with made.questions.held("agent"), made.questions.held("agent"):
        with pytest.raises(ShareUsedUp, match=r"limits\.per_principal\.questions"), made.questions.held("agent"):
            raise AssertionError
        with made.questions.held("local"):
            assert made.questions.taken == {"agent": 2, "local": 1}
    assert made.questions.taken == {}
    made.close()


def test_a_new_minute_begins_with_nothing_and_a_short_payload_stays() -> None:
    made, _ = counted()
    record = made.record
    record.roll(0.0)
    record.taken["agent"] = 7000
    record.of_refused["agent"] = 300
    assert record.is_used_up("agent") and not record.is_used_up("local")
    long = EventText(b"{}", b'"' + b"x" * 1000 + b'"')
    assert record.without_payload("agent", long).payload == NOT_KEPT
    assert record.taken["agent"] == 7000 - 1002 + len(NOT_KEPT)
    assert record.without_payload("agent", EventText(b"{}", b"{}")).payload == b"{}"
    record.roll(61.0)
    assert not record.taken and not record.of_refused and record.until == 121.0
