"""Drivers for three HTTP APIs of models. Each speaks its API's own shape and nothing more of it than is needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mcpproxy_py.bench.dialogue import SYSTEM, Answered, Dialogue, DriverError, Turn, Usage, Wanted
from mcpproxy_py.bench.exchange import Exchange, Malformed

MAX_TOKENS: Final = 2048
Tools = Sequence[Mapping[str, Any]]
Object = Mapping[str, Any]


class ModelDriver:
    """A model behind an API. Close it when done."""

    is_model = True

    def __init__(
        self, api: str, model: str, exchange: Exchange, dialogue: Callable[[Exchange, str, str, Tools], Dialogue]
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

    def __init__(self, exchange: Exchange, model: str, prompt: str, tools: Tools) -> None:
        self._exchange = exchange
        self._model = model
        self._tools = [self._tool(tool) for tool in tools]
        self._said: list[Any] = [{"role": "user", **self._text(prompt)}]

    async def turn(self, answered: Sequence[Answered] = ()) -> Turn:
        if answered:
            self._said += self._results(answered)
        try:
            answer = await self._exchange.post(self._path(), self._body())
            return self._read(answer)
        except Malformed as error:
            return Turn(trouble=f"malformed: {error}")
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            return Turn(trouble=f"malformed: {type(error).__name__} in the answer")

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

    def _read(self, answer: Object) -> Turn:
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

    def _read(self, answer: Object) -> Turn:
        blocks, usage = answer["content"], answer.get("usage") or {}
        self._said.append({"role": "assistant", "content": blocks})
        calls = tuple(
            _wanted(block["name"], block["input"], block["id"]) for block in blocks if block["type"] == "tool_use"
        )
        trouble = _ended_early(answer.get("stop_reason"), {"refusal": "refused", "max_tokens": "cut off"})
        return Turn(calls, trouble, _usage(usage, "input_tokens", "output_tokens"))


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

    def _read(self, answer: Object) -> Turn:
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
        return Turn(calls, trouble, _usage(usage, "input_tokens", "output_tokens"))


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

    def _read(self, answer: Object) -> Turn:
        used = answer.get("usageMetadata") or {}
        usage = _usage(used, "promptTokenCount", "candidatesTokenCount")
        if blocked := (answer.get("promptFeedback") or {}).get("blockReason"):
            return Turn(trouble=f"refused: {blocked}", usage=usage)
        candidate = answer["candidates"][0]
        content = candidate.get("content") or {}
        parts = content.get("parts") or []
        self._said.append({"role": "model", **content})
        wanted = [part["functionCall"] for part in parts if "functionCall" in part]
        calls = tuple(_wanted(call["name"], call.get("args") or {}, call.get("id", "")) for call in wanted)
        reason = candidate.get("finishReason")
        normal = reason in (None, "STOP")
        return Turn(calls, None if normal else "cut off" if reason == "MAX_TOKENS" else f"refused: {reason}", usage)


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
        headers: Callable[[str], Mapping[str, str]], dialogue: Callable[[Exchange, str, str, Tools], Dialogue],
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
        exchange = Exchange(environ.get(self._base_variable) or self._base, self._headers(key), first_pause=first_pause)
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
