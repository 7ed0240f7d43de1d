"""Drivers for three HTTP APIs of models. Each speaks its API's own shape and nothing more of it than is needed.

Who decides which tool to call: a model behind an HTTP API, or the offline router. One shape for all.

One POST to a model's API, tried again where the API asks for patience.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import httpx

SYSTEM: Final = (
    "Answer with the tools you are given, not from memory. Call one when it helps, and stop when you can answer."
)
"""What every model is told beside the prompt. It is part of what is measured, so it is the same for all."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A call that a driver wants to be made. `arguments` is whatever came, which need not be an object."""

    tool: str
    arguments: Any
    id: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """What the API says a turn cost."""

    sent: int = 0
    received: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.sent + other.sent, self.received + other.received)


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """One turn: calls to make, or none when the driver is done. `trouble` says why a turn gave nothing usable."""

    calls: tuple[Wanted, ...] = ()
    trouble: str | None = None
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Answered:
    """A call that was made, with what a host passes on of its result."""

    call: Wanted
    text: str
    is_error: bool


class Dialogue(Protocol):
    """One prompt from its first turn to its last."""

    async def turn(self, answered: Sequence[Answered] = ()) -> ModelTurn:
        """The next turn, given the results of the calls of the last one. Raises `DriverError`."""
        ...


class Driver(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def is_model(self) -> bool: ...

    def begin(self, prompt: str, tools: Sequence[Mapping[str, Any]]) -> Dialogue: ...


class DriverError(Exception):
    """The driver cannot go on at all: a wrong key, a model that does not exist, limits that do not lift."""


BUSY: Final = (408, 409, 429, 500, 502, 503, 504, 529)
ATTEMPTS: Final = 6
LONGEST_PAUSE: Final = 60.0
TIMEOUT: Final = 120.0
MAX_BYTES: Final = 8 * 1024 * 1024


class Malformed(Exception):
    """The API answered with something its documents do not describe. It costs the prompt, not the run."""


class RetryingHttp:
    """A client of one API. `headers` hold the key, so nothing of them may get into a message."""

    def __init__(self, url: str, headers: Mapping[str, str], *, first_pause: float = 1.0) -> None:
        has_tls = not url.lower().startswith("http://")  # reading certificates takes a while, and may not be needed
        self._http = httpx.AsyncClient(base_url=url, headers=dict(headers), timeout=TIMEOUT, verify=has_tls)
        self._pause = first_pause

    async def aclose(self) -> None:
        await self._http.aclose()

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer's object. Raises `Malformed`, or `DriverError` where trying again is no use."""
        answer = await self._try(path, body)
        for attempt in range(1, ATTEMPTS):
            if not _is_busy(answer):
                break
            await asyncio.sleep(self._wait(attempt, answer))
            answer = await self._try(path, body)
        if isinstance(answer, httpx.Response) and not _is_busy(answer):
            return _read(answer)
        raise DriverError(f"the API gave no answer in {ATTEMPTS} attempts: {_why(answer)}")

    async def _try(self, path: str, body: Mapping[str, Any]) -> httpx.Response | httpx.TransportError:
        try:
            return await self._http.post(path, json=dict(body))
        except httpx.TransportError as error:
            return error

    def _wait(self, attempt: int, answer: httpx.Response | httpx.TransportError) -> float:
        """As long as the API says; else twice as long each time, spread so that many clients do not come at once."""
        told = _retry_after(answer)
        pause = self._pause * 2 ** (attempt - 1) * random.uniform(0.75, 1.25) if told is None else told
        return min(pause, LONGEST_PAUSE)


def _is_busy(answer: httpx.Response | httpx.TransportError) -> bool:
    return not isinstance(answer, httpx.Response) or answer.status_code in BUSY


def _retry_after(answer: httpx.Response | httpx.TransportError) -> float | None:
    if not isinstance(answer, httpx.Response):
        return None
    try:
        seconds = float(answer.headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _read(answer: httpx.Response) -> dict[str, Any]:
    if answer.status_code >= 400:
        raise DriverError(f"the API refused with status {answer.status_code}: {_message(answer)}")
    if len(answer.content) > MAX_BYTES:
        raise Malformed(f"an answer of {len(answer.content)} bytes")
    try:
        found = answer.json()
    except ValueError:
        raise Malformed("an answer that is not JSON") from None
    if not isinstance(found, dict):
        raise Malformed("an answer that is no object")
    return found


def _message(answer: httpx.Response) -> str:
    """What the API says in its own words. All three put it in the same place."""
    try:
        said = answer.json()["error"]["message"]
    except (ValueError, LookupError, TypeError):
        return "no reason given"
    return " ".join(str(said).split())[:200]


def _why(answer: httpx.Response | httpx.TransportError) -> str:
    return f"status {answer.status_code}" if isinstance(answer, httpx.Response) else type(answer).__name__


MAX_TOKENS: Final = 2048
Tools = Sequence[Mapping[str, Any]]
Object = Mapping[str, Any]


class ModelDriver:
    """A model behind an API. Close it when done."""

    is_model = True

    def __init__(
        self,
        api: str,
        model: str,
        exchange: RetryingHttp,
        dialogue: Callable[[RetryingHttp, str, str, Tools], Dialogue],
    ) -> None:
        self.name = f"{api} {model}"
        self._model = model
        self._exchange = exchange
        self._dialogue = dialogue

    def begin(self, prompt: str, tools: Tools) -> Dialogue:
        return self._dialogue(self._exchange, self._model, prompt, tools)

    async def aclose(self) -> None:
        await self._exchange.aclose()


class _Talk:
    """What the three have in common: send what was said so far, keep what came back word for word, read the turn.

    It is kept whole because models want parts of it back that nobody here looks at, like sealed thoughts."""

    def __init__(self, exchange: RetryingHttp, model: str, prompt: str, tools: Tools) -> None:
        self._exchange = exchange
        self._model = model
        self._tools = [self._tool(tool) for tool in tools]
        self._said: list[Any] = [{"role": "user", **self._text(prompt)}]

    async def turn(self, answered: Sequence[Answered] = ()) -> ModelTurn:
        if answered:
            self._said += self._results(answered)
        try:
            answer = await self._exchange.post(self._path(), self._body())
            return self._read(answer)
        except Malformed as error:
            return ModelTurn(trouble=f"malformed: {error}")
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            return ModelTurn(trouble=f"malformed: {type(error).__name__} in the answer")

    def _path(self) -> str:
        raise NotImplementedError

    def _body(self) -> Object:
        raise NotImplementedError

    def _text(self, prompt: str) -> Object:
        return {"content": prompt}

    def _tool(self, tool: Object) -> Object:
        raise NotImplementedError

    def _results(self, answered: Sequence[Answered]) -> list[Any]:
        raise NotImplementedError

    def _read(self, answer: Object) -> ModelTurn:
        raise NotImplementedError


class _Anthropic(_Talk):
    """POST /v1/messages."""

    def _path(self) -> str:
        return "/v1/messages"

    def _tool(self, tool: Object) -> Object:
        return {"name": tool["name"], "description": tool.get("description", ""), "input_schema": tool["inputSchema"]}

    def _body(self) -> Object:
        return {"model": self._model, "max_tokens": MAX_TOKENS, "system": SYSTEM, "tools": self._tools,
                "messages": self._said}  # fmt: skip

    def _results(self, answered: Sequence[Answered]) -> list[Any]:
        blocks = [
            {"type": "tool_result", "tool_use_id": one.call.id, "content": one.text, "is_error": one.is_error}
            for one in answered
        ]
        return [{"role": "user", "content": blocks}]

    def _read(self, answer: Object) -> ModelTurn:
        blocks, usage = answer["content"], answer.get("usage") or {}
        self._said.append({"role": "assistant", "content": blocks})
        calls = tuple(
            _wanted(block["name"], block["input"], block["id"]) for block in blocks if block["type"] == "tool_use"
        )
        trouble = _ended_early(answer.get("stop_reason"), {"refusal": "refused", "max_tokens": "cut off"})
        return ModelTurn(calls, trouble, _usage(usage, "input_tokens", "output_tokens"))


class _OpenAI(_Talk):
    """POST /responses."""

    def _path(self) -> str:
        return "/responses"

    def _tool(self, tool: Object) -> Object:
        # Strict mode would change the schema that is measured.
        return {"type": "function", "name": tool["name"], "description": tool.get("description", ""),
                "parameters": tool["inputSchema"], "strict": False}  # fmt: skip

    def _body(self) -> Object:
        return {"model": self._model, "instructions": SYSTEM, "max_output_tokens": MAX_TOKENS, "tools": self._tools,
                "input": self._said}  # fmt: skip

    def _results(self, answered: Sequence[Answered]) -> list[Any]:
        return [{"type": "function_call_output", "call_id": one.call.id, "output": one.text} for one in answered]

    def _read(self, answer: Object) -> ModelTurn:
        items, usage = answer["output"], answer.get("usage") or {}
        self._said += items
        calls = tuple(
            _wanted(item["name"], json.loads(item["arguments"]), item["call_id"])
            for item in items if item["type"] == "function_call"
        )  # fmt: skip
        parts = [part for item in items if item["type"] == "message" for part in item["content"]]
        refused = any(part["type"] == "refusal" for part in parts)
        trouble = (
            "refused" if refused else _ended_early(answer.get("status"), {"incomplete": "cut off", "failed": "failed"})
        )
        return ModelTurn(calls, trouble, _usage(usage, "input_tokens", "output_tokens"))


class _Gemini(_Talk):
    """POST /v1beta/models/MODEL:generateContent."""

    def _path(self) -> str:
        return f"/v1beta/models/{self._model}:generateContent"

    def _text(self, prompt: str) -> Object:
        return {"parts": [{"text": prompt}]}

    def _tool(self, tool: Object) -> Object:
        return {"name": tool["name"], "description": tool.get("description", ""),
                "parametersJsonSchema": tool["inputSchema"]}  # fmt: skip

    def _body(self) -> Object:
        return {
            "systemInstruction": {"parts": [{"text": SYSTEM}]},
            "contents": self._said,
            "tools": [{"functionDeclarations": self._tools}],
            "generationConfig": {"maxOutputTokens": MAX_TOKENS},
        }

    def _results(self, answered: Sequence[Answered]) -> list[Any]:
        parts = [
            {"functionResponse": {
                "name": one.call.tool, "response": {"error" if one.is_error else "result": one.text},
                **({"id": one.call.id} if one.call.id else {}),
            }}
            for one in answered
        ]  # fmt: skip
        return [{"role": "user", "parts": parts}]

    def _read(self, answer: Object) -> ModelTurn:
        used = answer.get("usageMetadata") or {}
        usage = _usage(used, "promptTokenCount", "candidatesTokenCount")
        if blocked := (answer.get("promptFeedback") or {}).get("blockReason"):
            return ModelTurn(trouble=f"refused: {blocked}", usage=usage)
        candidate = answer["candidates"][0]
        content = candidate.get("content") or {}
        parts = content.get("parts") or []
        self._said.append({"role": "model", **content})
        wanted = [part["functionCall"] for part in parts if "functionCall" in part]
        calls = tuple(_wanted(call["name"], call.get("args") or {}, call.get("id", "")) for call in wanted)
        reason = candidate.get("finishReason")
        normal = reason in (None, "STOP")
        return ModelTurn(
            calls, None if normal else "cut off" if reason == "MAX_TOKENS" else f"refused: {reason}", usage
        )


def _wanted(name: Any, arguments: Any, call_id: Any) -> Wanted:
    if not (isinstance(name, str) and isinstance(call_id, str)):
        raise TypeError("a call's name and id are strings")
    return Wanted(name, arguments, call_id)


def _usage(used: Object, sent: str, received: str) -> Usage:
    return Usage(int(used.get(sent, 0)), int(used.get(received, 0)))


def _ended_early(reason: Any, meanings: Mapping[str, str]) -> str | None:
    return meanings.get(reason) if isinstance(reason, str) else None


def _anthropic_headers(key: str) -> Mapping[str, str]:
    return {"x-api-key": key, "anthropic-version": "2023-06-01"}


class Api:
    """Where an API is, what its key is called, and how it is spoken to."""

    def __init__(
        self, name: str, keys: tuple[str, ...], base: tuple[str, str],
        headers: Callable[[str], Mapping[str, str]], dialogue: Callable[[RetryingHttp, str, str, Tools], Dialogue],
    ) -> None:  # fmt: skip
        self.name = name
        self.keys = keys
        self._base_variable, self._base = base
        self._headers = headers
        self._dialogue = dialogue

    def driver(self, model: str, environ: Mapping[str, str], *, first_pause: float = 1.0) -> ModelDriver:
        """Raises `DriverError` without a key."""
        key = next((environ[name] for name in self.keys if environ.get(name)), None)
        if key is None:
            raise DriverError(f"{' or '.join(self.keys)} is not set")
        exchange = RetryingHttp(
            environ.get(self._base_variable) or self._base, self._headers(key), first_pause=first_pause
        )
        return ModelDriver(self.name, model, exchange, self._dialogue)


APIS: Final[Mapping[str, Api]] = {
    api.name: api
    for api in (
        Api("anthropic", ("ANTHROPIC_API_KEY",), ("ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
            _anthropic_headers, _Anthropic),
        Api("openai", ("OPENAI_API_KEY",), ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
            lambda key: {"authorization": f"Bearer {key}"}, _OpenAI),
        Api("gemini", ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            ("GEMINI_BASE_URL", "https://generativelanguage.googleapis.com"),
            lambda key: {"x-goog-api-key": key}, _Gemini),
    )
}  # fmt: skip
