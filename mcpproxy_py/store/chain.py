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

from mcpproxy_py.store.codec import encode, text_of

PAYLOADS: Final[Mapping[Any, str]] = {"asked": "arguments", "finished": "response"}
"""The one part of each kind of event that can be large, or that somebody may have a right to have erased."""


class Head(NamedTuple):
    """The last event of a chain. Heads compare by how long the chain is."""

    seq: int
    mac: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.mac}"

    @classmethod
    def read(cls, text: str) -> Head:
        """Raises `ValueError` for what is not the text of a head."""
        seq, _, mac = text.strip().partition(":")
        if not (seq.isascii() and seq.isdigit() and len(mac) == len(START.mac)):
            raise ValueError("a head is written as NUMBER:HASH")
        return cls(int(seq), mac)


START: Final = Head(0, "0" * 64)


class Sealer:
    """Hashes with the key of one chain. The key is made from the gateway's by the chain's name, so that
    gateways that share a key cannot be made to vouch for each other's events."""

    def __init__(self, key: bytes, chain: str) -> None:
        self._keyed = hmac.new(hmac.digest(key, chain.encode(), "sha256"), digestmod=sha256)

    def mac(self, before: str, head: bytes) -> str:
        state = self._keyed.copy()
        state.update(before.encode() + head)
        return state.hexdigest()

    def seal(self, *parts: object) -> str:
        """Of something that is no event; the zeroth byte keeps the two apart."""
        return self.mac("\0", "\0".join(map(str, parts)).encode())


class Chain:
    """Where the chain is, and how it goes on."""

    def __init__(self, sealer: Sealer, head: Head = START) -> None:
        self._sealer = sealer
        self.head = head

    def lines(self, events: Iterable[Mapping[str, Any]]) -> tuple[bytes, Head]:
        """The events as lines of the journal, and the head once those are written."""
        seq, mac = self.head
        lines: list[bytes] = []
        for event in events:
            seq += 1
            head, payload = taken_apart(event, seq)
            mac = self._sealer.mac(mac, head)
            lines.append(b"%b\t%b\t%b\n" % (head, payload, mac.encode()))
        return b"".join(lines), Head(seq, mac)


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
