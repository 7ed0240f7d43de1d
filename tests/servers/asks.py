"""A server that asks back: questions, subscriptions, logs and floods, over stdio or streamable HTTP, in either era.

    python asks.py [--http PORT] [--modern | --both] [--pid-file FILE] [--roots] [--log FILE] [--slow-to-tell]
                   [--tasks] [--late-stream SECONDS]

`--both`, over stdio only: it speaks the era it is spoken to in, and only in the handshake era does
it ask, and tell of resources.
Over HTTP the first line on stdout is `PORT <n>`, and it ends with its stdin. `--roots`: asks for the roots as soon
as a client says that it is initialized. `--log`: a JSON line for each message received. `--slow-to-tell`: opens the
stream for what it says unasked only after `sprout` has changed its tools, so nobody hears of that, and, of several
listeners that wait for that, only to the last. `--tasks`: it declares the tasks extension in the stateless revision,
and its tool `needs_task` refuses every client that does not; with `always`, the others too. `--late-stream`: over HTTP,
the response to a GET begins so much later, and what the server sends beside a call before that is lost.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import socket
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from plain import error, record, record_pid, result, text, tool

Send = Callable[[dict[str, Any]], None]
MODERN = "2026-07-28"
UNSUPPORTED = -32022
META = "io.modelcontextprotocol/"
TASKS = f"{META}tasks"
READS = {"readOnlyHint": True}
NAMES = ("ask", "ask_and_leave", "ask_late", "ask_twice", "ask_many", "withdraw", "go_on", "wait", "log", "progress",
         "changed", "whoami", "answers", "touch", "grow", "sprout", "broken_off", "needs_task", "die")  # fmt: skip
BREAK = "break"
QUESTIONS = itertools.count(1)


class Session:
    """One client's conversation. `aside` is the way to it beside any call: stdout, or the stream of its GET."""

    def __init__(self, args: argparse.Namespace, aside: Send) -> None:
        self.args = args
        self.modern = args.modern or args.both
        self.discovered = False
        self.aside = aside
        self.number = uuid.uuid4().hex[:8]
        self.capabilities: dict[str, Any] = {}
        self.open: dict[Any, asyncio.Future[dict[str, Any]]] = {}
        self.answers: list[dict[str, Any]] = []
        self.subscribed: set[str] = set()
        self.listeners: dict[Any, tuple[Send, dict[str, Any]]] = {}
        self.calls: dict[Any, asyncio.Task[None]] = {}
        self.prompts = 1
        self.listening = False
        self.names = NAMES
        self.telling = asyncio.Event()
        if not args.slow_to_tell:
            self.telling.set()
        self.last_to_ask: Any = None
        self.resumed = asyncio.Event()
        self.going_on = asyncio.Event()
        self.broken: dict[str, asyncio.Queue[Any]] = {}
        self.asked: dict[str, int] = {}

    async def handle(self, message: dict[str, Any], own: Send) -> None:
        """`own` goes to the stream of this request."""
        record(self.args.log, message)
        method, request_id, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method is None:
            self.answered(message)
        elif request_id is None:
            self.noticed(method, params)
        elif method == "tools/call":
            self.calls[request_id] = asyncio.current_task() or asyncio.Task(asyncio.sleep(0))
            await self.call(request_id, params, own)
        elif method == "subscriptions/listen" and self.modern:
            await self.listen(request_id, params, own)
        else:
            own(self.answer(request_id, method, params))

    def answered(self, message: dict[str, Any]) -> None:
        self.answers.append(message)
        waiting = self.open.pop(message.get("id"), None)
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    def noticed(self, method: str, params: dict[str, Any]) -> None:
        self.asked[method] = self.asked.get(method, 0) + 1
        if method == "notifications/cancelled":
            task = self.calls.get(params.get("requestId"))
            if task is not None:
                task.cancel()
        elif method == "notifications/initialized" and self.args.roots:
            self.put("roots/list", {}, self.aside)

    def answer(self, request_id: Any, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.asked[method] = self.asked.get(method, 0) + 1
        capabilities = {"tools": {"listChanged": True}, "prompts": {"listChanged": True},
                        "resources": {"subscribe": True, "listChanged": True}, "logging": {}}  # fmt: skip
        if method == "server/discover" and self.args.both:
            capabilities["resources"] = {}
        if method == "server/discover" and self.args.tasks:
            capabilities["extensions"] = {TASKS: {}}
        if method == "server/discover" and self.modern:
            self.discovered = True
            return result(request_id, {"supportedVersions": [MODERN], "capabilities": capabilities})
        if method == "initialize" and self.modern and (self.discovered or not self.args.both):
            # As the SDK's: one that is slow to start may be asked for the handshake after a question that it answers.
            return error(request_id, UNSUPPORTED, "there is no handshake here", {"supported": [MODERN]})
        if method == "initialize":
            self.modern = False
            self.capabilities = params["capabilities"]
            info = {"name": "asks", "version": "1"}
            return result(request_id, {"protocolVersion": "2025-11-25", "capabilities": capabilities,
                                       "serverInfo": info})  # fmt: skip
        if method == "tools/list":
            listed = [tool(name, f"Does {name}.", READS) for name in self.names]
            return result(request_id, {"tools": listed, "_meta": {"draft": 1}, "ttlMs": 5000})
        if method == "prompts/list":
            first = int(params.get("cursor") or 0)
            page: dict[str, Any] = {"prompts": [{"name": f"prompt_{first}", "draft": True}]}
            return result(request_id, {**page, "nextCursor": str(first + 1)} if first + 1 < self.prompts else page)
        if method == "resources/list":
            return result(request_id, {"resources": [{"uri": "note://1", "name": "one"}]})
        if method == "resources/subscribe" and params["uri"].startswith("note://"):
            self.subscribed.add(params["uri"])
            return result(request_id, {})
        if method == "resources/unsubscribe":
            self.subscribed.discard(params["uri"])
            return result(request_id, {})
        if method == "logging/setLevel":
            return result(request_id, {})
        return error(request_id, -32601, f"no such method: {method}")

    async def listen(self, request_id: Any, params: dict[str, Any], own: Send) -> None:
        wanted = params.get("notifications") or {}
        uris = [uri for uri in wanted.get("resourceSubscriptions") or () if uri.startswith("note://")]
        honored = {**wanted, "resourceSubscriptions": uris} if uris else {
            key: value for key, value in wanted.items() if key != "resourceSubscriptions"}  # fmt: skip
        tag = {"_meta": {f"{META}subscriptionId": request_id}}
        self.last_to_ask = request_id
        await self.telling.wait()
        if self.args.slow_to_tell and request_id != self.last_to_ask:
            await asyncio.Event().wait()
        own(notification("notifications/subscriptions/acknowledged", {"notifications": honored, **tag}))
        self.listeners[request_id] = (own, honored)
        self.calls[request_id] = asyncio.current_task() or asyncio.Task(asyncio.sleep(0))
        try:
            await asyncio.Event().wait()
        finally:
            self.listeners.pop(request_id, None)

    def tell(self, method: str, params: dict[str, Any]) -> None:
        """A change, to whoever wants to hear of it, in the era's way."""
        if not self.modern:
            self.aside(notification(method, params))
        for request_id, (own, honored) in self.listeners.items():
            if method != "notifications/resources/updated" or params["uri"] in honored.get("resourceSubscriptions", ()):
                own(notification(method, {**params, "_meta": {f"{META}subscriptionId": request_id}}))

    # Asking.

    def put(self, method: str, params: Any, send: Send, request_id: Any = None) -> asyncio.Future[dict[str, Any]]:
        request_id = request_id or f"q{next(QUESTIONS)}"
        waiting = self.open[request_id] = asyncio.get_running_loop().create_future()
        send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        return waiting

    async def call(self, request_id: Any, params: dict[str, Any], own: Send) -> None:
        args = params.get("arguments") or {}
        try:
            said = await getattr(self, f"do_{params['name']}")(args, params, own, request_id)
        except asyncio.CancelledError:
            record(self.args.log, {"given up": request_id})
            raise
        if isinstance(said, dict) and "refuses" in said:
            own(error(request_id, *said["refuses"]))
        elif said is not None:
            raw = isinstance(said, dict) and "resultType" in said
            own(result(request_id, said if raw else text(json.dumps(said))))

    async def do_ask(self, args: Any, params: Any, own: Send, request_id: Any) -> Any:
        if self.modern:
            return "there is nobody to ask" if self.args.both else self.in_rounds(args, params)
        send = self.aside if args.get("outside") else own
        return await self.put(args["method"], args.get("params") or {}, send)

    def in_rounds(self, args: Any, params: Any) -> Any:
        """The modern era's way to ask: answer with the question, and be called again."""
        if "inputResponses" in params:
            return {"responses": params["inputResponses"], "state": params.get("requestState")}
        question = {"method": args["method"], "params": args.get("params") or {}}
        return {"resultType": "input_required", "inputRequests": {"one": question}, "requestState": "sealed"}

    async def do_needs_task(self, args: Any, params: Any, own: Send, request_id: Any) -> Any:
        declared = (params.get("_meta") or {}).get(f"{META}clientCapabilities") or {}
        if args.get("always") or TASKS not in (declared.get("extensions") or {}):
            needed = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            return {"refuses": (-32021, "it runs as a task only", needed)}
        return "ran as a task"

    async def do_ask_and_leave(self, args: Any, params: Any, own: Send, request_id: Any) -> Any:
        self.put(args["method"], {}, self.aside if args.get("outside") else own)
        await self.going_on.wait()
        return "left"

    async def do_ask_late(self, args: Any, params: Any, own: Send, request_id: Any) -> None:
        own(result(request_id, text("answered")))
        self.put(args["method"], {}, own)

    async def do_ask_twice(self, args: Any, params: Any, own: Send, request_id: Any) -> Any:
        first = self.put(args["method"], {}, own, "same")
        refusal = await self.put(args["method"], {}, own, "same")
        self.open["same"] = first
        return [refusal, await first]

    async def do_ask_many(self, args: Any, params: Any, own: Send, request_id: Any) -> Any:
        send = self.aside if args.get("outside") else own
        return await asyncio.gather(*(self.put(args["method"], {}, send) for _ in range(args["n"])))

    async def do_withdraw(self, args: Any, params: Any, own: Send, request_id: Any) -> Any:
        self.put(args["method"], {}, own, "mine")
        await self.going_on.wait()
        own(notification("notifications/cancelled", {"requestId": "mine", "reason": "never mind"}))
        await asyncio.sleep(0.2)
        return self.answers

    async def do_go_on(self, args: Any, params: Any, own: Send, request_id: Any) -> Any:
        """Lets those go on that asked and wait, so that the question has arrived before what they do next."""
        self.going_on.set()
        return "gone on"

    async def do_wait(self, args: Any, params: Any, own: Send, request_id: Any) -> Any:
        await asyncio.sleep(args["seconds"])
        return args.get("text", "waited")

    async def do_log(self, args: Any, params: Any, own: Send, request_id: Any) -> Any:
        send = self.aside if args.get("outside") else own
        send(notification("notifications/message", {"level": "info", "data": args.get("text"), "draft": 1}))
        send(notification("notifications/x-unknown", {"text": args.get("text")}))
        await asyncio.sleep(args.get("seconds", 0))
        return args.get("text")

    async def do_progress(self, args: Any, params: Any, own: Send, request_id: Any) -> Any:
        token = (params.get("_meta") or {}).get("progressToken")
        for step in range(args["n"]):
            own(notification("notifications/progress", {"progressToken": token, "progress": step}))
        return args["n"]

    async def do_changed(self, args: Any, params: Any, own: Send, request_id: Any) -> Any:
        for _ in range(args["n"]):
            self.tell(f"notifications/{args['what']}/list_changed", {})
        return args["n"]

    async def do_whoami(self, args: Any, params: Any, own: Send, request_id: Any) -> Any:
        meta = params.get("_meta") or {}
        return {"session": self.number, "pid": os.getpid(), "capabilities": self.capabilities, "meta": meta,
                "asked": self.asked}  # fmt: skip

    async def do_answers(self, args: Any, params: Any, own: Send, request_id: Any) -> Any:
        return self.answers

    async def do_touch(self, args: Any, params: Any, own: Send, request_id: Any) -> Any:
        if self.modern or args["uri"] in self.subscribed:
            self.tell("notifications/resources/updated", {"uri": args["uri"]})
        return sorted(self.subscribed)

    async def do_grow(self, args: Any, params: Any, own: Send, request_id: Any) -> Any:
        self.prompts += 1
        self.tell("notifications/prompts/list_changed", {})
        return self.prompts

    async def do_sprout(self, args: Any, params: Any, own: Send, request_id: Any) -> Any:
        self.names = (*NAMES, "sprouted")
        self.tell("notifications/tools/list_changed", {})
        self.telling.set()
        return len(self.names)

    async def do_broken_off(self, args: Any, params: Any, own: Send, request_id: Any) -> Any:
        """Only over HTTP: ends the stream in the middle, and goes on when the client fetches the rest."""
        own({BREAK: request_id, "retry": args.get("retry", 10)})
        await self.resumed.wait()
        return await self.put(args["method"], {}, own)

    async def do_die(self, args: Any, params: Any, own: Send, request_id: Any) -> None:
        os._exit(3)


def notification(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


async def over_stdio(args: argparse.Namespace) -> None:
    loop, said = asyncio.get_running_loop(), bytearray()

    def send(message: dict[str, Any]) -> None:
        """What is said in one turn leaves in one piece, so that no other call can begin in between."""
        if not said:
            loop.call_soon(flush)
        said.extend(json.dumps(message).encode() + b"\n")

    def flush() -> None:
        sys.stdout.buffer.write(said)
        sys.stdout.buffer.flush()
        said.clear()

    session, tasks = Session(args, send), set[asyncio.Task[None]]()
    reader = asyncio.StreamReader(limit=2**26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        task = loop.create_task(session.handle(json.loads(line), send))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    os._exit(0)


def over_http(args: argparse.Namespace) -> None:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Route

    sessions: dict[str, tuple[Session, asyncio.Queue[Any]]] = {}

    def opened(session_id: str) -> tuple[Session, asyncio.Queue[Any]]:
        box: asyncio.Queue[Any] = asyncio.Queue()

        def aside(message: dict[str, Any]) -> None:
            if args.late_stream is None or session.listening:
                box.put_nowait(message)

        session = Session(args, aside)
        sessions[session_id] = session, box
        return sessions[session_id]

    async def events(session: Session, queue: asyncio.Queue[Any]) -> AsyncIterator[bytes]:
        while (message := await queue.get()) is not None:
            if BREAK in message:
                session.broken[str(message[BREAK])] = queue
                yield b"id: %d\nretry: %d\ndata:\n\n" % (message[BREAK], message["retry"])
                return
            yield b"data: " + json.dumps(message).encode() + b"\n\n"

    async def talk(session: Session, message: dict[str, Any]) -> AsyncIterator[bytes]:
        own: asyncio.Queue[Any] = asyncio.Queue()
        task = asyncio.create_task(session.handle(message, own.put_nowait))
        task.add_done_callback(lambda _: own.put_nowait(None))
        try:
            async for event in events(session, own):
                yield event
        finally:
            if args.modern:  # closing the stream is the cancellation
                task.cancel()

    async def post(request: Request) -> Response:
        message = await request.json()
        session_id = "modern" if args.modern else request.headers.get("mcp-session-id")
        if message.get("method") == "initialize" and not args.modern:
            session_id = uuid.uuid4().hex
            opened(session_id)
        elif args.modern and session_id not in sessions:
            opened("modern")
        elif session_id not in sessions:
            refusal = error(message.get("id"), -32601, "no such method")
            return JSONResponse(refusal, 404 if session_id else 400)
        session = sessions[session_id or ""][0]
        if "id" not in message or "method" not in message:
            await session.handle(message, lambda said: None)
            return Response(status_code=202)
        head = {"mcp-session-id": session_id or ""}
        return StreamingResponse(talk(session, message), media_type="text/event-stream", headers=head)

    async def get(request: Request) -> Response:
        found = sessions.get(request.headers.get("mcp-session-id") or "")
        if found is None:
            return Response(status_code=405)
        session, box = found
        if (last := request.headers.get("last-event-id")) in session.broken:
            box = session.broken.pop(last or "")
            session.resumed.set()
        await session.telling.wait()
        if args.late_stream is not None:
            await asyncio.sleep(args.late_stream)
            session.listening = True
        if args.slow_to_tell:
            while not box.empty():  # what was said to nobody
                box.get_nowait()
        return StreamingResponse(events(session, box), media_type="text/event-stream")

    async def delete(request: Request) -> Response:
        sessions.pop(request.headers.get("mcp-session-id") or "", None)
        return Response(status_code=200)

    async def forget(request: Request) -> Response:
        sessions.clear()
        return Response(status_code=200)

    routes = [Route("/mcp", post, methods=["POST"]), Route("/mcp", get, methods=["GET"]),
              Route("/mcp", delete, methods=["DELETE"]), Route("/forget", forget, methods=["POST"])]  # fmt: skip
    listener = socket.create_server(("127.0.0.1", args.http))
    print(f"PORT {listener.getsockname()[1]}", flush=True)
    threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
    uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="error")).run(sockets=[listener])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", type=int)
    parser.add_argument("--modern", action="store_true")
    parser.add_argument("--both", action="store_true")
    parser.add_argument("--roots", action="store_true")
    parser.add_argument("--slow-to-tell", action="store_true")
    parser.add_argument("--tasks", action="store_true")
    parser.add_argument("--late-stream", type=float)
    parser.add_argument("--pid-file")
    parser.add_argument("--log")
    args = parser.parse_args()
    record_pid(args.pid_file)
    if args.http is not None:
        over_http(args)
    else:
        with suppress(KeyboardInterrupt):
            asyncio.run(over_stdio(args))


if __name__ == "__main__":
    main()
