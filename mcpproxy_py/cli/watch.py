"""Server-sent events, read for as long as anybody watches."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from mcpproxy_py.cli.output import note
from mcpproxy_py.errors import Code, GatewayError

PAUSE: Final = 1.0
PATIENCE: Final = 60.0
"""Seconds that a gateway which was there may be away, for a restart say."""


def records(client: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each event's kind and the record as it is then. Endless: a connection that breaks is taken up where it was."""
    last, seen_at = None, None
    while True:
        try:
            with client.stream("events", after=last) as chunks:
                for event in parsed(chunks):
                    seen_at, last = time.monotonic(), event.get("id", last)
                    if isinstance(record := json.loads(event.get("data", "null")), dict):
                        yield event.get("event", ""), record
        except GatewayError as error:
            gone = seen_at is None or time.monotonic() - seen_at > PATIENCE
            if gone or error.code is not Code.NOT_REACHABLE:
                raise
            note("The gateway is not reachable; waiting for it")
        time.sleep(PAUSE)


def parsed(chunks: Iterable[bytes]) -> Iterator[dict[str, str]]:
    """The events of a stream, each by its fields. Comments, which only keep the line open, are left out."""
    event: dict[str, str] = {}
    for line in _lines(chunks):
        if not line and event:
            yield event
            event = {}
        elif line and not line.startswith(":"):
            name, _, value = line.partition(":")
            event[name] = value.removeprefix(" ")


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in whole)


def matching(wanted: Mapping[str, str | None]) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a record has each of these values, where one is asked for."""
    asked = {key: value for key, value in wanted.items() if value is not None}
    return lambda record: all(record.get(key) == value for key, value in asked.items())
