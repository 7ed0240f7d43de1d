"""How many connections there may be, of all clients and of each address, how long each may be silent (SEC-7), and how
much unread answer they may leave with us.

When all places are taken, a new connection gets the place of the one that was silent longest: whoever opens many and
says nothing locks nobody out. One whose request is being answered keeps its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final, Protocol

PRIVATE: Final = "unix"
"""What stands for the address of whoever comes over a socket of ours."""
RESERVED_FILES: Final = 256
"""Open files that are not for clients: the record, the servers, the libraries."""
LEAST: Final = 16
LOOKED_AT: Final = 64
"""Silent connections, to find the one that was so longest."""
MAX_UNREAD: Final = 256 << 20
"""Bytes of answers that all clients together may leave unread; beyond that the one that has not read longest goes."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Counts, and seconds."""

    all: int = 2048
    of_an_address: int = 1536
    head: float = 30.0
    body: float = 120.0
    read: float = 60.0

    @property
    def tick(self) -> float:
        return min(self.head, self.body, self.read)


class Connection(Protocol):
    address: str

    @property
    def silent_since(self) -> float | None:
        """`None` while it waits for us."""
        ...

    @property
    def unread(self) -> int:
        """Bytes that the client has not taken yet."""
        ...

    @property
    def unread_since(self) -> float: ...

    def end(self) -> None: ...
    def abort(self) -> None: ...
    def serves(self, principal: str) -> bool:
        """Whether a request of this principal's is being answered."""
        ...


class ConnectionTable:
    """Those that are open."""

    def __init__(self, limits: ConnectionLimits, on_refused: Callable[[str], None] = lambda address: None) -> None:
        """`on_refused(address)` is told of each connection that found no place."""
        self.limits = limits
        self._on_refused = on_refused
        self._open = 0
        self._of: dict[str, dict[Connection, None]] = {}
        """By address; nearly in the order in which they came."""
        self._unread: set[Connection] = set()

    def __len__(self) -> int:
        return self._open

    def add(self, connection: Connection) -> bool:
        """False where there is no place."""
        address, placed = connection.address, True
        if len(self._of.get(address, ())) >= self.limits.of_an_address:
            placed = self._make_room(address)
        elif self._open >= self.limits.all:
            placed = self._make_room(max(self._of, key=lambda each: len(self._of[each])))
        if not placed:
            self._on_refused(address)
            return False
        self._of.setdefault(address, {})[connection] = None
        self._open += 1
        return True

    def discard(self, connection: Connection) -> None:
        self._unread.discard(connection)
        there = self._of.get(connection.address, {})
        if connection in there:
            del there[connection]
            self._open -= 1
            if not there:
                del self._of[connection.address]

    def hang_up_on(self, principal: str) -> None:
        """Whatever is being answered to this principal ends here."""
        for connection in [one for there in self._of.values() for one in there if one.serves(principal)]:
            connection.abort()

    def _make_room(self, address: str) -> bool:
        """Those that came first are looked at, and not all of them: whoever comes again and again costs us that. Busy
        ones that were in the way are looked at last from then on."""
        there = self._of[address]
        silent: list[tuple[float, int, Connection]] = []
        busy: list[Connection] = []
        for number, one in enumerate(there):
            if (since := one.silent_since) is None:
                busy.append(one)
            else:
                silent.append((since, number, one))
            if len(silent) >= LOOKED_AT or number >= 4 * LOOKED_AT:
                break
        for one in busy:
            there[one] = there.pop(one)
        if not silent:
            return False
        longest = min(silent)[2]
        self.discard(longest)
        longest.end()
        return True

    def unread(self, connection: Connection) -> None:
        """Its client does not keep up."""
        self._unread.add(connection)
        while sum(one.unread for one in self._unread) > MAX_UNREAD:
            longest = min(self._unread, key=lambda one: one.unread_since)
            self._unread.discard(longest)
            longest.abort()

    def read(self, connection: Connection) -> None:
        """It does again."""
        self._unread.discard(connection)


def address_of(peer: tuple[str, int] | None) -> str:
    """Whose share a connection counts to. Whoever has an IPv6 address has all of its /64 network."""
    if peer is None:
        return PRIVATE
    try:
        address = ip_address(peer[0].partition("%")[0])
    except ValueError:
        return peer[0]
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        if not address.is_loopback:
            return f"{IPv6Address(int(address) >> 64 << 64)}/64"
    return str(address)


def room_for(wanted: int) -> int:
    """How many connections the limit of open files allows, which is raised as far as it may be."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        except (OSError, ValueError):
            soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    return max(LEAST, min(wanted, soft - RESERVED_FILES))
