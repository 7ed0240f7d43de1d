"""What happened: list, show, count and take away the records of every ask (ACT-3).

What happens, as it happens: server-sent events that a client can take up again where it left off (ACT-3).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from starlette.responses import StreamingResponse

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.record.recorded_rungs import rungs_on_record
from mcpproxy_py.core.record.short_ids import LEAST_TYPED
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.gateway.approvals import ambiguous
from mcpproxy_py.serve.http.asgi import NO_STORE, bad_request, json_bytes
from mcpproxy_py.serve.rest import requests, responses
from mcpproxy_py.serve.rest.activity_csv import csv_header, csv_lines
from mcpproxy_py.serve.rest.endpoint import RestEndpoint, RestRequest
from mcpproxy_py.store.activity.feed import FeedBatch, FeedEvent, FeedPosition
from mcpproxy_py.store.activity.reader import Filters
from mcpproxy_py.store.chain_key import Anchor

Rows = Sequence[Mapping[str, Any]]

MEDIA: Final = {"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}


SHORT_IDS: Final = (
    "The id may be the short form that `mcpproxy activity list` shows, or the beginning of an id, from four digits on. "
    "One that several records have is a 400, whose `details.candidates` are these."
)


async def list_activity(x: RestRequest) -> Mapping[str, Any]:
    """The first page waits until the database knows what was answered; later ones go on where they were."""
    if x.query.cursor is None:
        await x.parts.store.caught_up()
    page = await x.parts.store.activities(_filters(x.query, x.caller.principal))
    return {"activities": page.activities, "next_cursor": page.next_cursor}


async def show_activity(x: RestRequest) -> Mapping[str, Any]:
    await x.parts.store.caught_up()
    return _in_full(await _found(x, x.path["id"]))


def _in_full(record: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**record, "rungs": rungs_on_record(record)}


async def _found(x: RestRequest, typed: str) -> Mapping[str, Any]:
    """By its whole id, or by a short form or a beginning that only one record has."""
    found = await x.parts.store.activity(typed)
    if found is None:
        meant = await x.parts.store.candidates(typed)
        if len(meant) > 1:
            raise ambiguous(typed, meant)
        found = await x.parts.store.activity(meant[0]["id"]) if meant else None
    if found is None:
        remedy = f"See `mcpproxy activity list`; at least {LEAST_TYPED} digits of an id are needed."
        raise GatewayError(Code.NOT_FOUND, f"There is no activity '{quoted(typed)}'", details={"remedy": remedy})
    return found


async def summarise(x: RestRequest) -> Mapping[str, Any]:
    await x.parts.store.caught_up()
    return await x.parts.store.summary(_filters(x.query))


async def export(x: RestRequest) -> StreamingResponse:
    """Streamed, so that its size costs no memory. The first batch is read before the answer starts: until
    then a failure can still be told; later ones cut the stream off, which clients notice."""
    await x.parts.store.caught_up()
    form = x.query.format
    batches = x.parts.store.export(_filters(x.query))
    first = await anext(batches, None)
    headers = {**NO_STORE, "content-disposition": f'attachment; filename="activity.{form}"'}
    lines = _csv(first, batches) if form == "csv" else _jsonl(first, batches)
    return StreamingResponse(lines, headers=headers, media_type=MEDIA[form])


async def _jsonl(first: Rows | None, rest: AsyncIterator[Rows]) -> AsyncIterator[bytes]:
    async for batch in _all(first, rest):
        yield b"".join(json_bytes(row) + b"\n" for row in batch)


async def _csv(first: Rows | None, rest: AsyncIterator[Rows]) -> AsyncIterator[str]:
    yield csv_header()
    async for batch in _all(first, rest):
        yield csv_lines(batch)


async def _all(first: Rows | None, rest: AsyncIterator[Rows]) -> AsyncIterator[Rows]:
    if first is not None:
        yield first
        async for batch in rest:
            yield batch


def _filters(query: requests.ActivityFilter, principal: str = "admin") -> Filters:
    """The query has been checked as far as its model can; whether a cursor is one of ours, the store knows. Whoever is
    not the admin sees its own records, whatever it asks for."""
    said = query.model_dump(exclude={"format", "mine"}, exclude_none=True)
    if principal != "admin" or getattr(query, "mine", None) is not None:
        said["principal"] = principal
    try:
        return Filters(**said)
    except ValueError as wrong:
        raise bad_request(str(wrong), parameter=str(wrong).partition(" ")[0]) from None


async def verify(x: RestRequest) -> Mapping[str, Any]:
    """Every event and every record is read, in a process of its own; calls do not wait for it."""
    try:
        kept = None if x.query.anchor is None else Anchor.read(x.query.anchor)
    except ValueError as wrong:
        raise bad_request(f"anchor: {wrong}", parameter="anchor") from None
    return await x.parts.store.verify(kept)


async def anchor(x: RestRequest) -> Mapping[str, Any]:
    return (await x.parts.store.anchor()).as_json()


async def erase(x: RestRequest) -> Mapping[str, Any]:
    """Its payloads, not the record: that it was, and who erased it, stays."""
    record = await show_activity(x)
    record_id = record["id"]
    if record["status"] == "pending":
        raise GatewayError(Code.CONFLICT, f"The call {record_id} goes on; erase it when it has ended")
    client = x.parts.masker.mask_text(x.caller.client.name)
    by = {"principal": x.caller.principal, "source": x.caller.source, "client": client}
    await x.parts.confirmations.erase(record_id)
    await x.parts.store.erase(record_id, by)
    return _in_full(await _found(x, record_id))


ACTIVITY_ENDPOINTS: Final = (
    RestEndpoint("GET", "/api/v1/activity", "Activity", "Records, newest first", list_activity, responses.Activities,
             query=requests.ActivityPage, refusals=(Code.STORE_UNAVAILABLE,), masked=False, guarded="own",
             more="With `mine`, the records of whoever asks. It is all of REST that opens with a token of an agent, "
                  "sent as `Authorization: Bearer`; other filters narrow it further."),
    RestEndpoint("GET", "/api/v1/activity/summary", "Activity", "Counts and durations", summarise, responses.Summary,
             query=requests.ActivityFilter, refusals=(Code.STORE_UNAVAILABLE,), masked=False),
    RestEndpoint("GET", "/api/v1/activity/export", "Activity", "Every matching record, streamed", export, None,
             query=requests.ActivityExport, media=("application/jsonl", "text/csv"),
             refusals=(Code.STORE_UNAVAILABLE,)),
    RestEndpoint("GET", "/api/v1/activity/verify", "Activity", "Whether the record is still what was written", verify,
             responses.Verified, query=requests.Verification, refusals=(Code.STORE_UNAVAILABLE,), masked=False),
    RestEndpoint("GET", "/api/v1/activity/anchor", "Activity", "The head of the chain, to be kept elsewhere", anchor,
             responses.AnchorAnswer, refusals=(Code.STORE_UNAVAILABLE,), masked=False),
    RestEndpoint("DELETE", "/api/v1/activity/{id}/payload", "Activity",
             "Erase the arguments and the answer of a record", erase, responses.ActivityInFull,
             more="With them goes what agents, servers and people wrote elsewhere in it: the reason, the message of an "
                  f"error, answers in mid-call, and what was shown to confirm the call. {SHORT_IDS}",
             refusals=(Code.NOT_FOUND, Code.CONFLICT, Code.STORE_UNAVAILABLE), masked=False),
    RestEndpoint("GET", "/api/v1/activity/{id}", "Activity", "One record, and the rungs of its decision", show_activity,
             responses.ActivityInFull,
             refusals=(Code.NOT_FOUND, Code.STORE_UNAVAILABLE), masked=False, more=SHORT_IDS),
)  # fmt: skip


EVENT_STREAM: Final = "text/event-stream"
MOST: Final = 64
"""Listeners at once. Each reads for itself, so many of them would be felt."""
RETRY: Final = b"retry: 2000\n\n"
MORE: Final = (
    "Kinds of `event`: `hello`, where the stream begins; `asked`, `finished` and `erased`, with the record at that "
    "time; `approval`, when a request for a capability was filed, decided or has expired, with the request at that "
    "time; `confirmation`, with `id` and `status`, when a call began to wait for a person, was decided, or waits no "
    "longer; `other`, without data, for events that change none of these. With several gateways on one database each "
    "reports the events of all. To continue after an event, send its `id` as `Last-Event-ID`."
)


class _Seats:
    """How many listen now. One for the process, because the bound is the process's."""

    taken = 0


async def events(x: RestRequest) -> StreamingResponse:
    after = _position(x)
    if _Seats.taken >= MOST:
        raise GatewayError(Code.OVERLOADED, f"{MOST} clients are connected already")
    if after is None:
        await x.parts.store.caught_up()  # what was answered before is not news
    now = await x.parts.store.position()  # a database that cannot be read is told before the answer has begun
    source = x.parts.store.events(now if after is None else after, brief=x.query.brief)
    return StreamingResponse(_told(source), headers=dict(NO_STORE), media_type=EVENT_STREAM)


def _position(x: RestRequest) -> FeedPosition | None:
    """Browsers send the header when they come back; who cannot set headers says it in the address."""
    given = x.request.headers.get("last-event-id") or x.query.after
    try:
        return None if given is None else FeedPosition.read(given)
    except ValueError as error:
        raise bad_request(str(error), parameter="Last-Event-ID") from None


async def _told(source: AsyncGenerator[FeedBatch | None]) -> AsyncIterator[bytes]:
    """A client that hangs up ends this wherever it waits, and everything it held with it."""
    _Seats.taken += 1
    try:
        yield RETRY
        async with aclosing(source) as stream:
            async for told in stream:
                if told is not None and told.encoded is None:
                    told.encoded = b"".join(map(_message, told.events))
                yield b": still here\n\n" if told is None else told.encoded or b""
    finally:
        _Seats.taken -= 1


def _message(told: FeedEvent) -> bytes:
    data = json_bytes(told.record)
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (str(told.position).encode(), told.kind.encode(), data)


EVENT_ENDPOINTS: Final = (
    RestEndpoint("GET", "/api/v1/events", "Activity", "Activity as it happens, as server-sent events", events, None,
             query=requests.EventStreamQuery, media=(EVENT_STREAM,),
             refusals=(Code.OVERLOADED, Code.STORE_UNAVAILABLE), more=MORE),
)  # fmt: skip
