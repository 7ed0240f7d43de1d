"""Events kept in memory, so that a client that was hung up on can come back with `Last-Event-ID`."""

from __future__ import annotations

from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp_types import JSONRPCMessage


class Kept(EventStore):
    def __init__(self) -> None:
        self.events: list[tuple[StreamId, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        position = int(last_event_id) if last_event_id.isdigit() else 0
        if not 0 < position <= len(self.events):
            return None
        stream = self.events[position - 1][0]
        for number, (owner, message) in enumerate(self.events[position:], position + 1):
            if owner == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream
