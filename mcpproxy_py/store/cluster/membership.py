"""Several gateways on one database: who is there, who has died, and what it left pending (ACT-6).

Each has a row that it renews while it lives. What a gateway does not renew for a while is taken for dead, and one of
the others records what it left pending as interrupted. Should it only have lost its way to the database, what it
brings when it is back counts for more.

A thread that says we live, and looks after what dead gateways left pending.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Callable
from threading import Event, Thread
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, insert, or_, select, update
from sqlalchemy.exc import SQLAlchemyError

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.store.chain_key import Identity
from mcpproxy_py.store.database.engine import Database, plain
from mcpproxy_py.store.database.tables import activity, gateways
from mcpproxy_py.store.projection.rows import INTERRUPTED

log = logging.getLogger(__name__)

GATEWAY_DIED: Final = {
    "code": "INTERRUPTED",
    "message": "the gateway ended before this call did; the upstream may have acted",
}
RENEWAL: Final = 5.0
LAPSE: Final = 30.0
"""Seconds without renewal after which a gateway counts as dead: some renewals may fail before."""


class Membership(NamedTuple):
    """This gateway among those of its database. `number` is its chain's, and that of its rows."""

    number: int
    life: str
    after_death: bool = False
    """The one before it did not leave."""


def join(database: Database, who: Identity) -> Membership:
    """Raises `StoreUnavailable` where another process is writing the chain of this name: a copied data directory."""
    with database.writing() as connection:
        database.lock_for_changes(connection)
        row = connection.execute(select(gateways).where(gateways.c.name == who.name)).first()
        now, life, place = database.now(connection), secrets.token_hex(8), f"{socket.gethostname()} pid {os.getpid()}"
        if row is not None and database.shared and row.life and row.place != place and not _lapsed(row.seen_at, now):
            _must_be_ours(row.place, who)
        values = {"key_id": who.key_id, "life": life, "place": place, "seen_at": now}
        if row is not None:
            connection.execute(update(gateways).where(gateways.c.number == row.number).values(values))
            return Membership(row.number, life, after_death=row.life is not None)
        made = connection.execute(insert(gateways).values(name=who.name, **values).returning(gateways.c.number))
        return Membership(made.scalar_one(), life)


def number_of(database: Database, who: Identity) -> int:
    """For the writer apart, whose gateway has joined already."""
    with database.reading() as connection:
        return connection.execute(select(gateways.c.number).where(gateways.c.name == who.name)).scalar_one()


def _must_be_ours(place: str, who: Identity) -> None:
    """The folder's lock already keeps away whoever uses this very directory, so one of this machine is gone."""
    host, _, pid = place.rpartition(" pid ")
    if host == socket.gethostname() and not _lives(int(pid)):
        return
    raise StoreUnavailable(
        f"the gateway on {place} writes as {who.name}, and this one would too. Each gateway needs a "
        f"data directory of its own: remove chain.name from a copied one. If that gateway is dead, wait {LAPSE:.0f} "
        "seconds."
    )


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _lapsed(seen_at: int, now: int) -> bool:
    return now - seen_at > LAPSE * 1e6


def renew(database: Database, me: Membership) -> list[tuple[int, str]]:
    """Says that we live; gives the gateways that no longer do and have something pending."""
    with database.writing() as connection:
        now = database.now(connection)
        # Also where the others have taken us for dead meanwhile: we were only cut off.
        ours = or_(gateways.c.life == me.life, gateways.c.life.is_(None))
        mine = update(gateways).where(gateways.c.number == me.number, ours)
        if connection.execute(mine.values(seen_at=now, life=me.life)).rowcount == 0:
            log.error("another process writes the chain of this gateway in %s", database.label)
        dead = select(gateways).where(gateways.c.life.is_not(None), gateways.c.number != me.number)
        return [(row.number, row.life) for row in connection.execute(dead) if _lapsed(row.seen_at, now)]


def claim_dead(database: Database, dead: tuple[int, str]) -> bool:
    """Whether it is ours to close what this one left: only one of the others gets to."""
    with database.writing() as connection:
        row = gateways.c.number == dead[0], gateways.c.life == dead[1]
        return connection.execute(update(gateways).where(*row).values(life=None)).rowcount == 1


def living(database: Database) -> frozenset[str]:
    """The names of the gateways that have neither left nor lapsed."""
    with database.reading() as connection:
        now = database.now(connection)
        rows = connection.execute(select(gateways).where(gateways.c.life.is_not(None)))
        return frozenset(row.name for row in rows if not _lapsed(row.seen_at, now))


def leave(database: Database, me: Membership) -> None:
    with database.writing() as connection:
        mine = update(gateways).where(gateways.c.number == me.number, gateways.c.life == me.life)
        connection.execute(mine.values(life=None))


def interrupted(activity_id: str, at: float) -> dict[str, Any]:
    """The event that closes what a gateway left pending when it died."""
    return {
        "kind": "finished", "id": activity_id, "at": at, "status": INTERRUPTED, "error": GATEWAY_DIED,
        "response": None, "response_size": 0, "duration_ms": None, "metadata": {},
    }  # fmt: skip


def pending_of(connection: Connection, number: int) -> list[str]:
    query = select(activity.c.id).where(activity.c.status == "pending", activity.c.gateway == number)
    return list(connection.execute(query).scalars())


class Heartbeat:
    """`close_calls` is handed the ids of calls whose gateway died."""

    def __init__(self, database: Database, me: Membership, close_calls: Callable[[list[str]], None]) -> None:
        self._database = database
        self._me = me
        self._close_calls = close_calls
        self._closing = Event()
        self._well = True
        self._thread = Thread(target=self._watch, name="mcpproxy-heartbeat", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join(RENEWAL)

    def _watch(self) -> None:
        while not self._closing.wait(RENEWAL):
            try:
                for dead in renew(self._database, self._me):
                    self._look_after(dead)
                self._well = True
            except (SQLAlchemyError, StoreUnavailable) as error:
                if self._well:
                    reason = plain(error) if isinstance(error, SQLAlchemyError) else error.message
                    log.warning("cannot renew the heartbeat of this gateway: %s", reason)
                self._well = False

    def _look_after(self, dead: tuple[int, str]) -> None:
        if not claim_dead(self._database, dead):
            return
        with self._database.reading() as connection:
            pending = pending_of(connection, dead[0])
        log.warning("gateway %d is dead; %d of its calls are recorded as interrupted", dead[0], len(pending))
        if pending:
            self._close_calls(pending)
