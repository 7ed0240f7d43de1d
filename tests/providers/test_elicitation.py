"""Asking a person in both wire eras (PROV-4): one function, the same answers, whatever the era."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.providers import Accept, Cancel, Context, Decline, InputRequired, Live, Replay, ToolError
from mcpproxy_py.providers.elicitation import answer_of
from tests.providers.helpers import Tools, ToolSpec, accept, in_rounds, live, of, served, text

pytestmark = [pytest.mark.proves("PROV-4"), pytest.mark.anyio]
COPIES = {"type": "object", "properties": {"copies": {"type": "integer", "minimum": 1}}, "required": ["copies"]}


async def order(count: int, ctx: Context) -> str:
    said = []
    for number in range(count):
        answer = await ctx.elicit(f"How many of {number}?", COPIES)
        said.append(answer.content["copies"] if isinstance(answer, Accept) else type(answer).__name__)
    return str(said)


async def at_once(count: int, ctx: Context) -> str:
    answers = await asyncio.gather(*(ctx.elicit(f"How many of {number}?", COPIES) for number in range(count)))
    return str(
        [answer.content["copies"] if isinstance(answer, Accept) else type(answer).__name__ for answer in answers]
    )


def person(params: dict[str, Any]) -> dict[str, Any]:
    assert params["requestedSchema"] == COPIES
    number = int(params["message"].split()[-1].rstrip("?"))
    return [accept(copies=number + 1), {"action": "decline"}, {"action": "cancel"}][number % 3]


@pytest.mark.parametrize("name", ["order", "at_once"])
async def test_the_same_function_gets_the_same_answers_in_both_eras(name: str) -> None:
    made = await of(order, at_once)
    answered = await live(made, name, {"count": 4}, person)
    replayed, rounds = await in_rounds(made, name, {"count": 4}, person)
    assert text(answered) == text(replayed) == "[1, 'Decline', 'Cancel', 4]"
    assert len(rounds) == (4 if name == "order" else 1)


async def test_what_stands_before_a_question_runs_in_each_round_and_what_follows_runs_once() -> None:
    ran: list[str] = []

    async def f(ctx: Context) -> None:
        ran.append("before")
        await ctx.elicit("Sure?")
        ran.append("between")
        await ctx.elicit("Really?")
        ran.append("after")

    await in_rounds(await of(f), "f", {}, lambda params: accept())
    assert ran == ["before", "before", "between", "before", "between", "after"]


async def test_equal_questions_are_told_apart_by_counting() -> None:
    async def f(ctx: Context) -> str:
        return str([(await ctx.elicit("Another?", COPIES)).content["copies"] for _ in range(3)])

    numbers = itertools.count(1)
    result, _ = await in_rounds(await of(f), "f", {}, lambda params: accept(copies=next(numbers)))
    assert text(result) == "[1, 2, 3]"


async def test_a_question_that_changed_between_rounds_fails_and_shows_both() -> None:
    clock = itertools.count(12)

    async def f(ctx: Context) -> str:
        await ctx.elicit(f"It is {next(clock)} o'clock. Go on?")
        return "went on"

    result, rounds = await in_rounds(await of(f), "f", {}, lambda params: accept())
    assert rounds == [["It is 12 o'clock. Go on?"]]
    assert result["isError"] is True
    assert "It is 12 o'clock" in text(result)
    assert "It is 13 o'clock" in text(result)


async def test_a_schema_that_changed_between_rounds_fails_too() -> None:
    least = itertools.count(1)

    async def f(ctx: Context) -> None:
        schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": next(least)}}}
        await ctx.elicit("How many?", schema)

    result, _ = await in_rounds(await of(f), "f", {}, lambda params: accept(n=5))
    assert "another schema" in text(result)


async def test_an_answer_that_is_missing_is_asked_for_again() -> None:
    made = await of(at_once)
    first = await made.call("at_once", {"count": 3}, Replay())
    assert isinstance(first, InputRequired)
    second = await made.call("at_once", {"count": 3}, Replay(first.state, {"q2": {"action": "decline"}, "other": {}}))
    assert isinstance(second, InputRequired)
    asked = [request["params"]["message"] for request in second.requests.values()]
    assert asked == ["How many of 0?", "How many of 2?"]
    assert not set(second.requests) & {"q2"}, "a key must not be used for two questions"


async def test_answers_that_come_slowly_are_still_matched() -> None:
    """One branch asks again only after some work of its own; the other has gone on to its next question by then."""

    async def one(ctx: Context) -> str:
        return str([await ctx.elicit("a1"), await ctx.elicit("a2")])

    async def other(ctx: Context, slow: bool) -> str:
        for _ in range(50 if slow else 0):
            await asyncio.sleep(0)
        return str(await ctx.elicit("b"))

    rounds = itertools.count()

    async def f(ctx: Context) -> str:
        return " ".join(await asyncio.gather(one(ctx), other(ctx, slow=next(rounds) > 0)))

    result, asked = await in_rounds(await of(f), "f", {}, lambda params: accept())
    assert asked == [["a1", "b"], ["a2"]]
    assert "isError" not in result


async def test_concurrent_calls_keep_their_questions_apart() -> None:
    async def f(who: str, ctx: Context) -> str:
        answer = await ctx.elicit(f"{who}?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return f"{who}={answer.content['name']}" if isinstance(answer, Accept) else "?"

    made = await of(f)

    def named(params: dict[str, Any]) -> dict[str, Any]:
        return accept(name=params["message"].rstrip("?"))

    names = [f"n{number}" for number in range(20)]
    results = await asyncio.gather(*(in_rounds(made, "f", {"who": name}, named) for name in names))
    lively = await asyncio.gather(*(live(made, "f", {"who": name}, named) for name in names))
    assert [text(result) for result, _ in results] == [text(result) for result in lively] == [f"{n}={n}" for n in names]


async def test_the_end_of_a_round_lets_the_function_clean_up() -> None:
    cleaned = []

    async def f(ctx: Context) -> str:
        try:
            await ctx.elicit("Sure?")
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)
        return "done"

    result, _ = await in_rounds(await of(f), "f", {}, lambda params: accept())
    assert text(result) == "done"
    assert cleaned == [True, True]


async def test_a_function_that_will_not_give_up_ends_its_round_all_the_same() -> None:
    async def f(ctx: Context) -> str:
        try:
            await ctx.elicit("Sure?")
        except BaseException:
            return "went on without an answer"
        return "done"

    made = await of(f)
    assert isinstance(await made.call("f", {}, Replay()), InputRequired)


async def test_asking_without_end_fails() -> None:
    async def f(ctx: Context) -> None:
        await asyncio.gather(*(ctx.elicit(f"{number}?") for number in range(60)))

    result, _ = await in_rounds(await of(f), "f", {}, lambda params: accept())
    assert "more than 50 questions" in text(result)


async def test_a_question_is_only_offered_where_provider_and_client_both_have_it() -> None:
    async def f(ctx: Context) -> str:
        return str(ctx.can_elicit)

    async def g(ctx: Context) -> None:
        await ctx.elicit("Sure?")

    async def ask(params: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError("nobody may be asked")

    quiet = await served(Tools(ToolSpec("f", f), ToolSpec("g", g)))
    for made, asking in ((await of(f, g), None), (quiet, Live(ask)), (quiet, Replay())):
        assert text(await made.call("f", {}, asking)) == "False"
        assert "this client cannot be asked" in text(await made.call("g", {}, asking))
    assert text(await (await of(f)).call("f", {}, Replay())) == "True"


@pytest.mark.parametrize(
    "schema",
    [{"type": "string"}, {"type": "object", "properties": {"a": {"type": "object"}}},
     {"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": []}],
)  # fmt: skip
async def test_a_question_no_client_could_draw_fails_before_it_is_asked(schema: Any) -> None:
    async def f(ctx: Context) -> None:
        await ctx.elicit("Sure?", schema)

    assert (await (await of(f)).call("f", {}, Replay()))["isError"]


@given(
    st.none() | st.integers() | st.lists(st.integers())
    | st.fixed_dictionaries(
        {}, optional={"action": st.sampled_from(["accept", "decline", "cancel", "", "ACCEPT"]) | st.integers(),
                      "content": st.none() | st.text() | st.dictionaries(st.just("copies"), st.integers() | st.text())}
    )
)  # fmt: skip
def test_a_clients_answer_fits_the_question_or_is_refused(result: Any) -> None:
    try:
        answer = answer_of(result, COPIES)
    except ToolError:
        return
    assert isinstance(answer, Decline | Cancel) or answer.content["copies"] >= 1


async def test_progress_and_log_reach_the_caller_from_any_thread() -> None:
    progress: list[Any] = []
    logged: list[Any] = []

    def f(ctx: Context) -> None:
        ctx.progress(1, 3, "a third")
        ctx.progress(2)
        ctx.log("warning", {"odd": True})

    await (await of(f)).call("f", {}, on_progress=progress.append, on_log=logged.append)
    assert progress == [{"progress": 1, "total": 3, "message": "a third"}, {"progress": 2}]
    assert logged == [{"level": "warning", "logger": "f", "data": {"odd": True}}]
