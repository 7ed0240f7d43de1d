"""The least that an ASGI application can do, on the server that the gateway runs on: `python bare_asgi.py`.

It reads a request whole and answers with the same text each time. No gateway on that server can be quicker, and a
figure in calls a second says little about another machine without this one beside it. The first line on stdout is
`PORT <n>`.
"""

from __future__ import annotations

import socket
from typing import Any

BODY = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello"}],"resultType":"complete"}}'
HEAD = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))]


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": HEAD})
    await send({"type": "http.response.body", "body": BODY})


if __name__ == "__main__":
    import uvicorn  # not where another server runs this

    listener = socket.create_server(("127.0.0.1", 0))
    print(f"PORT {listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(
        app, loop="uvloop", http="httptools", lifespan="off", log_config=None, access_log=False, server_header=False
    )
    uvicorn.Server(config).run([listener])
