"""What happened: list, show, count and take away the records of every ask (ACT-3)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from starlette.responses import StreamingResponse

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.serve.http.asgi import NO_STORE, bad_request, json_bytes
from mcpproxy_py.serve.rest import requests, responses
from mcpproxy_py.serve.rest._serve_endpoint import Endpoint, Exchange
from mcpproxy_py.serve.rest.activity_csv import csv_header, csv_lines
from mcpproxy_py.store.activity.reader import Filters
from mcpproxy_py.store.chain_key import Anchor

Rows = Sequence[Mapping[str, Any]]

MEDIA: Final = {"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}


async def list_activity(x: Exchange) -> Mapping[str, Any]:
    """The first page waits until the database knows what was answered; later ones go on where they were."""
    if x.query.cursor is None:
        await x.parts.store.caught_up()
    page = await x.parts.store.activities(_filters(x.query))
    return {"activities": page.activities, "next_cursor": page.next_cursor}


async def show_activity(x: Exchange) -> Mapping[str, Any]:
    await x.parts.store.caught_up()
    found = await x.parts.store.activity(x.path["id"])
    if found is None:
        raise GatewayError(Code.NOT_FOUND, f"There is no activity '{quoted(x.path['id'])}'")
    return found


async def summarise(x: Exchange) -> Mapping[str, Any]:
    await x.parts.store.caught_up()
    return await x.parts.store.summary(_filters(x.query))


async def export(x: Exchange) -> StreamingResponse:
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


def _filters(query: requests.ActivityFilter) -> Filters:
    """The query has been checked as far as its model can; whether a cursor is one of ours, the store knows."""
    try:
        return Filters(**query.model_dump(exclude={"format"}, exclude_none=True))
    except ValueError as wrong:
        raise bad_request(str(wrong), parameter=str(wrong).partition(" ")[0]) from None


async def verify(x: Exchange) -> Mapping[str, Any]:
    """Every event and every record is read, in a process of its own; calls do not wait for it."""
    try:
        kept = None if x.query.anchor is None else Anchor.read(x.query.anchor)
    except ValueError as wrong:
        raise bad_request(f"anchor: {wrong}", parameter="anchor") from None
    return await x.parts.store.verify(kept)


async def anchor(x: Exchange) -> Mapping[str, Any]:
    return (await x.parts.store.anchor()).as_json()


async def erase(x: Exchange) -> Mapping[str, Any]:
    """Its payloads, not the record: that it was, and who erased it, stays."""
    await show_activity(x)
    by = {"principal": x.caller.principal, "source": x.caller.source, "client": x.caller.client.name}
    await x.parts.store.erase(x.path["id"], by)
    await x.parts.store.caught_up()
    return await show_activity(x)


ENDPOINTS: Final = (
    Endpoint("GET", "/api/v1/activity", "Activity", "Records, newest first", list_activity, responses.Activities,
             query=requests.ActivityPage, refusals=(Code.STORE_UNAVAILABLE,)),
    Endpoint("GET", "/api/v1/activity/summary", "Activity", "Counts and durations", summarise, responses.Summary,
             query=requests.ActivityFilter, refusals=(Code.STORE_UNAVAILABLE,)),
    Endpoint("GET", "/api/v1/activity/export", "Activity", "Every matching record, streamed", export, None,
             query=requests.ActivityExport, media=("application/jsonl", "text/csv"),
             refusals=(Code.STORE_UNAVAILABLE,)),
    Endpoint("GET", "/api/v1/activity/verify", "Activity", "Whether the record is still what was written", verify,
             responses.Verified, query=requests.Verification, refusals=(Code.STORE_UNAVAILABLE,)),
    Endpoint("GET", "/api/v1/activity/anchor", "Activity", "The head of the chain, to be kept elsewhere", anchor,
             responses.AnchorAnswer, refusals=(Code.STORE_UNAVAILABLE,)),
    Endpoint("DELETE", "/api/v1/activity/{id}/payload", "Activity", "Erase the arguments and the answer of a record",
             erase, responses.ActivityAnswer, refusals=(Code.NOT_FOUND, Code.STORE_UNAVAILABLE)),
    Endpoint("GET", "/api/v1/activity/{id}", "Activity", "One record", show_activity, responses.ActivityAnswer,
             refusals=(Code.NOT_FOUND, Code.STORE_UNAVAILABLE)),
)  # fmt: skip
