"""Whose each task is that a client holds: in memory, and in a sealed record of each gateway, so that a restart or
another gateway of the same database knows it too (SURF-10).

A task whose owner nobody knows is nobody's, so it is not answered: what is in here is bounded, and only what there was
no room for any more is forgotten before its time, of whoever has most.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from mcpproxy_py.core import json_values
from mcpproxy_py.core.protocol.tasks import TaskOrigin, origin_of
from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.store.sealed_records import SealedRecords

log = logging.getLogger(__name__)

KIND: Final = "tasks"
MOST: Final = 1024
MOST_OF_ONE: Final = 256
Key = tuple[str, str]


class TaskStore(Protocol):
    """What this needs of the store room."""

    async def sealed_records(self, kind: str) -> SealedRecords: ...
    async def put_sealed_record(self, kind: str, name: str, value: Any) -> object: ...


class TaskTable:
    """`on_forgotten` is told of each task that goes without its end having been seen."""

    def __init__(self, on_forgotten: Callable[[TaskOrigin], object], clock: Callable[[], float] = time.time) -> None:
        self._on_forgotten = on_forgotten
        self._clock = clock
        self._store: TaskStore | None = None
        self._name = ""
        self._mine: dict[Key, TaskOrigin] = {}
        """The oldest first."""
        self._others: dict[Key, TaskOrigin] = {}
        self._ended: set[Key] = set()
        self._changes = self._saved = 0
        self._turn = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None

    def use(self, store: TaskStore, name: str) -> None:
        """From now on it lasts; `name` is this gateway's own."""
        self._store, self._name = store, name

    async def load(self) -> None:
        """What this gateway knew when it ended, and what the others know."""
        await self._read(own=True)

    async def keep(self, task: TaskOrigin) -> bool:
        """Whether it is this caller's from now on: an id that belongs to somebody else already does not change hands.
        It is known everywhere when this returns, but where the store fails, which a restart then shows."""
        known = await self.find(task.server, task.id)
        if known is not None and known.principal != task.principal:
            return False
        key = task.server, task.id
        self._mine.pop(key, None)
        self._ended.discard(key)
        self._mine[key] = task
        self._make_room(task.principal)
        await self._save()
        return True

    async def find(self, server: str, task_id: str) -> TaskOrigin | None:
        key = server, task_id
        if (found := self._known(key)) is None and self._store is not None:
            await self._read_once()
            found = self._known(key)
        return found

    def end(self, task: TaskOrigin) -> bool:
        """Its end was seen. Whether that is news."""
        key = task.server, task.id
        if key in self._ended:
            return False
        self._ended.add(key)
        self._changes += 1
        if len(self._ended) > 4 * MOST:
            self._ended &= self._mine.keys() | self._others.keys()
        return True

    def has_ended(self, task: TaskOrigin) -> bool:
        return (task.server, task.id) in self._ended

    def going_on(self) -> list[TaskOrigin]:
        """All that have not ended, as far as this gateway knows."""
        now, rows = self._clock(), {**self._others, **self._mine}
        return [task for key, task in rows.items() if key not in self._ended and task.expires > now]

    async def look_around(self) -> None:
        """What the other gateways know by now."""
        await self._read_once()

    def _known(self, key: Key) -> TaskOrigin | None:
        found = self._mine.get(key) or self._others.get(key)
        return found if found is not None and found.expires > self._clock() else None

    def _make_room(self, principal: str) -> None:
        now = self._clock()
        for key in [key for key, task in self._mine.items() if task.expires <= now]:
            self._drop(key)
        while len(self._of(principal)) > MOST_OF_ONE:
            self._drop(self._first(self._of(principal)))
        while len(self._mine) > MOST:
            most = Counter(task.principal for task in self._mine.values()).most_common(1)[0][0]
            self._drop(self._first(self._of(most)))

    def _of(self, principal: str) -> list[Key]:
        return [key for key, task in self._mine.items() if task.principal == principal]

    def _first(self, keys: Iterable[Key]) -> Key:
        """One that has ended, else the oldest."""
        rows = list(keys)
        return next((key for key in rows if key in self._ended), rows[0])

    def _drop(self, key: Key) -> None:
        task = self._mine.pop(key)
        if key in self._ended:
            self._ended.discard(key)
        else:
            self._on_forgotten(task)

    # What lasts.

    async def _save(self) -> None:
        """Those that come at once share a write."""
        self._changes += 1
        if (store := self._store) is None:
            return
        wanted = self._changes
        async with self._turn:
            if self._saved >= wanted:
                return
            saving = self._changes
            rows = [[*task, (task.server, task.id) in self._ended] for task in self._mine.values()]
            try:
                await store.put_sealed_record(KIND, self._name, {"tasks": rows})
                self._saved = saving
            except StoreUnavailable as error:
                log.warning("whose tasks are going on could not be saved, so a restart forgets it: %s", error.message)

    async def _read_once(self) -> None:
        """Reads of the same moment are one."""
        if self._store is None:
            return
        if self._reading is None or self._reading.done():
            self._reading = asyncio.get_running_loop().create_task(self._read())
        await asyncio.shield(self._reading)

    async def _read(self, own: bool = False) -> None:
        if (store := self._store) is None:
            return
        try:
            found = await store.sealed_records(KIND)
        except StoreUnavailable as error:
            log.warning("whose tasks are going on at other gateways cannot be read: %s", error.message)
            return
        others: dict[Key, TaskOrigin] = {}
        for name, record in found.believed.items():
            if name != self._name:
                others.update(self._rows(record.value))
            elif own:
                self._mine = {**self._rows(record.value), **self._mine}
        self._others = others

    def _rows(self, value: Any) -> Mapping[Key, TaskOrigin]:
        rows: dict[Key, TaskOrigin] = {}
        for row in json_values.as_array((json_values.as_object(value) or {}).get("tasks")) or []:
            fields = json_values.as_array(row) or []
            task = origin_of(fields[:-1])
            if task is not None and task.expires > self._clock():
                rows[task.server, task.id] = task
                if fields[-1] is True:
                    self._ended.add((task.server, task.id))
        return rows
