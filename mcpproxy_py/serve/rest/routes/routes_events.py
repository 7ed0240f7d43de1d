"""What happens, as it happens: server-sent events that a client can take up again where it left off (ACT-3)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

from starlette.responses import StreamingResponse

from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.serve.http.asgi import NO_STORE, bad_request, json_bytes
from mcpproxy_py.serve.rest import requests
from mcpproxy_py.serve.rest._serve_endpoint import Endpoint, Exchange
from mcpproxy_py.store.activity.feed import Position, Told

MEDIA: Final = "text/event-stream"
MOST: Final = 64
"""Listeners at once. Each reads for itself, so many of them would be felt."""
RETRY: Final = b"retry: 2000\n\n"
MORE: Final = (
    "Kinds of `event`: `hello`, where the stream begins; `asked`, `finished` and `erased`, with the record at that "
    "time; `approval`, when a request for a capability was filed, decided or has expired, with the request at that "
    "time; `other`, without data, for events that change none of these. With several gateways on one database each "
    "reports the events of all. To continue after an event, send its `id` as `Last-Event-ID`."
)


class _Seats:
    """How many listen now. One for the process, because the bound is the process's."""

    taken = 0


async def events(x: Exchange) -> StreamingResponse:
    after = _position(x)
    if _Seats.taken >= MOST:
        raise GatewayError(Code.OVERLOADED, f"{MOST} clients are connected already")
    if after is None:
        await x.parts.store.caught_up()  # what was answered before is not news
    now = await x.parts.store.position()  # a database that cannot be read is told before the answer has begun
    source = x.parts.store.events(now if after is None else after)
    return StreamingResponse(_told(source), headers=dict(NO_STORE), media_type=MEDIA)


def _position(x: Exchange) -> Position | None:
    """Browsers send the header when they come back; who cannot set headers says it in the address."""
    given = x.request.headers.get("last-event-id") or x.query.after
    try:
        return None if given is None else Position.read(given)
    except ValueError as error:
        raise bad_request(str(error), parameter="Last-Event-ID") from None


async def _told(source: AsyncGenerator[Told | None]) -> AsyncIterator[bytes]:
    """A client that hangs up ends this wherever it waits, and everything it held with it."""
    _Seats.taken += 1
    try:
        yield RETRY
        async with aclosing(source) as stream:
            async for told in stream:
                yield b": still here\n\n" if told is None else _message(told)
    finally:
        _Seats.taken -= 1


def _message(told: Told) -> bytes:
    data = json_bytes(told.record)
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (str(told.position).encode(), told.kind.encode(), data)


ENDPOINTS: Final = (
    Endpoint("GET", "/api/v1/events", "Activity", "Activity as it happens, as server-sent events", events, None,
             query=requests.EventStream, media=(MEDIA,),
             refusals=(Code.OVERLOADED, Code.STORE_UNAVAILABLE), more=MORE),
)  # fmt: skip
