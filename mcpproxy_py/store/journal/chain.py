"""The chain of events (ACT-8): every event carries a keyed hash over itself and over the hash before it.

Who changes, removes, adds or swaps an event without the key breaks it from there on, and who cuts off the end
leaves a chain that is shorter than its published head. The key is in a file beside the journal, never in the
database. What a hash covers is the event's head: everything but the payload, for which a digest stands. So a
payload can be erased, and the chain still holds.

A line of the journal has three columns with tabs between them, which JSON text never holds: head, payload, hash.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

from mcpproxy_py.core.record.events import Event, EventText
from mcpproxy_py.store.codec import encode, text_of

PAYLOADS: Final[Mapping[Any, str]] = {"asked": "arguments", "finished": "response"}
"""The one part of each kind of event that can be large, or that somebody may have a right to have erased."""


class ChainHead(NamedTuple):
    """The last event of a chain. Heads compare by how long the chain is."""

    seq: int
    mac: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.mac}"

    @classmethod
    def read(cls, text: str) -> ChainHead:
        """Raises `ValueError` for what is not the text of a head."""
        seq, _, mac = text.strip().partition(":")
        if not (seq.isascii() and seq.isdigit() and len(mac) == len(START.mac)):
            raise ValueError("a chain head is written as NUMBER:HASH")
        return cls(int(seq), mac)


START: Final = ChainHead(0, "0" * 64)
_BLOCK: Final = 64


class Sealer:
    """Hashes with the key of one chain. The key is made from the gateway's by the chain's name, so that
    gateways that share a key cannot be made to vouch for each other's events."""

    def __init__(self, key: bytes, chain: str) -> None:
        own = hmac.digest(key, chain.encode(), "sha256").ljust(_BLOCK, b"\0")
        # HMAC as RFC 2104 has it. The two hashes that begin with the key are kept: `hmac` takes twice as long.
        self._inner = sha256(bytes(byte ^ 0x36 for byte in own))
        self._outer = sha256(bytes(byte ^ 0x5C for byte in own))

    def mac(self, before: str, head: bytes) -> str:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(before.encode() + head)
        outer.update(inner.digest())
        return outer.hexdigest()

    def seal(self, *parts: object) -> str:
        """Of something that is no event; the zeroth byte keeps the two apart."""
        return self.mac("\0", "\0".join(map(str, parts)).encode())


class Chain:
    """Where the chain is, and how it goes on."""

    def __init__(self, sealer: Sealer, head: ChainHead = START) -> None:
        self._sealer = sealer
        self.head = head

    def link(self, events: Iterable[Event]) -> tuple[bytes, ChainHead]:
        """The events as lines of the journal, and the head once those are written."""
        seq, mac = self.head
        lines: list[bytes] = []
        for event in events:
            seq += 1
            if not isinstance(event, EventText):
                head, payload = taken_apart(event, seq)
            elif payload := event.payload:
                head = b'%b,"seq":%d,"payload":"%b"}' % (event.head[:-1], seq, sha256(payload).hexdigest().encode())
            else:
                head = b'%b,"seq":%d}' % (event.head[:-1], seq)
            mac = self._sealer.mac(mac, head)
            lines.append(b"%b\t%b\t%b\n" % (head, payload, mac.encode()))
        return b"".join(lines), ChainHead(seq, mac)


def taken_apart(event: Mapping[str, Any], seq: int) -> tuple[bytes, bytes]:
    """The head of an event and its payload, as JSON. One that is null counts as none."""
    key = PAYLOADS.get(event.get("kind"))
    if key is None or event.get(key) is None:
        return encode({**event, "seq": seq}), b""
    payload = text_of(event[key])
    head = {**event, "seq": seq, "payload": digest(payload)}
    del head[key]
    return encode(head), payload


def digest(payload: bytes) -> str:
    return sha256(payload).hexdigest()
