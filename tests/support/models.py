"""An HTTP server that speaks as three APIs of models do, and holds its clients to what their documents ask for."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-a-key-of-tests"
Calls = list[tuple[str, Any]]


@dataclass
class Says:
    """What the model says next: calls to make, or text; or a refusal, a cut, or an answer sent as it stands."""

    calls: Calls = field(default_factory=list)
    text: str = ""
    refuses: bool = False
    cut: bool = False
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None


@dataclass
class Models:
    """The server. `script` is said in order; when it is empty, every turn is a plain text."""

    url: str = ""
    script: deque[Says] = field(default_factory=deque)
    seen: list[dict[str, Any]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """What a client sent that the API would not have taken."""

    def environ(self, **more: str) -> dict[str, str]:
        return {
            "ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY, "GEMINI_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": self.url, "OPENAI_BASE_URL": f"{self.url}/v1", "GEMINI_BASE_URL": self.url, **more,
        }  # fmt: skip


def anthropic(models: Models, headers: Mapping[str, str], body: Any, says: Says) -> Any:
    _need(models, headers.get("x-api-key") == KEY and headers.get("anthropic-version") == "2023-06-01", "headers")
    _need(models, body["max_tokens"] > 0 and body["messages"][0]["role"] == "user", "messages")
    _need(models, all(tool["input_schema"]["type"] == "object" for tool in body["tools"]), "tools")
    asked = [block["id"] for turn in body["messages"] if turn["role"] == "assistant"
             for block in turn["content"] if block["type"] == "tool_use"]  # fmt: skip
    told = [block["tool_use_id"] for turn in body["messages"] if isinstance(turn["content"], list)
            for block in turn["content"] if block["type"] == "tool_result"]  # fmt: skip
    _need(models, asked == told, "every tool_use is answered by a tool_result")
    blocks: list[Any] = [{"type": "text", "text": says.text}] if says.text else []
    blocks += [{"type": "tool_use", "id": f"toolu_{len(asked)}_{number}", "name": name, "input": arguments}
               for number, (name, arguments) in enumerate(says.calls)]  # fmt: skip
    reason = "refusal" if says.refuses else "max_tokens" if says.cut else "tool_use" if says.calls else "end_turn"
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": blocks, "stop_reason": reason,
            "usage": {"input_tokens": 100, "output_tokens": 10}}  # fmt: skip


def openai(models: Models, headers: Mapping[str, str], body: Any, says: Says) -> Any:
    _need(models, headers.get("authorization") == f"Bearer {KEY}", "headers")
    _need(
        models,
        all(tool["type"] == "function" and tool["parameters"]["type"] == "object" for tool in body["tools"]),
        "tools",
    )
    asked = [item["call_id"] for item in body["input"] if item.get("type") == "function_call"]
    told = [item["call_id"] for item in body["input"] if item.get("type") == "function_call_output"]
    thought = [item for item in body["input"] if item.get("type") == "reasoning"]
    _need(models, asked == told, "every function_call is answered by its output")
    _need(models, bool(thought) == bool(asked), "reasoning is sent back with the calls it led to")
    items: list[Any] = [{"type": "reasoning", "id": "rs_1", "summary": []}] if says.calls else []
    items += [{"type": "function_call", "id": "fc_1", "call_id": f"call_{len(asked)}_{number}", "name": name,
               "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)}
              for number, (name, arguments) in enumerate(says.calls)]  # fmt: skip
    kind = {"type": "refusal", "refusal": "I cannot"} if says.refuses else {"type": "output_text", "text": says.text}
    if says.text or says.refuses:
        items.append({"type": "message", "role": "assistant", "content": [kind]})
    return {"id": "resp_1", "object": "response", "status": "incomplete" if says.cut else "completed", "output": items,
            "usage": {"input_tokens": 100, "output_tokens": 10}}  # fmt: skip


def gemini(models: Models, headers: Mapping[str, str], body: Any, says: Says) -> Any:
    _need(models, headers.get("x-goog-api-key") == KEY, "headers")
    declared = body["tools"][0]["functionDeclarations"]
    _need(models, all(tool["parametersJsonSchema"]["type"] == "object" for tool in declared), "tools")
    parts = [(turn["role"], part) for turn in body["contents"] for part in turn["parts"]]
    asked = [part["functionCall"]["id"] for role, part in parts if "functionCall" in part and role == "model"]
    told = [part["functionResponse"]["id"] for role, part in parts if "functionResponse" in part and role == "user"]
    _need(models, asked == told, "every functionCall is answered by a functionResponse")
    sealed = [part.get("thoughtSignature") for _, part in parts if "functionCall" in part]
    _need(models, all(sealed), "thought signatures come back as they were given")
    used = {"promptTokenCount": 100, "candidatesTokenCount": 10}
    if says.refuses:
        return {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": used}
    said: list[Any] = [{"text": says.text}] if says.text else []
    said += [{"functionCall": {"name": name, "args": arguments, "id": f"{len(asked)}_{number}"},
              "thoughtSignature": "s"}
             for number, (name, arguments) in enumerate(says.calls)]  # fmt: skip
    reason = "MAX_TOKENS" if says.cut else "STOP"
    return {
        "candidates": [{"content": {"role": "model", "parts": said}, "finishReason": reason}],
        "usageMetadata": used,
    }


SPEAKERS = {"/v1/messages": anthropic, "/v1/responses": openai, "/v1beta/models/m:generateContent": gemini}


def _need(models: Models, held: bool, what: str) -> None:
    if not held:
        models.wrong.append(what)


@contextlib.contextmanager
def model_server(*script: Says) -> Iterator[Models]:
    """A server for the length of a `with` block. What a client did wrong fails the block."""
    models = Models(script=deque(script))
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(models))
    models.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield models
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
    assert models.wrong == []


def _handler(models: Models) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            models.seen.append(body)
            says = models.script.popleft() if models.script else Says(text="That is all.")
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = {"error": {"message": "slow down", "type": "rate_limit_error"}}
            if says.status == 200 and says.raw is None:
                answer = SPEAKERS[self.path](models, headers, body, says)
            self._send(says, says.raw if says.raw is not None else json.dumps(answer).encode())

        def _send(self, says: Says, sent: bytes) -> None:
            self.send_response(says.status)
            for name, value in {"content-type": "application/json", **says.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing on stderr."""

    return Handler
