"""The tasks extension: some tools answer with a task, and the client asks again later for what came of it.

An extension of the modern wire that is here because a gateway has to let it through: methods it does not
know, results that are neither complete nor a question, and a capability that is declared for each request.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import HEADER_MISMATCH, INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY

from .calls import Call, elicit, form, text, wanted
from .registry import schema, tool

EXTENSION = "io.modelcontextprotocol/tasks"
ENDED = ("completed", "failed", "cancelled")
TTL_MS, POLL_MS = 600_000, 50
LONGEST_CALL = 2.0
TASKS: dict[str, Task] = {}


def _now() -> str:
    return datetime.now(UTC).isoformat()


@dataclass
class Task:
    """What a client sees of it is `shown`; the work goes on beside the calls."""

    id: str = field(default_factory=lambda: secrets.token_hex(8))
    status: str = "working"
    created: str = field(default_factory=_now)
    updated: str = field(default_factory=_now)
    outcome: dict[str, Any] = field(default_factory=dict[str, Any])
    questions: dict[str, Any] = field(default_factory=dict[str, Any])
    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    work: asyncio.Task[None] | None = None

    def become(self, status: str, **outcome: Any) -> None:
        if self.status not in ENDED:
            self.status, self.outcome, self.updated = status, outcome, _now()

    def head(self) -> dict[str, Any]:
        times = {"createdAt": self.created, "lastUpdatedAt": self.updated}
        return {"taskId": self.id, "status": self.status, **times, "ttlMs": TTL_MS, "pollIntervalMs": POLL_MS}

    def shown(self) -> dict[str, Any]:
        questions = {"inputRequests": self.questions} if self.status == "input_required" else {}
        return {**self.head(), **questions, **self.outcome}

    async def ask(self, questions: Mapping[str, Any]) -> Mapping[str, Any]:
        """Park until every question has its answer, one `tasks/update` after the other."""
        self.questions = dict(questions)
        self.become("input_required")
        await self.answered.wait()
        self.become("working")
        return self.answers

    def answer(self, responses: Mapping[str, Any]) -> None:
        for key in [key for key in responses if key in self.questions]:
            self.answers[key] = responses[key]
            del self.questions[key]
        if self.status == "input_required" and not self.questions:
            self.answered.set()


Work = Callable[[Task], Awaitable[dict[str, Any]]]


def begun(work: Work) -> dict[str, Any]:
    """The result of a call that goes on as a task."""
    task = Task()
    TASKS[task.id] = task
    task.work = asyncio.create_task(_carry_out(task, work))
    return {"resultType": "task", **task.head()}


async def _carry_out(task: Task, work: Work) -> None:
    try:
        task.become("completed", result=await work(task))
    except MCPError as error:
        task.become("failed", error={"code": error.error.code, "message": error.error.message})
    except asyncio.CancelledError:
        task.become("cancelled")


def _declared(ctx: ServerRequestContext[Any]) -> bool:
    declared = ctx.session.client_capabilities
    return EXTENSION in ((declared.extensions if declared else None) or {})


def _require(ctx: ServerRequestContext[Any]) -> None:
    if not _declared(ctx):
        data = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, f"This needs the extension {EXTENSION}", data)


def _task(ctx: ServerRequestContext[Any]) -> Task:
    """The task that a request of the extension is about, whose header must say the same."""
    _require(ctx)
    wanted_id = (ctx.params or {}).get("taskId")
    if ctx.request is not None and ctx.request.headers.get("mcp-name") != wanted_id:
        raise MCPError(HEADER_MISMATCH, "mcp-name header does not match params.taskId")
    if wanted_id not in TASKS:
        raise MCPError(INVALID_PARAMS, f"There is no task {wanted_id}")
    return TASKS[wanted_id]


async def get(ctx: ServerRequestContext[Any]) -> dict[str, Any]:
    return _task(ctx).shown()


async def update(ctx: ServerRequestContext[Any]) -> dict[str, Any]:
    _task(ctx).answer((ctx.params or {}).get("inputResponses") or {})
    return {}


async def cancel(ctx: ServerRequestContext[Any]) -> dict[str, Any]:
    task = _task(ctx)
    if task.work is not None:
        task.work.cancel()
    return {}


METHODS = {"tasks/get": get, "tasks/update": update, "tasks/cancel": cancel}


@tool("Greets at once", schema(name="string"))
async def greet(call: Call) -> dict[str, Any]:
    return text(f"Hello, {call.arguments.get('name')}!")


@tool("Takes its time", schema(seconds="number", label="string"))
async def slow_compute(call: Call) -> dict[str, Any]:
    """As a task for as long as it is told to. Nobody waits that long for a call."""
    is_task, seconds = call.modern and _declared(call.ctx), float(call.arguments.get("seconds", 0))

    async def work(task: Task | None = None) -> dict[str, Any]:
        await asyncio.sleep(seconds if is_task else min(seconds, LONGEST_CALL))
        return text(f"computed {call.arguments.get('label')}")

    return begun(work) if is_task else await work()


@tool("Fails, as a task and no other way")
async def failing_job(call: Call) -> dict[str, Any]:
    async def work(task: Task) -> dict[str, Any]:
        return text("This job failed", isError=True)

    _require(call.ctx)
    return begun(work)


@tool("Breaks down, as a task and no other way")
async def protocol_error_job(call: Call) -> dict[str, Any]:
    async def work(task: Task) -> dict[str, Any]:
        raise MCPError(-32603, "This job broke down")

    _require(call.ctx)
    return begun(work)


@tool("Asks before it deletes, as a task", schema(filename="string"))
async def confirm_delete(call: Call) -> dict[str, Any]:
    async def work(task: Task) -> dict[str, Any]:
        answers = await task.ask({"confirm": elicit(f"Delete {call.arguments.get('filename')}?", confirm="boolean")})
        return text(f"confirmed: {(form(answers['confirm']) or {}).get('confirm')}")

    _require(call.ctx)
    return begun(work)


@tool("Asks two things at once, as a task")
async def multi_input(call: Call) -> dict[str, Any]:
    async def work(task: Task) -> dict[str, Any]:
        await task.ask({"name": elicit("Name?", name="string"), "confirm": elicit("Sure?", confirm="boolean")})
        return text("both answered")

    _require(call.ctx)
    return begun(work)


@tool("Asks first and then goes on as a task")
async def test_tool_with_task(call: Call) -> dict[str, Any]:
    filled = form(call.answers.get("user_name"))
    if filled is None:
        return wanted({"user_name": elicit("What is your name?", name="string")})

    async def work(task: Task) -> dict[str, Any]:
        return text(f"Hello, {filled.get('name')}")

    _require(call.ctx)
    return begun(work)
