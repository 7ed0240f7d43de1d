"""A person's yes is for one call, as it was shown: replay, tampering, races, and answers that only look like one.

`tests/journeys/test_confirm.py` says what a yes and a no do; `test_choke_point_rounds` attacks what servers ask.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

from tests.attacks.target import ALL_SURFACES, DOORS, ERAS, Outcome, Target, ask, fresh, heard, params, turn
from tests.support.gateway import gateway
from tests.support.peer import Message, Peer
from tests.support.wire import HANDSHAKE, MODERN

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SEC-4")]
YES = {"action": "accept", "content": {"allow": True}}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    here = tmp_path_factory.mktemp("confirmations")
    config = {"surfaces": ALL_SURFACES, "mcpServers": {"h": heard(here, "h", confirm="destructive")}}
    with gateway(here / "data", config) as running:
        yield Target(running, here)


NO_YES: dict[str, Any] = {
    "no-content": {"action": "accept"}, "empty": {"action": "accept", "content": {}},
    "null": {"action": "accept", "content": None}, "text": {"action": "accept", "content": {"allow": "true"}},
    "number": {"action": "accept", "content": {"allow": 1}}, "list": {"action": "accept", "content": {"allow": [True]}},
    "other-key": {"action": "accept", "content": {"Allow": True}}, "as-a-list": {"action": "accept", "content": [True]},
    "upper-case": {"action": "ACCEPT", "content": {"allow": True}}, "spaces": {"action": "accept ",
    "content": {"allow": True}},
    "a-list": {"action": ["accept"], "content": {"allow": True}}, "no-action": {"content": {"allow": True}},
    "true": {"action": True, "content": {"allow": True}}, "deep": {"result": YES},
    "contradiction": {"action": "decline", "content": {"allow": True}},
}  # fmt: skip


@ERAS
@pytest.mark.parametrize("case", NO_YES)
async def test_an_answer_that_only_looks_like_a_yes_is_a_no(target: Target, era: str, case: str) -> None:
    async def person(method: str, asked: Any) -> Any:
        return NO_YES[case]

    mark = fresh()
    async with target.client("gate", "h", era, person) as peer:
        assert not (await ask(peer, params("gate", "h", "wipe", mark))).ok
    await target.marker("gate", "h", era)
    assert not target.log("h").calls(mark)


# In the modern era the question, and what it is about, travel through the client.


async def asked(peer: Peer, first: Message) -> Outcome:
    round_ = await turn(peer, first)
    assert round_.result.get("resultType") == "input_required", round_
    return round_


def answered(first: Message, round_: Outcome, answer: Any = YES, **changes: Any) -> Message:
    answers = dict.fromkeys(round_.result["inputRequests"], answer)
    return {**first, "inputResponses": answers, "requestState": round_.result["requestState"], **changes}


def other_body(state: str, **changes: Any) -> str:
    """The same signature under another text."""
    body, dot, rest = state.partition(".")
    padded = body + "=" * (-len(body) % 4)
    said = json.loads(base64.urlsafe_b64decode(padded))
    return base64.urlsafe_b64encode(json.dumps({**said, **changes}).encode()).decode() + dot + rest


def flipped(state: str, at: int) -> str:
    return state[:at] + ("A" if state[at] != "A" else "B") + state[at + 1 :]


TAMPERED: dict[str, Callable[[str], Any]] = {
    "first": lambda state: flipped(state, 0), "middle": lambda state: flipped(state, len(state) // 2),
    "last": lambda state: flipped(state, len(state) - 1), "longer": lambda state: state + "A",
    "shorter": lambda state: state[:-1],
    "unsigned": lambda state: state.partition(".")[0], "no-body": lambda state: "." + state.partition(".")[2],
    "signed-twice": lambda state: f"{state}.{state.partition('.')[2]}", "upper": lambda state: state.upper(),
    "principal": lambda state: other_body(state, principal="admin"), "expires": lambda state: other_body(state,
    expires=9e12),
    "digest": lambda state: other_body(state, digest="0" * 64), "held": lambda state: other_body(state, held=0,
    inner="x"),
    "more": lambda state: other_body(state, more=1), "spaces": lambda state: f" {state}",
    "a-list": lambda state: [state],
    "an-object": lambda state: {"state": state}, "null": lambda state: None, "number": lambda state: 1,
    "empty": lambda state: "",
}  # fmt: skip


@DOORS
async def test_a_yes_with_a_state_that_was_changed_lets_nothing_through_and_spends_nothing(
    target: Target, door: str
) -> None:
    mark = fresh()
    first = params(door, "h", "wipe", mark)
    async with target.client(door, "h", MODERN) as peer:
        round_ = await asked(peer, first)
        for name, change in TAMPERED.items():
            forged = answered(first, round_, requestState=change(round_.result["requestState"]))
            found = await turn(peer, forged)
            assert not found.ok or found.result.get("resultType") == "input_required", name
            assert not target.log("h").calls(mark), name
        assert (await turn(peer, answered(first, round_))).ok, "the real one is still good"
    assert len(target.log("h").calls(mark)) == 1


def another_call(door: str, mark: str, other: str) -> dict[str, Message]:
    first = params(door, "h", "wipe", mark)
    found = {
        "value": params(door, "h", "wipe", other), "more": params(door, "h", "wipe", mark, rounds=1),
        "tool": params(door, "h", "wipe_ask", mark), "type": params(door, "h", "wipe", mark, until=None),
    }  # fmt: skip
    if door == "gate":
        inner = first["arguments"]
        found["reason"] = {**first, "arguments": {**inner, "intent": {**inner["intent"], "reason": "another"}}}
        found["variant"] = {"name": "call_tool_write", "arguments": {**inner, "intent": {"operation_type": "write"}}}
    return found


@DOORS
async def test_a_yes_is_good_for_no_other_call(target: Target, door: str) -> None:
    mark, other = fresh(), fresh()
    first = params(door, "h", "wipe", mark)
    async with target.client(door, "h", MODERN) as peer:
        round_ = await asked(peer, first)
        for name, changed in another_call(door, mark, other).items():
            assert not (await turn(peer, answered(changed, round_))).ok, name
        assert (await turn(peer, answered(first, round_))).ok
    assert len(target.log("h").calls(mark)) == 1
    assert not target.log("h").calls(other)


async def test_a_yes_at_one_door_is_none_at_another(target: Target) -> None:
    mark = fresh()
    async with target.client("direct", "h", MODERN) as peer:
        round_ = await asked(peer, params("direct", "h", "wipe", mark))
    for door in ("gate", "passthrough"):
        async with target.client(door, "h", MODERN) as peer:
            assert not (await turn(peer, answered(params(door, "h", "wipe", mark), round_))).ok
    await target.marker("gate", "h", MODERN)
    assert not target.log("h").calls(mark)


async def at_once(asks: list[tuple[Peer, Message]]) -> list[Outcome]:
    found: list[Outcome] = []

    async def one(peer: Peer, asked: Message) -> None:
        found.append(await turn(peer, asked))

    async with anyio.create_task_group() as tasks:
        for each in asks:
            tasks.start_soon(one, *each)
    return found


@DOORS
async def test_of_many_yeses_at_once_one_counts(target: Target, door: str) -> None:
    mark = fresh()
    first = params(door, "h", "wipe", mark)
    async with target.client(door, "h", MODERN) as peer, target.client(door, "h", MODERN) as other:
        round_ = await asked(peer, first)
        found = await at_once([(who, answered(first, round_)) for who in (peer, other) * 4])
        assert not (await turn(peer, answered(first, round_))).ok, "nor does one later"
    assert sum(each.ok for each in found) == 1
    assert len(target.log("h").calls(mark)) == 1


@DOORS
async def test_a_yes_and_a_no_at_once_are_one_of_them(target: Target, door: str) -> None:
    for _ in range(5):
        mark = fresh()
        first = params(door, "h", "wipe", mark)
        async with target.client(door, "h", MODERN) as peer:
            round_ = await asked(peer, first)
            answers = [{"action": "decline"}, YES, {"action": "decline"}, YES]
            found = await at_once([(peer, answered(first, round_, answer)) for answer in answers])
        assert len(target.log("h").calls(mark)) == sum(each.ok for each in found) <= 1


@DOORS
async def test_no_yes_follows_a_no(target: Target, door: str) -> None:
    mark = fresh()
    first = params(door, "h", "wipe", mark)
    async with target.client(door, "h", MODERN) as peer:
        round_ = await asked(peer, first)
        assert not (await turn(peer, answered(first, round_, {"action": "decline"}))).ok
        assert not (await turn(peer, answered(first, round_))).ok
    await target.marker(door, "h", MODERN)
    assert not target.log("h").calls(mark)


async def test_a_yes_to_another_question_is_no_yes_to_this_one(target: Target) -> None:
    mark = fresh()
    first = params("gate", "h", "wipe", mark)
    async with target.client("gate", "h", MODERN) as peer:
        round_ = await asked(peer, first)
        (key,) = round_.result["inputRequests"]
        for answers in (
            {},
            {"x": YES},
            {f"{key} ": YES},
            {key.upper(): YES} if key.upper() != key else {},
            [YES],
            YES,
            {key: [YES]},
        ):
            found = await turn(peer, answered(first, round_, inputResponses=answers))
            assert not found.ok or found.result.get("resultType") == "input_required", answers
    await target.marker("gate", "h", MODERN)
    assert not target.log("h").calls(mark)


# In the handshake era the question is a request of the gateway's, and the answer a message of its own.


async def test_who_answers_for_another_session_or_twice_is_not_heard(target: Target) -> None:
    """A no that was given stays one, and a yes under the number of somebody else's question is nobody's."""
    mark = fresh()
    meddled = anyio.Event()

    async def declines_late(method: str, asked: Any) -> Any:
        await meddled.wait()
        return {"action": "decline"}

    async with (
        target.client("gate", "h", HANDSHAKE, declines_late) as peer, target.client("gate", "h", HANDSHAKE) as meddler,
    ):  # fmt: skip
        pending = await peer.begin("tools/call", params("gate", "h", "wipe", mark))
        await peer.hear_question()
        for number in range(1, 6):
            for request_id in (number, str(number), f"mcpproxy-{number}"):
                await meddler.link.send({"jsonrpc": "2.0", "id": request_id, "result": YES}, meddler._headers({}))
        meddled.set()
        assert (await pending.result())["isError"]
        for number in range(1, 6):
            await peer.link.send({"jsonrpc": "2.0", "id": f"mcpproxy-{number}", "result": YES}, peer._headers({}))
    await target.marker("gate", "h", HANDSHAKE)
    assert not target.log("h").calls(mark)
