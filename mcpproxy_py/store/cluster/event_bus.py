"""What gateways tell each other: that a list has changed, a switch was set, an approval is there (ACT-6).

A hint, not a message. Who hears of it reads what is durable. Within one process everybody hears it at once; over
PostgreSQL all other gateways of the database hear it too. A hint can be lost while the database is away, so after
that everybody is told `RESYNC` and reads anew whatever it keeps a copy of.
"""

from __future__ import annotations

import json
import logging
import queue
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Event, Thread
from typing import Any, Final, Protocol


class NotifyConnection(Protocol):
    """What carries hints between processes."""

    def listening(self) -> AbstractContextManager[Any]: ...
    def notify(self, said: str) -> None: ...


log = logging.getLogger(__name__)

RESYNC: Final = "resync"
RECORDED: Final = "recorded"
"""Something new can be read in the activity; for those who show it live."""
LONGEST: Final = 7_000
"""PostgreSQL carries 8,000 bytes."""
PATIENCE: Final = 5.0
WAITING: Final = 1_000

Listener = Callable[[str, Any], None]


class EventBus:
    """Listeners are called in the thread that publishes: that of the event loop for what is published here, one of
    our own for what others publish. They must not block."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def on_event(self, listener: Listener) -> Callable[[], None]:
        """Gives what ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def publish(self, kind: str, payload: Any = None) -> None:
        """Raises `ValueError` for a payload that is too long for a hint."""
        self.publish_elsewhere(kind, payload)
        self.publish_here(kind, payload)

    def publish_elsewhere(self, kind: str, payload: Any = None) -> None:
        """The other gateways only, where who listens here knows already. Raises `ValueError` likewise."""
        text = json.dumps([kind, payload])
        if len(text) > LONGEST:
            raise ValueError(f"a notification is a hint; {len(text)} bytes are too many for one")
        self.pass_on(text)

    def publish_here(self, kind: str, payload: Any = None) -> None:
        for listener in list(self._listeners):
            try:
                listener(kind, payload)
            except Exception:
                log.exception("a subscriber failed on %s", kind)

    def pass_on(self, text: str) -> None:
        """To other gateways; here there are none."""

    def close(self) -> None:
        return


class PostgresEventBus(EventBus):
    """Over PostgreSQL's NOTIFY, with two threads of its own: one listens, one speaks."""

    def __init__(self, database: NotifyConnection) -> None:
        super().__init__()
        self._database = database
        self._me = secrets.token_hex(4)
        self._to_say: queue.Queue[str | None] = queue.Queue(WAITING)
        self._closing = Event()
        self._threads = [Thread(target=work, daemon=True, name=f"mcpproxy-bell-{work.__name__}")
                         for work in (self._listen, self._speak)]  # fmt: skip
        for thread in self._threads:
            thread.start()

    def pass_on(self, text: str) -> None:
        try:
            self._to_say.put_nowait(text)
        except queue.Full:
            log.warning("a notification is lost, the database is down; other gateways read again when it is back")

    def close(self) -> None:
        self._closing.set()
        self._to_say.put(None)
        for thread in self._threads:
            thread.join(PATIENCE)

    # -- in threads of their own

    def _listen(self) -> None:
        first = True
        while not self._closing.is_set():
            try:
                with self._database.listening() as connection:
                    if not first:
                        self.publish_here(RESYNC)
                    first = False
                    while not self._closing.is_set():
                        for notice in connection.notifies(timeout=1.0):
                            self._hear(notice.payload)
            except Exception as error:
                first = False
                log.warning("cannot listen to other gateways: %s. It is tried again.", type(error).__name__)
                self._closing.wait(1.0)

    def _hear(self, text: str) -> None:
        if text.isdigit():
            return self.publish_here(RECORDED, int(text))
        try:
            sender, kind, payload = json.loads(text)
        except ValueError:
            return None
        if sender != self._me:
            self.publish_here(kind, payload)
        return None

    def _speak(self) -> None:
        while (text := self._to_say.get()) is not None:
            while not self._closing.is_set():
                try:
                    kind, payload = json.loads(text)
                    self._database.notify(json.dumps([self._me, kind, payload]))
                    break
                except Exception:
                    self._closing.wait(1.0)
